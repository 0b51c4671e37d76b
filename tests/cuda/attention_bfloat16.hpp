// SPDX-License-Identifier: MIT
#pragma once

/// Attention by cores whose products are of bfloat16, against the reference in double.

#include "cuda/attention_problem.hpp"

#include <simplx/cuda/bfloat16_values.cuh>

namespace test {

/// One of them is longer than a tile of 64 rows.
inline const std::vector<Index> some_lengths = emulation::thread_sanitized ? std::vector<Index>{2, 0, 70} : lengths;

inline constexpr bool sanitized = emulation::address_sanitized || emulation::thread_sanitized;
inline constexpr Write skip = Write::skip, set = Write::store, more = Write::accumulate;

/// 2^-9, half of the last digit of a bfloat16, in units of that of a float.
inline constexpr double rounding_of_bfloat16 = 1 << 14;

template <class Cores>
struct AttentionBy {
  template <AttentionSize size, Write dq, Write dk, Write dv, class Out = float>
  static Attention<float> computed(Attention<float> found) {
    found.forward<size, Cores>();
    if (dq == set) found.dquery = unwritten<float>(found.keys());
    if (dk == set) found.dkey = unwritten<float>(found.keys());
    if (dv == set) found.dvalue = unwritten<float>(found.values());
    found.backward<size, dq, dk, dv, Cores, Out>(found.gradients());
    return found;
  }

  /// Both passes are the reference's in double, but for so many roundings of scores, weights and factors.
  template <AttentionSize size, Write dq = set, Write dk = set, Write dv = set, class Out = float>
  static void check(double roundings, const Attention<float>& given = Attention<float>(size, some_lengths)) {
    const Attention<float> found = computed<size, dq, dk, dv, Out>(given);
    Attention<double> exact = given.wide();
    exact.reference_forward();
    exact.reference_backward(dq, dk, dv);
    roundings *= rounding_of_bfloat16;
    CHECK(distance(found.out, exact.out) < roundings);
    CHECK(distance(found.log_sum_exp, exact.log_sum_exp) < roundings);
    CHECK(distance(found.dquery, exact.dquery) < roundings);
    CHECK(distance(found.dkey, exact.dkey) < roundings);
    CHECK(distance(found.dvalue, exact.dvalue) < roundings);
    const double terms = std::sqrt(double(given.tokens * size.value_width));  // random ones, which may cancel
    CHECK(distance(found.dalpha, exact.dalpha, terms) < roundings);
    CHECK(distance(found.dbeta, exact.dbeta, terms) < roundings);
    CHECK(distance(found.dgamma, exact.dgamma, terms) < roundings);
  }

  template <AttentionSize size>
  static void check_schedules() {
    same_bits([] { return computed<size, set, set, set>(Attention<float>(size, {70, 3})).results(); });
  }

  /// Operands and gradients of bfloat16 are the factors that floats are rounded to: the same bits, under every
  /// schedule, although they reach shared memory on another way.
  template <AttentionSize size, Write dq = set, class Out = float>
  static void check_operands(const std::vector<Index>& lengths) {
    using Rounded = std::vector<__nv_bfloat16>;
    Attention<float> given(size, lengths);
    const auto round = [](std::vector<float>& numbers) {
      const Rounded rounded(numbers.begin(), numbers.end());
      numbers.assign(rounded.begin(), rounded.end());
      return rounded;
    };
    const Rounded query = round(given.query), key = round(given.key), value = round(given.value);
    const Rounded dout = round(given.dout);
    const auto expected = computed<size, dq, set, set, Out>(given).results();
    const auto results = same_bits([&] {
      Attention<float> found = given;
      const AttentionOperands<float> own = found.operands();
      const auto rate = static_cast<float>(own.draw.rate);
      const MixedOperands<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float> in{
          query.data(), key.data(), value.data(), own.alpha, own.beta, own.gamma, own.slopes,
          {&rate, own.draw.step, own.draw.node}};
      attention<size, Cores>(nullptr, found.offsets.data(), found.sequences, found.longest, in, found.out.data(),
                             found.log_sum_exp.data());
      auto scratch = unwritten<float>(
          attention_backward_scratch<size, Cores>(found.tokens, found.sequences, found.longest));
      const Out* const result = std::is_void_v<Out> ? nullptr : found.out.data();
      attention_backward<size, Cores, dq, set, set>(nullptr, found.offsets.data(), found.sequences, found.longest, in,
                                                    found.log_sum_exp.data(), result, dout.data(), found.gradients(),
                                                    scratch.data());
      return found.results();
    });
    CHECK(results == expected);
  }

  /// Queries of zero and gains of one.
  template <AttentionSize size>
  static void check_identity() {
    Attention<float> found(size);
    for (auto* ones : {&found.alpha, &found.beta, &found.gamma}) std::fill(ones->begin(), ones->end(), 1.0f);
    std::fill(found.query.begin(), found.query.end(), 0.0f);
    found.forward<size, Cores>();
    CHECK(found.out == found.value);
  }

  /// With a beta of zero queries and keys have no gradient, bit for bit: of what was rounded an optimiser that divides
  /// by its size would take whole steps.
  template <AttentionSize size>
  static void check_unused_scores() {
    Attention<float> given(size, {70, 3});
    std::ranges::fill(given.beta, 0.0f);
    const Attention<float> found = computed<size, set, set, set>(given);
    CHECK(found.dquery == std::vector<float>(found.dquery.size()));
    CHECK(found.dkey == std::vector<float>(found.dkey.size()));
  }

  /// The scores of keys grow by more than 88, where exponentials overflow, from one tile to the next: each weighs
  /// nothing beside the last one, and all gradients of scores are nearly zero.
  template <AttentionSize size>
  static void check_growing() {
    Attention<float> given(size, {140});
    std::ranges::fill(given.query, 16.0f);
    for (Index i = 0; i < given.keys(); ++i) {
      given.key[static_cast<std::size_t>(i)] = static_cast<float>(i / (size.heads * size.key_width));
    }
    const Attention<float> found = computed<size, skip, skip, set>(given);
    Attention<double> exact = given.wide();
    exact.reference_forward();
    exact.reference_backward(skip, skip, set);
    CHECK(distance(found.out, exact.out) < 8 * rounding_of_bfloat16);
    CHECK(distance(found.log_sum_exp, exact.log_sum_exp) < 8 * rounding_of_bfloat16);
    CHECK(distance(found.dvalue, exact.dvalue) < 8 * rounding_of_bfloat16);
  }
};

}  // namespace test
