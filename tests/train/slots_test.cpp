// SPDX-License-Identifier: MIT
#include <simplx/train/slots.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/slots");

TEST_CASE("sequences go round the slots; folding adds them up in order, for a range, and leaves the others empty") {
  GradientSlots<float> slots(3, 5);
  CHECK(slots.count() == 3);
  CHECK(slots.size() == 15);
  CHECK(slots.of(0) == slots.of(3));
  CHECK(slots.of(1) == slots.of(7));
  CHECK(slots.of(1) != slots.of(2));
  CHECK(slots.folded() == slots.of(0));
  // 1e8 + 1 - 1e8 is 0 in float, and 1e8 - 1e8 + 1 is not: the order is the slots'.
  for (Index i = 0; i < 5; ++i) slots.of(0)[i] = 1e8f, slots.of(1)[i] = 1, slots.of(2)[i] = -1e8f;
  slots.fold(1, 3);
  const float expected[] = {1e8f, 0, 0, 1e8f, 1e8f}, rest[] = {1, 0, 0, 1, 1};
  for (Index i = 0; i < 5; ++i) {
    CHECK(slots.folded()[i] == expected[i]);
    CHECK(slots.of(1)[i] == rest[i]);
    CHECK(slots.of(2)[i] == -1e8f * rest[i]);
  }
  slots.clear();
  for (Index s = 0; s < 3; ++s) {
    for (Index i = 0; i < 5; ++i) CHECK(slots.of(s)[i] == 0);
  }
}

TEST_SUITE_END();
