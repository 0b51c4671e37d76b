// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: No op has this name: it is misspelt, or its header is missing.
// expect: error: .*simplx: there is no op of this name \(in apply<name>\)
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

template <>
struct simplx::op<"cube"> : elementwise {
  static constexpr bool needs_inputs = true;
  static constexpr auto f(auto x) { return x * x * x; }
  template <int>
  static constexpr auto d(auto g, auto, auto x) {
    return 3 * g * x * x;
  }
};

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    return apply<"cube">({}, At(input("x", rows_of(Axis::tokens, 64))));
#else
    return apply<"cub">({}, At(input("x", rows_of(Axis::tokens, 64))));
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
