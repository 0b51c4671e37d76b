// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_head.hpp
/// Attention of one head on vectors, in memory linear in the context: O = M V with
///
///   softmax     M = A                              A = softmax(Q K^T / sqrt(key_width) + mask + bias)
///   skip_init   M = alpha I + beta A               (He & Hofmann 2024, Eq. (4))
///   shaped      M = alpha I + beta A - gamma C     (Eqs. (5) and (13)),  C = A at Q = 0 = softmax(mask + bias)
///
/// The weights are kept transposed: one row per key, one lane per query. Maximum, sum and the correction of
/// the softmax then run down the lanes without a horizontal step, key and value rows are never transposed,
/// and what a causal mask forbids is skipped except in the 16 x 16 blocks on the diagonal, what is outside of a
/// window except in those at its edges.
///
/// C is never formed, for its weights decay by lambda = exp(-m), which is 1 without bias, from row to row:
///
///   (C V)_i = (P_i + N_i) / Z_i      P_i = lambda P_{i-1} + v_i,  N_i = lambda (N_{i+1} + v_{i+1}) or 0 if causal
///
/// Z_i is the same sum over ones, and C^T dO the same sums over dO_i / Z_i with the directions exchanged. In a window
/// they begin anew every `window` rows, and a sweep back through the rows before adds what each row then lacks
/// (van Herk 1992): two sums whatever the window, and none from which another is subtracted.
///
/// Dropped weights are drawn by vectors of queries, each of which is a row of random words (core/random.hpp).

#include <simplx/cpu/attention_size.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/math.hpp>
#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/transpose.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Queries that share a row of weights, and queries whose weights the backward pass holds at once.
inline constexpr int query_group = 16;
inline constexpr int query_block = 64;
/// A power of two would send the rows of one group to few cache sets.
inline constexpr int block_stride = query_block + query_group;

/// One sequence, one head; the pointers are at its first element. Columns of key and value beyond key_used and
/// value_used are zero.
template <AttentionSize size, class S, int key_used = size.key_width, int value_used = size.value_width>
struct AttentionHead {
  using V = Vec<S>;
  static constexpr int heads = size.heads, key_width = size.key_width, value_width = size.value_width;
  static constexpr int vectors = value_width / lanes<S>;
  static constexpr bool full = size.mask == Mask::full, windowed = size.window != 0;
  static constexpr bool gains = size.matrix != AttentionMatrix::softmax;
  static constexpr bool centred = size.matrix == AttentionMatrix::shaped;
  static constexpr Static<heads * key_width> key_stride{};
  static constexpr Static<heads * value_width> value_stride{};
  static constexpr Static<key_width> near_key{};  ///< the strides of rows that are gathered
  static constexpr Static<value_width> near_value{};
  static constexpr Static<query_group> group{};
  static constexpr Static<block_stride> block{};
  static constexpr Static<1> one{};

  Index rows;
  const S *q, *k, *v;
  S alpha = 0, beta = 1, gamma = 0, slope = 0;
  S scale = 1 / std::sqrt(S(key_used));
  S shrink = 0;  ///< 1 - lambda: exact where lambda, near one, has lost the slope's last digits
  DroppedWeights<S> dropped;

  AttentionHead(const AttentionOperands<S>& in, Index first, Index count, int h,
                const DroppedWeights<S>& weights = {})
      : rows(count), q(in.query + key_at(first, h)), k(in.key + key_at(first, h)), v(in.value + value_at(first, h)),
        dropped(weights) {
    if constexpr (gains) alpha = in.alpha[h], beta = in.beta[h];
    if constexpr (centred) gamma = in.gamma[h];
    if constexpr (size.alibi) slope = in.slopes[h], shrink = -std::expm1(-slope);
  }

  static constexpr Index key_at(Index row, int h) { return (row * heads + h) * key_width; }
  static constexpr Index value_at(Index row, int h) { return (row * heads + h) * value_width; }

