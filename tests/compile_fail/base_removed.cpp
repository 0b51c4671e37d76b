// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A reparameterised matrix without its fixed part is zero at first.
// expect: error: .*simplx: alpha W0 \+ beta D without alpha W0 is zero at first: use Linear
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct MyBlock {
#ifdef FIXED
  Linear value{};
#else
  Reparameterised value{.alpha = fixed_at(0)};
#endif
  constexpr Expr operator()(Expr x) const { return value(x); }
};
inline constexpr DecoderOf<MyBlock> model{};
static_assert(parameters<model> > 0);
