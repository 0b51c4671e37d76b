// SPDX-License-Identifier: MIT
#include "emulation/faults.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace emulation;

namespace {

/// The message of the Fault that f throws, or nothing.
template <class F>
std::string fault_of(const F& f) {
  try {
    f();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What the schedules make of a kernel: the largest error, and whether the bits agree.
struct Verdict {
  double worst = 0;
  bool agree = true;
  int right = 0;  ///< schedules whose dx is right
};
template <Planted planted>
Verdict verdict() {
  Verdict found;
  PlantedResult first;
  bool begun = false;
  each_schedule([&] {
    const PlantedResult result = run_planted<planted>();
    const double error = error_of(result);
    if (!(error <= found.worst)) found.worst = error;
    found.right += error < 1e-5;
    if (!begun) first = result;
    found.agree = found.agree && std::memcmp(first.dx.data(), result.dx.data(), 4 * first.dx.size()) == 0 &&
                  std::memcmp(&first.total, &result.total, 4) == 0;
    begun = true;
  });
  return found;
}

__global__ void where_am_i(unsigned* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1000 * block + thread;
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned all = 0xffffffffu;
  int* own = out + 16 * lane;
  own[0] = __shfl_sync(all, 10 * lane, 5);
  own[1] = __shfl_sync(all, 10 * lane, 3, 8);
  own[2] = __shfl_xor_sync(all, lane, 9);
  own[3] = __shfl_up_sync(all, lane, 3);
  own[4] = __shfl_down_sync(all, lane, 3);
  own[5] = __shfl_down_sync(all, lane, 2, 4);
  own[6] = static_cast<int>(__ballot_sync(all, lane % 3 == 0));
  own[7] = __any_sync(all, lane == 31) + 2 * __any_sync(all, lane == 32);
  own[8] = __all_sync(all, lane >= 0) + 2 * __all_sync(all, lane > 0);
  own[9] = __shfl_up_sync(all, lane, 1, 8);
  if (lane < 8) own[10] = __shfl_xor_sync(0xffu, lane, 4);          // halves of a warp need not meet
  if (lane >= 8) own[10] = __shfl_xor_sync(0xffffff00u, lane, 16);  // 8 to 15: from 24 to 31
  double pair = 0.5 * lane;
  own[11] = static_cast<int>(2 * __shfl_xor_sync(all, pair, 1));
}

/// A message through shared memory inside of a warp.
__global__ void neighbours(int* out) {
  SIMPLX_SHARED(box, int[32]);
  const unsigned lane = threadIdx.x;
  box[lane] = static_cast<int>(lane);
  __syncwarp();
  out[lane] = box[(lane + 1) % 32];
}

template <class T>
__device__ T& of_type() {
  SIMPLX_SHARED(value, T);
  return value;
}
__global__ void objects(std::ptrdiff_t* out) {
  of_type<int>() = 1;
  of_type<float>() = 2;
  SIMPLX_SHARED(table, float[2][3]);
  *out = reinterpret_cast<char*>(&of_type<int>()) - reinterpret_cast<char*>(&of_type<int>());
  out[1] = of_type<int>() + static_cast<std::ptrdiff_t>(of_type<float>());
  out[2] = sizeof table;
  out[3] = table[1][2] == table[1][2];  // no NaN
}

template <int bytes>
__global__ void large() {
  SIMPLX_SHARED(data, char[bytes]);
  data[0] = 0;
}

template <int bytes>
__global__ void larger() {
  SIMPLX_LARGE_SHARED(data, char[bytes]);
  data[bytes - 1] = 0;
}
struct alignas(most_aligned) Strict {
  char at[most_aligned];
};
__global__ void strictly_aligned(std::size_t* beyond) {
  SIMPLX_LARGE_SHARED(strict, Strict);
  *beyond = reinterpret_cast<std::uintptr_t>(&strict) % most_aligned;
  strict.at[most_aligned - 1] = 0;
}
template <std::size_t bytes>
__global__ void of_both_kinds() {
  SIMPLX_LARGE_SHARED(room, char[bytes]);
  SIMPLX_SHARED(beside, double);
  room[0] = 0, beside = 0;
}

/// Lanes 0 and 1 wait for each other, each with another partner in mind.
__global__ void crossed() {
  if (threadIdx.x == 0) __shfl_xor_sync(0x3u, 0, 1);
  if (threadIdx.x == 1) __shfl_xor_sync(0x6u, 0, 1);
  if (threadIdx.x == 2) __shfl_xor_sync(0x5u, 0, 1);
}
__global__ void barrier_in_a_branch() {
  if (threadIdx.x < 16) __syncthreads();
}
__global__ void warp_and_barrier() {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
__global__ void two_places() {
  if (threadIdx.x < 16) {
    __ballot_sync(0xffffffffu, 1);
  } else {
    __ballot_sync(0xffffffffu, 1);
  }
}
__global__ void whole_mask() { __syncwarp(); }
__global__ void behind_the_end() {
  SIMPLX_SHARED(data, int[3]);
  volatile int* place = data;
  place[3 + threadIdx.x] = 0;
}
/// Sixteen fours of numbers, the last one cut off, by as many threads, who may wait and meet or forget it.
template <bool waits, bool meets>
__global__ void copied(const float* in, float* out) {
  SIMPLX_SHARED(box, float[64]);
  const unsigned thread = threadIdx.x;
  begin_copy<16>(box + 4 * thread, in + 4 * thread, thread < 15 ? 16 : 8);
  if (waits) await_copies();
  if (meets) __syncthreads();
  for (unsigned i = 4 * thread; i < 4 * thread + 4; ++i) out[i] = box[63 - i];
  __syncthreads();
  await_copies();
}
/// Begins to overwrite what others have yet to read, unless there is a barrier before.
template <bool barrier>
__global__ void refilled(const float* in, float* out) {
  SIMPLX_SHARED(box, float[64][4]);
  box[threadIdx.x][0] = 1;
  __syncthreads();
  out[threadIdx.x] = box[63 - threadIdx.x][0];
  if (barrier) __syncthreads();
  begin_copy<16>(box[threadIdx.x], in + 4, 16);
  await_copies();
}
/// A copy to shared memory, or to the thread's own; nobody waits.
template <bool shared>
__global__ void odd_copy(const float* in, int offset, unsigned bytes) {
  SIMPLX_SHARED(box, float[8]);
  alignas(16) float own[8];
  begin_copy<16>((shared ? box : own) + offset, in, bytes);
}
__global__ void odd_neighbours(float* numbers, int offset) {
  simplx::gpu::neighbours<2>(numbers + offset)->of[1] = 1;
}
__global__ void throws() {
  __syncthreads();
  if (threadIdx.x == 9) throw 9;
  __syncthreads();
}

}  // namespace

TEST_SUITE_BEGIN("emulation/executor");

TEST_CASE("every thread of every block runs once and knows its place") {
  each_schedule([] {
    std::vector<unsigned> out(2 * 3 * 2 * 4 * 5 * 3);
    simplx::gpu::launch(nullptr, where_am_i, dim3(2, 3, 2), dim3(4, 5, 3), out.data());
    unsigned wrong = 0;
    for (unsigned i = 0; i < out.size(); ++i) wrong += out[i] != 1000 * (i / 60) + i % 60;
    CHECK(wrong == 0);
  });
  simplx::gpu::launch(nullptr, where_am_i, 0, 32, nullptr);  // a grid of nothing
}

TEST_CASE("warp operations mean what CUDA says") {
  each_schedule([] {
    std::vector<int> out(32 * 16);
    simplx::gpu::launch(nullptr, shuffles, 1, 32, out.data());
    for (int lane = 0; lane < 32; ++lane) {
      const int* own = out.data() + 16 * lane;
      CAPTURE(lane);
      CHECK(own[0] == 50);
      CHECK(own[1] == 10 * (lane / 8 * 8 + 3));
      CHECK(own[2] == (lane ^ 9));
      CHECK(own[3] == (lane < 3 ? lane : lane - 3));
      CHECK(own[4] == (lane > 28 ? lane : lane + 3));
      CHECK(own[5] == (lane % 4 < 2 ? lane + 2 : lane));
      CHECK(own[6] == 0x49249249);
      CHECK(own[7] == 1);
      CHECK(own[8] == 1);
      CHECK(own[9] == (lane % 8 ? lane - 1 : lane));
      CHECK(own[10] == (lane < 8 ? lane ^ 4 : lane >= 16 && lane < 24 ? -1 : lane ^ 16));  // from outside: poison
      CHECK(own[11] == (lane ^ 1));
    }
    simplx::gpu::launch(nullptr, neighbours, 1, 32, out.data());
    for (int lane = 0; lane < 32; ++lane) CHECK(out[static_cast<std::size_t>(lane)] == (lane + 1) % 32);
  });
}

TEST_CASE("shared memory: one object for each declaration and type, poisoned, limited") {
  std::ptrdiff_t out[4] = {-1, -1, -1, -1};
  simplx::gpu::launch(nullptr, objects, 1, 1, &out[0]);
  CHECK(out[0] == 0);
  CHECK(out[1] == 3);
  CHECK(out[2] == 24);
  CHECK(out[3] == 0);
  simplx::gpu::launch(nullptr, large<most_shared>, 1, 1);
  CHECK(has(fault_of([] { simplx::gpu::launch(nullptr, large<most_shared + 1>, 1, 1); }), "more than 49152 bytes"));
  simplx::gpu::launch_with_shared(most_large_shared, nullptr, larger<most_large_shared>, 1, 1);
  const auto refused = [](std::size_t room) {
    return fault_of([&] { simplx::gpu::launch_with_shared(room, nullptr, larger<most_shared + 1>, 1, 1); });
  };
  CHECK(has(refused(most_shared), "has 49153 bytes"));
  CHECK(has(refused(most_large_shared + 1), "at most 101376 are given"));
  std::size_t beyond = 1;
  simplx::gpu::launch_with_shared(simplx::gpu::room_for<Strict>, nullptr, strictly_aligned, 1, 1, &beyond);
  CHECK(beyond == 0);
  CHECK(simplx::gpu::room_for<Strict> == 2 * most_aligned - 16);
  const auto as_large = [&] {
    simplx::gpu::launch_with_shared(sizeof(Strict), nullptr, strictly_aligned, 1, 1, &beyond);
  };
  CHECK(has(fault_of(as_large), "has 2032 bytes"));
  simplx::gpu::launch_with_shared(most_shared - 8, nullptr, of_both_kinds<most_shared - 8>, 1, 1);
  const auto both = [] { simplx::gpu::launch_with_shared(most_shared, nullptr, of_both_kinds<most_shared>, 1, 1); };
  CHECK(has(fault_of(both), "has 49152 + 8 bytes"));
  CHECK(has(fault_of([] { simplx::gpu::launch(nullptr, where_am_i, 1, 1025, nullptr); }), "1025 threads"));
  const auto tall = [] { simplx::gpu::launch(nullptr, where_am_i, dim3(1, 65536), 1, nullptr); };
  CHECK(has(fault_of(tall), "a grid of 65536 by 1 blocks"));
  if (!address_sanitized) {
    CHECK(has(fault_of([] { simplx::gpu::launch(nullptr, behind_the_end, 1, 1); }), "behind the shared object"));
  }
}

TEST_CASE("what is copied into shared memory is there after a wait and a barrier, and lost from the beginning on") {
  alignas(16) float in[64];
  std::vector<float> out(64);
  std::iota(in, in + 64, 1.0f);
  const auto wrong = [&](auto kernel) {
    simplx::gpu::launch(nullptr, kernel, 1, 16, &in[0], out.data());
    std::ptrdiff_t count = 0;
    for (std::size_t i = 0; i < 64; ++i) count += out[i] != (i < 2 ? 0 : in[63 - i]);
    return count;
  };
  each_schedule([&] { CHECK(wrong(copied<true, true>) == 0); });
  if (!thread_sanitized) {
    each_schedule([&] {
      CHECK(wrong(copied<false, true>) == 64);
      CHECK(std::isnan(out[9]));
      CHECK(wrong(copied<true, false>) > 0);
    });
    int overwritten = 0;
    each_schedule([&] {
      const auto ones = [&](auto kernel) {
        simplx::gpu::launch(nullptr, kernel, 1, 64, &in[0], out.data());
        return std::count(out.begin(), out.end(), 1.0f);
      };
      CHECK(ones(refilled<true>) == 64);
      overwritten += ones(refilled<false>) < 64;
    });
    CHECK(overwritten > 0);
  }
  const auto fault = [&](auto kernel, int offset, unsigned bytes) {
    return fault_of([&] { simplx::gpu::launch(nullptr, kernel, 1, 1, &in[0], offset, bytes); });
  };
  CHECK(has(fault(odd_copy<true>, 4, 16), "returned before a copy landed that it began at cp.async executor_test"));
  CHECK(has(fault(odd_copy<true>, 0, 17), "a copy is not of 16 bytes"));
  CHECK(has(fault(odd_copy<true>, 1, 16), "not on as many"));
  CHECK(has(fault(odd_copy<true>, 8, 16), "not shared memory"));
  CHECK(has(fault(odd_copy<false>, 0, 16), "not shared memory"));
}

TEST_CASE("neighbours that do not begin on as many bytes are reported") {
  alignas(8) float numbers[3] = {};
  simplx::gpu::launch(nullptr, odd_neighbours, 1, 1, &numbers[0], 0);
  CHECK(numbers[1] == 1);
  CHECK(has(fault_of([&] { simplx::gpu::launch(nullptr, odd_neighbours, 1, 1, &numbers[0], 1); }), "not on 8 bytes"));
}

TEST_CASE("threads that do not meet are reported, each with its place") {
  each_schedule([] {
    const auto report = [](auto kernel, unsigned threads) {
      return fault_of([&] { simplx::gpu::launch(nullptr, kernel, 2, threads); });
    };
    std::string text = report(crossed, 3);
    CHECK(has(text, "deadlock, block ("));
    CHECK(has(text, "thread 0: at __shfl_xor_sync executor_test.cpp:"));
    CHECK(has(text, "mask 0x00000006"));
    text = report(barrier_in_a_branch, 64);
    CHECK(has(text, "a barrier that threads have returned without reaching"));
    CHECK(has(text, "threads 0 to 15: at __syncthreads executor_test.cpp:"));
    CHECK(has(text, "threads 16 to 63: returned"));
    text = report(warp_and_barrier, 32);
    CHECK(has(text, "deadlock"));
    CHECK(has(text, "thread 3: at __syncthreads"));
    CHECK(has(text, "threads 4 to 31: at __syncwarp"));
    CHECK(has(report(two_places, 32), "lanes of one mask meet at different places: __ballot_sync executor_test.cpp:"));
    CHECK(has(report(whole_mask, 20), "names lanes of which the block has no threads"));
    CHECK_THROWS_AS(simplx::gpu::launch(nullptr, throws, 1, 64), int);
  });
  CHECK(Block::running() == nullptr);
}

TEST_CASE("a kernel without a fault is right, with the same bits in dx under every schedule") {
  const PlantedResult first = run_planted<Planted::nothing>();
  each_schedule([&] {
    const PlantedResult result = run_planted<Planted::nothing>();
    CHECK(error_of(result) < 1e-6);
    CHECK(result.dx == first.dx);
  });
}

TEST_CASE("planted faults that a plain run finds") {
  SUBCASE("a barrier is missing before reading: poison") {
    const Verdict found = verdict<Planted::no_barrier_before_reading>();
    CHECK(!(found.worst < 1e-3));
    CHECK_FALSE(found.agree);
  }
  SUBCASE("a barrier is missing after reading: only a fast warp shows it") {
    const Verdict found = verdict<Planted::no_barrier_after_reading>();
    CHECK(!(found.worst < 1e-3));
    CHECK_FALSE(found.agree);
    CHECK(found.right > 0);  // taking turns shows nothing
  }
  SUBCASE("blocks add to one place without atomics: the order of blocks shows in the bits") {
    CHECK_FALSE(verdict<Planted::no_atomics>().agree);
  }
  const auto report = [](auto run) {
    std::string text;
    each_schedule([&] {
      text = fault_of(run);
      CHECK(has(text, "faults.hpp:"));
    });
    return text;
  };
  if (!address_sanitized) {
    SUBCASE("an index of shared memory is one too large") {
      CHECK(has(report([] { run_planted<Planted::shared_index>(); }), "was written behind the shared object"));
    }
  }
  SUBCASE("a lane returns early") {
    CHECK(has(report([] { run_planted<Planted::early_return>(); }), "thread 40: returned"));
  }
  SUBCASE("a warp returns early") {
    const std::string text = report([] { run_planted<Planted::early_return_of_a_warp>(); });
    CHECK(has(text, "a barrier that threads have returned without reaching"));
    CHECK(has(text, "threads 64 to 95: returned"));
  }
  SUBCASE("a barrier in each branch") {
    const std::string text = report([] { run_planted<Planted::divergent_barriers>(); });
    CHECK(has(text, "threads of a block meet at different barriers"));
    CHECK(has(text, "threads 0 to 31: at __syncthreads faults.hpp:"));
    CHECK(has(text, "threads 32 to 95: at __syncthreads faults.hpp:"));
  }
  SUBCASE("a mask leaves its caller out") {
    CHECK(has(report([] { run_planted<Planted::mask_without_the_caller>(); }), "leaves out the lane"));
  }
  SUBCASE("masks disagree") {
    const std::string text = report([] { run_planted<Planted::mask_of_half_a_warp>(); });
    CHECK(has(text, "lanes of one mask meet at different places: __shfl_xor_sync faults.hpp:"));
  }
}

TEST_SUITE_END();
