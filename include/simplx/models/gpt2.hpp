// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/gpt2.hpp
/// GPT-2 with the names and shapes of Hugging Face's checkpoints, which load as they are:
///
///     x = E[token] + P[position];   x = block(x), L times;   logits = LayerNorm(x) E^T
///     block:   x = x + Attention(LayerNorm(x));   x = x + MLP(LayerNorm(x))
///
///     Inference<logits_of<presets::gpt2>> net;
///     load_body("gpt2/model.safetensors", net, gpt2_checkpoint);  // io/checkpoint.hpp
///
/// Queries, keys and values are one product, c_attn, all matrices have biases, and the GELU is that by tanh. The header
/// is included by name: simplx/simplx.hpp leaves it out.
///
/// Source  Radford et al. 2019, Sec. 2.3, and openai/gpt-2, src/model.py

#include <simplx/models/tied_model.hpp>
#include <simplx/nn/dropout.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/cross_entropy.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Sizes of GPT-2. Dropout is of the embedding, of each branch, and of attention's weights.
struct Gpt2 {
  Index vocab = 50257, width = 768;
  int heads = 12, layers = 12;
  Index context = 1024;
  double dropout = 0.1;  ///< in training

  constexpr Expr logits() const {
    auto table = weight("wte.weight", vocab, width);
    auto x = embedding(table, indices("tokens", Axis::tokens)) + positions(weight("wpe.weight", context, width));
    x = stack("h", layers, Block{*this}, named("embedding_dropout", Dropout{dropout})(x));
    return named("ln_f", Norm{})(x) * transpose(table);
  }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::tokens)); }

  struct Norm {
    constexpr Expr operator()(Expr x) const {
      const Index d = simplx::width(x);
      return layer_norm(x, vector("weight", d, ones), vector("bias", d, zeros), hyper("epsilon", 1e-5));
    }
  };
  struct Attention {
    const Gpt2& model;
    constexpr Expr operator()(Expr x) const {
      const Index d = model.width;
      auto qkv = named("c_attn", Linear{.out = 3 * d, .bias = true})(x);
      auto query = slice_columns(qkv, 0, d), key = slice_columns(qkv, d, d), value = slice_columns(qkv, 2 * d, d);
      return model.projected(softmax_attention(query, key, value, {.count = model.heads, .dropout = model.dropout}));
    }
  };
  struct Mlp {
    const Gpt2& model;
    constexpr Expr operator()(Expr x) const {
      return model.projected(gelu_tanh(named("c_fc", Linear{.out = 4 * model.width, .bias = true})(x)));
    }
  };
  struct Block {
    const Gpt2& model;
    constexpr Expr operator()(Expr x) const {
      x += named("attn", Attention{model})(named("ln_1", Norm{})(x));
      x += named("mlp", Mlp{model})(named("ln_2", Norm{})(x));
      return x;
    }
  };

 private:
  /// The last matrix of a branch; there are two branches a layer.
  constexpr Expr projected(Expr x) const {
    const Linear last{.out = width, .bias = true, .init = normal(0.02 * detail::inverse_root(2.0 * layers))};
    return named("resid_dropout", Dropout{dropout})(named("c_proj", last)(x));
  }
};

namespace presets {
inline constexpr Gpt2 gpt2{}, gpt2_medium{.width = 1024, .heads = 16, .layers = 24},
    gpt2_large{.width = 1280, .heads = 20, .layers = 36}, gpt2_xl{.width = 1600, .heads = 25, .layers = 48};
}  // namespace presets

}  // namespace simplx
