// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention.hpp
/// Multi-head attention: every head of every sequence by attention_head.hpp, which has the equations. Heads whose
/// widths are whole vectors are read and written where they lie, others by way of rows that end in zeros.

#include <simplx/cpu/attention_head.hpp>

#include <algorithm>
#include <utility>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A head whose widths are no whole vectors, as one whose rows end in zeros, which add nothing to a product or a sum:
/// operands are copied into such rows, results out of them.
template <AttentionSize size, class S>
struct PaddedHead {
  static constexpr int key_width = static_cast<int>(round_up(size.key_width, lanes<S>));
  static constexpr int value_width = static_cast<int>(round_up(size.value_width, lanes<S>));
  static constexpr Index key_stride = size.heads * size.key_width, value_stride = size.heads * size.value_width;
  static constexpr AttentionSize padded{1,         key_width,  value_width, size.matrix,
                                        size.mask, size.alibi, size.drops,  size.window};
  using Head = AttentionHead<padded, S, size.key_width, size.value_width>;

  AttentionOperands<S> in;
  Index first, rows;
  int h;
  DroppedWeights<S> dropped;
  S *query, *key, *dq, *dk;       ///< (rows, key_width)
  S *value, *out_or_dout, *dv;    ///< (rows, value_width)
  S* log_sum_exp;                 ///< (rows)
  S* scratch;                     ///< of the head

  /// Elements of all of them but the scratch.
  static constexpr Index elements(Index rows) { return rows * (4 * key_width + 3 * value_width + 1); }

  PaddedHead(const AttentionOperands<S>& operands, Index first_row, Index count, int number,
             const DroppedWeights<S>& weights, S* room)
      : in(operands), first(first_row), rows(count), h(number), dropped(weights) {
    for (S** matrix : {&query, &key, &dq, &dk}) *matrix = std::exchange(room, room + rows * key_width);
    for (S** matrix : {&value, &out_or_dout, &dv}) *matrix = std::exchange(room, room + rows * value_width);
    log_sum_exp = std::exchange(room, room + rows);
    scratch = room;
    widen<size.key_width, key_width>(in.query + key_at(), query);
    widen<size.key_width, key_width>(in.key + key_at(), key);
    widen<size.value_width, value_width>(in.value + value_at(), value);
    in.query = query, in.key = key, in.value = value;
    for (const S** numbers : {&in.alpha, &in.beta, &in.gamma, &in.slopes}) *numbers = of_head(*numbers);
  }
  Index key_at() const { return first * key_stride + h * size.key_width; }
  Index value_at() const { return first * value_stride + h * size.value_width; }
  template <class T>
  T* of_head(T* numbers) const {
    return numbers ? numbers + h : nullptr;
  }

  template <int width, int padded>
  void widen(const S* from, S* to) const {
    for (Index i = 0; i < rows; ++i, from += size.heads * width, to += padded) {
      std::copy_n(from, width, to);
      std::fill_n(to + width, padded - width, S(0));
    }
  }
  template <int width, int padded, Write mode>
  void narrow(const S* from, S* to, Index at) const {
    if constexpr (mode != Write::skip) {
      to += at;
      for (Index i = 0; i < rows; ++i, from += padded, to += size.heads * width) {
        for (int c = 0; c < width; ++c) to[c] = mode == Write::store ? from[c] : to[c] + from[c];
      }
    }
  }

  void forward(S* result, S* log_sums) const {
    Head(in, 0, rows, 0, dropped).forward(out_or_dout, log_sum_exp, scratch);
    narrow<size.value_width, value_width, Write::store>(out_or_dout, result, value_at());
    for (Index i = 0; i < rows; ++i) log_sums[(first + i) * size.heads + h] = log_sum_exp[i];
  }
  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void backward(const S* log_sums, const S* dout, const AttentionGradients<S>& to) const {
    constexpr auto stored = [](Write mode) { return mode == Write::skip ? mode : Write::store; };
    widen<size.value_width, value_width>(dout + value_at(), out_or_dout);
    for (Index i = 0; i < rows; ++i) log_sum_exp[i] = log_sums[(first + i) * size.heads + h];
    Head(in, 0, rows, 0, dropped).template backward<stored(dq_mode), stored(dk_mode), stored(dv_mode)>(
        log_sum_exp, out_or_dout, {dq, dk, dv, of_head(to.alpha), of_head(to.beta), of_head(to.gamma)}, scratch);
    narrow<size.key_width, key_width, dq_mode>(dq, to.query, key_at());
    narrow<size.key_width, key_width, dk_mode>(dk, to.key, key_at());
    narrow<size.value_width, value_width, dv_mode>(dv, to.value, value_at());
  }
};

