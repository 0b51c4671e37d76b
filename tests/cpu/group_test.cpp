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
using Grp = detail::Group<G, root>;

constexpr int count_spread(Grp::Spread kind) {
  int total = 0;
  for (int l = 0; l < Grp::leaves; ++l) total += Grp::spread(l) == kind;
  return total;
}
}  // namespace

TEST_SUITE_BEGIN("cpu/group");

TEST_CASE("leaves are spread over the group's shape as their own says") {
  CHECK(count_spread(Grp::Spread::full) == 1);    // x
  CHECK(count_spread(Grp::Spread::row) == 1);     // the row
  CHECK(count_spread(Grp::Spread::column) == 1);  // the column
  CHECK(count_spread(Grp::Spread::one) == 2);     // `one` and 2
  CHECK(!Grp::flat());
}

TEST_SUITE_END();
