// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/tied_model.hpp
/// What all language models of the papers are, around a stack of any block:
///
///     x = Norm(E[token] + P[position]);   x = block(x), L times;   logits = Norm(x) E^T
///
/// Embedding and head are tied; either norm may be absent. Decoder and Encoder say which norms, positions, head and
/// mask.

#include <simplx/core/lookups.hpp>
#include <simplx/core/named.hpp>
#include <simplx/models/head.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/recompute.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// sinusoidal: P is fixed; scaled_sinusoidal: times one trained number, 1 / sqrt(d) at first; learned: P is trained.
enum class Positions : signed char { sinusoidal, learned, none, scaled_sinusoidal };

/// The sizes of a model, without its blocks.
struct ModelSizes {
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;  ///< tokens of the longest sequence
  Positions positions = Positions::sinusoidal;
  bool observed = false;  ///< the input of block i is probed as "blocks.i.input"
  Index position_rows = 0;        ///< of the table of positions, where that is longer than `context`
  bool scaled_embedding = false;  ///< E[token] times sqrt(d): "Attention Is All You Need", Sec. 3.4
  double dropout = 0;             ///< of what the first block is given
  int recomputed = 0;             ///< layers that backward evaluates again (models/within.hpp)
};

/// A block whose input, and the gradient that arrives there, stay readable if `observed`.
template <class Block>
struct ObservedBlock {
  Block block;
  bool observed = true;

  constexpr Expr operator()(Expr x) const requires requires { Expr(block(x)); } { return block(input(x)); }
  constexpr Expr operator()(int layer, Expr x) const requires requires { Expr(block(layer, x)); } {
    return block(layer, input(x));
  }

 private:
  constexpr Expr input(Expr x) const { return observed ? probe("input", x) : x; }
};

namespace detail {

template <class Block>
constexpr ObservedBlock<Block> observed_block(const Block& block, bool observed) {
  return {block, observed};
}
template <class Block>
constexpr Shared<ObservedBlock<Block>> observed_block(const Shared<Block>& shared, bool observed) {
  return {{shared.block, observed}};
}

/// 1 / sqrt(x), in constant evaluation too.
constexpr double inverse_root(double x) {
  double root = x > 1 ? x : 1;
  for (double next = (root + x / root) / 2; next < root; next = (root + x / root) / 2) root = next;  // from above
  return 1 / root;
}

constexpr Expr with_positions(const ModelSizes& sizes, Expr x) {
  const Index rows = sizes.position_rows ? sizes.position_rows : sizes.context;
  const auto sinusoids = [&] { return positions(fixed("position.table", rows, sizes.width, sinusoid)); };
  switch (sizes.positions) {
    case Positions::sinusoidal: return x + sinusoids();
    case Positions::scaled_sinusoidal: {
      const Init initial = constant(inverse_root(static_cast<double>(sizes.width)));
      return x + scalar("position.scale", initial) * sinusoids();
    }
    case Positions::learned: return x + positions(weight("position.weight", rows, sizes.width));
    default: return x;
  }
}

}  // namespace detail

/// A model whose block is any module, between two norms; `head` makes its logits of the last x and the table.
///
/// Shapes  inputs "tokens" -> (tokens, vocab), or what the head makes of them
template <class Block, class EmbeddingNorm, class FinalNorm, class Head = TiedHead>
constexpr Expr tied_model(const ModelSizes& sizes, const EmbeddingNorm& embedding_norm, const Block& block,
                           const FinalNorm& final_norm, const Head& head = {}) {
  auto table = weight("embedding.weight", sizes.vocab, sizes.width);
  auto x = embedding(table, indices("tokens", Axis::tokens));
  if (sizes.scaled_embedding) {
    const auto d = static_cast<double>(sizes.width);
    x = d * detail::inverse_root(d) * x;
  }
  x = detail::with_positions(sizes, x);
  x = named("embedding_norm", embedding_norm)(x);
  x = named("embedding_dropout", Dropout{sizes.dropout})(x);
  const auto layer = detail::observed_block(block, sizes.observed);
  x = sizes.recomputed ? stack("blocks", sizes.layers, recompute_first(sizes.recomputed, layer), x)
                       : stack("blocks", sizes.layers, layer, x);
  return head(named("final_norm", final_norm)(x), table);
}

/// The model that ends with the logits of another; its parameters lie where those of the other lie.
template <auto const& model>
struct LogitsOf {
  static constexpr Index context = usual_context<model>(no_limit);  ///< 0 if the model has none
  static constexpr bool has_logits = requires { model.logits(); };
  static_assert(has_logits,
                "simplx: logits_of takes a model with a member logits(), as Decoder, Encoder and Classifier have it; "
                "of a model of your own give Inference or Stream a function that returns the logits, as it is");
  constexpr Expr operator()() const {
    if constexpr (has_logits) {
      return model.logits();
    } else {
      return embedding(weight("none", 1, 1), indices("tokens", Axis::tokens));  // breaks no rule, for no second error
    }
  }
};
template <auto const& model>
inline constexpr LogitsOf<model> logits_of{};

}  // namespace simplx
