// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Shaped attention is given gains for another number of heads than it has.
// expect: error: .*simplx: alpha, beta and gamma need one number per head
// expect: 8L? == 4
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Gains {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
    auto q = x * weight("q", 64, 64);
#ifdef FIXED
    auto beta = vector("beta", 4);
#else
    auto beta = vector("beta", 8);
#endif
    return shaped_attention(q, q, x, vector("alpha", 4), beta, vector("gamma", 4), {.count = 4});
  }
};
inline constexpr Gains model{};
static_assert(parameters<model> > 0);
