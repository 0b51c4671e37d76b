// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention.hpp
/// Causal multi-head attention on vectors, softmax and shaped, in memory linear in the context.
///
///   softmax   O = A V                                A = softmax(Q K^T / sqrt(key_width) + causal mask)
///   shaped    O = (alpha I + beta A - gamma C) V     (He & Hofmann 2024, Eqs. (5) and (13)), per head
///
/// The weights are kept transposed: one row per key, one lane per query. Maximum, sum and the correction of
/// the softmax then run down the lanes without a horizontal step, key and value rows are never transposed,
/// and what the causal mask forbids is skipped except in the 16 x 16 blocks on the diagonal. C is never
/// formed: C V is a running mean, C^T dO a running sum from the end.

#include <simplx/core/shape.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/math.hpp>
#include <simplx/cpu/simd.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace simplx {

/// How a head mixes its values: by A alone, or by alpha I + beta A - gamma C.
enum class Mixing { softmax, shaped };

namespace detail {

/// Queries that share a row of weights, and queries whose weights the backward pass holds at once.
inline constexpr int query_group = 16;
inline constexpr int query_block = 64;
/// A power of two would send the rows of one group to few cache sets.
inline constexpr int block_stride = query_block + query_group;

/// The lanes of a and b alternately, from lane `begin` on.
template <int begin, class V, int... lane>
__attribute__((always_inline)) inline V interleave(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int count = sizeof...(lane);
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, (begin + lane / 2 + lane % 2 * count)...);
#else
  V result{};
  for (int i = 0; i < count; ++i) result[i] = i % 2 ? b[begin + i / 2] : a[begin + i / 2];
  return result;
#endif
}

/// Transposes lanes<S> vectors: each round interleaves the first half of them with the second.
template <class S>
__attribute__((always_inline)) inline void transpose_vectors(Vec<S>* rows) {
  constexpr int count = lanes<S>;
  constexpr auto sequence = std::make_integer_sequence<int, count>();
#pragma GCC unroll 16
  for (int round = 1; round < count; round *= 2) {
    Vec<S> mixed[count];
#pragma GCC unroll 16
    for (int i = 0; i < count / 2; ++i) {
      mixed[2 * i] = interleave<0>(rows[i], rows[i + count / 2], sequence);
      mixed[2 * i + 1] = interleave<count / 2>(rows[i], rows[i + count / 2], sequence);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) rows[i] = mixed[i];
  }
}

/// target(e, i) = factor * source(i, e), shape (width, query_group); lanes beyond `rows` are zero.
template <int width, class S, class RowStride>
void transpose_group(Index rows, S factor, const S* source, RowStride stride, S* target) {
  using V = Vec<S>;
  constexpr int count = lanes<S>;
  for (int lane = 0; lane < query_group; lane += count) {
    for (int begin = 0; begin < width; begin += count) {
      V block[count];
#pragma GCC unroll 16
      for (int i = 0; i < count; ++i) {
        block[i] = lane + i < rows ? V(load<V>(source + (lane + i) * stride + begin) * factor) : V{};
      }
      transpose_vectors<S>(block);
#pragma GCC unroll 16
      for (int i = 0; i < count; ++i) store(target + (begin + i) * query_group + lane, block[i]);
    }
  }
}

/// 0, 1, 2, ... over the lanes.
template <class S>
Vec<S> lane_numbers() {
  Vec<S> numbers{};
  for (int i = 0; i < lanes<S>; ++i) numbers[i] = S(i);
  return numbers;
}

/// Applies step(key, seen) to the keys of the group of queries that begins at `first`; `seen` maps a vector
/// to itself in the lanes whose query may look at the key and to `hidden` in the others.
template <class S, class Step>
__attribute__((always_inline)) inline void for_each_key(Index first, Index keys, int lane, S hidden,
                                                        Step step) {
  using V = Vec<S>;
  for (Index key = 0; key < first; ++key) step(key, [](V x) { return x; });
  const V query = lane_numbers<S>() + S(lane);
  const V otherwise = splat<V>(hidden);
  for (Index key = first; key < keys; ++key) {
    step(key, [&](V x) { return query >= S(key - first) ? x : otherwise; });
  }
}

