// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: The same where the rule has no numbers to show.
// expect: error: .*simplx: a shape rule of this op is broken; give the rule a sentence by SIMPLX_RULE
// expect: 0L?, 0L?
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

template <>
struct simplx::op<"turn pairs"> : elementwise {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.cols % 2) return {"turn pairs", 0, 0};
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