  /// The keys that some queries see.
  struct Keys {
    Index begin, end;
    Index count() const { return end - begin; }
  };
  Keys keys_of(Index first, Index queries) const {
    return {windowed ? size.first_key(first) : 0, size.keys_end(first + queries, rows)};
  }

  /// Applies step(key, biased, seen) to the keys of the group of queries that begins at `first`; `biased` adds the
  /// bias to a vector of scores, `seen` replaces by `hidden` the lanes whose query may not look at the key.
  template <class Step>
  __attribute__((always_inline)) void for_each_key(Index first, Keys keys, int lane, S hidden, Step step) const {
    const V query = lane_numbers<Vec<S>>() + S(lane);
    const V otherwise = splat<V>(hidden);
    const auto visit = [&](Index key, auto seen) {
      step(key, [&](V score) { return biased(score, S(key - first) - query); }, seen);
    };
    const auto masked = [&](Index begin, Index end) __attribute__((always_inline)) {
      for (Index key = begin; key < end; ++key) {
        visit(key, [&](V x) {
          const V ahead = S(key - first) - query;
          if constexpr (!full) x = query >= S(key - first) ? x : otherwise;
          if constexpr (windowed) x = (full ? max(ahead, V(-ahead)) : V(-ahead)) < S(size.window) ? x : otherwise;
          return x;
        });
      }
    };
    // What all of them see lies between.
    const Index begin = windowed ? std::clamp(first + query_group - size.window, keys.begin, keys.end) : keys.begin;
    const Index end = !full ? first : windowed ? std::min(first + size.window, keys.end) : keys.end;
    if constexpr (windowed) masked(keys.begin, begin);
    for (Index key = begin; key < end; ++key) visit(key, [](V x) { return x; });
    masked(windowed ? std::max(begin, end) : end, keys.end);
  }

  /// The score of a key that is so far ahead of its queries.
  __attribute__((always_inline)) V biased(V score, V ahead) const {
    if constexpr (size.alibi) score += slope * (full ? min(ahead, V(-ahead)) : ahead);
    return score;
  }

  /// The keys of the queries from `first` on.
  using Words = typename detail::VectorOf<std::uint32_t, 4 * lanes<S>>::type;
  struct LaneKeys {
    Words first, second;
  };
  LaneKeys lane_keys(Index first) const {
    LaneKeys keys{};
    for (int lane = 0; size.drops && lane < lanes<S>; ++lane) {
      const detail::RowKey row = dropped.row(first + lane);
      keys.first[lane] = row.first, keys.second[lane] = row.second;
    }
    return keys;
  }
  /// x, a number of each query and that key, but 0 where its weight is dropped; without the factor of the others.
  __attribute__((always_inline)) V kept(const LaneKeys& queries, Index key, V x) const {
    if constexpr (!size.drops) return x;
    typedef std::int32_t Signed __attribute__((vector_size(4 * lanes<S>)));
    const Words column = Words{} + static_cast<std::uint32_t>(key);
    const Words words = detail::row_word(queries.first, queries.second, column);
    const Signed drops = (Signed)words < dropped.limit;
    return select(__builtin_convertvector(drops, decltype(x < x)), V{}, x);
  }

  /// The head's part of `count` rows, one after the other: apart by the width of all heads, most often a power of two,
  /// they would share a few sets of the cache.
  template <int width>
  static const S* gather(const S* source, Index count, S* target) {
    if constexpr (heads == 1) return source;
    for (Index i = 0; i < count; ++i) {
      std::memcpy(target + i * width, source + i * heads * width, width * sizeof(S));
    }
    return target;
  }

