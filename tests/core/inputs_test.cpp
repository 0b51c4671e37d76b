// SPDX-License-Identifier: MIT
#include <simplx/core/inputs.hpp>

#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace simplx;

namespace {
inline constexpr auto model = [] {
  auto i = indices("i", Axis::tokens);
  auto x = embedding(weight("large", 100, 4), i) + embedding(weight("small", 10, 4), i);
  return cross_entropy(x + positions(weight("places", 6, 4)), indices("labels", Axis::tokens));
};
constexpr const GraphView& graph = view_of<GraphOf<model>>;

void check(std::array<std::int32_t, 2> i, std::array<std::int32_t, 2> labels) {
  const void* inputs[2];
  inputs[graph.input[graph.input_node("i")]] = i.data();
  inputs[graph.input[graph.input_node("labels")]] = labels.data();
  check_indices(graph, inputs, tokens{2});
}
}  // namespace

TEST_SUITE_BEGIN("core/inputs");

TEST_CASE("indices are rows of all tables that they are looked up in, labels are classes or -100") {
  CHECK_NOTHROW(check({0, 9}, {-100, 3}));
  CHECK_THROWS_WITH_AS(check({0, 10}, {0, 0}), "'i' names 10 in row 1\n  hint: it must be at least 0 and below 10",
                       Error);
  CHECK_THROWS_WITH_AS(check({-100, 0}, {0, 0}), doctest::Contains("'i' names -100 in row 0"), Error);
  CHECK_THROWS_WITH_AS(check({0, 0}, {0, 4}), doctest::Contains("'labels' names 4 in row 1"), Error);
  CHECK_THROWS_WITH_AS(check({0, 0}, {-1, 0}), doctest::Contains("'labels' names -1 in row 0"), Error);
}

TEST_CASE("lengths are at least 0 and within the positions") {
  const std::vector<Index> lengths{2, 0, 6}, negative{3, -1}, long_one{1, 7};
  const std::vector<Index> offsets = offsets_of(lengths);
  CHECK(offsets == std::vector<Index>{0, 2, 2, 8});
  CHECK(longest_of(graph, offsets) == 6);
  CHECK(longest_of(graph, offsets_of({})) == 0);
  CHECK_THROWS_WITH_AS(offsets_of(negative), doctest::Contains("a sequence of -1 tokens"), Error);
  CHECK_THROWS_WITH_AS(longest_of(graph, offsets_of(long_one)),
                       doctest::Contains("a sequence of 7 tokens, but the model's positions end at 6"), Error);
}

TEST_SUITE_END();