template <AttentionSize size, class S>
inline constexpr bool pads_heads = size.key_width % lanes<S> != 0 || size.value_width % lanes<S> != 0;

/// Calls each(first row, rows, head, dropped weights) for the heads of each sequence.
template <AttentionSize size, class S, class Each>
void for_each_head(Segments sequences, const AttentionDraw& draw, Each each) {
  for (Index s = 0; s < sequences.count; ++s) {
    const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
    for (int h = 0; h < size.heads; ++h) {
      each(first, rows, h, size.drops ? DroppedWeights<S>(draw, s, h) : DroppedWeights<S>());
    }
  }
}

/// Scratch elements for sequences of at most `longest` tokens; serves forward and backward.
template <AttentionSize size, class S>
constexpr Index attention_scratch(Index longest) {
  using Padded = PaddedHead<size, S>;
  const Index rows = round_up(longest, query_group), block = std::min<Index>(rows, query_block);
  // Keys and values of one head, its queries and gradients of a block, and of a group, transposed; weights and scores.
  return (Padded::key_width + Padded::value_width) * (rows + block + query_group) +
         2 * block_stride * rows + (pads_heads<size, S> ? Padded::elements(rows) : 0);
}

/// Forward pass of multi-head attention; fills `out` and `log_sum_exp`.
/// Shapes  out as value; log_sum_exp (rows, heads), kept for the backward.
/// Cost    T^2 (key_width + value_width) multiply-adds and T^2 exponentials per head, causal (T + 15) / 2 for each T,
///   with a window w at most w + 15 for it, 2 w + 14 if full; widths being those of whole vectors; no heap; `scratch`
///   holds attention_scratch<size, S>(longest) elements.
/// Source: He & Hofmann 2024, Eqs. (2), (4), (5) and (13).
template <AttentionSize size, class S>
void attention_forward(Segments sequences, const AttentionOperands<S>& in, S* out, S* log_sum_exp, S* scratch) {
  for_each_head<size, S>(sequences, in.draw, [&](Index first, Index rows, int h, const DroppedWeights<S>& dropped) {
    if constexpr (pads_heads<size, S>) {
      PaddedHead<size, S>(in, first, rows, h, dropped, scratch).forward(out, log_sum_exp);
    } else {
      using Head = AttentionHead<size, S>;
      Head(in, first, rows, h, dropped)
          .forward(out + Head::value_at(first, h), log_sum_exp + first * size.heads + h, scratch);
    }
  });
}

/// Backward pass: recomputes the weights from `log_sum_exp`, a block of queries at a time. With dA = R * dO V^T
/// and correction = rowsum(A * dA):
///   dbeta = sum(correction);  dalpha = sum(dO * V);  dgamma = -sum(V * C^T dO)
///   dS = beta A * (dA - correction) / sqrt(key_width);  dQ = dS K;  dK = dS^T Q
///   dV = alpha dO + beta (A * R)^T dO - gamma C^T dO
/// Shapes  log_sum_exp and dout as the forward's log_sum_exp and out.
/// Cost    2.5 times the products of the forward, with a window more, as dK and dV take the keys that 64 queries see
///         between them; no heap; the same scratch.
template <AttentionSize size, Write dq_mode, Write dk_mode, Write dv_mode, class S>
void attention_backward(Segments sequences, const AttentionOperands<S>& in, const S* log_sum_exp, const S* dout,
                        const AttentionGradients<S>& to, S* scratch) {
  for_each_head<size, S>(sequences, in.draw, [&](Index first, Index rows, int h, const DroppedWeights<S>& dropped) {
    if constexpr (pads_heads<size, S>) {
      PaddedHead<size, S>(in, first, rows, h, dropped, scratch)
          .template backward<dq_mode, dk_mode, dv_mode>(log_sum_exp, dout, to);
    } else {
      using Head = AttentionHead<size, S>;
      const auto at = [](S* begin, Index offset) { return begin ? begin + offset : nullptr; };
      const Index key = Head::key_at(first, h), value = Head::value_at(first, h);
      Head(in, first, rows, h, dropped).template backward<dq_mode, dk_mode, dv_mode>(
          log_sum_exp + first * size.heads + h, dout + value,
          {at(to.query, key), at(to.key, key), at(to.value, value), at(to.alpha, h), at(to.beta, h), at(to.gamma, h)},
          scratch);
    }
  });
}

}  // namespace simplx::cpu
