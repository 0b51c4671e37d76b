// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/reduce.cuh
/// Sums over warps, blocks and grids, always in one order: the same bits in every run and on every device.
///
/// Nothing is added by atomics. A sum over more than a block is one of parts, which a second kernel adds up; how many
/// parts there are depends on the sizes alone, never on the device.

#include <simplx/cuda/cells.cuh>

#include <cmath>
#include <limits>

namespace simplx::inline SIMPLX_TARGET::gpu {

inline constexpr int warp_lanes = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

/// The sum over the lanes of a warp, the same bits in each of them.
template <class S>
__device__ S warp_sum(S value) {
  for (int bits = warp_lanes / 2; bits > 0; bits /= 2) value += __shfl_xor_sync(whole_warp, value, bits);
  return value;
}

/// NaN if either is.
template <class S>
__device__ S larger(S a, S b) {
  return b > a || b != b ? b : a;
}

/// The largest of the lanes' values, NaN if one is.
template <class S>
__device__ S warp_max(S value) {
  for (int bits = warp_lanes / 2; bits > 0; bits /= 2) value = larger(value, __shfl_xor_sync(whole_warp, value, bits));
  return value;
}

/// The sums of several values over all threads of a block, the same bits in each of them.
///
/// Cost    two barriers
template <int threads, class S, int count>
__device__ void block_sum(S (&values)[count]) {
  constexpr int warps = threads / warp_lanes;
  static_assert(threads % warp_lanes == 0, "blocks have whole warps");
  for (S& value : values) value = warp_sum(value);
  if constexpr (warps > 1) {
    SIMPLX_SHARED(parts, S[warps][count]);
    const unsigned warp = threadIdx.x / warp_lanes, lane = threadIdx.x % warp_lanes;
    if (lane == 0) {
      for (int k = 0; k < count; ++k) parts[warp][k] = values[k];
    }
    __syncthreads();
    for (int k = 0; k < count; ++k) {
      values[k] = parts[0][k];
      for (int other = 1; other < warps; ++other) values[k] += parts[other][k];
    }
    __syncthreads();  // before the next sum writes there
  }
}

template <int threads, class S>
__device__ S block_sum(S value) {
  S values[1] = {value};
  block_sum<threads>(values);
  return values[0];
}

/// The largest value of a block, NaN if one is.
///
/// Cost    two barriers
template <int threads, class S>
__device__ S block_max(S value) {
  constexpr int warps = threads / warp_lanes;
  static_assert(threads % warp_lanes == 0, "blocks have whole warps");
  value = warp_max(value);
  if constexpr (warps > 1) {
    SIMPLX_SHARED(parts, S[warps]);
    if (threadIdx.x % warp_lanes == 0) parts[threadIdx.x / warp_lanes] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < warps; ++warp) value = larger(value, parts[warp]);
    __syncthreads();  // before the next maximum writes there
  }
  return value;
}

/// Less than any number: a maximum of nothing.
template <class S>
inline constexpr S minus_infinity = -std::numeric_limits<S>::infinity();

/// sum exp(x - highest) of some x, in one pass: it is scaled anew when a larger x comes. `highest` is NaN if an x is.
template <class S>
struct ExpSum {
  S highest = minus_infinity<S>, sum = 0;

  __device__ void add(S x) {
    if (x > highest || x != x) {
      sum = sum * std::exp(highest - x) + 1;
      highest = x;
    } else if (highest > minus_infinity<S>) {  // minus infinity alone adds nothing
      sum += std::exp(x - highest);
    }
  }
  /// Several at once, which scale the sum anew once.
  template <int count>
  __device__ void add(const S (&x)[count]) {
    S most = highest;
    for (const S each : x) most = larger(most, each);
    sum = below(most);
    highest = most;
    if (!(highest > minus_infinity<S>) && highest == highest) return;
    for (const S each : x) sum += std::exp(each - highest);
  }
  /// What it adds to the sum of several, the highest of all being that.
  __device__ S below(S highest_of_all) const { return sum != 0 ? sum * std::exp(highest - highest_of_all) : S(0); }
};

/// The sum over all that the threads of a block have added.
template <int threads, class S>
__device__ ExpSum<S> block_exp_sum(const ExpSum<S>& own) {
  const S highest = block_max<threads>(own.highest);
  return {highest, block_sum<threads>(own.below(highest))};
}

inline constexpr int column_threads = 512;

/// Threads of a block along the columns, a power of two; the others stand along the parts.
constexpr int column_lanes(int cols) {
  int lanes = 1;
  while (lanes < cols && lanes < 32) lanes *= 2;
  return lanes;
}

template <Write mode, class P, class S>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(const P* parts, Strides at, int count, int cols, int lanes, S* sums) {
  using Sum = decltype(wide(P()));
  SIMPLX_SHARED(team_sums, Sum[column_threads]);
  const int me = static_cast<int>(threadIdx.x), lane = me % lanes, team = me / lanes, teams = column_threads / lanes;
  const int col = static_cast<int>(blockIdx.x) * lanes + lane;
  Sum sum = 0;
  for (int part = team; part < count && col < cols; part += teams) sum += wide(parts[at(part, col)]);
  team_sums[me] = sum;
  for (int half = teams / 2; half > 0; half /= 2) {  // teams are a power of two
    __syncthreads();
    if (team < half) team_sums[me] += team_sums[me + half * lanes];
  }
  if (team == 0 && col < cols) write<mode>(sums[col], team_sums[me]);
}

inline constexpr int add_threads = 256;

template <class S>
__global__ void __launch_bounds__(add_threads) add_kernel(const S* from, Index size, S* to) {
  const Index i = static_cast<Index>(blockIdx.x) * add_threads + threadIdx.x;
  if (i < size) to[i] += from[i];
}

/// to += from
template <class S>
void add(cudaStream_t stream, const S* from, Index size, S* to) {
  launch(stream, add_kernel<S>, blocks_for(size, add_threads), add_threads, from, size, to);
}

/// sums[c] = sum over p of parts[p, c], or += with Write::accumulate; sums of bfloat16 are float until they are stored.
///
/// Shapes  parts (count, cols), which lie in any way; sums (cols)
template <Write mode, class P, class S>
void column_sums(cudaStream_t stream, const P* parts, Strides at, int count, int cols, S* sums) {
  const int lanes = column_lanes(cols);
  launch(stream, column_sums_kernel<mode, P, S>, blocks_for(cols, lanes), column_threads, parts, at, count, cols, lanes,
         sums);
}

/// The same, added to sums; rows of parts lie `stride` apart (0: cols).
template <class S>
void add_column_sums(cudaStream_t stream, const S* parts, int count, int cols, S* sums, int stride = 0) {
  column_sums<Write::accumulate>(stream, parts, {.row = stride ? stride : cols}, count, cols, sums);
}

}  // namespace simplx::gpu
