// SPDX-License-Identifier: MIT
#include <simplx/report/ranks.hpp>

#include <doctest/doctest.h>

using namespace simplx::drawing;

TEST_SUITE_BEGIN("report/ranks");

namespace {
const Box plain{.width = 10, .height = 10, .in = {5}, .out = {5}};
const Box gain{.width = 10, .height = 10, .in = {5}, .out = {5}, .late = true};
const Box circle{.width = 10, .height = 10, .in = {5, 5, 5}, .out = {5}, .joins = true};
}  // namespace

TEST_CASE("rows are longest paths, in whatever order boxes come; gains wait below what reads them") {
  //  3 -> 2 -> 1 -> 0,  3 -> gain 4 -> 0
  const Ranked ranked = ranks_of({circle, plain, plain, plain, gain},
                                 {{3, 0, 2}, {2, 0, 1}, {1, 0, 0}, {3, 0, 4}, {4, 0, 0, 1}});
  CHECK(ranked.rows == 4);
  CHECK(ranked.row == std::vector<int>{3, 2, 1, 0, 2});
}

TEST_CASE("ends stand at the bottom and the top, a box without inputs right below what reads it") {
  Box bottom = plain, top = plain;
  bottom.bottom = top.top = true;
  const Ranked ranked = ranks_of({bottom, plain, plain, circle, plain, top, top},
                                 {{0, 0, 1}, {1, 0, 2}, {2, 0, 3}, {4, 0, 3, 1}, {3, 0, 5}, {0, 0, 6}});
  CHECK(ranked.row == std::vector<int>{0, 1, 2, 3, 2, 4, 4});
}

TEST_CASE("a line has one leg for each row it passes, lines of one port share theirs") {
  const Ranked ranked = ranks_of({plain, plain, plain, circle, circle},
                                 {{0, 0, 1}, {1, 0, 2}, {2, 0, 3}, {0, 0, 3, 1}, {3, 0, 4}, {0, 0, 4, 1}});
  REQUIRE(ranked.path[3].size() == 3);
  REQUIRE(ranked.path[5].size() == 4);
  CHECK(ranked.path[3][0] == ranked.path[5][0]);
  CHECK(ranked.path[3][1] == ranked.path[5][1]);
  CHECK(ranked.path[3][2] != ranked.path[5][2]);
  for (const std::vector<int>& path : ranked.path) {
    for (std::size_t l = 1; l < path.size(); ++l) CHECK(ranked.legs[path[l]].from == ranked.legs[path[l - 1]].to);
    for (const int l : path) {
      CHECK(ranked.vertices[ranked.legs[l].to].row == ranked.vertices[ranked.legs[l].from].row + 1);
    }
  }
}

TEST_CASE("lines that can do without crossings have none: two chains that were given crosswise") {
  const Ranked ranked = ranks_of({plain, plain, plain, plain, plain, plain},
                                 {{0, 0, 3}, {1, 0, 2}, {2, 0, 5}, {3, 0, 4}});
  for (const int row : {1, 2}) CHECK(ranked.order[row].size() == 2);
  const bool swapped = ranked.order[1] == std::vector<int>{3, 2};
  CHECK(swapped == (std::ranges::find(ranked.order[0], 0) < std::ranges::find(ranked.order[0], 1)));
  CHECK(swapped == (ranked.order[2] == std::vector<int>{4, 5}));
}

TEST_CASE("a skip comes to a circle from the side, the branch from below") {
  const Ranked ranked = ranks_of({plain, plain, circle}, {{0, 0, 1}, {1, 0, 2}, {0, 0, 2, 1}});
  REQUIRE(ranked.elbows.size() == 1);
  CHECK(ranked.elbows[0].second == 2);
  CHECK(ranked.legs[ranked.path[1].back()].to == 2);
  CHECK(ranked.legs[ranked.path[2].back()].to == ranked.elbows[0].first);
}

TEST_SUITE_END();
