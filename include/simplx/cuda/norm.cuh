// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/norm.cuh
/// RMSNorm and LayerNorm of ops/norm.hpp, with its equations and what it saves for the pull-back.
///
/// A warp has a row of up to 512 columns, more warps a longer one; a row is read once and stays in registers. In the
/// pull-back a block takes every so many rows and sums their part of the gradients of gain and bias; a second kernel
/// adds the parts of all blocks.

#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// The columns of a row that one thread has: neighbours that one request moves, one team's width of them apart.
template <int cols>
struct RowTeam {
  static constexpr int threads = warp_lanes * ((cols + 511) / 512);  // 16 columns each leave registers to spare
  static_assert(threads <= 1024, "a block has rows of at most 16384 columns");
  static constexpr int rows_of_block = threads == warp_lanes ? 4 : 1;
  static constexpr int block = threads * rows_of_block;
  static constexpr int together = std::gcd(cols, 4), parts = cols / together;
  /// Of a multiprocessor; left to ptxas, which for odd widths would have so many that it spills.
  static constexpr int least_blocks = together == 1 ? 1 : 0;
  static constexpr int count = (parts + threads - 1) / threads;

  /// Some numbers of S of each part.
  template <class S>
  using Own = Numbers<S, together>[count];

  static constexpr unsigned blocks(Index rows) { return blocks_for(rows, rows_of_block); }
  __device__ static int number() { return static_cast<int>(threadIdx.x) / threads; }
  /// In int, which holds the rows that fit a GPU: of an Index nvcc knows the low bits, and stores numbers one by one.
  __device__ static Index row() { return static_cast<int>(blockIdx.x) * rows_of_block + number(); }

  /// Calls f(i, col) for the columns where the own parts begin, i from 0.
  template <class F>
  __device__ __forceinline__ static void each(const F& f) {
    SIMPLX_UNROLL
    for (int i = 0; i < count; ++i) {
      const int part = static_cast<int>(threadIdx.x) % threads + i * threads;
      if (parts % threads == 0 || part < parts) f(i, part * together);
    }
  }
  template <class T>
  __device__ __forceinline__ static auto load(const T* place) {
    return load_numbers<together>(place);
  }
  /// Sums over the columns of the row, the same bits in all threads that have it.
  template <class S, int sums>
  __device__ static void sum(S (&values)[sums]) {
    if constexpr (threads == warp_lanes) {
      for (S& value : values) value = warp_sum(value);
    } else {
      block_sum<threads>(values);
    }
  }
  template <class S>
  __device__ static S sum(S value) {
    S values[1] = {value};
    sum(values);
    return values[0];
  }
};

/// Adds up what the rows of a block have summed for each column, and leaves it as the block's part, (cols).
template <int cols, class S>
__device__ void write_part(const typename RowTeam<cols>::template Own<S>& sums, S* part) {
  using Team = RowTeam<cols>;
  if constexpr (Team::rows_of_block == 1) {
    Team::each([&](int i, int col) { store_numbers(part + col, sums[i]); });
  } else {
    struct alignas(16) Row {
      S of[cols];
    };
    SIMPLX_SHARED(of_rows, Row[Team::rows_of_block]);
    Team::each([&](int i, int col) { store_numbers(&of_rows[Team::number()].of[col], sums[i]); });
    __syncthreads();
    for (int col = static_cast<int>(threadIdx.x); col < cols; col += Team::block) {
      S total = of_rows[0].of[col];
      for (int row = 1; row < Team::rows_of_block; ++row) total += of_rows[row].of[col];
      part[col] = total;
    }
    __syncthreads();  // before the next gradient goes there
  }
}

template <class S, int cols, bool epsilon_inside, class Y>
__global__ void __launch_bounds__(RowTeam<cols>::block)
    rms_norm_kernel(const S* x, const S* gain, One<S> epsilon, Y* y, S* saved, Index rows) {
  using Team = RowTeam<cols>;
  const Index row = Team::row();
  if (row >= rows) return;  // the whole team
  typename Team::template Own<S> own;
  S squares = 0;
  Team::each([&](int i, int col) {
    own[i] = Team::load(x + row * cols + col);
    squares += (own[i] * own[i]).sum();
  });
  const S mean_square = Team::sum(squares) / S(cols);
  const S r = std::sqrt(epsilon_inside ? mean_square + *epsilon : mean_square);
  const S q = S(1) / (epsilon_inside ? r : r + *epsilon);
  Team::each([&](int i, int col) { store_numbers(y + row * cols + col, own[i] * q * Team::load(gain + col)); });
  if (threadIdx.x % Team::threads == 0) saved[row] = r;
}

