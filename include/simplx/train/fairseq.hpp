// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/fairseq.hpp
/// Initial values of the decoders of NormFormer as its code, in fairseq, has them, in the place of N(0, 0.02^2) (its
/// masked model begins with that):
///
/// | | law |
/// |---|---|
/// | embedding.weight | N(0, 1 / d), and E[token] is multiplied by sqrt(d) |
/// | query, key, value | uniform up to sqrt(3 / (in + out)): Xavier's with a gain of 1 / sqrt(2) |
/// | their biases | uniform up to 1 / sqrt(in) |
/// | projection | uniform up to sqrt(6 / (in + out)) |
/// | up, down, with their biases | uniform up to 1 / sqrt(in) |
///
/// Everything else begins as the model says. Its sinusoids have other places and frequencies than fairseq's, which the
/// paper does not name.

#include <simplx/train/glob.hpp>
#include <simplx/train/initialise.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The law of a tensor; that of a bias is made of the rows of its matrix.
inline Init fairseq_init(const TensorInfo& tensor, Index rows_of_matrix) {
  const auto is = [&](std::string_view pattern) { return matches_glob(pattern, tensor.name); };
  const auto in = static_cast<double>(tensor.shape.rows), out = static_cast<double>(tensor.shape.cols);
  const Init by_rows = uniform(1 / std::sqrt(static_cast<double>(rows_of_matrix)));
  if (is("embedding.weight")) return normal(1 / std::sqrt(out));
  for (const char* pattern : {"*.attention.query.", "*.attention.key.", "*.attention.value."}) {
    if (is(pattern + std::string("weight"))) return uniform(std::sqrt(3 / (in + out)));
    if (is(pattern + std::string("bias"))) return by_rows;
  }
  if (is("*.attention.projection.weight")) return uniform(std::sqrt(6 / (in + out)));
  if (is("*.mlp.up.*") || is("*.mlp.down.*")) return by_rows;
  return tensor.init;
}

}  // namespace detail

/// The same tensors with those laws: `Trainer<model>({.laws = as_in_fairseq})`.
inline std::vector<TensorInfo> as_in_fairseq(std::vector<TensorInfo> tensors) {
  Index rows = 0;  // of the last matrix: its bias follows it
  for (TensorInfo& tensor : tensors) {
    if (tensor.rank == 2) rows = tensor.shape.rows;
    tensor.init = detail::fairseq_init(tensor, rows);
  }
  return tensors;
}

}  // namespace simplx
