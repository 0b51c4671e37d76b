// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_reference.hpp
/// Multi-head attention as dense Eigen equations: the test of attention.hpp, and what other scalars take.
///
///   O = M V,   M = alpha I + beta A - gamma C       (He & Hofmann 2024, Eqs. (5) and (13))
///   A = softmax(Q K^T / sqrt(key_width) + mask + bias),   C = softmax(mask + bias)
///
/// per head. Softmax attention is alpha = 0, beta = 1, gamma = 0 and Eq. (4) is gamma = 0, so one set of equations
/// serves all. The scalar may be any type that behaves like a number and that Eigen knows (NumTraits): sqrt, exp
/// and log are found by its namespace.
/// Nothing allocates: the T x T matrices are maps onto the caller's scratch, and every product is a lazy one.

#include <simplx/cpu/attention_size.hpp>

#include <Eigen/Core>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Elements of scratch for sequences of at most `longest` tokens: three T x T matrices.
constexpr Index attention_reference_scratch(Index longest) { return 3 * longest * longest; }

template <class S>
using DenseMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Rows of one sequence, columns of one head.
template <class S>
using HeadMap = Eigen::Map<S, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class S>
HeadMap<const DenseMatrix<S>> head_of(const S* data, Index first_row, Index rows, int head, int heads, int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

template <class S>
HeadMap<DenseMatrix<S>> head_of(S* data, Index first_row, Index rows, int head, int heads, int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

/// softmax(scores + mask + bias), row by row and in place; calls each(i, log_sum_exp of row i).
template <class S, class Each>
void masked_softmax(const AttentionSize& size, S slope, Eigen::Map<DenseMatrix<S>>& scores, Each each) {
  using std::log;
  for (Index i = 0; i < scores.rows(); ++i) {
    const Index begin = size.first_key(i), end = size.keys_end(i + 1, scores.cols());
    auto seen = scores.row(i).segment(begin, end - begin);
    if (size.alibi) {
      for (Index j = begin; j < end; ++j) scores(i, j) -= slope * S(static_cast<double>(j < i ? i - j : j - i));
    }
    const S largest = seen.maxCoeff();
    seen = (seen.array() - largest).exp().matrix();
    const S sum = seen.sum();
    seen /= sum;
    scores.row(i).head(begin).setZero();
    scores.row(i).tail(scores.cols() - end).setZero();
    each(i, largest + log(sum));
  }
}

/// One sequence and one head of the reference: its operands, and A, C and M in the caller's scratch.
template <class S>
struct DenseHead {
  using Matrix = Eigen::Map<DenseMatrix<S>>;
  AttentionSize size;
  HeadMap<const DenseMatrix<S>> query, key, value;
  S scale, alpha{0.0}, beta{1.0}, gamma{0.0};
  Matrix weights, mixed;  ///< A; C, until mix() makes it M
  DroppedWeights<S> dropped{};

  template <class Each>
  DenseHead(const AttentionSize& s, const AttentionOperands<S>& in, Segments sequences, Index sequence, int h,
            S* scratch, Each each)
      : DenseHead(s, in, sequences.offsets[sequence], sequences.offsets[sequence + 1] - sequences.offsets[sequence], h,
                  scratch, each) {
    if (s.drops) dropped = {in.draw, sequence, h};
  }

  /// M = alpha I + beta A * R - gamma C, in the place of C.
  void mix() {
    mixed *= -gamma;
    for (Index i = 0; i < mixed.rows(); ++i) {
      for (Index j = 0; j < mixed.cols(); ++j) mixed(i, j) += beta * kept(i, j, weights(i, j));
    }
    mixed.diagonal().array() += alpha;
  }

  /// x R_ij.
  S kept(Index i, Index j, const S& x) const {
    if (!size.drops) return x;
    return dropped.drops(dropped.row(i), j) ? S(0.0) : S(x * dropped.kept);
  }

 private:
  template <class Each>
  DenseHead(const AttentionSize& s, const AttentionOperands<S>& in, Index first, Index rows, int h, S* scratch,
            Each each)
      : size(s),
        query(head_of(in.query, first, rows, h, s.heads, s.key_width)),
        key(head_of(in.key, first, rows, h, s.heads, s.key_width)),
        value(head_of(in.value, first, rows, h, s.heads, s.value_width)),
        scale(inverse_root(s.key_width)),
        weights(scratch, rows, rows),
        mixed(scratch + rows * rows, rows, rows) {
    if (s.matrix != AttentionMatrix::softmax) alpha = in.alpha[h], beta = in.beta[h];
    if (s.matrix == AttentionMatrix::shaped) gamma = in.gamma[h];
    const S slope = s.alibi ? in.slopes[h] : S(0.0);
    weights.noalias() = query.lazyProduct(key.transpose());
    weights *= scale;
    masked_softmax(size, slope, weights, each);
    mixed.setZero();
    if (s.matrix == AttentionMatrix::shaped) masked_softmax(size, slope, mixed, [](Index, const S&) {});
  }

  static S inverse_root(int width) {
    using std::sqrt;
    return S(1.0) / sqrt(S(static_cast<double>(width)));
  }
};

/// target = value or target += value, as the mode says.
template <class Target, class Value>
void write_reference(Write mode, Target target, const Value& value) {
  if (mode == Write::store) target.noalias() = value;
  if (mode == Write::accumulate) target.noalias() += value;
}

/// The forward pass; fills `out` and `log_sum_exp`.
/// Shapes  out as value; log_sum_exp (rows, heads).
/// Cost    T^2 (key_width + value_width) multiply-adds per head; no heap;
///   `scratch` holds attention_reference_scratch(longest sequence) elements.
/// Source: He & Hofmann 2024, Eqs. (2), (4), (5) and (13).
template <class S>
void attention_reference_forward(const AttentionSize& size, Segments sequences, const AttentionOperands<S>& in, S* out,
                                 S* log_sum_exp, S* scratch) {
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      DenseHead<S> head(size, in, sequences, s, h, scratch,
                        [&](Index i, const S& sum) { log_sum_exp[(first + i) * size.heads + h] = sum; });
      head.mix();
      head_of(out, first, rows, h, size.heads, size.value_width).noalias() = head.mixed.lazyProduct(head.value);
    }
}

/// The backward pass: with dM = dO V^T, and R of one where nothing is dropped,
///   dV = M^T dO;  dalpha = sum(I * dM), dbeta = sum(A * R * dM), dgamma = -sum(C * dM)
///   dS = A * (beta R * dM - rowsum(beta R * dM * A));  dQ = dS K / sqrt(key_width), dK = dS^T Q / sqrt(key_width)
/// Shapes  dout as value.
/// Cost    about 2.5 times the forward; no heap; the same scratch. A is computed anew.
template <class S>
void attention_reference_backward(const AttentionSize& size, Write dq_mode, Write dk_mode, Write dv_mode,
                                  Segments sequences, const AttentionOperands<S>& in, const S* dout,
                                  const AttentionGradients<S>& to, S* scratch) {
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      DenseHead<S> head(size, in, sequences, s, h, scratch, [](Index, const S&) {});
      const auto d_output = head_of(dout, first, rows, h, size.heads, size.value_width);
      Eigen::Map<DenseMatrix<S>> d_mixed(scratch + 2 * rows * rows, rows, rows);
      d_mixed.noalias() = d_output.lazyProduct(head.value.transpose());
      if (to.alpha) to.alpha[h] += d_mixed.diagonal().sum();
      if (to.gamma) to.gamma[h] -= head.mixed.cwiseProduct(d_mixed).sum();
      for (Index i = 0; i < rows && size.drops; ++i) {
        for (Index j = 0; j < rows; ++j) d_mixed(i, j) = head.kept(i, j, d_mixed(i, j));
      }
      if (to.beta) to.beta[h] += head.weights.cwiseProduct(d_mixed).sum();

      head.mix();
      if (dv_mode != Write::skip)
        write_reference(dv_mode, head_of(to.value, first, rows, h, size.heads, size.value_width),
                        head.mixed.transpose().lazyProduct(d_output));
      auto& d_scores = d_mixed;
      for (Index i = 0; i < rows; ++i) {
        const S correction = head.weights.row(i).cwiseProduct(d_mixed.row(i)).sum();
        d_scores.row(i) =
            (head.weights.row(i).array() * (d_mixed.row(i).array() - correction) * (head.beta * head.scale)).matrix();
      }
      if (dq_mode != Write::skip)
        write_reference(dq_mode, head_of(to.query, first, rows, h, size.heads, size.key_width),
                        d_scores.lazyProduct(head.key));
      if (dk_mode != Write::skip)
        write_reference(dk_mode, head_of(to.key, first, rows, h, size.heads, size.key_width),
                        d_scores.transpose().lazyProduct(head.query));
    }
}

}  // namespace simplx::cpu
