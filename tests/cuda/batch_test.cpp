// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/batch.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;

namespace {

/// What lies on the device; emulated, so that it can be read.
template <class T>
std::vector<T> on_device(const T* place, Index count) {
  return {place, place + count};
}

}  // namespace

TEST_SUITE_BEGIN("cuda/batch");

TEST_CASE("a part of a batch begins at 0 on the device, with the labels of its tokens or sequences") {
  const GpuStream stream;
  TokenBatch batch;
  batch.tokens = {1, 2, 3, 4, 5, 6};
  batch.labels = {11, 12, 13, 14, 15, 16};
  batch.offsets = {1, 2, 5};  // the first token is no part of it
  BatchUpload by_token({.tokens = 8, .sequences = 3}, Axis::tokens);
  by_token.lay_out(batch);
  CHECK(by_token.rows().tokens == 4);
  CHECK(by_token.rows().sequences == 2);
  CHECK(by_token.rows().longest_sequence == 3);
  CHECK(std::ranges::equal(by_token.host_tokens(), std::vector<std::int32_t>{2, 3, 4, 5}));
  by_token.send(stream);
  stream.synchronize();
  CHECK(on_device(by_token.tokens(), 4) == std::vector<std::int32_t>{2, 3, 4, 5});
  CHECK(on_device(by_token.labels(), 4) == std::vector<std::int32_t>{12, 13, 14, 15});
  CHECK(on_device(by_token.sequences().offsets, 3) == std::vector<Index>{0, 1, 4});
  CHECK(by_token.sequences().count == 2);

  batch.labels = {21, 22};
  BatchUpload by_sequence({.tokens = 8, .sequences = 3}, Axis::sequences);
  by_sequence.lay_out(batch);
  by_sequence.send(stream);
  stream.synchronize();
  CHECK(on_device(by_sequence.labels(), 2) == std::vector<std::int32_t>{21, 22});
}

TEST_SUITE_END();