/// Scores (keys, query_group) become exp(score - maximum), in place; both statistics are per query.
template <class S>
void exponentiate(Index first, Index keys, S* scores, S* maximum, S* total) {
  using V = Vec<S>;
  for (int lane = 0; lane < query_group; lane += lanes<S>) {
    S* column = scores + lane;
    V largest = splat<V>(std::numeric_limits<S>::lowest());
    for_each_key(first, keys, lane, std::numeric_limits<S>::lowest(), [&](Index key, auto seen) {
      largest = max(largest, seen(load<V>(column + key * query_group)));
    });
    V sum_of_lane{};
    for_each_key(first, keys, lane, S(0), [&](Index key, auto seen) {
      const V weight = seen(exp(V(load<V>(column + key * query_group) - largest)));
      store(column + key * query_group, weight);
      sum_of_lane += weight;
    });
    store(maximum + lane, largest);
    store(total + lane, sum_of_lane);
  }
}

/// Scores become beta * A and dA = dO V^T becomes the gradient of the scores, both (keys, query_group) of row
/// stride block_stride; returns the sum of A * dA, which is the gradient of beta.
template <Mixing mixing, class S>
S softmax_backward(Index first, Index keys, const S* log_sum_exp, S beta, S scale, S* weights, S* gradient) {
  using V = Vec<S>;
  V total{};
  for (int lane = 0; lane < query_group; lane += lanes<S>) {
    S *p = weights + lane, *g = gradient + lane;
    const V log_sum = load<V>(log_sum_exp + lane);
    V correction{};
    for_each_key(first, keys, lane, S(0), [&](Index key, auto seen) {
      const V weight = seen(exp(V(load<V>(p + key * block_stride) - log_sum)));
      store(p + key * block_stride, weight);
      correction += weight * load<V>(g + key * block_stride);
    });
    for (Index key = 0; key < keys; ++key) {
      V weight = load<V>(p + key * block_stride);
      if constexpr (mixing == Mixing::shaped) {
        weight *= beta;
        store(p + key * block_stride, weight);
      }
      store(g + key * block_stride, V(weight * scale * (load<V>(g + key * block_stride) - correction)));
    }
    total += correction;
  }
  return sum(total);
}

/// Adds weights * source over one block of queries, first .. last, to target: weights (last, query_block),
/// source and target (rows, width). Keys before the block are met again, those inside it for the first time.
template <int width, Write mode, class S, class RowStride>
void scatter_block(Index first, Index last, const S* weights, const S* source, RowStride stride, S* target) {
  constexpr Static<block_stride> weight_stride;
  constexpr Static<1> one;
  gemm_strided<width, Write::accumulate>(first, last - first, weights, weight_stride, one,
                                         source + first * stride, stride, target, stride);
  for (Index key = first; key < last; key += query_group) {
    gemm_strided<width, mode>(std::min<Index>(query_group, last - key), last - key,
                              weights + key * block_stride + (key - first), weight_stride, one,
                              source + key * stride, stride, target + key * stride, stride);
  }
}

/// dV += alpha dO - gamma C^T dO, and the gradients of alpha and gamma, in one sweep from the last row.
template <int value_width, Write dv_mode, class S, class RowStride>
void shaped_backward(Index rows, const S* v, const S* dout, RowStride stride, S alpha, S gamma, S* dv,
                     S* dalpha, S* dgamma) {
  using V = Vec<S>;
  constexpr int vectors = value_width / lanes<S>;
  V from_end[vectors]{}, alpha_sum{}, gamma_sum{};
  for (Index row = rows - 1; row >= 0; --row) {
    const S weight = S(1) / S(row + 1);
    for (int n = 0; n < vectors; ++n) {
      const Index at = row * stride + n * lanes<S>;
      const V d = load<V>(dout + at), value = load<V>(v + at);
      from_end[n] += d * weight;
      alpha_sum += d * value;
      gamma_sum -= value * from_end[n];
      if constexpr (dv_mode != Write::skip) {
        store(dv + at, V(load<V>(dv + at) + (alpha * d - gamma * from_end[n])));
      }
    }
  }
  if (dalpha) *dalpha += sum(alpha_sum);
  if (dgamma) *dgamma += sum(gamma_sum);
}

