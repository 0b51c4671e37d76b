// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Grouped queries: heads of keys that do not divide the heads of queries.
// expect: error: .*simplx: the heads of keys \(left number\) must divide the heads of queries
#include <simplx/core/counts.hpp>
#include <simplx/nn/attention.hpp>

using namespace simplx;

struct Model {
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return MultiHeadAttention{.heads = 8, .key_heads = 2}(x);
#else
    return MultiHeadAttention{.heads = 8, .key_heads = 3}(x);
#endif
  }
};
inline constexpr Model model{};
static_assert(GraphOf<model>::count > 0);
