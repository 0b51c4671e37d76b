// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/rotary.hpp
/// Rotary positions (Su et al. 2021, "RoFormer", Eq. (34)): in each head the pair of columns (2i, 2i + 1) is turned by
/// the angle t / base^(2i / d_k), t the position in the sequence.
///
///     (a, b) -> (a cos - b sin, a sin + b cos);   the pull-back turns back
///
/// The product of a turned query and a turned key depends on the distance of their positions alone.

#include <simplx/ops/rows.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("rotary heads", left > 0 && right % (2 * left) == 0,
            "rotary positions turn pairs of columns in each head: the width (right number) must be a multiple of twice "
            "the number of heads (left number)")

template <>
struct op<"rotary"> : kernel_op {
  static constexpr unsigned char constant_operands = 0b10;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape base) {
    const Index heads = attributes.integers[0];
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    if (heads < 1 || x.cols % (2 * heads) != 0) return {"rotary heads", heads, x.cols};
    if (!(base == fixed_shape(1, 1))) return {"one number", base.columns(), 1};
    return x;
  }
  static std::string settings(const Attributes& attributes) {
    return "heads " + std::to_string(attributes.integers[0]);
  }
  template <class Backend, class F>
  static constexpr Index scratch(const Rows&) {
    return F::out_shape.cols / F::attributes.integers[0];  // cos and sin of each pair, for one position
  }
  /// to = x turned by `direction` times the angle.
  template <bool accumulates, class F, class S>
  static void turn(const F& frame, double direction, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols, heads = F::attributes.integers[0], width = cols / heads;
    const double base = static_cast<double>(*frame.template in<1>());
    S *cosine = frame.scratch(), *sine = cosine + width / 2;
    detail::each_sequence(frame, [&](Index first, Index rows) {
      for (Index row = 0; row < rows; ++row) {
        for (Index i = 0; i < width / 2; ++i) {
          const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
          const double angle = static_cast<double>(frame.context.past + row) * std::pow(base, exponent);
          cosine[i] = S(std::cos(angle)), sine[i] = S(direction * std::sin(angle));
        }
        for (Index head = 0; head < heads; ++head) {
          const Index at = (first + row) * cols + head * width;
          for (Index i = 0; i < width / 2; ++i) {
            const S a = from[at + 2 * i], b = from[at + 2 * i + 1];
            const S u = a * cosine[i] - b * sine[i], v = a * sine[i] + b * cosine[i];
            to[at + 2 * i] = accumulates ? S(to[at + 2 * i] + u) : u;
            to[at + 2 * i + 1] = accumulates ? S(to[at + 2 * i + 1] + v) : v;
          }
        }
      }
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    turn<false>(frame, 1, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    turn<F::template write<0> == Write::accumulate>(frame, -1, frame.out_grad(), frame.template grad<0>());
  }
};

/// Queries or keys, turned by their positions.
///
/// Shapes  x (tokens, heads * d_k), d_k even; base (1, 1), not trained, usually hyper("base", 10000) -> as x
/// Errors  does not compile unless the heads have even widths: rule "rotary heads"
/// Cost    d_k sines and cosines for each token
constexpr Expr rotary(At x, int heads, At base) { return apply<"rotary">({.integers = {heads}}, x, base); }

}  // namespace simplx
