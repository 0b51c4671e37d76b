// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/dropout.hpp
/// Dropout: in training y = x m / (1 - rate), where m is 0 with probability `rate` and 1 otherwise; else y = x.
///
/// The mask is a function of seed, step, name with all scopes and layers, sequence and element. It is never stored, and
/// comes out the same for any number of threads, any split into micro-batches, and when a forward pass is repeated. The
/// mask of a fixed shape, such as a weight's, is one for all sequences of a step.

#include <simplx/core/random.hpp>
#include <simplx/ops/kernel.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What the keys of this node's masks have of its name: that of "blocks.3.attention.mask".
template <class F>
std::uint64_t node_key(const F& frame) {
  return scramble(extended(frame.context.random.scope, F::name.view()));
}

/// The node, known by that name as one that draws masks. With an error for no name, and for a rate that is known to be
/// no probability.
constexpr Expr drawing(const char* name, Expr result, At rate) {
  result.node->name = name;
  if (result.node->kind != Kind::error && result.node->name.empty()) {
    broken(result.node, "a name", result.node->where.line, 0);
  }
  const Node& given = *rate.node;
  const bool is_literal = given.kind == Kind::number;
  const bool is_known = is_literal || (given.kind == Kind::constant && given.init.law == Init::Law::constant);
  const double value = is_literal ? given.attributes.reals[0] : given.init.value;
  if (result.node->kind != Kind::error && is_known && !(value >= 0 && value <= 1)) {
    const double thousandths = value == value ? std::clamp(1000 * value, -1e9, 1e9) : -1;
    broken(result.node, "dropout rate", static_cast<Index>(thousandths), 1000);
  }
  return result;
}

}  // namespace detail

template <>
struct op<"dropout"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b10;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape rate) {
    if (!(rate == fixed_shape(1, 1))) return {"one number", rate.columns(), 1};
    if (x.axis == Axis::labelled) return {"dropout rows", static_cast<Index>(x.axis), 0};
    return x;
  }
  /// Calls f(element, factor) for all elements.
  template <class F, class Visit>
  static void each(const F& frame, Visit visit) {
    using S = typename F::Scalar;
    constexpr Index cols = F::out_shape.cols;
    const Randomness& random = frame.context.random;
    const double rate = static_cast<double>(*frame.template in<1>());
    if (!random.training || !(rate > 0)) {
      for (Index i = 0; i < frame.rows() * cols; ++i) visit(i, S(1));
      return;
    }
    const S kept = S(rate < 1 ? 1 / (1 - rate) : 0);
    const std::uint64_t of_node = detail::mask_key(random.key, detail::node_key(frame));
    const auto sequence = [&](Index number, Index first, Index count) {
      const std::uint64_t mine = bits(of_node, static_cast<std::uint64_t>(random.first_sequence + number));
      for (Index i = 0; i < count * cols; ++i) {
        visit(first * cols + i, uniform(mine, static_cast<std::uint64_t>(i)) < rate ? S(0) : kept);
      }
    };
    if constexpr (F::out_shape.axis == Axis::tokens) {
      frame.context.segments.each(sequence);
    } else if constexpr (F::out_shape.is_fixed()) {
      sequence(-random.first_sequence, 0, frame.rows());  // one mask for all sequences of a step
    } else {
      for (Index row = 0; row < frame.rows(); ++row) sequence(row, row, 1);
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* x = frame.template in<0>();
    S* y = frame.out();
    each(frame, [&](Index i, S factor) { y[i] = x[i] * factor; });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const S* g = frame.out_grad();
    S* dx = frame.template grad<0>();
    each(frame, [&](Index i, S factor) {
      if constexpr (F::template write<0> == Write::store) {
        dx[i] = g[i] * factor;
      } else {
        dx[i] += g[i] * factor;
      }
    });
  }
};

/// Drops elements in training; the name tells the masks of a model apart.
///
/// Shapes  x any; rate (1, 1), a number or hyper("rate", 0.1); set at run time below 0 it counts as 0, above 1 as 1
/// Errors  does not compile for a number that is not from 0 to 1
/// Cost    one random number for each element, forward and backward; keeps nothing
constexpr Expr dropout(const char* name, At x, At rate) {
  return detail::drawing(name, apply<"dropout">({}, x, rate), rate);
}

}  // namespace simplx
