// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/crammed_bert.hpp
/// Blocks for the encoders of "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.2), which take up
/// the crammed BERT (Geiping & Goldstein 2023): the decoders' blocks, with LayerNorm and a gated MLP in the place of
/// RMSNorm and ReLU. No matrix has a bias, as in the decoders.
///
/// Two settings are the caller's: `.mask = Mask::full` for the attention, which is causal otherwise, and, in
/// BertVSkipInit, BertSas, BertSasP and BertSasPNoNorm, `.mlp_gain = 0.05`, at which beta_FF starts in the encoders
/// (App. D.2).

#include <simplx/blocks/parallel.hpp>
#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas.hpp>
#include <simplx/blocks/sas_p.hpp>
#include <simplx/blocks/v_skip_init.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// LayerNorm with the epsilon of BERT.
struct BertNorm {
  double epsilon = 1e-12;

  constexpr Expr operator()(Expr x) const { return LayerNorm{epsilon}(x); }
};

///     MLP(x) = (v o gelu(g)) W2,   [v g] = x W1;   W1 (d, F), W2 (F / 2, d)
using BertMlp = MlpOf<Gated<Gelu>>;

///     X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))
using BertPreLn = PreLnOf<MultiHeadAttention, BertNorm, BertMlp>;

///     X_out = X + MHA(N) + MLP(N),   N = Norm(X)
using BertParallel = ParallelOf<MultiHeadAttention, BertNorm, BertMlp>;

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X)), V and P orthogonal
using BertVSkipInit = VSkipInitOf<AttentionMatrix::shaped, BertNorm, BertMlp>;

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))
using BertSas = SasOf<ShapedAttention, BertNorm, BertNorm, BertMlp>;

///     X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)
using BertSasP = SasPOf<ShapedAttention, BertNorm, BertMlp>;

/// Without norms, except for one of the first block's input.
using BertSasPNoNorm = SasPOf<ShapedAttention, FirstLayer<BertNorm>, BertMlp>;

}  // namespace simplx
