// SPDX-License-Identifier: MIT
#include <simplx/cuda/index_runs.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("cuda/index_runs");

TEST_CASE("rows by index, ascending; the longest run first") {
  const std::vector<std::int32_t> indices{7, 3, 7, 0, 3, 7};
  IndexRuns sorted;
  sorted.sort(indices);
  CHECK(std::ranges::equal(sorted.rows(), std::vector<std::int32_t>{3, 1, 4, 0, 2, 5}));
  REQUIRE(sorted.runs().size() == 3);
  std::vector<std::int32_t> flat;
  for (const IndexRun& run : sorted.runs()) flat.insert(flat.end(), {run.index, run.begin, run.end});
  CHECK(flat == std::vector<std::int32_t>{7, 3, 6, 3, 1, 3, 0, 0, 1});
  const std::int32_t* const memory = sorted.rows().data();
  sorted.sort(std::vector<std::int32_t>{5, 5, 1});
  CHECK(sorted.rows().data() == memory);
  CHECK(std::ranges::equal(sorted.rows(), std::vector<std::int32_t>{2, 0, 1}));
  CHECK(sorted.runs().front().index == 5);
  sorted.sort({});
  CHECK(sorted.rows().empty());
  CHECK(sorted.runs().empty());
}

TEST_SUITE_END();
