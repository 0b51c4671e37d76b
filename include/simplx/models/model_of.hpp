// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/model_of.hpp
/// The model that a named block belongs into, for programs that go through all of them.

#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Decoder or Encoder: ModelOf<number>{.block = all_blocks[number].config, .width = 64}.
template <int number>
using ModelOf = std::conditional_t<all_blocks[number].encoder, Encoder, Decoder>;

/// f(model) with a Decoder or an Encoder of the block, of default sizes.
template <class F>
constexpr auto with_model_of(const NamedBlock& block, F f) {
  return block.encoder ? f(Encoder{.block = block.config}) : f(Decoder{.block = block.config});
}

}  // namespace simplx
