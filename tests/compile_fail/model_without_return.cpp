// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A function computes, and forgets to return what it computed.
// expect: error: .*simplx: a model returns an Expr, or an aggregate of up to four of them; this one returns nothing
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto distance = [] {
  Expr difference = variable("w", fixed_shape(3, 1)) - input("target", fixed_shape(3, 1));
#ifdef FIXED
  return sum(square(difference));
#else
  sum(square(difference));
#endif
};
double run(Function<distance>& f) { return f.value_and_grad(); }