  /// Scores (keys, query_group) become exp(score - maximum), in place, or 0 if dropped; for each query the logarithm of
  /// the sum of exp(score), and the factor that makes the numbers here weights, times beta.
  void exponentiate(Index first, Keys keys, S* scores, S* log_sum_exp, S* normalise) const {
    for (int lane = 0; lane < query_group; lane += lanes<S>) {
      S* column = scores + lane;
      const LaneKeys queries = lane_keys(first + lane);
      constexpr S unseen = -std::numeric_limits<S>::infinity();  // no weights where all scores are so: NaN
      V largest = splat<V>(unseen);
      for_each_key(first, keys, lane, unseen, [&](Index key, auto biased, auto seen) {
        largest = max(largest, seen(biased(load<V>(column + key * query_group))));
      });
      V sum_of_lane{};
      for_each_key(first, keys, lane, S(0), [&](Index key, auto biased, auto seen) {
        const V weight = seen(exp(V(biased(load<V>(column + key * query_group)) - largest)));
        store(column + key * query_group, kept(queries, key, weight));
        sum_of_lane += weight;
      });
      store(log_sum_exp + lane, V(largest + log(sum_of_lane)));
      store(normalise + lane, V(beta * dropped.kept / sum_of_lane));
    }
  }

  /// Scores become beta * A, as dropped, and dA = dO V^T becomes the gradient of the scores, both (keys, query_group)
  /// of row stride block_stride; returns the sum of A * dA, which is the gradient of beta.
  S softmax_backward(Index first, Keys keys, const S* log_sum_exp, S* weights, S* gradient) const {
    V total{};
    for (int lane = 0; lane < query_group; lane += lanes<S>) {
      S *p = weights + lane, *g = gradient + lane;
      const V log_sum = load<V>(log_sum_exp + lane);
      const LaneKeys queries = lane_keys(first + lane);
      V correction{}, sum_of_lane{};
      for_each_key(first, keys, lane, S(0), [&](Index key, auto biased, auto seen) {
        const V weight = seen(exp(V(biased(load<V>(p + key * block_stride)) - log_sum)));
        store(p + key * block_stride, weight);
        V d = load<V>(g + key * block_stride);
        if constexpr (size.drops) store(g + key * block_stride, d = kept(queries, key, V(d * dropped.kept)));
        correction += weight * d;
        sum_of_lane += weight;
      });
      sum_of_lane = sum_of_lane == S(0) ? splat<V>(S(1)) : sum_of_lane;  // beyond the last row
      correction = correction / sum_of_lane;  // one, but for the ulp of a large log_sum: it must cancel where A is one
      for (Index key = keys.begin; key < keys.end; ++key) {
        V weight = load<V>(p + key * block_stride);
        if constexpr (gains) weight *= beta;
        if constexpr (size.drops) {
          store(p + key * block_stride, kept(queries, key, V(weight * dropped.kept)));
        } else if constexpr (gains) {
          store(p + key * block_stride, weight);
        }
        store(g + key * block_stride, V(weight * scale * (load<V>(g + key * block_stride) - correction)));
      }
      total += correction;
    }
    return sum(total);
  }

  /// No weights of a group of queries for the keys that others of its block see.
  static void clear_unseen(Keys seen, Keys of_block, S* weights) {
    const auto clear = [&](Index begin, Index end) {
      for (Index key = begin; key < end; ++key) std::fill_n(weights + key * block_stride, query_group, S(0));
    };
    clear(of_block.begin, seen.begin);
    if constexpr (full) clear(seen.end, of_block.end);
  }

