// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/initialise.hpp
/// Initial values of parameters and constants, keyed by seed, full name (with its layer) and element.
///
/// Two models share the initial values of the tensors whose names they share, whatever else they hold, and a
/// CPU and a GPU start equal.

#include <simplx/core/parameters.hpp>
#include <simplx/core/random.hpp>

#include <bit>
#include <cmath>

namespace simplx {

namespace detail {
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
  const Index cols = tensor.shape.cols;
  for (Index i = 0; i < tensor.size(); ++i) {
    switch (tensor.init.law) {
      case Init::Law::constant: values[i] = static_cast<S>(tensor.init.value); break;
      case Init::Law::normal:
        values[i] = static_cast<S>(tensor.init.value * normal(key, static_cast<std::uint64_t>(i)));
        break;
      case Init::Law::sinusoid: {
        const Index position = i / cols, col = i % cols;
        const double angle = static_cast<double>(position) /
                             std::pow(10000.0, static_cast<double>(col / 2 * 2) / static_cast<double>(cols));
        values[i] = static_cast<S>(col % 2 == 0 ? std::sin(angle) : std::cos(angle));
        break;
      }
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
