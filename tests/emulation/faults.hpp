// SPDX-License-Identifier: MIT
#pragma once

/// A kernel with a fault planted in it, to show that the executor and the sanitizers find it.
///
/// Without a fault it is the pull-back of r -> r / |r| for each row, and the sum of all elements, which the blocks
/// gather: barriers before and after a value goes through shared memory, a shuffle, an atomic addition.

#include "emulation/cuda.hpp"

#include <simplx/cuda/port.cuh>

#include <string>
#include <string_view>
#include <vector>

namespace emulation {

enum class Planted {
  nothing,
  no_barrier_before_reading,  ///< of what other warps have written
  no_barrier_after_reading,   ///< at the end of a row: a fast warp overwrites what slow ones have yet to read
  shared_index,               ///< one too large
  global_index,               ///< one too large
  early_return,               ///< of one lane, before a shuffle
  early_return_of_a_warp,     ///< before a barrier
  divergent_barriers,         ///< one in each branch of an if
  no_atomics,                 ///< blocks add to one place
  mask_without_the_caller,
  mask_of_half_a_warp,        ///< although both halves shuffle
  count_
};

inline constexpr const char* planted_names[] = {
    "nothing",      "no_barrier_before_reading", "no_barrier_after_reading", "shared_index", "global_index",
    "early_return", "early_return_of_a_warp",    "divergent_barriers",       "no_atomics",   "mask_without_the_caller",
    "mask_of_half_a_warp"};
static_assert(std::size(planted_names) == static_cast<std::size_t>(Planted::count_));

inline constexpr int planted_cols = 96, planted_rows = 5, planted_blocks = 3, planted_warps = planted_cols / warp_size;

/// Block b takes the rows b, b + planted_blocks, ...; a thread has one column.
template <Planted planted>
__global__ void faulty_kernel(const float* x, const float* dy, float* dx, float* total) {
  SIMPLX_SHARED(partial, float[planted_warps]);
  const unsigned column = threadIdx.x, warp = column / 32, lane = column % 32;
  constexpr unsigned all = 0xffffffffu;
  for (int row = static_cast<int>(blockIdx.x); row < planted_rows; row += planted_blocks) {
    const int i = row * planted_cols + static_cast<int>(column) + (planted == Planted::global_index);
    if (planted == Planted::early_return && column == 40) return;
    if (planted == Planted::early_return_of_a_warp && warp == 2) return;
    float along = x[i] * dy[i], squared = x[i] * x[i];
    for (int bits = 16; bits > 0; bits /= 2) {
      unsigned mask = all;
      if (planted == Planted::mask_without_the_caller) mask = ~(1u << 7);
      if (planted == Planted::mask_of_half_a_warp && lane < 16) mask = 0xffffu;
      along += __shfl_xor_sync(mask, along, bits);
    }
    for (int bits = 16; bits > 0; bits /= 2) squared += __shfl_xor_sync(all, squared, bits);
    const auto block_sum = [&](float own, bool last) {  // both sums go through the same place
      if (lane == 0) partial[warp + (planted == Planted::shared_index)] = own;
      if (planted == Planted::divergent_barriers) {
        if (warp == 0) {
          __syncthreads();
        } else {
          __syncthreads();
        }
      } else if (planted != Planted::no_barrier_before_reading) {
        __syncthreads();
      }
      float sum = 0;
      for (const float part : partial) sum += part;
      if (planted != Planted::no_barrier_after_reading || !last) __syncthreads();
      return sum;
    };
    squared = block_sum(squared, false);
    along = block_sum(along, true);
    dx[i] = (dy[i] - x[i] * along / squared) / std::sqrt(squared);
    if (column == 0) {
      if (planted == Planted::no_atomics) {
        *total += squared;
      } else {
        atomicAdd(total, squared);
      }
    }
  }
}

struct PlantedResult {
  std::vector<float> dx;
  float total = 0;
  bool operator==(const PlantedResult&) const = default;
};

template <Planted planted>
PlantedResult run_planted() {
  const std::size_t size = planted_rows * planted_cols;
  std::vector<float> x(size), dy(size);
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)) + 1.5);
    dy[i] = static_cast<float>(std::cos(1.3 * static_cast<double>(i)));
  }
  PlantedResult result{std::vector<float>(size), 0};
  simplx::gpu::launch(nullptr, faulty_kernel<planted>, planted_blocks, planted_cols, x.data(), dy.data(),
                      result.dx.data(), &result.total);
  return result;
}

/// Distance of dx from what it is in double, relative; NaN if that is in it.
inline double error_of(const PlantedResult& result) {
  double worst = 0;
  for (int row = 0; row < planted_rows; ++row) {
    double along = 0, squared = 0;
    const auto x = [&](int c) { return double(float(std::sin(0.7 * (row * planted_cols + c)) + 1.5)); };
    const auto dy = [&](int c) { return double(float(std::cos(1.3 * (row * planted_cols + c)))); };
    for (int c = 0; c < planted_cols; ++c) along += x(c) * dy(c), squared += x(c) * x(c);
    for (int c = 0; c < planted_cols; ++c) {
      const double exact = (dy(c) - x(c) * along / squared) / std::sqrt(squared);
      const auto i = static_cast<std::size_t>(row * planted_cols + c);
      const double error = std::abs(static_cast<double>(result.dx[i]) - exact);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

/// Calls f.template operator()<planted>() for the fault of that name.
template <class F, int number = 0>
bool with_planted(std::string_view name, const F& f) {
  if constexpr (number < static_cast<int>(Planted::count_)) {
    if (name != planted_names[number]) return with_planted<F, number + 1>(name, f);
    f.template operator()<static_cast<Planted>(number)>();
    return true;
  }
  return false;
}

}  // namespace emulation
