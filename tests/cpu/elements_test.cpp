// SPDX-License-Identifier: MIT
#include <simplx/cpu/elements.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Counts the visits of each element, by vectors and parts of them.
template <Index cols, bool flat>
std::vector<float> visits(Index rows) {
  std::vector<float> count(static_cast<std::size_t>(rows * cols));
  each_element<float, cols, flat>(rows, [&]<class V>(Index row, Index col) {
    float* const place = count.data() + row * cols + col;
    store<V>(place, load<V>(place) + splat<V>(1.0f));
  });
  return count;
}

template <Index cols>
void check_loops() {
  CAPTURE(cols);
  for (const Index rows : {1, 3}) {
    const std::vector<float> once(static_cast<std::size_t>(rows * cols), 1.0f);
    CHECK(visits<cols, false>(rows) == once);
    CHECK(visits<cols, true>(rows) == once);
  }
  float row[cols], sums[cols];
  float expected = 0;
  for (Index c = 0; c < cols; ++c) row[c] = static_cast<float>(c * c + 1), sums[c] = 2, expected += row[c];
  const auto value = [&]<class V>(Index c) { return load<V>(row + c); };
  CHECK(sum_columns<float, cols>(value) == expected);
  each_column<float, cols>([&]<class V>(Index c) {
    put<Write::accumulate, V>(sums + c, load<V>(row + c));
  });
  for (Index c = 0; c < cols; ++c) CHECK(sums[c] == 2 + row[c]);
  each_column<float, cols>([&]<class V>(Index c) { put<Write::store, V>(sums + c, load<V>(row + c)); });
  for (Index c = 0; c < cols; ++c) CHECK(sums[c] == row[c]);
}

template <Index... cols>
void check_widths(std::integer_sequence<Index, cols...>) {
  (check_loops<cols + 1>(), ...);
}

}  // namespace

TEST_SUITE_BEGIN("cpu/elements");

TEST_CASE("every element of rows of any width is visited once") {
  check_widths(std::make_integer_sequence<Index, 37>{});
}

TEST_CASE("what is no number counts in no other row's sum") {
  constexpr Index cols = lanes<float> + 3;
  std::vector<float> rows(2 * cols, 1.0f);
  for (Index c = cols; c < 2 * cols; ++c) rows[static_cast<std::size_t>(c)] = 0.0f;
  const auto inverse = [&]<class V>(Index c) { return 1.0f / load<V>(rows.data() + c); };  // infinite beyond the row
  CHECK(sum_columns<float, cols>(inverse) == static_cast<float>(cols));
}

TEST_SUITE_END();
