// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The gain of a norm, or a bias, has another width than what it scales.
// expect: error: .*simplx: a gain or bias \(left number: its width\) must be one row of the width of x
// expect: 32L? == 64
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Normed {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return rms_norm(x, vector("gain", 64), hyper("epsilon", 1e-8));
#else
    return rms_norm(x, vector("gain", 32), hyper("epsilon", 1e-8));
#endif
  }
};
inline constexpr Normed model{};
static_assert(parameters<model> > 0);
