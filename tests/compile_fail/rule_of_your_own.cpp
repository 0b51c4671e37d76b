// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: The shape rule of one's own op reports a name without a sentence; SIMPLX_RULE gives it one.
// expect: error: .*simplx: a shape rule of this op is broken: the two numbers must be equal; give the rule a sentence by SIMPLX_RULE
// expect: 1L? == 0
// expect: at_line<.*1L?, 0L?, 
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

template <>
struct simplx::op<"turn pairs"> : elementwise {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.cols % 2) return {"turn pairs", x.cols % 2, 0};
    return x;
  }
  static constexpr auto f(auto x) { return x; }
  template <int>
  static constexpr auto d(auto g, auto, auto) {
    return g;
  }
};

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    return apply<"turn pairs">({}, At(input("x", rows_of(Axis::tokens, 64))));
#else
    return apply<"turn pairs">({}, At(input("x", rows_of(Axis::tokens, 65))));
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
