// SPDX-License-Identifier: MIT
#include <simplx/core/init.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

using namespace simplx;

TEST_SUITE_BEGIN("core/init");

TEST_CASE("laws are constants that compare by what they say") {
  static_assert(zeros == constant(0) && ones == constant(1) && zeros != ones);
  static_assert(normal(0.02) == normal(0.02) && normal(0.02) != normal(0.01) && normal(1) != uniform(1));
  CHECK(normal(0.02).value == 0.02);
}

TEST_CASE("what depends on a seed is drawn") {
  for (const Init& drawn : {normal(1), uniform(1), normal_by_rows, orthogonal}) CHECK(drawn.is_drawn());
  for (const Init& given : {zeros, constant(3), sinusoid, identity, alibi_slopes}) CHECK(!given.is_drawn());
}

TEST_SUITE_END();
