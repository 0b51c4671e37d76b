// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/rows.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr Shape rows(Index cols) { return rows_of(Axis::tokens, cols); }
const std::vector<Index> packed{5, 0, 1, 13, 2};

constexpr auto slices = [] {
  const Expr w = weight("w", 9, 5, normal(1));
  return slice_rows(w, 0, 3) * scalar("s") + slice_rows(w, 2, 3) + slice_rows(sin(w), 6, 3);
};
/// Down and up, further than some sequences are long, of one operand.
constexpr auto shifts = [] {
  const Expr x = variable("x", rows(37)), y = variable("y", rows(37));
  return shift(x, 1) * shift(y, -2) + shift(x, -1) * shift(x, 4) + shift(y, 0);
};
constexpr auto shifted_weight = [] {
  const Expr w = weight("w", 7, 3, normal(1));
  return multiply(shift(w, 2), shift(w, -1)) + cumulative_sum(w);
};
constexpr auto sums = [] {
  const Expr x = variable("x", rows(37)), y = variable("y", rows(37));
  return tanh(cumulative_sum(x)) * cumulative_sum(y) + cumulative_sum(x);
};
/// The pull-back of the pull-back sums from the last row on.
constexpr auto sums_from_last = [] {
  return apply<"cumulative_sum">({.integers = {1}}, variable("x", rows(3)));
};
constexpr auto firsts = [] {
  const Expr x = variable("x", rows(37));
  return first_of_sequence(x) * first_of_sequence(sin(x)) + first_of_sequence(x);
};
constexpr auto turned = [] {
  const Expr x = variable("x", rows(3 * 10)), base = hyper("base", 100);
  return rotary(x, 3, base) * rotary(tanh(x), 1, 50.0) + rotary(x, 5, base);
};

}  // namespace

TEST_SUITE_BEGIN("cuda/rows");

TEST_CASE("slices of static rows") { test::same_on_device<slices>(0); }

TEST_CASE("rows are shifted within their sequences, whatever the lengths") {
  test::same_on_device<shifts>(21, packed);
  test::same_on_device<shifts>(7);
  test::same_on_device<shifts>(0, {0, 0});
  test::same_on_device<shifted_weight>(0);
}

TEST_CASE("running sums begin anew in each sequence") {
  test::same_on_device<sums>(21, packed);
  test::same_on_device<sums_from_last>(21, packed);
  test::float_on_device<sums>(21, packed);
}

TEST_CASE("the first row of each sequence, zero of an empty one") {
  test::same_on_device<firsts>(21, packed);
  test::same_on_device<firsts>(3, {0, 3, 0});
}

TEST_CASE("heads are turned by positions in their sequences") {
  test::same_on_device<turned>(21, packed);
  test::float_on_device<turned>(21, packed);
}

TEST_CASE("tokens of a stream are turned by what went before") {
  constexpr Index all = 9, last = 3, heads = 2, width = 4, cols = heads * width;
  const auto x = test::numbers<double>(all * cols, 1);
  const auto turn = [&](Index past, Index count) {
    auto y = test::unwritten<double>(count * cols);
    const double* from = x.data() + (all - count) * cols;
    const std::vector<Index> before{past};  // where a device can read it; nothing of whole sequences
    const Sequences one{.count = 1, .length = count};
    each_cell(nullptr, count, width / 2,
              Rotate<Write::store, double>{one, past ? before.data() : nullptr, heads, width, 1, One<double>(100.0),
                                           from, y.data()});
    return y;
  };
  const auto whole = turn(0, all);
  CHECK(turn(all - last, last) == std::vector<double>(whole.end() - last * cols, whole.end()));
  // a token of each of three sequences
  const std::vector<Index> before{7, 0, 4}, offsets{0, 1, 2, 3};
  std::vector<double> from, expected, y = test::unwritten<double>(3 * cols);
  for (const Index past : before) {
    from.insert(from.end(), x.begin() + past * cols, x.begin() + (past + 1) * cols);
    expected.insert(expected.end(), whole.begin() + past * cols, whole.begin() + (past + 1) * cols);
  }
  each_cell(nullptr, 3, width / 2,
            Rotate<Write::store, double>{Sequences{.offsets = offsets.data(), .count = 3}, before.data(), heads, width,
                                         1, One<double>(100.0), from.data(), y.data()});
  CHECK(y == expected);
}

TEST_SUITE_END();