  /// Adds weights * source over one block of queries, first .. last, to target: weights (keys, query_block), source
  /// (last - first, width), target (rows, width). The first block to meet a key writes in the mode that is asked for.
  template <int width, Write mode>
  void scatter_block(Index first, Index last, const S* weights, const S* source, S* target) const {
    constexpr Static<width> near{};
    constexpr Static<heads * width> stride{};
    const Keys keys = keys_of(first, last - first);
    const auto write = [&]<Write how>(std::integral_constant<Write, how>, Index begin, Index end) {
      gemm_strided<width, how>(end - begin, last - first, weights + begin * block_stride, block, one, source, near,
                               target + begin * stride, stride);
    };
    constexpr std::integral_constant<Write, mode> met{};
    constexpr std::integral_constant<Write, Write::accumulate> again{};
    if constexpr (full && windowed) {
      const Index before = first == 0 ? 0 : size.keys_end(first, rows);
      write(again, keys.begin, before);
      write(met, before, keys.end);
    } else if constexpr (full) {
      if (first == 0) {
        write(met, 0, rows);
      } else {
        write(again, 0, rows);
      }
    } else {
      write(again, keys.begin, first);
      for (Index key = first; key < last; key += query_group) {
        gemm_strided<width, mode>(std::min<Index>(query_group, last - key), last - key,
                                  weights + key * block_stride + (key - first), block, one,
                                  source + (key - first) * near, near, target + key * stride, stride);
      }
    }
  }

  /// Z_i for every row, where a bias makes it more than a count.
  void fill_row_sums(S* sums) const {
    if constexpr (size.alibi) {
      S sum = 0;
      for (Index i = 0; i < rows; ++i) {
        if (!windowed || i < size.window) sum = shrunk(sum) + 1;
        sums[i] = sum;
      }
      if constexpr (full) {
        for (Index i = 0, j = rows - 1; i <= j; ++i, --j) sums[i] = sums[j] = sums[i] + sums[j] - 1;
      }
    }
  }
  S row_sum(const S* sums, Index row) const {
    return size.alibi ? sums[row] : S(size.keys_end(row + 1, rows) - size.first_key(row));
  }

  /// lambda * x, or 0 where arithmetic would be slow: by steps of a denormal's last digit it would never be.
  template <class X>
  X shrunk(X x) const {
    if constexpr (!size.alibi) return x;
    x -= x * shrink;
    const auto tiny = (x < std::numeric_limits<S>::min()) & (x > -std::numeric_limits<S>::min());
    return tiny ? X{} : x;
  }

  /// Runs through the rows from `row` in steps of `step`: use(row, at, sum) gets the place of each vector and the sum
  /// of term(row, at) so far, its own row included or not, older rows shrunk once more with every step.
  template <bool own, class Term, class Use>
  __attribute__((always_inline)) void decaying_sums(Index row, Index step, Term term, Use use) const {
    V sums[vectors]{};
    for (Index i = 0; i < rows; ++i, row += step) {
      if (begins_anew(i)) std::fill_n(sums, vectors, V{});
      for (int n = 0; n < vectors; ++n) {
        const Index at = row * value_stride + n * lanes<S>;
        if constexpr (!own) use(row, at, sums[n]);
        sums[n] += term(row, at);
        if constexpr (own) use(row, at, sums[n]);
        sums[n] = shrunk(sums[n]);
      }
    }
  }
  static constexpr bool begins_anew([[maybe_unused]] Index row) {
    if constexpr (windowed) return row % size.window == 0;
    return false;
  }
  /// What the sums of a window lack where they began anew: the terms of those rows before that it reaches.
  template <class Term, class Use>
  __attribute__((always_inline)) void sums_before([[maybe_unused]] Index row, [[maybe_unused]] Index step,
                                                  [[maybe_unused]] Term term, [[maybe_unused]] Use use) const {
    if constexpr (windowed) {
      constexpr Index window = size.window;
      for (Index anew = window; anew < rows; anew += window) {
        V sums[vectors]{};
        for (Index i = anew - 1; i > anew - window; --i) {
          const Index other = row + step * i, last = i + window - 1, own = row + step * last;  // the last that sees it
          const S weight = decayed(anew - 1 - i), since = decayed(last - (anew - 1));
          for (int n = 0; n < vectors; ++n) {
            sums[n] += weight * term(other, other * value_stride + n * lanes<S>);
            if (last < rows) use(own, own * value_stride + n * lanes<S>, V(since * sums[n]));
          }
        }
      }
    }
  }
  /// lambda to that power, or 0 in the same way.
  S decayed(Index steps) const {
    if constexpr (!size.alibi) return 1;
    const S power = std::exp(-slope * S(steps));
    return power < std::numeric_limits<S>::min() ? S(0) : power;
  }