template <class S, int cols, bool epsilon_inside, Write dx_mode, bool gain_trained>
__global__ void __launch_bounds__(RowTeam<cols>::block, RowTeam<cols>::least_blocks)
    rms_norm_backward_kernel(const S* x, const S* gain, One<S> epsilon, const S* saved, const S* dy, S* dx,
                             S* gain_parts, Index rows) {
  using Team = RowTeam<cols>;
  typename Team::template Own<S> gain_sums;
  for (Index row = Team::row(); row < rows; row += static_cast<Index>(gridDim.x) * Team::rows_of_block) {
    const S r = saved[row], q = S(1) / (epsilon_inside ? r : r + *epsilon);
    typename Team::template Own<S> own, up;
    S ux = 0;
    Team::each([&](int i, int col) {
      own[i] = Team::load(x + row * cols + col);
      up[i] = Team::load(dy + row * cols + col);
      const auto product = own[i] * up[i];
      if constexpr (gain_trained) gain_sums[i] += product * q;
      ux += (product * Team::load(gain + col)).sum();
    });
    ux = Team::sum(ux);
    const S along = r > 0 ? q * q * ux / (S(cols) * r) : S(0);
    Team::each([&](int i, int col) {
      write_numbers<dx_mode>(dx + row * cols + col, Team::load(gain + col) * up[i] * q - own[i] * along);
    });
  }
  if constexpr (gain_trained) write_part<cols>(gain_sums, gain_parts + static_cast<Index>(blockIdx.x) * cols);
}

template <class S, int cols, class Y>
__global__ void __launch_bounds__(RowTeam<cols>::block)
    layer_norm_kernel(const S* x, const S* gain, const S* bias, One<S> epsilon, Y* y, S* saved, Index rows) {
  using Team = RowTeam<cols>;
  const Index row = Team::row();
  if (row >= rows) return;
  typename Team::template Own<S> own;
  S total = 0, squares = 0;
  Team::each([&](int i, int col) {
    own[i] = Team::load(x + row * cols + col);
    total += own[i].sum();
  });
  const S mean = Team::sum(total) / S(cols);
  Team::each([&](int i, int) { squares += ((own[i] - mean) * (own[i] - mean)).sum(); });
  const S s = S(1) / std::sqrt(Team::sum(squares) / S(cols) + *epsilon);
  Team::each([&](int i, int col) {
    store_numbers(y + row * cols + col, (own[i] - mean) * s * Team::load(gain + col) + Team::load(bias + col));
  });
  if (threadIdx.x % Team::threads == 0) {
    saved[2 * row] = mean;
    saved[2 * row + 1] = s;
  }
}

template <class S, int cols, Write dx_mode, bool trained>
__global__ void __launch_bounds__(RowTeam<cols>::block)
    layer_norm_backward_kernel(const S* x, const S* gain, const S* saved, const S* dy, S* dx, S* gain_parts,
                               S* bias_parts, Index rows) {
  using Team = RowTeam<cols>;
  typename Team::template Own<S> gain_sums, bias_sums;
  for (Index row = Team::row(); row < rows; row += static_cast<Index>(gridDim.x) * Team::rows_of_block) {
    const S mean = saved[2 * row], s = saved[2 * row + 1];
    typename Team::template Own<S> normalised, up;
    S sums[2] = {};  // of u and of u * normalised
    Team::each([&](int i, int col) {
      normalised[i] = (Team::load(x + row * cols + col) - mean) * s;
      up[i] = Team::load(dy + row * cols + col);
      if constexpr (trained) {
        gain_sums[i] += up[i] * normalised[i];
        bias_sums[i] += up[i];
      }
      up[i] = up[i] * Team::load(gain + col);
      sums[0] += up[i].sum();
      sums[1] += (up[i] * normalised[i]).sum();
    });
    Team::sum(sums);
    const S mean_u = sums[0] / S(cols), along = sums[1] / S(cols);
    Team::each([&](int i, int col) {
      write_numbers<dx_mode>(dx + row * cols + col, s * (up[i] - mean_u - normalised[i] * along));
    });
  }
  if constexpr (trained) {
    write_part<cols>(gain_sums, gain_parts + static_cast<Index>(blockIdx.x) * cols);
    write_part<cols>(bias_sums, bias_parts + static_cast<Index>(blockIdx.x) * cols);
  }
}

