// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/initialise.hpp
/// Initial values of parameters and constants, keyed by seed, full name (with its layer) and element.
///
/// Two models share the initial values of the tensors whose names they share, whatever else they hold, and a
/// CPU and a GPU start equal.

#include <simplx/core/parameters.hpp>
#include <simplx/core/random.hpp>
#include <simplx/cpu/random_numbers.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The inner product of two rows of numbers.
inline double inner_product(const double* x, const double* y, Index count) {
  constexpr Index step = lanes<double>;
  Vec<double> sums[4]{};
  Index i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    for (Index k = 0; k < 4; ++k) {
      sums[k] += load<Vec<double>>(x + i + k * step) * load<Vec<double>>(y + i + k * step);
    }
  }
  double rest = 0;
  for (; i < count; ++i) rest += x[i] * y[i];
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/// A uniform orthogonal matrix: normal numbers, orthogonalised by Gram and Schmidt (twice, for the last digits).
inline std::vector<double> orthogonal_matrix(Index rows, Index cols, std::uint64_t key) {
  const Index count = std::min(rows, cols), length = std::max(rows, cols);  // of the orthonormal vectors
  std::vector<double> vectors(static_cast<std::size_t>(count * length));
  cpu::fill_normal(key, 0, count * length, vectors.data());
  for (Index v = 0; v < count; ++v) {
    double* const x = vectors.data() + v * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (Index u = 0; u < v; ++u) {
        const double* const y = vectors.data() + u * length;
        const double along = inner_product(x, y, length);
        for (Index i = 0; i < length; ++i) x[i] -= along * y[i];
      }
    }
    const double norm = std::sqrt(inner_product(x, x, length));
    for (Index i = 0; i < length; ++i) x[i] /= norm;
  }
  if (rows <= cols) return vectors;
  std::vector<double> transposed(vectors.size());
  for (Index v = 0; v < count; ++v) {
    const double* const x = vectors.data() + v * length;
    for (Index i = 0; i < length; ++i) transposed[static_cast<std::size_t>(i * count + v)] = x[i];
  }
  return transposed;
}

/// The slope of one of so many heads; `head` counts from 0.
inline double alibi_slope(Index head, Index heads) {
  const auto n = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(heads)));
  return head < n ? std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(n))
                  : std::exp2(-8.0 * static_cast<double>(2 * (head - n) + 1) / static_cast<double>(2 * n));
}
}  // namespace detail

/// Fills one tensor as its `Init` says.
template <class S>
void initialise(const TensorInfo& tensor, std::uint64_t seed, S* values) {
  using Law = Init::Law;
  const std::uint64_t key = key_of(seed, tensor.name);
  const Index size = tensor.size(), rows = tensor.shape.rows, cols = tensor.shape.cols;
  const Law law = tensor.init.law;
  const double value = tensor.init.value;
  if (law == Law::orthogonal) {
    const std::vector<double> matrix = detail::orthogonal_matrix(rows, cols, key);
    std::transform(matrix.begin(), matrix.end(), values, [](double x) { return static_cast<S>(x); });
    return;
  }
  if (law == Law::normal || law == Law::normal_by_rows || law == Law::uniform) {
    const double deviation = value / (law == Law::normal_by_rows ? std::sqrt(static_cast<double>(rows)) : 1);
    constexpr Index together = 256;
    double numbers[together];
    for (Index begin = 0; begin < size; begin += together) {
      const Index count = std::min(together, size - begin);
      const auto fill = law == Law::uniform ? cpu::fill_uniform : cpu::fill_normal;
      fill(key, static_cast<std::uint64_t>(begin), count, numbers);
      for (Index i = 0; i < count; ++i) {
        values[begin + i] = static_cast<S>(law == Law::uniform ? value * (2 * numbers[i] - 1) : deviation * numbers[i]);
      }
    }
    return;
  }
  for (Index i = 0; i < size; ++i) {
    const Index row = i / cols, col = i % cols;
    switch (law) {
      case Law::identity: values[i] = static_cast<S>(row == col); break;
      case Law::sinusoid: {
        const double angle =
            static_cast<double>(row) / std::pow(10000.0, static_cast<double>(col / 2 * 2) / static_cast<double>(cols));
        values[i] = static_cast<S>(col % 2 == 0 ? std::sin(angle) : std::cos(angle));
        break;
      }
      case Law::alibi_slopes: values[i] = static_cast<S>(detail::alibi_slope(col, cols)); break;
      case Law::constant: values[i] = static_cast<S>(value); break;
      case Law::normal:
      case Law::normal_by_rows:
      case Law::uniform:
      case Law::orthogonal: break;  // done above
    }
  }
}

/// Fills a flat buffer that holds these tensors.
template <class S>
void initialise(const std::vector<TensorInfo>& tensors, std::uint64_t seed, S* buffer) {
  for (const TensorInfo& tensor : tensors) initialise(tensor, seed, buffer + tensor.offset);
}

}  // namespace simplx