  void forward(S* out, S* log_sum_exp, S* scratch) const {
    S* query = scratch;                                          // (key_width, query_group)
    S* weights = scratch + key_width * query_group;              // (keys, query_group)
    S* z = weights + round_up(rows, query_group) * query_group;  // (rows)
    S* room = z + round_up(rows, query_group);
    const S* key = gather<key_width>(k, rows, room);
    const S* value = gather<value_width>(v, rows, room + rows * key_width);
    V before[vectors]{};
    if constexpr (centred) fill_row_sums(z);
    for (Index first = 0; first < rows; first += query_group) {
      const Index queries = std::min<Index>(query_group, rows - first);
      const Keys keys = keys_of(first, queries);
      S log_sum[query_group], normalise[query_group];
      transpose_group<key_width, query_group>(queries, scale, q + first * key_stride, key_stride, query);
      gemm_strided<query_group, Write::store>(keys.count(), key_used, key + keys.begin * near_key, near_key, one, query,
                                              group, weights + keys.begin * query_group, group);
      exponentiate(first, keys, weights, log_sum, normalise);
      gemm_strided<value_width, Write::store>(queries, keys.count(), weights + keys.begin * query_group, one, group,
                                              value + keys.begin * near_value, near_value, out + first * value_stride,
                                              value_stride);
      for (Index i = 0; i < queries; ++i) {
        const Index row = first + i;
        log_sum_exp[row * heads] = log_sum[i];
        const S mean = centred ? gamma / row_sum(z, row) : 0;
        for (int n = 0; n < vectors; ++n) {
          const Index at = row * value_stride + n * lanes<S>;
          const V own = load<V>(value + row * near_value + n * lanes<S>);
          V result = load<V>(out + at) * normalise[i];
          if constexpr (gains) result += alpha * own;
          if constexpr (centred) {
            before[n] = begins_anew(row) ? own : shrunk(before[n]) + own;
            result -= mean * before[n];
          }
          store(out + at, result);
        }
      }
    }
    const auto own = [&](Index, Index at) { return load<V>(v + at); };
    const auto subtract = [&](Index row, Index at, V sum) {
      store(out + at, V(load<V>(out + at) - gamma / row_sum(z, row) * sum));
    };
    if constexpr (centred) sums_before(0, 1, own, subtract);
    if constexpr (centred && full) {
      decaying_sums<false>(rows - 1, -1, own, subtract);
      sums_before(rows - 1, -1, own, subtract);
    }
  }

