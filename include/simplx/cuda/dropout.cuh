// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/dropout.cuh
/// Dropout with the masks of ops/dropout.hpp, drawn for each element from the same key and counter. The key of the step
/// is read from the device's memory, so that a recorded step draws anew in each run.

#include <simplx/core/random.hpp>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/rows.cuh>
#include <simplx/ops/dropout.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

inline constexpr unsigned dropout_threads = 256;

/// to = from m / (1 - rate), m drawn for each element of a sequence; `node` is detail::node_key. A warp has a
/// row of up to 1024 columns, or several narrow ones, and more warps a wider one: it finds their sequence and key once,
/// which takes longer than a few elements, then goes along them, so many neighbours a thread.
template <Write mode, bool of_sequences, int together, class S>
__global__ void __launch_bounds__(dropout_threads)
    dropout_kernel(Sequences sequences, const detail::Draw* draw, std::uint64_t node, One<S> rate, const S* from, S* to,
                   Index rows, Index cols) {
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const double dropped = *rate > 0 ? static_cast<double>(*rate) : 0;
  // uniform(...) < dropped, where uniform is (bits / 2^12 + 1/2) / 2^52 in whole numbers: both sides are exact.
  const std::uint64_t limit = dropped < 1 ? static_cast<std::uint64_t>(std::ceil(dropped * 0x1p52 - 0.5)) << 12 : 0;
  const auto kept = Number<S>(dropped < 1 ? 1 / (1 - dropped) : 0);
  const auto sequence = sequences.of(row);
  const std::uint64_t key = bits(detail::mask_key(draw->key, node),
                                 static_cast<std::uint64_t>(of_sequences ? draw->first_sequence + sequence.number : 0));
  const Index first = (row - sequence.begin) * cols;  // of the row in its sequence
  const Index step = static_cast<Index>(gridDim.y) * blockDim.x * together;
  for (Index col = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * together; col < cols; col += step) {
    auto numbers = load_numbers<together>(from + row * cols + col);
    SIMPLX_UNROLL
    for (int k = 0; k < together; ++k) {
      const bool drops = bits(key, static_cast<std::uint64_t>(first + col + k)) < limit;
      numbers.of[k] = numbers.of[k] * (drops ? Number<S>(0) : kept);
    }
    write_numbers<mode>(to + row * cols + col, numbers);
  }
}

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "dropout"> : op<"dropout"> {
  static constexpr int number_operand = 1;
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    run<Write::store>(f, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    run<F::template write<0>>(f, f.out_grad(), f.template grad<0>());
  }

 private:
  /// What shares a stream of random numbers: a sequence of tokens, all of a fixed shape, otherwise each row.
  template <class F>
  static gpu::Sequences streams(const F& f) {
    constexpr bool by_row = F::out_shape.axis != Axis::tokens && !F::out_shape.is_fixed();
    return by_row ? gpu::Sequences{.count = f.rows(), .length = 1} : gpu::sequences_of(f);
  }
  template <Write mode, class F, class S>
  static void run(const F& f, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    const Randomness& random = f.context.random;
    if (!random.training) return gpu::move_cells<mode>(gpu::stream_of(f), f.rows(), cols, from, {cols}, to, {cols});
    constexpr unsigned together = std::gcd(static_cast<unsigned>(cols), 4u);
    constexpr unsigned across = std::bit_ceil(std::min(static_cast<unsigned>(cols) / together, 32u));
    constexpr unsigned down = gpu::dropout_threads / across;
    const dim3 grid(gpu::blocks_for(f.rows(), down), gpu::blocks_for(cols, 1024));
    constexpr auto kernel = gpu::dropout_kernel<mode, !F::out_shape.is_fixed(), together, S>;
    gpu::launch(gpu::stream_of(f), kernel, grid, dim3(across, down), streams(f), f.context.gpu->draw(),
                detail::node_key(f), gpu::one<1>(f), from, to, f.rows(), cols);
  }
};

}  // namespace simplx
