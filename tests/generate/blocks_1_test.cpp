// SPDX-License-Identifier: MIT
#include "blocks.hpp"

TEST_CASE("generate/blocks: token by token and in chunks, every odd block gives the logits of the whole sequence") {
  test::check_streams<1, 2>();
}
