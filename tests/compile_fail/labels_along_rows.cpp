// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: There is not one label for each row of the logits.
// expect: error: .*simplx: labels must be indices\(...\) along the rows of the logits
// expect: 2L? == 1
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return cross_entropy(x * weight("w", 64, 10), indices("labels", Axis::tokens));
#else
    return cross_entropy(x * weight("w", 64, 10), indices("labels", Axis::sequences));
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
