// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/embedding.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// Indices of which some occur often, many once or never.
std::vector<std::int32_t> some_indices(Index count, std::int32_t known) {
  std::vector<std::int32_t> indices;
  for (Index i = 0; i < count; ++i) {
    const auto random = static_cast<std::int32_t>(bits(3, static_cast<std::uint64_t>(i)) >> 40);
    indices.push_back(i % 3 == 0 ? 2 : random % known);
  }
  return indices;
}

template <class S, int cols>
void check(Index rows, std::int32_t known) {
  CAPTURE(cols);
  CAPTURE(rows);
  const auto indices = some_indices(rows, known);
  const auto table = test::numbers<S>(known * cols, 1), dy = test::numbers<S>(rows * cols, 2);
  const auto y = test::same_bits([&] {
    auto result = test::unwritten<S>(rows * cols);
    embedding<S, cols>(nullptr, table.data(), indices.data(), result.data(), rows);
    return result;
  });
  IndexRuns sorted;
  sorted.sort(indices);
  const auto dtable = test::same_bits([&] {
    auto result = table;
    embedding_backward<S, cols>(nullptr, sorted.rows().data(), sorted.runs().data(), std::ssize(sorted.runs()),
                                dy.data(), result.data());
    return result;
  });
  std::vector<S> expected_y, expected = table;
  for (Index row = 0; row < rows; ++row) {
    for (int c = 0; c < cols; ++c) {
      const auto place = static_cast<std::size_t>(indices[static_cast<std::size_t>(row)] * cols + c);
      expected_y.push_back(table[place]);
      expected[place] += dy[static_cast<std::size_t>(row * cols + c)];  // as the CPU does: the same bits
    }
  }
  CHECK(y == expected_y);
  CHECK(dtable == expected);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/embedding");

TEST_CASE("values and gradients have the bits of a plain loop") {
  check<double, 1>(17, 5);
  check<float, 33>(60, 7);
  check<float, 300>(10, 40);
  check<float, 8>(0, 3);
}

/// Sequences that end at `offsets`, of which so many tokens came before.
template <int cols>
void check_positions(const std::vector<Index>& offsets, Index longest, const std::vector<Index>& past) {
  CAPTURE(cols);
  const Index sequences = std::ssize(offsets) - 1;
  const auto table = test::numbers<float>(40 * cols, 1);
  const auto y = test::same_bits([&] {
    auto result = test::unwritten<float>(offsets.back() * cols);
    positions<float, cols>(nullptr, table.data(), past.empty() ? nullptr : past.data(), {offsets.data(), sequences},
                           longest, result.data());
    return result;
  });
  std::vector<float> expected;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const Index before = past.empty() ? 0 : past[s];
    expected.insert(expected.end(), table.begin() + before * cols,
                    table.begin() + (before + offsets[s + 1] - offsets[s]) * cols);
  }
  CHECK(y == expected);
}

TEST_CASE("the row of each position: of whole sequences, of tokens that others came before, of one each") {
  check_positions<33>({0, 5, 5, 6, 16}, 10, {});
  check_positions<300>({0, 7}, 7, {});
  check_positions<300>({0, 7}, 7, {33});
  check_positions<33>({0, 1, 2, 3, 4}, 1, {3, 39, 0, 7});
  check_positions<8>({0, 5, 5, 6, 16}, 10, {4, 2, 39, 30});
}

TEST_SUITE_END();
