// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The heads of rotary positions have an odd width.
// expect: error: .*simplx: rotary positions turn pairs of columns in each head
// expect: 4, 4|8L?, 8L?|== 0
#include <simplx/ops/rotary.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return rotary(x, 4, hyper("base", 10000));
#else
    return rotary(x, 64, hyper("base", 10000));
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
