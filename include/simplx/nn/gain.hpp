// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/gain.hpp
/// Gain: a number in front of a term of an equation, which may be absent together with its term.

#include <simplx/ops/matmul.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// A number in front of a term: one: no factor; zero: the term is removed; fixed: a literal; trainable: a parameter.
struct Gain {
  enum class Kind : signed char { one, zero, fixed, trainable };
  Kind kind = Kind::one;
  double value = 1;  ///< the literal, or the initial value

  constexpr bool is_zero() const { return kind == Kind::zero; }
  constexpr bool operator==(const Gain&) const = default;
};

/// A gain that is not trained; of 0 and 1 nothing is left but the term's absence or presence.
constexpr Gain fixed_at(double value) {
  return {value == 0 ? Gain::Kind::zero : value == 1 ? Gain::Kind::one : Gain::Kind::fixed, value};
}
constexpr Gain trainable(double initial) { return {Gain::Kind::trainable, initial}; }
inline constexpr Gain no_skip = fixed_at(0);

/// gain * x, where the gain is not zero.
constexpr Expr scaled(const Gain& gain, const char* name, Expr x) {
  switch (gain.kind) {
    case Gain::Kind::trainable: return scalar(name, constant(gain.value)) * x;
    case Gain::Kind::fixed: return gain.value * x;
    default: return x;
  }
}

}  // namespace simplx
