// SPDX-License-Identifier: MIT
#include "blocks.hpp"

TEST_CASE("generate/blocks: token by token and in chunks, every even block gives the logits of the whole sequence") {
  test::check_streams<0, 2>();
}
