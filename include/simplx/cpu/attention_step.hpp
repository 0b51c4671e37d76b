// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_step.hpp
/// Causal attention of one new token to all tokens before it, from a cache: per head, with the new token's number t,
///
///   o_t = alpha v_t + beta sum_{j <= t} a_tj v_j - gamma c_t          (He & Hofmann 2024, Eqs. (4), (5) and (13))
///   a_tj = softmax_j(q_t . k_j / sqrt(key_width) - m (t - j))
///   c_t = P_t / Z_t,   P_t = lambda P_{t-1} + v_t,   Z_t = lambda Z_{t-1} + 1,   lambda = exp(-m)
///
/// The mean c_t costs O(1) for each token: P and Z are all that is remembered for it. With a window j begins at t -
/// window + 1: blocks of tokens before it are not read, and c_t is the sum of those v_j by the weights of C, taken with
/// that of A.
///
/// Where the values are what the keys are projected from, v_j = x_j and k_j = x_j W, one store serves both:
///
///   q_t . k_j = (W_h q_t) . x_j
///
/// for the projection moves to the query, once for each token, and neither keys nor their projection are needed. Heads
/// pay with a product as wide as all of them; so where many tokens are new at once (a prompt), the keys are projected
/// after all, into scratch.
///
/// | symbol | shape                                                    | meaning                                    |
/// |--------|----------------------------------------------------------|--------------------------------------------|
/// | store  | (tokens / token_block) blocks of (width, token_block)    | keys, values or inputs, tokens side by side |
///
/// Of a window a store has twice as many blocks as it reaches back: once it is full, its second half becomes the first.
///
/// With tokens side by side scores and softmax run down the lanes, whatever the widths of the heads. Where heads that
/// follow one another have the same keys or values (grouped queries), a store has them once.

#include <simplx/cpu/attention_size.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/math.hpp>
#include <simplx/cpu/matrix_vector.hpp>
#include <simplx/cpu/threads.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Tokens that lie side by side in a store.
template <class S>
inline constexpr Index token_block = 4 * lanes<S>;

/// How far a window reaches back, in whole blocks; and the tokens of a store, of those of a context in whole blocks.
template <AttentionSize size, class S>
inline constexpr Index step_reach = std::max(round_up(Index(size.window) - 1, token_block<S>), token_block<S>);
template <AttentionSize size, class S>
inline constexpr Index step_tokens = size.window == 0 ? std::numeric_limits<Index>::max() : 2 * step_reach<size, S>;

/// What an attention remembers; the stores hold whole blocks, of step_tokens at most.
template <class S>
struct AttentionPast {
  S *keys = nullptr, *values = nullptr;  ///< stores; of inputs, one and the same, where the projection is folded
  S* sums = nullptr;                     ///< P (heads * value_width) and Z (heads), where means run
  const S* projection = nullptr;         ///< W (heads * value_width, heads * key_width) where it is folded
};

/// Puts a token into a store of fewer heads, of each group of equal ones the first.
template <int heads, int stored, Index width, class S>
void remember(const S* row, Index token, S* store) {
  constexpr Index block = token_block<S>;
  S* place = store + token / block * (stored * width * block) + token % block;
  for (int h = 0; h < stored; ++h, row += heads / stored * width) {
    for (Index c = 0; c < width; ++c, place += block) *place = row[c];
  }
}

/// One attention; `inputs`: the store holds what keys are projected from.
template <AttentionSize size, bool inputs, int key_heads, int value_heads, class S>
struct AttentionStep {
  using V = Vec<S>;
  static constexpr int L = lanes<S>, heads = size.heads, key_width = size.key_width, value_width = size.value_width;
  static constexpr int key_group = heads / key_heads, value_group = heads / value_heads;
  static constexpr Index block = token_block<S>, keys = heads * key_width, values = heads * value_width;
  static constexpr Index stored_keys = key_heads * key_width, stored_values = value_heads * value_width;
  static constexpr int rows_together = L < 4 ? L : 4;  ///< tokens, where as many are new: the stores are read once
  static constexpr int most_rows = heads > rows_together ? heads : rows_together;
  static constexpr Index blocks_of(Index tokens) { return (tokens + block - 1) / block; }
  static constexpr bool gains = size.matrix != AttentionMatrix::softmax;
  static constexpr bool windowed = size.window != 0, centred = size.matrix == AttentionMatrix::shaped;
  static constexpr bool means_run = centred && !windowed;
  /// Tokens in whole blocks that neither this one sees nor those after it.
  static constexpr Index unseen(Index token) { return windowed ? size.first_key(token) / block * block : 0; }