/// One sequence, one head; the pointers are at its first element.
template <int heads, int key_width, int value_width, Mixing mixing, class S>
void attention_head_forward(Index rows, const S* q, const S* k, const S* v, S alpha, S beta, S gamma, S* out,
                            S* log_sum_exp, S* scratch) {
  using V = Vec<S>;
  constexpr Static<heads * key_width> key_stride;
  constexpr Static<heads * value_width> value_stride;
  constexpr Static<query_group> group;
  constexpr Static<1> one;
  constexpr int vectors = value_width / lanes<S>;
  const S scale = 1 / std::sqrt(S(key_width));
  S* query = scratch;                              // (key_width, query_group)
  S* weights = scratch + key_width * query_group;  // (keys, query_group)
  V prefix[vectors]{};

  for (Index first = 0; first < rows; first += query_group) {
    const Index queries = std::min<Index>(query_group, rows - first), keys = first + queries;
    S maximum[query_group], total[query_group];
    transpose_group<key_width>(queries, scale, q + first * key_stride, key_stride, query);
    gemm_strided<query_group, Write::store>(keys, key_width, k, key_stride, one, query, group, weights,
                                            group);
    exponentiate(first, keys, weights, maximum, total);
    gemm_strided<value_width, Write::store>(queries, keys, weights, one, group, v, value_stride,
                                            out + first * value_stride, value_stride);
    for (Index i = 0; i < queries; ++i) {
      const Index row = first + i;
      log_sum_exp[row * heads] = maximum[i] + std::log(total[i]);
      const S normalise = beta / total[i], mean = gamma / S(row + 1);
      for (int n = 0; n < vectors; ++n) {
        const Index at = row * value_stride + n * lanes<S>;
        V result = load<V>(out + at) * normalise;
        if constexpr (mixing == Mixing::shaped) {
          const V value = load<V>(v + at);
          prefix[n] += value;
          result += alpha * value - mean * prefix[n];
        }
        store(out + at, result);
      }
    }
  }
}

template <int heads, int key_width, int value_width, Mixing mixing, Write dq_mode, Write dk_mode,
          Write dv_mode, class S>
void attention_head_backward(Index rows, const S* q, const S* k, const S* v, S beta, const S* log_sum_exp,
                             const S* dout, S* dq, S* dk, S* dv, S* dbeta, S* scratch) {
  constexpr Static<heads * key_width> key_stride;
  constexpr Static<heads * value_width> value_stride;
  constexpr Static<query_group> group;
  constexpr Static<block_stride> block;
  constexpr Static<1> one;
  const S scale = 1 / std::sqrt(S(key_width));
  S* query = scratch;                                                  // (key_width, query_group)
  S* d_output = query + key_width * query_group;                       // (value_width, query_group)
  S* weights = d_output + value_width * query_group;                   // (keys, query_block)
  S* d_scores = weights + round_up(rows, query_group) * block_stride;  // (keys, query_block)
  S beta_sum = 0;

  for (Index begin = 0; begin < rows; begin += query_block) {
    const Index end = std::min<Index>(rows, begin + query_block);
    for (Index first = begin; first < end; first += query_group) {
      const Index queries = std::min<Index>(query_group, end - first), keys = first + queries;
      S *p = weights + (first - begin), *g = d_scores + (first - begin);
      S log_sum[query_group]{};
      for (Index i = 0; i < queries; ++i) log_sum[i] = log_sum_exp[(first + i) * heads];
      transpose_group<key_width>(queries, scale, q + first * key_stride, key_stride, query);
      transpose_group<value_width>(queries, S(1), dout + first * value_stride, value_stride, d_output);
      gemm_strided<query_group, Write::store>(keys, key_width, k, key_stride, one, query, group, p, block);
      gemm_strided<query_group, Write::store>(keys, value_width, v, value_stride, one, d_output, group, g,
                                              block);
      beta_sum += softmax_backward<mixing>(first, keys, log_sum, beta, scale, p, g);
      if constexpr (dq_mode != Write::skip) {
        gemm_strided<key_width, dq_mode>(queries, keys, g, one, block, k, key_stride, dq + first * key_stride,
                                         key_stride);
      }
    }
    if constexpr (dk_mode != Write::skip) {
      scatter_block<key_width, dk_mode>(begin, end, d_scores, q, key_stride, dk);
    }
    if constexpr (dv_mode != Write::skip) {
      scatter_block<value_width, dv_mode>(begin, end, weights, dout, value_stride, dv);
    }
  }
  if (dbeta) *dbeta += beta_sum;
}

template <int key_width, int value_width, class S>
constexpr void check_attention_widths() {
  static_assert(key_width % lanes<S> == 0 && value_width % lanes<S> == 0,
                "simplx: the vector kernels of attention need key_width and value_width to be multiples of "
                "lanes<S>; use attention_reference_forward and _backward for other widths");
}

}  // namespace detail

