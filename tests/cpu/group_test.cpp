// SPDX-License-Identifier: MIT
#include <simplx/cpu/group.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Spread {
  constexpr Expr operator()(Expr x) const {
    return (x + vector("row", width(x))) * (x * weight("column", width(x), 1)) * scalar("one") + 2.0;
  }
};
inline constexpr test::OnTokens<Spread> spreads{20};
using G = GraphOf<spreads>;
constexpr int root = G::fusion.order[G::fusion.steps - 1];
using Grp = Group<G, root>;

constexpr int count_spread(Grp::Spread kind) {
  int total = 0;
  for (int l = 0; l < Grp::leaves; ++l) total += Grp::spread(l) == kind;
  return total;
}
// x; the row; the column; `one` and 2.
static_assert(count_spread(Grp::Spread::full) == 1 && count_spread(Grp::Spread::row) == 1);
static_assert(count_spread(Grp::Spread::column) == 1 && count_spread(Grp::Spread::one) == 2);
static_assert(!Grp::flat());
}  // namespace

TEST_SUITE_BEGIN("cpu/group");

TEST_CASE("every element is visited once, vectors first") {
  for (const Index rows : {1, 3}) {
    int visits[3 * 21]{};
    each_element<float, 21, false>(rows, [&]<class V>(Index row, Index col) {
      for (std::size_t i = 0; i < sizeof(V) / sizeof(float); ++i) ++visits[row * 21 + col + static_cast<Index>(i)];
    });
    each_element<float, 21, true>(rows, [&]<class V>(Index, Index at) {
      for (std::size_t i = 0; i < sizeof(V) / sizeof(float); ++i) ++visits[at + static_cast<Index>(i)];
    });
    for (Index i = 0; i < rows * 21; ++i) CHECK(visits[i] == 2);
  }
}

TEST_SUITE_END();
