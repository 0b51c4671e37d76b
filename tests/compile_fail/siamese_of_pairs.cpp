// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A module that is applied to two inputs returns two expressions for each.
// expect: error: .*simplx: siamese takes a module of one expression that returns one, and not several
#include <simplx/ops/siamese.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct MeanAndSpread {
  Expr mean, spread;
};
struct Features {
  constexpr auto operator()(Expr x) const {
    const Expr mean = x * weight("mean", width(x), 8), spread = exp(x * weight("spread", width(x), 8));
#ifdef FIXED
    return concatenate(mean, spread);
#else
    return MeanAndSpread{mean, spread};
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
