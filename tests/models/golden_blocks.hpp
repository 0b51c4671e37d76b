// SPDX-License-Identifier: MIT
#pragma once

/// Every token of the blocks against its golden file, in parts so that they compile side by side.

#include "golden.hpp"

#include <simplx/models/model_of.hpp>

namespace test {

template <int block>
inline constexpr ModelOf<block> small_model{
    .block = all_blocks[block].config, .vocab = 19, .width = 16, .heads = 2, .hidden = 24, .layers = 2, .context = 8};

/// Blocks number `block`, block + parts, block + 2 parts, ...
template <int block, int parts>
void blocks_agree() {
  if constexpr (block < std::size(all_blocks)) {
    std::string name(all_blocks[block].name);
    name += "_small";  // g++ 12 -O2 is mistaken about the size of a sum of both
    agrees_with<small_model<block>, Cpu<double>>(name);
    blocks_agree<block + parts, parts>();
  }
}

}  // namespace test
