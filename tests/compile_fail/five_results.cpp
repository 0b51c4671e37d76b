// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A model returns more results than an aggregate of four, or something that is no expression.
// expect: error: .*simplx: a model returns an Expr, or an aggregate of up to four of them
#include <simplx/ops/columns.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Moments {
#ifdef FIXED
  Expr mean_and_square, cube, fourth, fifth;
#else
  Expr mean, square, cube, fourth, fifth;
#endif
};
struct Net {
  constexpr Moments operator()() const {
    Expr x = input("x", rows_of(Axis::batch, 8));
#ifdef FIXED
    return {concatenate(x, square(x)), pow(x, 3.0), pow(x, 4.0), pow(x, 5.0)};
#else
    return {x, square(x), pow(x, 3.0), pow(x, 4.0), pow(x, 5.0)};
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
