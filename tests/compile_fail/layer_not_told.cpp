// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A block does not tell its attention the layer, and the first layer's value matrix would be lost.
// expect: error: .*simplx: a module that only the first layer has must be told its layer: attention\.at\(layer\)
#include <simplx/nn/attention.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct MyBlock {
  ShapedAttention attention;
  constexpr Expr operator()([[maybe_unused]] int layer, Expr x) const {
    auto n = named("norm", RmsNorm{})(x);
#ifdef FIXED
    return x + named("attention", attention.at(layer))(n);
#else
    return x + named("attention", attention)(n);
#endif
  }
};
struct Net {
  constexpr Expr operator()() const {
    return stack("blocks", 6, MyBlock{{.heads = 4}}, input("x", rows_of(Axis::tokens, 64)));
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
