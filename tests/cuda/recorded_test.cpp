// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/recorded.cuh>

#include "cuda/kernels.hpp"

#include <simplx/cuda/reduce.cuh>

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/recorded");

TEST_CASE("what is recorded runs when it is told, with what memory holds then") {
  const GpuStream stream;
  DeviceBuffer<float> sum(3), part(3);
  std::vector<float> host{1, 2, 3};
  sum.fill_with_zero(stream);
  part.copy_from(host, stream);
  const Recorded adding(stream, [&] { add(stream, part.data(), 3, sum.data()); });
  sum.copy_to(host, stream);
  stream.synchronize();
  CHECK(host == std::vector<float>{0, 0, 0});
  adding.run(stream);
  part.copy_from(std::vector<float>{10, 20, 30}, stream);
  adding.run(stream);
  adding.run(stream);
  sum.copy_to(host, stream);
  stream.synchronize();
  CHECK(host == std::vector<float>{21, 42, 63});
}

TEST_CASE("work that comes again is recorded, until it is forgotten or, of too many, not used for longest") {
  const GpuStream stream;
  DeviceBuffer<float> sum(1), part(1);
  std::vector<float> host{1};
  sum.fill_with_zero(stream);
  part.copy_from(host, stream);
  Repeated<int> repeated;
  int calls = 0;
  const auto run = [&](int kind) {
    repeated.run(stream, kind, [&] {
      ++calls;
      add(stream, part.data(), 1, sum.data());
    });
    return calls;
  };
  CHECK(run(7) == 1);
  CHECK(run(7) == 2);  // recorded, and run
  CHECK(run(7) == 2);
  CHECK(run(8) == 3);
  CHECK(run(7) == 3);
  CHECK(run(8) == 4);
  CHECK(run(8) == 4);
  CHECK(run(9) == 5);
  CHECK(run(10) == 6);
  CHECK(run(7) == 6);
  CHECK(run(11) == 7);  // in the place of 8
  CHECK(run(7) == 7);
  CHECK(run(8) == 8);  // in the place of 9
  CHECK(run(8) == 9);
  CHECK(run(8) == 9);
  repeated.forget();
  CHECK(run(7) == 10);
  CHECK(run(7) == 11);
  CHECK(run(7) == 11);
  sum.copy_to(host, stream);
  stream.synchronize();
  CHECK(host == std::vector<float>{18});
}

TEST_CASE("work that cannot be recorded runs as it is") {
  const GpuStream stream;
  DeviceBuffer<float> sum(1), part(1);
  std::vector<float> host{1};
  sum.fill_with_zero(stream);
  part.copy_from(host, stream);
  Repeated<int> repeated;
  int calls = 0;
  const auto run = [&](int kind, bool waits = false, bool throws = false) {
    repeated.run(stream, kind, [&] {
      ++calls;
      add(stream, part.data(), 1, sum.data());
      if (waits) stream.synchronize();
      if (throws) throw Error("stop");
    });
    return calls;
  };
  const std::string words = "the work of a stream has failed: operation not permitted when stream is capturing";
  CHECK(run(7, true) == 1);
  CHECK(repeated.refusal() == "");
  CHECK(run(7, true) == 3);  // given up, and run
  CHECK(repeated.refusal() == words);
  CHECK(run(7, true) == 4);  // not tried again
  CHECK(run(7) == 5);
  CHECK(repeated.refusal() == words);
  CHECK(run(8) == 6);
  CHECK(repeated.refusal() == "");
  CHECK(run(8) == 7);
  CHECK(run(8) == 7);
  CHECK(repeated.refusal() == "");
  CHECK_THROWS_WITH_AS(run(9, false, true), "stop", Error);
  CHECK_THROWS_WITH_AS(run(9, false, true), "stop", Error);  // of the work itself
  CHECK(run(9) == 11);
  repeated.forget();
  CHECK(repeated.refusal() == "");
  sum.copy_to(host, stream);
  stream.synchronize();
  CHECK(host == std::vector<float>{10});
}

TEST_CASE("what cannot be recorded is refused, and the stream goes on") {
  const GpuStream stream;
  CHECK_THROWS_AS(Recorded(stream, [&] { stream.synchronize(); }), Error);
  CHECK_THROWS_AS(Recorded(stream, [] { throw Error("stop"); }), Error);
  DeviceBuffer<float> sum(2), part(2);
  std::vector<float> host{1, 2};
  sum.fill_with_zero(stream);
  part.copy_from(host, stream);
  add(stream, part.data(), 2, sum.data());  // a launch is not blamed for what happened before it
  sum.copy_to(host, stream);
  stream.synchronize();
  CHECK(host == std::vector<float>{1, 2});
}

TEST_SUITE_END();
