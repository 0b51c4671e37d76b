// SPDX-License-Identifier: MIT
#pragma once

/// Stacks of three layers, so that the first and the others count: an equation, and a token beside it.

#include "support.hpp"

#include <simplx/blocks/block.hpp>

namespace test {

template <class B>
struct ThreeLayers {
  B block;
  Index width = 16;
  constexpr Expr operator()() const { return stack("blocks", 3, block, variable("x", rows_of(Axis::tokens, width))); }
};

/// A token's block with two heads and 24 hidden columns.
template <BlockConfig config>
inline constexpr ThreeLayers<ConfiguredBlock> token{{config, 2, 24}};

/// The gradients of the fast path alone: a block is made of ops, which are held on both paths.
template <auto const& model>
void check_block(const Tolerance& tolerance) {
  check_gradients_on<model, Cpu<double>>(tolerance, {3, 1, 5});
}

/// Moves all parameters away from where they start, where many gradients vanish.
template <class Evaluation>
void move_parameters(Evaluation& run, double by = 0.2, std::uint64_t seed = 1) {
  using S = typename Evaluation::S;
  for (const TensorInfo& tensor : run.tensors().parameters) {
    auto values = run.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<S>(by * normal(key_of(seed, tensor.name), i));
    }
  }
}

inline double magnitude(std::span<const double> values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

inline double largest_difference(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace test
