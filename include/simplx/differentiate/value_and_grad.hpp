// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/value_and_grad.hpp
/// One evaluation in one call:
///
///     const auto g = value_and_grad<f>(arg<"A">(A), arg<"y">(y), arg<"w">(w)).gradient<"w">();

#include <simplx/differentiate/function.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// An object under a name: arg<"w">(w).
template <Name name_, class Object>
struct Argument {
  static constexpr Name name = name_;
  const Object& object;
};
template <Name name, class Object>
constexpr Argument<name, Object> arg(const Object& object) {
  return {object};
}

/// A value and the gradients that belong to it.
template <auto const& f>
struct ValueAndGradient {
  double value;
  Function<f> function;

  template <Name name>
  auto gradient() & {
    return function.template gradient<name>();
  }
  template <Name name>
  auto gradient() && {  // of a temporary: a copy
    return typename decltype(function.template gradient<name>())::PlainObject(function.template gradient<name>());
  }
};

/// A single evaluation: value_and_grad<f>(arg<"A">(A), arg<"y">(y), arg<"w">(w)).gradient<"w">().
///
/// Cost    allocates; keep a Function where the same function is evaluated often
template <auto const& f, class... Arguments>
ValueAndGradient<f> value_and_grad(const Arguments&... arguments) {
  Function<f> function;
  (function.template set<Arguments::name>(arguments.object), ...);
  const double value = function.value_and_grad();
  return {value, std::move(function)};
}

}  // namespace simplx
