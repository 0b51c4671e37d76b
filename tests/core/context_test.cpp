// SPDX-License-Identifier: MIT
#include <simplx/core/context.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace simplx;

static_assert(std::is_trivially_copyable_v<Context<float>>);

TEST_CASE("core/context: rows are counted, strides are aligned") {
  Context<float> context;
  set_rows(context, {.tokens = 17, .batch = 16});
  CHECK(context.rows_of(rows_of(Axis::tokens, 3)) == 17);
  CHECK(context.stride[static_cast<int>(Axis::tokens)] == 32);
  CHECK(context.stride[static_cast<int>(Axis::batch)] == 16);
  CHECK(context.stride[static_cast<int>(Axis::fixed)] == 1);
  CHECK(context.rows_of(fixed_shape(5, 2)) == 5);
  Columns columns;
  columns[Axis::tokens] = 2, columns[Axis::fixed] = 16;
  CHECK(elements(columns, {.tokens = 17}) == 2 * 32 + 16);
}
