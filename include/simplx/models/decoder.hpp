// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/decoder.hpp
/// The decoder-only language model around any block:
///
///     x = E[token] + P[position];   x = block(x), L times;   logits = Norm(x) E^T
///
/// The final norm is of the blocks' kind: RMSNorm in the first paper, LayerNorm in the second, none after blocks that
/// end with a norm themselves. Positions are sinusoids, without parameters, as in the text of [He & Hofmann 2024, App.
/// D.1], or learned, as in its code: beside embeddings of deviation 0.02 a sinusoid of size one drowns the tokens at
/// first, and small models learn more slowly with it. With ALiBi, which belongs to the attention of the block, there
/// are none.

#include <simplx/blocks/block.hpp>
#include <simplx/models/tied_model.hpp>
#include <simplx/ops/cross_entropy.hpp>

#include <optional>

namespace simplx::inline SIMPLX_TARGET {

/// Loss of each token of a decoder with any block; inputs "tokens" and "labels".
template <class BlockType, class FinalNorm = RmsNorm>
struct DecoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;
  bool observed = false;          ///< as in ModelSizes
  Index position_rows = 0;        ///< as in ModelSizes
  bool scaled_embedding = false;  ///< as in ModelSizes
  FinalNorm final_norm{};
  double dropout = 0;       ///< in training: of the embedding; blocks have their own
  int recomputed = 0;       ///< as in ModelSizes
  bool tiled_loss = false;  ///< training never holds the logits of all (ops/linear_cross_entropy.hpp)

  /// The model with a head of your own: head(x, E) of what leaves the last norm. In front of its callers: clang 14
  /// evaluates them as soon as it has read them.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const ModelSizes sizes{.vocab = vocab, .width = width, .layers = layers, .context = context,
                           .positions = positions, .observed = observed, .position_rows = position_rows,
                           .scaled_embedding = scaled_embedding, .dropout = dropout, .recomputed = recomputed};
    return tied_model(sizes, Identity{}, block, final_norm, head);
  }
  constexpr Expr logits() const { return ending_with(TiedHead{}); }
  constexpr Expr operator()() const {
    return tiled_loss ? ending_with(TiledLoss{}) : cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

/// The same with a block from its token.
struct Decoder {
  BlockConfig block;
  Index vocab = 256, width = 128;
  int heads = 4;
  Index hidden = 0;  ///< width of the MLP, value and gate together; four times `width` by default
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;  ///< none if the block has ALiBi
  bool observed = false;          ///< as in ModelSizes
  Index position_rows = 0;        ///< as in ModelSizes
  bool scaled_embedding = false;  ///< as in ModelSizes
  std::optional<Norm> final_norm = {};  ///< after the blocks; of their kind unless given
  double dropout = 0;  ///< in training: of the embedding, and of each branch before it is added to its skip
  double attention_dropout = 0;  ///< in training: of attention's weights; "attention.dropout.rate" of each block
  int recomputed = 0;  ///< as in ModelSizes
  bool tiled_loss = false;  ///< as in DecoderOf
  int window = 0;  ///< tokens that one sees, itself the last; 0: all before it

  /// Of the blocks' kind; RMSNorm after blocks without norms, none after norms of theirs.
  constexpr detail::ConfiguredNorm norm_after_blocks() const {
    if (final_norm) return {*final_norm, block.norm_epsilon};
    if (block.norm_position == NormPosition::after) return {Norm::none, 0};
    if (block.norm == Norm::none) return {Norm::rms_norm, RmsNorm{}.epsilon};
    return {block.norm, block.norm_epsilon};
  }
  constexpr DecoderOf<ConfiguredBlock, detail::ConfiguredNorm> equation() const {
    return {.block = {block, heads, hidden, Mask::causal, dropout, attention_dropout, window}, .vocab = vocab,
            .width = width, .layers = layers, .context = context,
            .positions = block.alibi ? Positions::none : positions, .observed = observed,
            .position_rows = position_rows, .scaled_embedding = scaled_embedding,
            .final_norm = norm_after_blocks(), .dropout = dropout, .recomputed = recomputed, .tiled_loss = tiled_loss};
  }
  /// As in DecoderOf.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    return equation().ending_with(head);
  }
  constexpr Expr logits() const { return equation().logits(); }
  constexpr Expr operator()() const { return equation()(); }
};

}  // namespace simplx
