// SPDX-License-Identifier: MIT
#include "golden_blocks.hpp"

TEST_CASE("models/golden_blocks: logits, loss and every gradient agree with PyTorch, part 3 of 5") {
  test::blocks_agree<2, 5>();
}
