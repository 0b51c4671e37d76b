// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/decoder.hpp
/// The decoder-only language model around any block:
///
///     x = E[token] + P[position];   x = block(x), L times;   logits = Norm(x) E^T
///
/// Embedding and head are tied, the final norm is RMSNorm. Positions are sinusoids, without parameters, as in the
/// text of [He & Hofmann 2024, App. D.1], or learned, as in its code: beside embeddings of deviation 0.02 a
/// sinusoid of size one drowns the tokens at first, and small models learn more slowly with it. With ALiBi, which
/// belongs to the attention of the block, there are none.

#include <simplx/blocks/block.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/stack.hpp>

namespace simplx::inline SIMPLX_TARGET {

enum class Positions : signed char { sinusoidal, learned, none };

/// The sizes of a decoder, without its blocks.
struct DecoderSizes {
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;  ///< tokens of the longest sequence
  Positions positions = Positions::sinusoidal;
  bool observed = false;  ///< the input of block i is probed as "blocks.i.input"
};

/// A block whose input, and the gradient that arrives there, stay readable.
template <class Block>
struct ObservedBlock {
  Block block;

  constexpr Expr operator()(Expr x) const requires requires { block(x); } { return block(probe("input", x)); }
  constexpr Expr operator()(int layer, Expr x) const requires requires { block(layer, x); } {
    return block(layer, probe("input", x));
  }
};

/// Logits of a decoder whose block is any module of the user.
///
/// Shapes  inputs "tokens" -> (tokens, vocab)
template <class Block>
constexpr Expr decoder_logits(const DecoderSizes& sizes, const Block& block) {
  auto table = weight("embedding.weight", sizes.vocab, sizes.width);
  auto x = embedding(table, indices("tokens", Axis::tokens));
  if (sizes.positions == Positions::sinusoidal) {
    x = x + positions(fixed("position.table", sizes.context, sizes.width, sinusoid));
  } else if (sizes.positions == Positions::learned) {
    x = x + positions(weight("position.weight", sizes.context, sizes.width));
  }
  x = sizes.observed ? stack("blocks", sizes.layers, ObservedBlock<Block>{block}, x)
                     : stack("blocks", sizes.layers, block, x);
  x = named("final_norm", RmsNorm{})(x);
  return x * transpose(table);
}

/// Loss of each token of a decoder with any block; inputs "tokens" and "labels".
template <class BlockType>
struct DecoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;
  bool observed = false;  ///< as in DecoderSizes

  constexpr Expr logits() const { return decoder_logits({vocab, width, layers, context, positions, observed}, block); }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::tokens)); }
};

/// The same with a block from its token.
struct Decoder {
  BlockConfig block;
  Index vocab = 256, width = 128;
  int heads = 4;
  Index hidden = 0;  ///< width of the MLP; four times `width` unless given
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;  ///< none if the block has ALiBi
  bool observed = false;  ///< as in DecoderSizes

  constexpr Expr logits() const {
    const Positions place = block.alibi ? Positions::none : positions;
    return decoder_logits({vocab, width, layers, context, place, observed}, ConfiguredBlock{block, heads, hidden});
  }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::tokens)); }
};

/// The model that ends with the logits of another; its parameters lie where those of the other lie.
template <auto const& model>
struct LogitsOf {
  constexpr Expr operator()() const { return model.logits(); }
};
template <auto const& model>
inline constexpr LogitsOf<model> logits_of{};

}  // namespace simplx
