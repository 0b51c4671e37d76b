// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A module that is applied to two inputs with one set of parameters contains a stack.
// expect: error: .*simplx: a stack or recompute within siamese \(left number: its line\)
#include <simplx/ops/siamese.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Layer {
  constexpr Expr operator()(Expr x) const { return tanh(x * weight("w", width(x), width(x))); }
};
struct Features {
  constexpr Expr operator()(Expr x) const {
#ifdef FIXED
    for (const char* layer : {"first", "second"}) x = named(layer, Layer{})(x);
    return x;
#else
    return stack("layers", 2, Layer{}, x);
#endif
  }
};
struct Net {
  constexpr Expr operator()() const {
    const Shape pictures = rows_of(Axis::batch, 64);
    const auto [one, other] = siamese(named("features", Features{}), input("one", pictures), input("other", pictures));
    return one - other;
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
