// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/encoder.hpp
/// The encoder of a masked language model around any block, as the crammed BERT (Geiping & Goldstein 2023) of [He &
/// Hofmann 2024, Sec. 5 and App. D.2] has it:
///
///     x = Norm(E[token] + s P[position]);   x = block(x), L times;   logits = Norm(x) E^T
///
/// Every token sees its whole sequence. Both norms are LayerNorm (the last is absent after blocks that end with a norm
/// themselves), P are sinusoids and s is one trained number. What is to be predicted is given as labels of the masked
/// tokens, -100 elsewhere.

#include <simplx/blocks/block.hpp>
#include <simplx/models/tied_model.hpp>
#include <simplx/ops/cross_entropy.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Loss of each labelled token of an encoder with any block, whose attention must have Mask::full; inputs "tokens" and
/// "labels".
template <class BlockType>
struct EncoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::scaled_sinusoidal;
  bool observed = false;  ///< as in ModelSizes
  double norm_epsilon = 1e-12;
  int recomputed = 0;  ///< as in ModelSizes
  bool tiled_loss = false;  ///< as in DecoderOf; a CPU then computes no logits of rows without a label

  /// The model with a head of your own: head(x, E) of what leaves the last norm.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const LayerNorm norm{norm_epsilon};
    return tied_logits({.vocab = vocab, .width = width, .layers = layers, .context = context, .positions = positions,
                        .observed = observed, .recomputed = recomputed},
                       norm, block, norm, head);
  }
  constexpr Expr logits() const { return ending_with(TiedHead{}); }
  constexpr Expr operator()() const {
    return tiled_loss ? ending_with(TiledLoss{}) : cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

/// The same with a block from its token, whose epsilon is that of all norms.
struct Encoder {
  BlockConfig block;
  Index vocab = 256, width = 128;
  int heads = 4;
  Index hidden = 0;  ///< width of the MLP, value and gate together; four times `width` unless given
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::scaled_sinusoidal;  ///< none if the block has ALiBi
  bool observed = false;       ///< as in ModelSizes
  Index position_rows = 0;     ///< as in ModelSizes
  bool embedding_norm = true;  ///< of E[token] + s P[position]
  bool masked_head = false;    ///< logits by MaskedTokenHead, not by x E^T alone
  double dropout = 0;          ///< in training: of the embedding, and of each branch before it is added to its skip
  int recomputed = 0;          ///< as in ModelSizes
  bool tiled_loss = false;     ///< as in EncoderOf

  /// As in EncoderOf.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const Positions place = block.alibi ? Positions::none : positions;
    const detail::ConfiguredNorm norm{Norm::layer_norm, block.norm_epsilon};
    return tied_logits({vocab, width, layers, context, place, observed, position_rows, false, dropout,
                        recomputed},
                       norm.where(embedding_norm), ConfiguredBlock{block, heads, hidden, Mask::full, dropout},
                       norm.where(block.norm_position == NormPosition::before), head);
  }
  constexpr Expr logits() const {
    return masked_head ? ending_with(MaskedTokenHead{block.norm_epsilon}) : ending_with(TiedHead{});
  }
  constexpr Expr operator()() const {
    if (!tiled_loss) return cross_entropy(logits(), indices("labels", Axis::tokens));
    return masked_head ? ending_with(TiledMaskedTokenLoss{{block.norm_epsilon}}) : ending_with(TiledLoss{});
  }
};

}  // namespace simplx
