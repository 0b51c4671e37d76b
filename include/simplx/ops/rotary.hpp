// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/rotary.hpp
/// Rotary positions (Su et al. 2021, "RoFormer", Eq. (34)): in each head the pair of columns (2i, 2i + 1) is turned by
/// the angle t / base^(2i / d_k), t the position in the sequence.
///
///     (a, b) -> (a cos - b sin, a sin + b cos);   the pull-back turns back
///
/// The product of a turned query and a turned key depends on the distance of their positions alone.

#include <simplx/cpu/math.hpp>
#include <simplx/ops/rows.hpp>

#include <cmath>
#include <cstring>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("rotary heads", left > 0 && right % (2 * left) == 0,
            "rotary positions turn pairs of columns in each head: the width (right number) must be a multiple of twice "
            "the number of heads (left number)")

namespace detail {
template <class V, int... lane>
__attribute__((always_inline)) inline V with_swapped_pairs(V x, std::integer_sequence<int, lane...>) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)  // nvcc garbles the pack
  return __builtin_shufflevector(x, x, (lane ^ 1)...);
#else
  return V{x[lane ^ 1]...};
#endif
}
/// The lanes of x, of which each even one changes places with the one after it.
template <class V>
__attribute__((always_inline)) inline V with_swapped_pairs(V x) {
  return with_swapped_pairs(x, std::make_integer_sequence<int, static_cast<int>(sizeof(V) / sizeof(Lane<V>))>());
}
}  // namespace detail

template <>
struct op<"rotary"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b10;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  static constexpr Index heads_in(Attributes attributes) { return attributes.integers[0]; }
  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape base) {
    const Index heads = heads_in(attributes);
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    if (heads < 1 || x.cols % (2 * heads) != 0) return {"rotary heads", heads, x.cols};
    if (!(base == fixed_shape(1, 1))) return {"one number", base.columns(), 1};
    return x;
  }
  static std::string settings(const Attributes& attributes) {
    return "heads " + std::to_string(heads_in(attributes));
  }
  /// to = x turned by `direction` times the angle: one vector of pairs after the other, whose sines and cosines all
  /// heads of a row share.
  template <bool accumulates, class F, class S>
  static void turn(const F& frame, double direction, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols, heads = heads_in(F::attributes), width = cols / heads;
    constexpr Index pairs = lanes<double>, columns = 2 * pairs;  // of a vector of angles
    const double base = static_cast<double>(*frame.template in<1>());
    for (Index begin = 0; begin < width; begin += columns) {
      double frequency[pairs];
      for (Index i = 0; i < pairs; ++i) {
        frequency[i] = std::pow(base, -static_cast<double>(begin + 2 * i) / static_cast<double>(width));
      }
      S cosine[columns], sine[columns];  // u = a cosine + b sine of either column, b the other one of its pair
      detail::each_sequence(frame, [&](Index sequence, Index first, Index rows) {
        const Index past = frame.context.past_of(sequence);
        for (Index row = 0; row < rows; ++row) {
          const Vec<double> angle = static_cast<double>(past + row) * load<Vec<double>>(frequency);
          const Vec<double> c = cos(angle), s = direction * sin(angle);
          for (Index i = 0; i < pairs; ++i) {
            cosine[2 * i] = cosine[2 * i + 1] = S(c[i]);
            sine[2 * i] = S(-s[i]), sine[2 * i + 1] = S(s[i]);
          }
          for (Index head = 0; head < heads; ++head) {
            const Index at = (first + row) * cols + head * width + begin;
            if (begin + columns <= width) {
              turn_columns<accumulates, columns>(cosine, sine, from + at, to + at);
            } else {
              turn_columns<accumulates, width % columns>(cosine, sine, from + at, to + at);
            }
          }
        }
      });
    }
  }
  template <bool accumulates, Index count, class S>
  static void turn_columns(const S* cosine, const S* sine, const S* from, S* to) {
    if constexpr (lanes<S> > 1) {
      using V = Vec<S>;
      constexpr Index rest = count % lanes<S>;
      const auto turned = [&](V x, Index i) __attribute__((always_inline)) {
        return V(x * load<V>(cosine + i) + detail::with_swapped_pairs(x) * load<V>(sine + i));
      };
      for (Index i = 0; i < count - rest; i += lanes<S>) {
        const V y = turned(load<V>(from + i), i);
        store(to + i, accumulates ? V(load<V>(to + i) + y) : y);
      }
      if constexpr (rest > 0) {
        V x{}, y{};
        std::memcpy(&x, from + count - rest, rest * sizeof(S));
        if constexpr (accumulates) std::memcpy(&y, to + count - rest, rest * sizeof(S));
        y += turned(x, count - rest);
        std::memcpy(to + count - rest, &y, rest * sizeof(S));
      }
    } else {
      for (Index i = 0; i < count; i += 2) {
        const S a = from[i], b = from[i + 1];
        const S u = a * cosine[i] + b * sine[i], v = b * cosine[i + 1] + a * sine[i + 1];
        to[i] = accumulates ? S(to[i] + u) : u;
        to[i + 1] = accumulates ? S(to[i + 1] + v) : v;
      }
    }
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
/// Cost    d_k / 2 sines and cosines for each token
constexpr Expr rotary(At x, int heads, At base) { return apply<"rotary">({.integers = {heads}}, x, base); }

}  // namespace simplx
