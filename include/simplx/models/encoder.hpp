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

namespace detail {
/// A norm of that epsilon, if it has one.
template <class NormType>
constexpr NormType norm_with_epsilon(double epsilon) {
  if constexpr (requires { NormType{epsilon}; }) {
    return NormType{epsilon};
  } else {
    return {};
  }
}
}  // namespace detail

/// Loss of each labelled token of an encoder with any block, whose attention must have Mask::full; inputs "tokens" and
/// "labels".
template <class BlockType, class EmbeddingNorm = LayerNorm, class FinalNorm = LayerNorm>
struct EncoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::scaled_sinusoidal;
  bool observed = false;    ///< as in ModelSizes
  Index position_rows = 0;  ///< as in ModelSizes
  EmbeddingNorm embedding_norm = detail::norm_with_epsilon<EmbeddingNorm>(1e-12);  ///< of E[token] + s P[position]
  FinalNorm final_norm = detail::norm_with_epsilon<FinalNorm>(1e-12);
  double dropout = 0;       ///< in training: of the embedding; blocks have their own
  int recomputed = 0;       ///< as in ModelSizes
  bool tiled_loss = false;  ///< as in DecoderOf; a CPU then computes no logits of rows without a label

  /// The model with a head of your own: head(x, E) of what leaves the last norm.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const ModelSizes sizes{.vocab = vocab, .width = width, .layers = layers, .context = context,
                           .positions = positions, .observed = observed, .position_rows = position_rows,
                           .dropout = dropout, .recomputed = recomputed};
    return tied_model(sizes, embedding_norm, block, final_norm, head);
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
  double attention_dropout = 0;  ///< in training: of attention's weights; "attention.dropout.rate" of each block
  int recomputed = 0;          ///< as in ModelSizes
  bool tiled_loss = false;     ///< as in EncoderOf
  int window = 0;              ///< query i sees key j if |i - j| < window; 0: however far

  constexpr EncoderOf<ConfiguredBlock, detail::ConfiguredNorm, detail::ConfiguredNorm> equation() const {
    const detail::ConfiguredNorm norm{Norm::layer_norm, block.norm_epsilon};
    return {.block = {block, heads, hidden, Mask::full, dropout, attention_dropout, window}, .vocab = vocab,
            .width = width, .layers = layers, .context = context,
            .positions = block.alibi ? Positions::none : positions, .observed = observed,
            .position_rows = position_rows, .embedding_norm = norm.where(embedding_norm),
            .final_norm = norm.where(block.norm_position == NormPosition::before), .dropout = dropout,
            .recomputed = recomputed, .tiled_loss = tiled_loss};
  }
  /// As in EncoderOf.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    return equation().ending_with(head);
  }
  constexpr Expr logits() const {
    return masked_head ? ending_with(MaskedTokenHead{block.norm_epsilon}) : ending_with(TiedHead{});
  }
  constexpr Expr operator()() const {
    if (!masked_head) return equation()();
    if (tiled_loss) return ending_with(TiledMaskedTokenLoss{{block.norm_epsilon}});
    return cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

}  // namespace simplx
