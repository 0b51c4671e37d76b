// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/sas_p.hpp
/// The SAS-P block (Fig. 11 of "Simplifying Transformer Blocks"): the parallel block of Eq. (7) without its skip,
/// with shaped attention, and without value and projection matrices.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx {

///     X_out = beta_SA SA(N) + beta_FF MLP(N),   N = Norm(X)
///
/// The first layer of a stack keeps a value matrix, initialised as the identity (App. B).
struct SasP {
  ShapedAttention attention;
  Mlp mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", RmsNorm{})(x);  // used twice, computed once
    return scalar("attention_gain") * named("attention", attention.at(layer))(n)
         + scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(n);
  }
};

}  // namespace simplx
