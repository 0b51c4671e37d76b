// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A setting such as an epsilon, a dropout rate or a rotary base is one number.
// expect: error: .*simplx: this operand must be one number
// expect: 64L? == 1
#include <simplx/nn/norm.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return rms_norm(x, vector("gain", 64), hyper("epsilon", 1e-8));
#else
    return rms_norm(x, vector("gain", 64), vector("epsilon", 64));
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
