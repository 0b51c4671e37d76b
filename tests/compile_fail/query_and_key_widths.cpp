// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Queries and keys have different widths, so that they have no product.
// expect: error: .*simplx: query \(left number\) and key \(right number\) must have equal widths
// expect: 64L? == 32
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Attend {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
    auto query = x * weight("query", 64, 64);
#ifdef FIXED
    auto key = x * weight("key", 64, 64);
#else
    auto key = x * weight("key", 64, 32);
#endif
    return softmax_attention(query, key, x, {.count = 4});
  }
};
inline constexpr Attend model{};
static_assert(parameters<model> > 0);
