// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A loss in tiles of no classes.
// expect: error: .*simplx: logits are computed for a tile of classes at a time, at least 1 \(left number\)
#include <simplx/core/counts.hpp>
#include <simplx/ops/linear_cross_entropy.hpp>

using namespace simplx;

struct Loss {
  constexpr Expr operator()() const {
    const Expr x = input("x", rows_of(Axis::tokens, 16)), labels = indices("labels", Axis::tokens);
#ifdef FIXED
    return linear_cross_entropy(x, weight("table", 100, 16), labels, 32);
#else
    return linear_cross_entropy(x, weight("table", 100, 16), labels, 0);
#endif
  }
};
inline constexpr Loss loss{};
static_assert(parameters<loss> > 0);
