// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A number for each row stands where one number is wanted: its width is right, its rows are not.
// expect: error: .*simplx: not the numbers but the rows or the axis are wrong: this operand must be one number
// expect: 1L? [!=]= 1
#include <simplx/nn/norm.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return rms_norm(x, vector("gain", 64), hyper("epsilon", 1e-8));
#else
    return rms_norm(x, vector("gain", 64), input("epsilon", rows_of(Axis::tokens, 1)));
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
