// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: An elementwise op of one's own has four operands.
// expect: error: .*simplx: an elementwise op has at most three operands; make it of two ops
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

template <>
struct simplx::op<"sum of four"> : elementwise {
  static constexpr auto f(auto a, auto b, auto c, auto d) { return a + b + c + d; }
};

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return x + x + x + x;
#else
    return apply<"sum of four">({}, x, x, x, x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