/// Scratch elements for each row of the longest sequence (rounded up to 16); serves forward and backward.
constexpr Index attention_scratch_columns(int key_width, int value_width) {
  // The two transposed groups of queries are (width, 16), at most `width` columns of 16 rows.
  return key_width + value_width + 2 * detail::block_stride;
}

/// Scratch elements for sequences of at most `longest` tokens.
constexpr Index attention_scratch(int key_width, int value_width, Index longest) {
  return attention_scratch_columns(key_width, value_width) * round_up(longest, detail::query_group);
}

/// Forward pass of causal multi-head attention; fills `out` and `log_sum_exp`.
/// Shapes: q, k (rows, heads * key_width); v, out (rows, heads * value_width); log_sum_exp (rows, heads),
///   kept for the backward; alpha, beta, gamma (heads), read only by Mixing::shaped. q, k and v may be one
///   buffer.
/// Errors: does not compile unless both widths are multiples of lanes<S>.
/// Cost: (T + 15) T / 2 (key_width + value_width) multiply-adds and T^2 / 2 exponentials per head; no heap;
///   `scratch` holds attention_scratch(key_width, value_width, longest) elements.
/// Source: He & Hofmann 2024, Eqs. (1), (5) and (13).
template <int heads, int key_width, int value_width, Mixing mixing, class S>
void attention_forward(Segments sequences, const S* q, const S* k, const S* v, const S* alpha, const S* beta,
                       const S* gamma, S* out, S* log_sum_exp, S* scratch) {
  detail::check_attention_widths<key_width, value_width, S>();
  constexpr bool shaped = mixing == Mixing::shaped;
  for (Index s = 0; s < sequences.count; ++s) {
    const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
    for (int h = 0; h < heads; ++h) {
      const Index key = (first * heads + h) * key_width, value = (first * heads + h) * value_width;
      detail::attention_head_forward<heads, key_width, value_width, mixing>(
          rows, q + key, k + key, v + value, shaped ? alpha[h] : S(0), shaped ? beta[h] : S(1),
          shaped ? gamma[h] : S(0), out + value, log_sum_exp + first * heads + h, scratch);
    }
  }
}

/// Backward pass: recomputes the weights from `log_sum_exp`, a block of queries at a time. With dA = dO V^T
/// and correction = rowsum(A * dA):
///   dbeta = sum(correction);  dalpha = sum(dO * V);  dgamma = -sum(V * C^T dO)
///   dS = beta A * (dA - correction) / sqrt(key_width);  dQ = dS K;  dK = dS^T Q
///   dV = alpha dO + beta A^T dO - gamma C^T dO
/// Shapes: as the forward; dq, dk, dv as q, k, v, each skipped, stored or accumulated as its mode says. They
///   may be one buffer if all modes accumulate. dalpha, dbeta, dgamma (heads) accumulate; nullptr is skipped.
/// Cost: 2.5 times the products of the forward; no heap; the same scratch.
template <int heads, int key_width, int value_width, Mixing mixing, Write dq_mode, Write dk_mode,
          Write dv_mode, class S>
void attention_backward(Segments sequences, const S* q, const S* k, const S* v, const S* alpha, const S* beta,
                        const S* gamma, const S* log_sum_exp, const S* dout, S* dq, S* dk, S* dv, S* dalpha,
                        S* dbeta, S* dgamma, S* scratch) {
  detail::check_attention_widths<key_width, value_width, S>();
  constexpr bool shaped = mixing == Mixing::shaped;
  constexpr Static<heads * value_width> value_stride;
  for (Index s = 0; s < sequences.count; ++s) {
    const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
    for (int h = 0; h < heads; ++h) {
      const Index key = (first * heads + h) * key_width, value = (first * heads + h) * value_width;
      detail::attention_head_backward<heads, key_width, value_width, mixing, dq_mode, dk_mode, dv_mode>(
          rows, q + key, k + key, v + value, shaped ? beta[h] : S(1), log_sum_exp + first * heads + h,
          dout + value, dq_mode == Write::skip ? nullptr : dq + key,
          dk_mode == Write::skip ? nullptr : dk + key, dv_mode == Write::skip ? nullptr : dv + value,
          shaped && dbeta ? dbeta + h : nullptr, scratch);
      if constexpr (shaped) {
        detail::shaped_backward<value_width, dv_mode>(
            rows, v + value, dout + value, value_stride, alpha[h], gamma[h],
            dv_mode == Write::skip ? nullptr : dv + value, dalpha ? dalpha + h : nullptr,
            dgamma ? dgamma + h : nullptr);
      }
    }
  }
}

}  // namespace simplx
