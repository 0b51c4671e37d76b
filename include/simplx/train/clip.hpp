// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/clip.hpp
/// The global norm of a gradient, summed over fixed chunks, and the factor that limits it.
///
/// Chunks make the sum independent of the number of threads: whoever sums a chunk gets the same number, and
/// chunks are added in order.

#include <simplx/core/parameters.hpp>
#include <simplx/cpu/simd.hpp>

#include <algorithm>
#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

/// Elements of a chunk.
inline constexpr Index norm_chunk = Index(1) << 14;

constexpr Index norm_chunks(Index count) { return (count + norm_chunk - 1) / norm_chunk; }

/// Sum of squares of a chunk: vectors of squares added up, then the lanes. Each square is an S: what overflows there
/// would overflow in the second moment of an optimiser, too.
template <class S>
double chunk_squared_norm(const S* gradient, Index count, Index chunk) {
  const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, count);
  constexpr Index step = lanes<S>;
  Vec<S> squares[4]{};
  Index i = begin;
  for (; i + 4 * step <= end; i += 4 * step) {
    for (int k = 0; k < 4; ++k) {
      const Vec<S> g = load<Vec<S>>(gradient + i + k * step);
      squares[k] += g * g;
    }
  }
  double total = static_cast<double>(sum((squares[0] + squares[1]) + (squares[2] + squares[3])));
  for (; i < end; ++i) total += static_cast<double>(static_cast<S>(gradient[i] * gradient[i]));
  return total;
}

/// The norm of a whole gradient, chunk by chunk, as a step has it.
template <class S>
double gradient_norm(const S* gradient, Index count) {
  double squared = 0;
  for (Index chunk = 0; chunk < norm_chunks(count); ++chunk) squared += chunk_squared_norm(gradient, count, chunk);
  return std::sqrt(squared);
}

/// min(1, limit / (norm + 1e-6)), as in PyTorch; a limit of 0 or less is off.
SIMPLX_HD constexpr double clip_factor(double norm, double limit) {
  const double factor = limit / (norm + 1e-6);
  return limit > 0 && factor < 1 ? factor : 1;
}

/// The first tensor whose gradient is not finite; if all are, "loss", or "gradient_norm" where that alone is not.
template <class S>
std::string first_broken(const std::vector<TensorInfo>& tensors, const S* gradient, double loss) {
  for (const TensorInfo& tensor : tensors) {
    for (Index i = 0; i < tensor.size(); ++i) {
      if (!std::isfinite(gradient[tensor.offset + i])) return tensor.name;
    }
  }
  return std::isfinite(loss) ? "gradient_norm" : "loss";
}

}  // namespace simplx
