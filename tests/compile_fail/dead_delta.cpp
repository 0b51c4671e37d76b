// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A product of two zeros at the start has no gradient and never learns.
// expect: error: .*simplx: alpha W0 \+ beta D with a trained beta of 0 never learns
#include <simplx/models/decoder.hpp>

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
