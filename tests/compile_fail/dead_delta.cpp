// SPDX-License-Identifier: MIT
// expect: error: .*simplx: alpha W0 \+ beta D with a trained beta of 0 never learns
#include <simplx/simplx.hpp>

using namespace simplx;

struct MyBlock {
#ifdef FIXED
  Reparameterised value{.beta = trainable(0.1)};
#else
  Reparameterised value{.beta = trainable(0)};
#endif
  constexpr Expr operator()(Expr x) const { return value(x); }
};
inline constexpr DecoderOf<MyBlock> model{};
static_assert(parameters<model> > 0);
