// SPDX-License-Identifier: MIT
#include <simplx/train/batch.hpp>

#include <doctest/doctest.h>

TEST_CASE("train/batch: sequences are packed one after the other") {
  const simplx::TokenBatch batch{{1, 2, 3}, {2, -100, 4}, {0, 2, 3}};
  CHECK(batch.offsets.back() == static_cast<simplx::Index>(batch.tokens.size()));
}
