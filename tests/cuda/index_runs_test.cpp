// SPDX-License-Identifier: MIT
#include <simplx/cuda/index_runs.hpp>

#include <simplx/core/random.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::gpu;

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

TEST_CASE("of many rows, large indices and labels of nothing the order is that of a stable sort") {
  IndexRuns sorted;
  for (const std::uint64_t bound : {1, 2, 512, 50257, 1 << 20, 1 << 30}) {
    CAPTURE(bound);
    std::vector<std::int32_t> indices;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      indices.push_back(i % 7 == 3 ? -100 : static_cast<std::int32_t>(bits(bound, i) % bound));
    }
    sorted.sort(indices);
    const auto index = [&](std::int32_t row) {
      return static_cast<std::uint32_t>(indices[static_cast<std::size_t>(row)]);
    };
    std::vector<std::int32_t> rows(indices.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::stable_sort(rows, {}, index);
    CHECK(std::ranges::equal(sorted.rows(), rows));
    std::int32_t before = 3000, all = 0;
    for (const IndexRun& run : sorted.runs()) {
      CHECK(run.end - run.begin <= before);
      before = run.end - run.begin;
      all += before;
      for (std::int32_t place = run.begin; place < run.end; ++place) {
        CHECK(indices[static_cast<std::size_t>(rows[static_cast<std::size_t>(place)])] == run.index);
      }
    }
    CHECK(all == 3000);
  }
}

TEST_SUITE_END();
