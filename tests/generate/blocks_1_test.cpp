// SPDX-License-Identifier: MIT
#include "blocks.hpp"

TEST_CASE("generate/blocks: token by token and in chunks, each block gives the logits of the whole, part 2 of 3") {
  test::check_streams<1, 3>();
}