/// Blocks of a pull-back, and so parts of the gradient of a gain: enough to fill a GPU, few enough to add up.
template <int cols>
constexpr int norm_parts(Index rows) {
  const unsigned most = RowTeam<cols>::blocks(rows);
  return most < 1024 ? static_cast<int>(most) : 1024;
}

/// y = gain * x / (r + epsilon), r = sqrt(mean x^2), which is saved; with epsilon inside of the root y = gain * x / r.
///
/// Shapes  x, y (rows, cols), y of S or bfloat16; gain (cols); epsilon (1); saved (rows)
template <class S, int cols, bool epsilon_inside = false, class Y>
void rms_norm(cudaStream_t stream, const S* x, const S* gain, One<S> epsilon, Y* y, S* saved, Index rows) {
  using Team = RowTeam<cols>;
  launch(stream, rms_norm_kernel<S, cols, epsilon_inside, Y>, Team::blocks(rows), Team::block, x, gain, epsilon, y,
         saved, rows);
}

/// The pull-back of rms_norm; dgain, unless null, is added to.
///
/// Shapes  x, dy, dx (rows, cols); gain, dgain (cols); saved (rows); parts, scratch, (norm_parts<cols>(rows), cols)
template <class S, int cols, bool epsilon_inside = false, Write dx_mode = Write::store>
void rms_norm_backward(cudaStream_t stream, const S* x, const S* gain, One<S> epsilon, const S* saved, const S* dy,
                       S* dx, S* dgain, S* parts, Index rows) {
  using Team = RowTeam<cols>;
  const int blocks = norm_parts<cols>(rows);
  launch(stream,
         dgain ? rms_norm_backward_kernel<S, cols, epsilon_inside, dx_mode, true>
               : rms_norm_backward_kernel<S, cols, epsilon_inside, dx_mode, false>,
         static_cast<unsigned>(blocks), Team::block, x, gain, epsilon, saved, dy, dx, parts, rows);
  if (dgain) add_column_sums(stream, parts, blocks, cols, dgain);
}

/// y = gain * (x - mean) * s + bias, s = 1 / sqrt(variance + epsilon); mean and s are saved.
///
/// Shapes  x, y (rows, cols), y of S or bfloat16; gain, bias (cols); epsilon (1); saved (rows, 2)
template <class S, int cols, class Y>
void layer_norm(cudaStream_t stream, const S* x, const S* gain, const S* bias, One<S> epsilon, Y* y, S* saved,
                Index rows) {
  using Team = RowTeam<cols>;
  launch(stream, layer_norm_kernel<S, cols, Y>, Team::blocks(rows), Team::block, x, gain, bias, epsilon, y, saved,
         rows);
}

/// The pull-back of layer_norm; dgain and dbias are added to, each where it is not null.
///
/// Shapes  x, dy, dx (rows, cols); gain, dgain, dbias (cols); saved (rows, 2); parts, scratch,
///         (2, norm_parts<cols>(rows), cols)
template <class S, int cols, Write dx_mode = Write::store>
void layer_norm_backward(cudaStream_t stream, const S* x, const S* gain, const S* saved, const S* dy, S* dx, S* dgain,
                         S* dbias, S* parts, Index rows) {
  using Team = RowTeam<cols>;
  const int blocks = norm_parts<cols>(rows);
  S* bias_parts = parts + static_cast<Index>(blocks) * cols;
  launch(stream,
         dgain || dbias ? layer_norm_backward_kernel<S, cols, dx_mode, true>
                        : layer_norm_backward_kernel<S, cols, dx_mode, false>,
         static_cast<unsigned>(blocks), Team::block, x, gain, saved, dy, dx, parts, bias_parts, rows);
  if (dgain) add_column_sums(stream, parts, blocks, cols, dgain);
  if (dbias) add_column_sums(stream, bias_parts, blocks, cols, dbias);
}

}  // namespace simplx::gpu
