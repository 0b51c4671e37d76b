// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/unroll.hpp
/// A loop over constants: the body is instantiated for each of them.

#include <simplx/core/target.hpp>

#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::detail {
SIMPLX_HD_BEGIN

/// Calls f(constant<begin>) ... f(constant<end - 1>), eight at a time: folds over many elements are refused, and
/// would spell all numbers in a symbol.
template <int begin, int end, class F>
SIMPLX_HD __attribute__((always_inline)) constexpr void unroll(F&& f) {
  if constexpr (begin < end) f(std::integral_constant<int, begin>{});
  if constexpr (begin + 1 < end) f(std::integral_constant<int, begin + 1>{});
  if constexpr (begin + 2 < end) f(std::integral_constant<int, begin + 2>{});
  if constexpr (begin + 3 < end) f(std::integral_constant<int, begin + 3>{});
  if constexpr (begin + 4 < end) f(std::integral_constant<int, begin + 4>{});
  if constexpr (begin + 5 < end) f(std::integral_constant<int, begin + 5>{});
  if constexpr (begin + 6 < end) f(std::integral_constant<int, begin + 6>{});
  if constexpr (begin + 7 < end) f(std::integral_constant<int, begin + 7>{});
  if constexpr (begin + 8 < end) unroll<begin + 8, end>(f);
}

SIMPLX_HD_END
}  // namespace simplx::detail
