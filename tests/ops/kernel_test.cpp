// SPDX-License-Identifier: MIT
#include <simplx/ops/kernel.hpp>

#include <doctest/doctest.h>

TEST_CASE("ops/kernel: an op that says nothing keeps, saves, packs and counts nothing") {
  using simplx::kernel_op;
  static_assert(kernel_op::kind == simplx::Kind::kernel && !kernel_op::needs_inputs && !kernel_op::needs_output);
  CHECK(kernel_op::saved({}, simplx::Shape{}) == 0);
  CHECK(kernel_op::packed({}) == 0);
  CHECK(kernel_op::flops<int>({}, true) == 0);
}
