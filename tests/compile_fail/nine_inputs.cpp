// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A model has more than eight inputs.
// expect: error: .*simplx: a model has at most eight inputs; put some beside each other in one
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    const char* names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
#ifdef FIXED
    constexpr int count = 8;
#else
    constexpr int count = 9;
#endif
    Expr sum = input(names[0], rows_of(Axis::batch, 4));
    for (int i = 1; i < count; ++i) sum = sum + input(names[i], rows_of(Axis::batch, 4));
    return sum;
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