  /// Gradients of query, key, value and beta through beta A.
  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void matrix_backward(const S* log_sum_exp, const S* dout, S* dq, S* dk, S* dv, S* dbeta, S* scratch) const {
    S* query = scratch;                                                  // (key_width, query_group)
    S* d_output = query + key_width * query_group;                       // (value_width, query_group)
    S* weights = d_output + value_width * query_group;                   // (keys, query_block)
    S* d_scores = weights + round_up(rows, query_group) * block_stride;  // (keys, query_block)
    S* room = d_scores + round_up(rows, query_group) * block_stride;
    const S* key = gather<key_width>(k, rows, room);
    const S* value = gather<value_width>(v, rows, room + rows * key_width);
    S* rest = room + rows * (key_width + value_width);
    S beta_sum = 0;
    for (Index begin = 0; begin < rows; begin += query_block) {
      const Index end = std::min<Index>(rows, begin + query_block), count = end - begin;
      const S* q_block = gather<key_width>(q + begin * key_stride, count, rest);
      const S* d_block = gather<value_width>(dout + begin * value_stride, count, rest + count * key_width);
      const Keys of_block = keys_of(begin, count);
      for (Index first = begin; first < end; first += query_group) {
        const Index queries = std::min<Index>(query_group, end - first), in_block = first - begin;
        const Keys keys = keys_of(first, queries);
        S *p = weights + in_block, *g = d_scores + in_block;
        S *p_seen = p + keys.begin * block_stride, *g_seen = g + keys.begin * block_stride;
        const S *key_seen = key + keys.begin * near_key, *value_seen = value + keys.begin * near_value;
        S log_sum[query_group]{};
        for (Index i = 0; i < queries; ++i) log_sum[i] = log_sum_exp[(first + i) * heads];
        transpose_group<key_width, query_group>(queries, scale, q_block + in_block * near_key, near_key, query);
        transpose_group<value_width, query_group>(queries, S(1), d_block + in_block * near_value, near_value, d_output);
        gemm_strided<query_group, Write::store>(keys.count(), key_used, key_seen, near_key, one, query, group, p_seen,
                                                block);
        gemm_strided<query_group, Write::store>(keys.count(), value_used, value_seen, near_value, one, d_output, group,
                                                g_seen, block);
        beta_sum += softmax_backward(first, keys, log_sum, p, g);
        if constexpr (dq_mode != Write::skip) {
          gemm_strided<key_width, dq_mode>(queries, keys.count(), g_seen, one, block, key_seen, near_key,
                                           dq + first * key_stride, key_stride);
        }
        if constexpr (windowed) clear_unseen(keys, of_block, p), clear_unseen(keys, of_block, g);
      }
      if constexpr (dk_mode != Write::skip) {
        scatter_block<key_width, dk_mode>(begin, end, d_scores, q_block, dk);
      }
      if constexpr (dv_mode != Write::skip) {
        scatter_block<value_width, dv_mode>(begin, end, weights, d_block, dv);
      }
    }
    if (dbeta) *dbeta += beta_sum;
  }

  /// dV += alpha dO - gamma C^T dO, and the gradients of alpha and gamma.
  template <Write dv_mode>
  void mixing_backward(const S* dout, S* dv, S* dalpha, S* dgamma, S* z) const {
    V alpha_sum{}, gamma_sum{};
    const auto d_mean = [&](Index row, Index at) {
      return centred ? V(load<V>(dout + at) * (1 / row_sum(z, row))) : V{};
    };
    const auto add = [&](Index at, V gradient) {
      if constexpr (dv_mode != Write::skip) store(dv + at, V(load<V>(dv + at) + gradient));
    };
    if constexpr (centred) fill_row_sums(z);
    decaying_sums<true>(rows - 1, -1, d_mean, [&](Index, Index at, V sum) {
      const V d = load<V>(dout + at), value = load<V>(v + at);
      alpha_sum += d * value;
      gamma_sum -= value * sum;
      add(at, alpha * d - gamma * sum);
    });
    const auto subtract = [&](Index, Index at, V sum) {
      gamma_sum -= load<V>(v + at) * sum;
      add(at, -gamma * sum);
    };
    if constexpr (centred) sums_before(rows - 1, -1, d_mean, subtract);
    if constexpr (centred && full) {
      decaying_sums<false>(0, 1, d_mean, subtract);
      sums_before(0, 1, d_mean, subtract);
    }
    if (dalpha) *dalpha += sum(alpha_sum);
    if (dgamma) *dgamma += sum(gamma_sum);
  }

  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void backward(const S* log_sum_exp, const S* dout, const AttentionGradients<S>& to, S* scratch) const {
    matrix_backward<dq_mode, dk_mode, dv_mode>(log_sum_exp, dout, to.query, to.key, to.value, to.beta, scratch);
    if constexpr (gains) mixing_backward<dv_mode>(dout, to.value, to.alpha, to.gamma, scratch);
  }
};

}  // namespace simplx::cpu
