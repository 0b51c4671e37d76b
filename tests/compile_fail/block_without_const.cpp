// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A block is called as a constant, with the layer's number first if it asks for it.
// expect: error: .*simplx: the block of a stack needs `constexpr Expr operator\(\)\(Expr x\) const`, or one of
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Mine {
#ifdef FIXED
  constexpr Expr operator()(int layer, Expr x) const { return layer ? x * weight("w", 64, 64) : x; }
#else
  constexpr Expr operator()(Expr x, int layer) const { return layer ? x * weight("w", 64, 64) : x; }
#endif
};
inline constexpr DecoderOf<Mine> model{.width = 64, .layers = 2};
static_assert(parameters<model> > 0);
