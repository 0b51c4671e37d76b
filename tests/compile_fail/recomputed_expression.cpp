// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: What is evaluated again is a module, from what it is given to its result.
// expect: error: .*simplx: recompute\(...\) takes a module
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
  return recompute(Mlp{})(x);
#else
  return recompute(Mlp{}(x));
#endif
};
static_assert(GraphOf<model>::sound);
