// SPDX-License-Identifier: MIT
#pragma once

/// A stream of every decoder's block of blocks/tokens.hpp, in parts that several cores compile side by side.

#include "streams.hpp"

#include <iterator>

namespace test {

template <int block>
inline constexpr Decoder block_model{
    .block = all_blocks[block].config, .vocab = 12, .width = 12, .heads = 3, .hidden = 20, .layers = 3, .context = 70};

/// Blocks number `block`, block + parts, ...; the first has values of its own, the others have layers that differ.
template <int block, int parts>
void check_streams() {
  if constexpr (block < static_cast<int>(std::size(all_blocks))) {
    if constexpr (!all_blocks[block].encoder) {  // which sees what is yet to come
      CAPTURE(all_blocks[block].name);
      CHECK(stream_error<logits_of<block_model<block>>, double>(70, {1}) < 1e-12);
      CHECK(stream_error<logits_of<block_model<block>>, double>(70, {5, 1, 2, 17, 3, 9}, 4) < 1e-12);
    }
    check_streams<block + parts, parts>();
  }
}

}  // namespace test