  /// A row of a block, as vectors, and what is `ahead` of it, in the next block: memory is slow where its pages change,
  /// unless it is asked for long before.
  __attribute__((always_inline)) static void load_row(const S* place, Index ahead, V (&row)[4]) {
    SIMPLX_UNROLL
    for (int v = 0; v < 4; ++v) row[v] = load<V>(place + v * L);
    if (ahead == 0) return;
    SIMPLX_UNROLL
    for (int v = 0; v < 4; ++v) __builtin_prefetch(place + ahead + v * L, 0, 2);
  }

  /// scores[i, j] = queries[i] . store[j] over `inner` rows of the store, for `count` queries and the tokens of blocks
  /// [begin, end).
  template <int count, Index inner, Index query_stride = inner>
  static void score(Index begin, Index end, const S* queries, const S* store, Index next_block, S* scores,
                    Index stride) {
    constexpr int most = vector_bytes == 64 ? 4 : 2;  // as many sums as there are registers for
    constexpr int together = std::min(most, count), rest = count % together;
    const auto some = [&]<int rows>(std::integral_constant<int, rows>, int first, Index i) {
      const S* place = store + i * next_block;
      V sums[rows][4]{};
      const Index ahead = first == 0 && i + 1 < end ? next_block : 0;
      for (Index c = 0; c < inner; ++c, place += block) {
        V key[4];
        load_row(place, ahead, key);
        SIMPLX_UNROLL
        for (int r = 0; r < rows; ++r) {
          const S query = queries[(first + r) * query_stride + c];
          SIMPLX_UNROLL
          for (int v = 0; v < 4; ++v) sums[r][v] += query * key[v];
        }
      }
      for (int r = 0; r < rows; ++r) {
        SIMPLX_UNROLL
        for (int v = 0; v < 4; ++v) simplx::store(scores + (first + r) * stride + i * block + v * L, sums[r][v]);
      }
    };
    constexpr std::integral_constant<int, together> each{};
    for (Index i = begin; i < end; ++i) {
      for (int first = 0; first < count - rest; first += together) some(each, first, i);
      if constexpr (rest > 0) some(std::integral_constant<int, rest>(), count - rest, i);
    }
  }

