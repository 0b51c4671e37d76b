// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: The fixed part of a reparameterised matrix is drawn by a law that makes no good matrix.
// expect: error: .*simplx: W0 of alpha W0 \+ beta D is the identity, orthogonal, or normal
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct MyBlock {
#ifdef FIXED
  Reparameterised value{.base = orthogonal};
#else
  Reparameterised value{.base = uniform(0.1)};
#endif
  constexpr Expr operator()(Expr x) const { return value(x); }
};
inline constexpr DecoderOf<MyBlock> model{};
static_assert(parameters<model> > 0);
