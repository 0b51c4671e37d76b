// SPDX-License-Identifier: MIT
#include <simplx/core/unroll.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_CASE("core/unroll: every constant once, in order, also beyond eight") {
  int sum = 0, calls = 0;
  detail::unroll<3, 30>([&]<int i>(std::integral_constant<int, i>) { sum += i, ++calls; });
  CHECK(calls == 27);
  CHECK(sum == (3 + 29) * 27 / 2);
  detail::unroll<5, 5>([&]<int i>(std::integral_constant<int, i>) { ++calls; });
  CHECK(calls == 27);
}
