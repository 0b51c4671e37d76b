// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/initialise.hpp
/// Initial values of parameters and constants, keyed by seed, full name (with its layer) and element.
///
/// Two models share the initial values of the tensors whose names they share, whatever else they hold, and a
/// CPU and a GPU start equal.

#include <simplx/core/parameters.hpp>
#include <simplx/core/random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// A uniform orthogonal matrix: normal numbers, orthogonalised by Gram and Schmidt (twice, for the last digits).
inline std::vector<double> orthogonal_matrix(Index rows, Index cols, std::uint64_t key) {
  const Index count = std::min(rows, cols), length = std::max(rows, cols);  // of the orthonormal vectors
  std::vector<double> vectors(static_cast<std::size_t>(count * length));
  for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] = normal(key, i);
  for (Index v = 0; v < count; ++v) {
    double* const x = vectors.data() + v * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (Index u = 0; u < v; ++u) {
        const double* const y = vectors.data() + u * length;
        double along = 0;
        for (Index i = 0; i < length; ++i) along += x[i] * y[i];
        for (Index i = 0; i < length; ++i) x[i] -= along * y[i];
      }
    }
    double squares = 0;
    for (Index i = 0; i < length; ++i) squares += x[i] * x[i];
    for (Index i = 0; i < length; ++i) x[i] /= std::sqrt(squares);
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
  const std::uint64_t key = key_of(seed, tensor.name);
  const Index rows = tensor.shape.rows, cols = tensor.shape.cols;
  if (tensor.init.law == Init::Law::orthogonal) {
    const std::vector<double> matrix = detail::orthogonal_matrix(rows, cols, key);
    std::transform(matrix.begin(), matrix.end(), values, [](double x) { return static_cast<S>(x); });
    return;
  }
  const bool by_rows = tensor.init.law == Init::Law::normal_by_rows;
  const double deviation = tensor.init.value / (by_rows ? std::sqrt(static_cast<double>(rows)) : 1);
  for (Index i = 0; i < tensor.size(); ++i) {
    switch (tensor.init.law) {
      case Init::Law::constant: values[i] = static_cast<S>(tensor.init.value); break;
      case Init::Law::identity: values[i] = static_cast<S>(i / cols == i % cols); break;
      case Init::Law::normal:
      case Init::Law::normal_by_rows:
        values[i] = static_cast<S>(deviation * normal(key, static_cast<std::uint64_t>(i)));
        break;
      case Init::Law::uniform:
        values[i] = static_cast<S>(tensor.init.value * (2 * uniform(key, static_cast<std::uint64_t>(i)) - 1));
        break;
      case Init::Law::sinusoid: {
        const Index position = i / cols, col = i % cols;
        const double angle = static_cast<double>(position) /
                             std::pow(10000.0, static_cast<double>(col / 2 * 2) / static_cast<double>(cols));
        values[i] = static_cast<S>(col % 2 == 0 ? std::sin(angle) : std::cos(angle));
        break;
      }
      case Init::Law::orthogonal: break;  // done above, not element by element
      case Init::Law::alibi_slopes: values[i] = static_cast<S>(detail::alibi_slope(i % cols, cols)); break;
    }
  }
}

/// Fills a flat buffer that holds these tensors.
template <class S>
void initialise(const std::vector<TensorInfo>& tensors, std::uint64_t seed, S* buffer) {
  for (const TensorInfo& tensor : tensors) initialise(tensor, seed, buffer + tensor.offset);
}

}  // namespace simplx
