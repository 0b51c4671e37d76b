// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_reference.hpp
/// Causal multi-head attention as dense Eigen equations: the test and the fallback of attention.hpp.
///
///   A = softmax(Q K^T / sqrt(key_width) + causal mask)      (He & Hofmann 2024, Eq. (1))
///   O = M V,   M = A                          softmax
///              M = alpha I + beta A - gamma C  shaped        (He & Hofmann 2024, Eqs. (5) and (13))
///
/// per head, where C is A at Q = 0: row i (counted from 1) holds 1/i in its first i columns.
/// Softmax is shaped attention with alpha = 0, beta = 1, gamma = 0, so one set of equations serves both.
/// Nothing allocates: the T x T matrices are maps onto the caller's scratch, and every product is a lazy one.

#include <simplx/cpu/attention.hpp>

#include <Eigen/Core>

#include <cmath>

namespace simplx {

/// Heads and widths of one attention, known at run time; any width of at least 1.
struct AttentionSize {
  int heads = 1;
  int key_width = 1;
  int value_width = 1;
  Mixing mixing = Mixing::softmax;
};

/// Elements of scratch for sequences of at most `longest` tokens: three T x T matrices.
constexpr Index attention_reference_scratch(Index longest) { return 3 * longest * longest; }

namespace detail {

template <class S>
using DenseMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Rows of one sequence, columns of one head.
template <class S>
using HeadMap = Eigen::Map<S, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class S>
HeadMap<const DenseMatrix<S>> head_of(const S* data, Index first_row, Index rows, int head, int heads,
                                      int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

template <class S>
HeadMap<DenseMatrix<S>> head_of(S* data, Index first_row, Index rows, int head, int heads, int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

/// A = softmax(Q K^T / sqrt(key_width) + causal mask), zero above the diagonal; each(i, log_sum_exp of i).
template <class Weights, class Q, class K, class Each>
void causal_softmax(Weights& weights, const Q& q, const K& k, Each each) {
  using S = typename Weights::Scalar;
  weights.noalias() = q.lazyProduct(k.transpose());
  weights *= 1 / std::sqrt(S(q.cols()));
  for (Index i = 0; i < weights.rows(); ++i) {
    auto seen = weights.row(i).head(i + 1);
    const S largest = seen.maxCoeff();
    seen = (seen.array() - largest).exp().matrix();
    const S sum = seen.sum();
    seen /= sum;
    weights.row(i).tail(weights.cols() - i - 1).setZero();
    each(i, largest + std::log(sum));
  }
}

/// M = alpha I + beta A - gamma C.
template <class Mixed, class Weights, class S>
void mix_identity(Mixed& mixed, const Weights& weights, S alpha, S beta, S gamma) {
  mixed = beta * weights;
  for (Index i = 0; i < mixed.rows(); ++i) {
    mixed.row(i).head(i + 1).array() -= gamma / S(i + 1);
    mixed(i, i) += alpha;
  }
}

/// target = value or target += value, as the mode says.
template <class Target, class Value>
void write_reference(Write mode, Target target, const Value& value) {
  if (mode == Write::store) target.noalias() = value;
  if (mode == Write::accumulate) target.noalias() += value;
}

}  // namespace detail

/// The forward pass; fills `out` and `log_sum_exp`.
/// Shapes: q, k (rows, heads * key_width); v, out (rows, heads * value_width); log_sum_exp (rows, heads);
///   alpha, beta, gamma (heads), read only when mixing is shaped.
/// Cost: T^2 (key_width + value_width) multiply-adds per head; no heap;
///   `scratch` holds attention_reference_scratch(longest sequence) elements.
/// Source: He & Hofmann 2024, Eqs. (1), (5) and (13).
template <class S>
void attention_reference_forward(const AttentionSize& size, Segments sequences, const S* q, const S* k,
                                 const S* v, const S* alpha, const S* beta, const S* gamma, S* out,
                                 S* log_sum_exp, S* scratch) {
  const bool shaped = size.mixing == Mixing::shaped;
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      const auto query = detail::head_of(q, first, rows, h, size.heads, size.key_width);
      const auto key = detail::head_of(k, first, rows, h, size.heads, size.key_width);
      const auto value = detail::head_of(v, first, rows, h, size.heads, size.value_width);
      Eigen::Map<detail::DenseMatrix<S>> weights(scratch, rows, rows);
      Eigen::Map<detail::DenseMatrix<S>> mixed(scratch + rows * rows, rows, rows);

      detail::causal_softmax(weights, query, key,
                             [&](Index i, S sum) { log_sum_exp[(first + i) * size.heads + h] = sum; });
      detail::mix_identity(mixed, weights, shaped ? alpha[h] : S(0), shaped ? beta[h] : S(1),
                           shaped ? gamma[h] : S(0));
      detail::head_of(out, first, rows, h, size.heads, size.value_width).noalias() = mixed.lazyProduct(value);
    }
}

/// The backward pass: with dM = dO V^T,
///   dV = M^T dO;  dalpha = sum(I * dM), dbeta = sum(A * dM), dgamma = -sum(C * dM)
///   dS = A * (beta dM - rowsum(beta dM * A));  dQ = dS K / sqrt(key_width), dK = dS^T Q / sqrt(key_width)
/// Shapes: as the forward; dq, dk, dv as q, k, v, each skipped, stored or accumulated as its mode says. They
///   may be one buffer if all modes accumulate. dalpha, dbeta, dgamma (heads) accumulate; nullptr is skipped.
/// Cost: about 2.5 times the forward; no heap; the same scratch. A is computed anew, without `log_sum_exp`.
template <class S>
void attention_reference_backward(const AttentionSize& size, Write dq_mode, Write dk_mode, Write dv_mode,
                                  Segments sequences, const S* q, const S* k, const S* v, const S* alpha,
                                  const S* beta, const S* gamma, const S* /*log_sum_exp*/, const S* dout,
                                  S* dq, S* dk, S* dv, S* dalpha, S* dbeta, S* dgamma, S* scratch) {
  const bool shaped = size.mixing == Mixing::shaped;
  const S scale = 1 / std::sqrt(S(size.key_width));
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      const auto query = detail::head_of(q, first, rows, h, size.heads, size.key_width);
      const auto key = detail::head_of(k, first, rows, h, size.heads, size.key_width);
      const auto value = detail::head_of(v, first, rows, h, size.heads, size.value_width);
      const auto d_output = detail::head_of(dout, first, rows, h, size.heads, size.value_width);
      const S beta_h = shaped ? beta[h] : S(1);
      Eigen::Map<detail::DenseMatrix<S>> weights(scratch, rows, rows);
      Eigen::Map<detail::DenseMatrix<S>> mixed(scratch + rows * rows, rows, rows);
      Eigen::Map<detail::DenseMatrix<S>> d_mixed(scratch + 2 * rows * rows, rows, rows);

      detail::causal_softmax(weights, query, key, [](Index, S) {});
      detail::mix_identity(mixed, weights, shaped ? alpha[h] : S(0), beta_h, shaped ? gamma[h] : S(0));
      d_mixed.noalias() = d_output.lazyProduct(value.transpose());
      if (dv_mode != Write::skip)
        detail::write_reference(dv_mode, detail::head_of(dv, first, rows, h, size.heads, size.value_width),
                                mixed.transpose().lazyProduct(d_output));

      S alpha_sum = 0, beta_sum = 0, gamma_sum = 0;
      auto& d_scores = mixed;  // M is spent
      for (Index i = 0; i < rows; ++i) {
        const S correction = weights.row(i).dot(d_mixed.row(i));
        alpha_sum += d_mixed(i, i);
        beta_sum += correction;
        gamma_sum -= d_mixed.row(i).head(i + 1).sum() / S(i + 1);
        d_scores.row(i) =
            (beta_h * scale * weights.row(i).array() * (d_mixed.row(i).array() - correction)).matrix();
      }
      if (shaped && dalpha) dalpha[h] += alpha_sum;
      if (shaped && dbeta) dbeta[h] += beta_sum;
      if (shaped && dgamma) dgamma[h] += gamma_sum;
      if (dq_mode != Write::skip)
        detail::write_reference(dq_mode, detail::head_of(dq, first, rows, h, size.heads, size.key_width),
                                d_scores.lazyProduct(key));
      if (dk_mode != Write::skip)
        detail::write_reference(dk_mode, detail::head_of(dk, first, rows, h, size.heads, size.key_width),
                                d_scores.transpose().lazyProduct(query));
    }
}

}  // namespace simplx
