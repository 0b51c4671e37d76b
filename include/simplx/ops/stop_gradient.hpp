// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/stop_gradient.hpp
/// Where differentiation ends: values that count as constants, parameters that are not trained.

#include <simplx/ops/kernel.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"stop_gradient"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* const x = frame.template in<0>();
    std::transform(x, x + frame.rows() * F::out_shape.cols, frame.out(), constant_of<S>);
  }
  /// A dual number without its tangent.
  template <class S>
  static S constant_of(const S& x) {
    if constexpr (requires { x.tangent; }) {
      return S(constant_of(x.value));
    } else {
      return x;
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F&) {}  // never called: its gradient is not wanted
};

/// x itself, but a constant to whoever differentiates. What only serves it is not differentiated at all; its parameters
/// still decay where an optimiser lets them, unlike those of frozen(...).
///
/// Cost    a copy of x
constexpr Expr stop_gradient(At x) {
  Expr result = apply<"stop_gradient">({}, x);
  result.node->stops = true;
  return result;
}

/// A module whose parameters are not trained: they stay in checkpoints, and their backward is not compiled. Its layers
/// keep nothing for one if nothing before them is trained.
template <class Module>
struct Frozen {
  Module module;

  template <class... Arguments>
  constexpr auto operator()(const Arguments&... arguments) const
      -> decltype(detail::as_results(module(arguments...))) {
    const auto results = detail::as_results(module(arguments...));
    detail::each_made(results, detail::freeze, arguments...);
    detail::each_result(results, [](Expr result, const char*) { detail::stop_at_frozen_layers(result.node); });
    return results;
  }
};
template <class Module>
constexpr Frozen<Module> frozen(const Module& module) {
  return {module};
}

/// One parameter that is not trained: frozen(weight("base", d, d)).
constexpr Expr frozen(Expr parameter) {
  if (parameter.node->kind != Kind::parameter) return refuse("frozen", parameter);
  parameter.node->frozen = true;
  return parameter;
}

}  // namespace simplx
