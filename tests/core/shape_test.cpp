// SPDX-License-Identifier: MIT
#include <simplx/core/shape.hpp>

#include <doctest/doctest.h>

using namespace simplx;

static_assert(fixed_shape(3, 4).columns() == 12 && rows_of(Axis::tokens, 4).columns() == 4);
static_assert(fixed_shape(1, 4) != rows_of(Axis::tokens, 4) && rows_of(Axis::batch, 4) != rows_of(Axis::tokens, 4));
static_assert(Rows(tokens{128}).tokens == 128 && Rows(tokens{128}).sequences == 1);
static_assert(Rows{.tokens = 8, .sequences = 2}.hold({.tokens = 8, .sequences = 2}));
static_assert(!Rows{.tokens = 8, .sequences = 2}.hold({.tokens = 8, .sequences = 2, .longest_sequence = 5}));
static_assert(!Rows{.tokens = 8}.hold({.tokens = 8, .batch = 1}) && !Rows{.tokens = 8}.hold({.labelled = 1}));
static_assert(!Rows{.tokens = 8}.hold({.tokens = 9}) && !Rows{.tokens = 8}.hold({.sequences = 2}));
static_assert(Rows{.tokens = 8, .sequences = 2, .batch = 3}.or_more({.tokens = 6, .labelled = 1}).hold(
    {.tokens = 8, .sequences = 2, .labelled = 1, .batch = 3, .longest_sequence = 6}));
static_assert(round_up(17, 16) == 32 && round_up(16, 16) == 16);

TEST_CASE("core/shape: rows are counted by axis, and the longest sequence is known or the mean") {
  const Rows rows{.tokens = 10, .sequences = 3, .batch = 7};
  CHECK(rows.count(Axis::tokens) == 10);
  CHECK(rows.count(Axis::batch) == 7);
  CHECK(rows.count(Axis::fixed) == 1);
  CHECK(rows.longest() == 4);
  CHECK(Rows{.sequences = 0}.longest() == 0);
  CHECK(Rows{.tokens = 10, .sequences = 3, .longest_sequence = 8}.longest() == 8);
}