  /// The store of all keys, k_j = x_j W.
  static void project_keys(Team* team, Index tokens, const AttentionPast<S>& past, S* store) {
    constexpr int rows = vector_bytes == 64 ? 4 : 2;
    divide(team, blocks_of(tokens), tokens * stored_keys * values, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        panel<rows, 4, Write::store>(stored_keys, values, past.projection, Static<1>{}, Static<stored_keys>{},
                                     past.keys + i * values * block, Static<block>{}, store + i * stored_keys * block,
                                     block, NoEpilogue{}, 0);
      }
    });
  }
  /// Whether that is less work for so many new tokens: values^2 for each of the past, and heads times less for scores.
  static constexpr bool projects(Index rows, Index past) {
    return rows * (heads - 1) * (past + rows / 2) > past * stored_keys && rows > 1;
  }

  /// visit(j, distance, seen) for vectors of the keys of the last of so many tokens.
  template <class Visit>
  __attribute__((always_inline)) static void for_each_key(Index tokens, Visit visit) {
    const V first_seen = splat<V>(S(size.first_key(tokens - 1)));
    V number = lane_numbers<V>();
    for (Index j = 0; j < tokens; j += L, number += S(L)) {
      const V distance = S(tokens - 1) - number;
      if constexpr (windowed) {
        visit(j, distance, (number < S(tokens)) & (number >= first_seen));
      } else {
        visit(j, distance, number < S(tokens));
      }
    }
  }
  /// Weights, of sum 1 / normalise in all, become those of normalise A - gamma C.
  static void centre(Index tokens, S normalise, S gamma, S slope, S* weights) {
    const auto each = [&](auto visit) __attribute__((always_inline)) {
      for_each_key(tokens, [&](Index j, V distance, auto seen) __attribute__((always_inline)) {
        const V weight = size.alibi ? exp(V(-slope * distance)) : splat<V>(S(1));
        visit(j, select(seen, weight, V{}));
      });
    };
    V sum_of_lane{};
    each([&](Index, V weight) { sum_of_lane += weight; });
    const S mean = gamma / sum(sum_of_lane);
    each([&](Index j, V weight) { store(weights + j, V(load<V>(weights + j) * normalise - mean * weight)); });
  }

  /// Scores become exp(score - maximum), up to the end of the last block and before the window 0; returns their sum.
  static S exponentiate(Index tokens, S scale, S slope, S* scores) {
    const auto each = [&](auto visit) __attribute__((always_inline)) {
      for_each_key(tokens, [&](Index j, V distance, auto seen) __attribute__((always_inline)) {
        V score = load<V>(scores + j) * scale;
        if constexpr (size.alibi) score -= slope * distance;
        visit(j, score, seen);
      });
    };
    V largest_of_lane = splat<V>(-std::numeric_limits<S>::infinity()), sum_of_lane{};
    each([&](Index, V score, auto seen) {
      largest_of_lane = max(largest_of_lane, select(seen, score, largest_of_lane));
    });
    const V highest = splat<V>(largest(largest_of_lane));
    each([&](Index j, V score, auto seen) {
      const V weight = select(seen, exp(V(score - highest)), V{});
      store(scores + j, weight);
      sum_of_lane += weight;
    });
    for (Index j = round_up(tokens, L); j < round_up(tokens, block); ++j) scores[j] = S(0);
    return sum(sum_of_lane);
  }

  /// out[i, c] = sum_j weights[i, j] store[j, c] for `count` rows and value_width columns. Blocks are read as they lie,
  /// of so many columns as the nearest cache has room for their sums.
  template <int count>
  static void mix(Index tokens, const S* weights, Index stride, const S* store, S* out) {
    constexpr int most = 256 / count, whole = value_width / most * most;
    const auto columns = [&]<int cols>(std::integral_constant<int, cols>, Index c) {
      constexpr int room = static_cast<int>(round_up(cols * count, L));
      V sums[room];  // (cols, count)
      for (int i = cols * count; i < room; ++i) sums[i] = V{};
      const S* place = store + c * block;
      for (Index first = 0; first < tokens; first += block, place += stored_values * block) {
        V weight[count][4];
        for (int i = 0; i < count; ++i) load_row(weights + i * stride + first, 0, weight[i]);
        const Index ahead = first + block < tokens ? stored_values * block : 0;
        for (int k = 0; k < cols; ++k) {
          V value[4];
          load_row(place + k * block, ahead, value);
          SIMPLX_UNROLL
          for (int i = 0; i < count; ++i) {
            V sum = first == 0 ? V{} : sums[k * count + i];
            SIMPLX_UNROLL
            for (int v = 0; v < 4; ++v) sum += weight[i][v] * value[v];
            sums[k * count + i] = sum;
          }
        }
      }
      alignas(64) S of_lanes[room];
      for (int i = 0; i < room; i += L) simplx::store(of_lanes + i, lane_sums<S>(sums + i));
      for (int i = 0; i < count; ++i) {
        for (int k = 0; k < cols; ++k) out[i * values + c + k] = of_lanes[k * count + i];
      }
    };
    for (Index c = 0; c < whole; c += most) columns(std::integral_constant<int, most>{}, c);
    if constexpr (whole < value_width) columns(std::integral_constant<int, value_width - whole>{}, whole);
  }

  /// `count` tokens from number `token` on; heads are shared among the team.
  template <int count>
  static void run(Team* team, const AttentionOperands<S>& in, const AttentionPast<S>& past, Index token, S* out,
                  S* scratch) {
    const Index before = unseen(token);
    const S* const key_store = past.keys + before * (inputs ? values : stored_keys);
    const S* const value_store = past.values + before * stored_values;
    token -= before;
    const Index tokens = token + count, stride = round_up(tokens, block), blocks = blocks_of(tokens);
    const S scale = 1 / std::sqrt(S(key_width));
    S* const scores = scratch;                        // rooms of (count, stride), of heads that are computed at once
    S* const queries = scratch + most_rows * stride;  // W_h q_h: as many, (., values)
    const auto project = [&](int h, int row, S* query) {
      matrix_vector<key_width, stored_keys>(values, past.projection + h / key_group * key_width,
                                            in.query + row * keys + h * key_width, query);
    };
    constexpr bool all_heads = inputs && count == 1;  // read the store once
    if constexpr (all_heads) {
      divide(team, heads, values * keys, [&](Index begin, Index end) {
        for (Index h = begin; h < end; ++h) project(static_cast<int>(h), 0, queries + h * values);
      });
      divide(team, blocks, heads * values * tokens, [&](Index begin, Index end) {
        score<heads, values>(begin, end, queries, key_store, values * block, scores, stride);
      });
    }
    const auto attend = [&](int h, S* weights, S* query) {
      if constexpr (inputs && !all_heads) {
        for (int row = 0; row < count; ++row) project(h, row, query + row * values);
        score<count, values>(0, blocks, query, key_store, values * block, weights, stride);
      } else if constexpr (!inputs) {
        score<count, key_width, keys>(0, blocks, in.query + h * key_width,
                                      key_store + h / key_group * key_width * block, stored_keys * block, weights,
                                      stride);
      }
      const S slope = size.alibi ? in.slopes[h] : S(0), shrink = size.alibi ? -std::expm1(-slope) : S(0);
      S normalise[count];  // what is mixed becomes that of beta A, and of - gamma C where means do not run
      for (int row = 0; row < count; ++row) {
        S* const weight = weights + row * stride;
        const Index seen = token + row + 1;
        normalise[row] = (gains ? in.beta[h] : S(1)) / exponentiate(seen, scale, slope, weight);
        if constexpr (centred && windowed) {
          centre(seen, std::exchange(normalise[row], S(1)), in.gamma[h], slope, weight);
        }
        std::fill(weight + round_up(seen, block), weight + stride, S(0));
      }
      S* o = out + h * value_width;
      mix<count>(tokens, weights, stride, value_store + h / value_group * value_width * block, o);
      for (int row = 0; row < count; ++row, o += values) {
        const S* v = in.value + row * values + h * value_width;
        S mean = 0, *sums = nullptr;
        if constexpr (means_run) {
          S& sum_of_weights = past.sums[values + h];  // Z
          sum_of_weights += 1 - sum_of_weights * shrink;
          mean = in.gamma[h] / sum_of_weights;
          sums = past.sums + h * value_width;
        }
        for (Index c = 0; c < value_width; ++c) {
          S result = o[c] * normalise[row];
          if constexpr (gains) result += in.alpha[h] * v[c];
          if constexpr (means_run) {
            sums[c] += v[c] - sums[c] * shrink;
            result -= mean * sums[c];
          }
          o[c] = result;
        }
      }
    };
    constexpr Index rooms = std::min(heads, most_rows / count);  // for scores: heads of one follow each other
    constexpr Index work = heads * ((all_heads ? 0 : inputs ? values : key_width) + value_width);
    divide(team, rooms, count * tokens * work, [&](Index begin, Index end) {
      for (Index room = begin; room < end; ++room) {
        for (Index h = heads * room / rooms; h < heads * (room + 1) / rooms; ++h) {
          attend(static_cast<int>(h), scores + room * count * stride, queries + room * count * values);
        }
      }
    });
  }
};

