// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A classifier is made around an encoder, which is made around a block.
// expect: error: .*simplx: ClassifierOf takes the model whose head it replaces, not its block
#include <simplx/simplx.hpp>

using namespace simplx;

struct MyBlock {
  constexpr Expr operator()(Expr x) const { return x + named("mlp", Mlp{})(x); }
};
#ifdef FIXED
inline constexpr ClassifierOf<EncoderOf<MyBlock>> model{.encoder = {.block = {}}, .head = {.classes = 3}};
#else
inline constexpr ClassifierOf<MyBlock> model{.encoder = {}, .head = {.classes = 3}};
#endif
static_assert(parameters<model> > 0);
