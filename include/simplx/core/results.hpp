// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/results.hpp
/// What a model or a module returns: an expression, or an aggregate of up to four.

#include <simplx/core/expr.hpp>

#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::detail {

struct AnyResult {
  constexpr operator Expr() const;
};

/// How many expressions an aggregate has, at most four; 0 where it has other members.
template <class Result>
constexpr int result_count() {
  using A = AnyResult;
  int count = 0;
  if constexpr (std::is_aggregate_v<Result> && !requires { Result{A{}, A{}, A{}, A{}, A{}}; }) {
    count = requires { Result{A{}, A{}, A{}, A{}}; } ? 4 : requires { Result{A{}, A{}, A{}}; } ? 3
          : requires { Result{A{}, A{}}; } ? 2 : requires { Result{A{}}; } ? 1 : 0;
  }
  static_assert(max_outputs == 4);
  return sizeof(Result) == static_cast<std::size_t>(count) * sizeof(Expr) ? count : 0;
}

template <class Result>
concept Results = std::is_same_v<Result, Expr> || result_count<Result>() > 0;

/// What a module made, as it is, or as the expression that it converts to.
constexpr Expr as_results(Expr result) { return result; }
template <Results Result>
constexpr Result as_results(const Result& results) {
  return results;
}

/// Calls take(field, name) for the expression, or for each of an aggregate of up to four expressions.
template <class Result, class Take>
constexpr void each_result(const Result& result, Take take) {
  static_assert(Results<Result>, "simplx: a model returns an Expr, or an aggregate of up to four of them");
  constexpr int count = result_count<Result>();
  if constexpr (std::is_same_v<Result, Expr>) {
    take(result, "output");
  } else if constexpr (count == 4) {
    const auto& [a, b, c, d] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2"), take(d, "output3");
  } else if constexpr (count == 3) {
    const auto& [a, b, c] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2");
  } else if constexpr (count == 2) {
    const auto& [a, b] = result;
    take(a, "output0"), take(b, "output1");
  } else if constexpr (count == 1) {
    const auto& [a] = result;
    take(a, "output0");
  }
}

}  // namespace simplx::detail