/// Elements of scratch for a context of so many tokens: scores, queries and, with `inputs`, keys.
template <AttentionSize size, bool inputs, class S>
constexpr Index attention_step_scratch(Index tokens, int key_heads = size.heads) {
  const Index rows = std::max(size.heads, 4), room = round_up(std::min(tokens, step_tokens<size, S>), token_block<S>);
  return rows * (room + size.heads * size.value_width) + (inputs ? room * key_heads * size.key_width : 0);
}

/// Remembers `rows` tokens that follow `past_tokens` others of a store, and what each of them attends to. A team shares
/// heads, and keys and scores of all heads by tokens; it changes no bits.
///
/// Shapes  operands and out as of attention_forward; where `inputs` holds, the keys are not read. Stores and W have the
///         columns of key_heads and value_heads heads: heads / key_heads that follow one another have equal keys
/// Cost    per token t, (key_width + value_width) heads t multiply-adds, with a window what it has, in whole blocks,
///         for t; with `inputs` keys values + (1 + heads) values t, or, where that is less for all rows, keys values
///         for each token of the past and then as without; no heap; `scratch` holds attention_step_scratch elements.
///         Four tokens at a time read the stores once, with `inputs` once for the scores of each head. What is no
///         number in one of them reaches the others, and all new ones where keys are projected
/// Source  He & Hofmann 2024, Eqs. (2), (4), (5) and (13)
template <AttentionSize size, bool inputs, int key_heads, int value_heads, class S>
__attribute__((noinline)) void attention_steps_in_store(Index rows, Index past_tokens, AttentionOperands<S> in,
                                                        AttentionPast<S> past, S* out, S* scratch, Team* team) {
  using Step = AttentionStep<size, inputs, key_heads, value_heads, S>;
  const auto remember_rows = [&](Index count) {
    for (Index row = 0; row < count; ++row) {
      const Index token = past_tokens + row;
      if constexpr (!inputs) {
        remember<size.heads, key_heads, size.key_width>(in.key + row * Step::keys, token, past.keys);
      }
      remember<size.heads, value_heads, size.value_width>(in.value + row * Step::values, token, past.values);
    }
  };
  const auto each = [&]<class Of>(Of, bool remembered) {
    const auto next = [&]<int count>(std::integral_constant<int, count>) {
      if (!remembered) remember_rows(count);
      Of::template run<count>(team, in, past, past_tokens, out, scratch);
      if constexpr (!inputs) in.key += count * Step::keys;
      in.query += count * Step::keys, in.value += count * Step::values, out += count * Step::values;
      past_tokens += count;
    };
    constexpr int together = Step::rows_together;
    for (; rows >= together; rows -= together) next(std::integral_constant<int, together>{});
    for (; rows > 0; --rows) next(std::integral_constant<int, 1>{});
  };
  if constexpr (inputs) {
    const Index before = Step::unseen(past_tokens);
    if (Step::projects(rows, past_tokens - before)) {
      remember_rows(rows);
      past.keys += before * Step::values, past.values += before * Step::stored_values, past_tokens -= before;
      const Index tokens = past_tokens + rows;
      S* const keys = std::exchange(scratch, scratch + round_up(tokens, Step::block) * Step::stored_keys);
      Step::project_keys(team, tokens, past, keys);
      past.keys = keys;
      return each(AttentionStep<size, false, key_heads, value_heads, S>(), true);
    }
  }
  each(Step(), false);
}

/// The same after any number of tokens, of which a window's stores have the last.
///
/// Cost    beside that, with a window, a copy of what is remembered of each token
template <AttentionSize size, bool inputs, int key_heads = size.heads, int value_heads = size.heads, class S>
  requires(size.mask == Mask::causal)
void attention_steps(Index rows, Index past_tokens, AttentionOperands<S> in, const AttentionPast<S>& past, S* out,
                     S* scratch, Team* team = nullptr) {
  constexpr auto in_store = attention_steps_in_store<size, inputs, key_heads, value_heads, S>;
  if constexpr (size.window == 0) {
    in_store(rows, past_tokens, in, past, out, scratch, team);
  } else {
    using Step = AttentionStep<size, inputs, key_heads, value_heads, S>;
    constexpr Index reach = step_reach<size, S>;
    while (rows > 0) {
      const Index place = past_tokens < reach ? past_tokens : reach + past_tokens % reach;
      const Index count = std::min(rows, 2 * reach - place);
      if (place == reach && past_tokens > reach) {
        const auto move = [](S* store, Index width) {
          S* const half = store + reach * width;
          std::copy_n(half, reach * width, store);
          std::fill_n(half, reach * width, S(0));  // 0 times what is there: it may be no number
        };
        move(past.values, Step::stored_values);
        if constexpr (!inputs) move(past.keys, Step::stored_keys);
      }
      in_store(count, place, in, past, out, scratch, team);
      if constexpr (!inputs) in.key += count * Step::keys;
      in.query += count * Step::keys, in.value += count * Step::values, out += count * Step::values;
      past_tokens += count, rows -= count;
    }
  }
}

}  // namespace simplx::cpu
