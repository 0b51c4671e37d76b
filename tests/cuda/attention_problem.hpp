// SPDX-License-Identifier: MIT
#pragma once

/// An attention with its operands, results and gradients, computed by kernels or by the reference in double.

#include "cuda/kernels.hpp"

#include <simplx/cpu/attention.hpp>  // its names are the same; they must not be ambiguous
#include <simplx/cpu/attention_reference.hpp>
#include <simplx/cuda/attention_backward.cuh>

namespace test {

/// Sequences of all kinds: empty, of one token, a little less and more than a tile, of several tiles; few for
/// ThreadSanitizer, to which each thread of a block is one.
inline const std::vector<Index> lengths =
    emulation::thread_sanitized ? std::vector<Index>{2, 0, 33} : std::vector<Index>{2, 31, 0, 33, 1, 70};

/// Those for windows: one of several tiles.
inline const std::vector<Index> window_lengths =
    emulation::thread_sanitized ? std::vector<Index>{0, 100} : std::vector<Index>{2, 0, 1, 200};

/// Calls f<size>() for windows of one token, of less than a tile and of more. Of 66 a first and a last row in sight are
/// alone in their tiles; of 95 tiles are seen but for one pair of rows.
template <int heads, int key_width, int value_width, class F>
void each_window(const F& f) {
  using enum AttentionMatrix;
  f.template operator()<AttentionSize{heads, key_width, value_width, softmax, Mask::full, false, false, 66}>();
  if constexpr (!emulation::address_sanitized && !emulation::thread_sanitized) {  // which take long to compile
    f.template operator()<AttentionSize{heads, key_width, value_width, softmax, Mask::causal, false, false, 1}>();
    f.template operator()<AttentionSize{heads, key_width, value_width, skip_init, Mask::full, true, true, 20}>();
    f.template operator()<AttentionSize{heads, key_width, value_width, shaped, Mask::causal, false, false, 66}>();
    f.template operator()<AttentionSize{heads, key_width, value_width, shaped, Mask::full, true, false, 95}>();
  }
}

template <class S>
struct Attention {
  AttentionSize size;
  std::vector<Index> offsets{0};
  Index sequences, longest, tokens;
  std::vector<S> query, key, value, alpha, beta, gamma, slopes, dout;
  std::vector<S> out, log_sum_exp, dquery, dkey, dvalue, dalpha, dbeta, dgamma;
  double rate = 0.25;
  detail::Draw step{.key = 5, .first_sequence = 3};

  explicit Attention(const AttentionSize& s, const std::vector<Index>& of = lengths)
      : size(s), sequences(static_cast<Index>(of.size())), longest(0) {
    for (const Index length : of) {
      offsets.push_back(offsets.back() + length);
      longest = std::max(longest, length);
    }
    tokens = offsets.back();
    query = numbers<S>(keys(), 1), key = numbers<S>(keys(), 2), value = numbers<S>(values(), 3);
    alpha = numbers<S>(size.heads, 4), beta = numbers<S>(size.heads, 5), gamma = numbers<S>(size.heads, 6);
    for (int h = 0; h < size.heads; ++h) slopes.push_back(S(0.7) / S(1 << 3 * (h % 8)));
    dout = numbers<S>(values(), 7);
    out = unwritten<S>(values()), log_sum_exp = unwritten<S>(tokens * size.heads);
    dquery = numbers<S>(keys(), 8), dkey = numbers<S>(keys(), 9), dvalue = numbers<S>(values(), 10);
    dalpha = numbers<S>(size.heads, 11), dbeta = numbers<S>(size.heads, 12), dgamma = numbers<S>(size.heads, 13);
  }
  Index keys() const { return tokens * size.heads * size.key_width; }
  Index values() const { return tokens * size.heads * size.value_width; }
  bool gains() const { return size.matrix != AttentionMatrix::softmax; }
  bool centred() const { return size.matrix == AttentionMatrix::shaped; }

  /// nullptr for what must not be read or written.
  AttentionOperands<S> operands() const {
    return {query.data(), key.data(), value.data(), gains() ? alpha.data() : nullptr, gains() ? beta.data() : nullptr,
            centred() ? gamma.data() : nullptr, size.alibi ? slopes.data() : nullptr, draw()};
  }
  AttentionDraw draw() const { return {rate, &step, 7}; }
  AttentionGradients<S> gradients() {
    return {dquery.data(), dkey.data(), dvalue.data(), gains() ? dalpha.data() : nullptr,
            gains() ? dbeta.data() : nullptr, centred() ? dgamma.data() : nullptr};
  }
  /// All that is computed.
  std::vector<S> results() const {
    return joined<S>({out, log_sum_exp, dquery, dkey, dvalue, dalpha, dbeta, dgamma});
  }

  /// The same in double, so that only arithmetic differs.
  Attention<double> wide() const {
    Attention<double> to(size, {});
    to.rate = rate, to.step = step;
    const auto widen = [](const std::vector<S>& from, std::vector<double>& into) {
      into.assign(from.begin(), from.end());
    };
    to.offsets = offsets, to.sequences = sequences, to.longest = longest, to.tokens = tokens;
    widen(query, to.query), widen(key, to.key), widen(value, to.value), widen(alpha, to.alpha), widen(beta, to.beta);
    widen(gamma, to.gamma), widen(slopes, to.slopes), widen(dout, to.dout), widen(out, to.out);
    widen(log_sum_exp, to.log_sum_exp), widen(dquery, to.dquery), widen(dkey, to.dkey), widen(dvalue, to.dvalue);
    widen(dalpha, to.dalpha), widen(dbeta, to.dbeta), widen(dgamma, to.dgamma);
    return to;
  }

  template <AttentionSize fixed, class Cores = CudaCores<S>>
  void forward() {
    attention<fixed, Cores>(nullptr, offsets.data(), sequences, longest, operands(), out.data(), log_sum_exp.data());
  }
  /// Out: void if backward is not to be told what forward gave.
  template <AttentionSize fixed, Write dq, Write dk, Write dv, class Cores = CudaCores<S>, class Out = S>
  void backward(const AttentionGradients<S>& to) {
    auto scratch = unwritten<S>(attention_backward_scratch<fixed, Cores>(tokens, sequences, longest));
    const Out* const result = std::is_void_v<Out> ? nullptr : out.data();
    attention_backward<fixed, Cores, dq, dk, dv>(nullptr, offsets.data(), sequences, longest, operands(),
                                                 log_sum_exp.data(), result, dout.data(), to, scratch.data());
  }

  void reference_forward() {
    if (tokens == 0) return;  // nothing has no address to add to
    auto scratch = unwritten<S>(cpu::attention_reference_scratch(longest));
    cpu::attention_reference_forward(size, {offsets.data(), sequences}, operands(), out.data(), log_sum_exp.data(),
                                     scratch.data());
  }
  void reference_backward(Write dq, Write dk, Write dv) {
    if (tokens == 0) return;  // nothing has no address to add to
    auto scratch = unwritten<S>(cpu::attention_reference_scratch(longest));
    cpu::attention_reference_backward(size, dq, dk, dv, {offsets.data(), sequences}, operands(), dout.data(),
                                      gradients(), scratch.data());
  }
};

/// Calls f<size>() for every mixing, mask and bias of heads that wide; under sanitizers, which take long to compile,
/// for three combinations that have all of them.
template <int heads, int key_width, int value_width, class F>
void each_attention(const F& f) {
  const auto with = [&]<AttentionMatrix matrix, Mask mask, bool alibi>() {
    CAPTURE(static_cast<int>(matrix));
    CAPTURE(static_cast<int>(mask));
    CAPTURE(alibi);
    f.template operator()<AttentionSize{heads, key_width, value_width, matrix, mask, alibi}>();
  };
  if constexpr (emulation::address_sanitized || emulation::thread_sanitized) {
    with.template operator()<AttentionMatrix::softmax, Mask::full, true>();
    with.template operator()<AttentionMatrix::skip_init, Mask::causal, false>();
    with.template operator()<AttentionMatrix::shaped, Mask::causal, true>();
  } else {
    const auto with_mixing = [&]<AttentionMatrix matrix>() {
      with.template operator()<matrix, Mask::causal, false>();
      with.template operator()<matrix, Mask::full, false>();
      with.template operator()<matrix, Mask::causal, true>();
      with.template operator()<matrix, Mask::full, true>();
    };
    with_mixing.template operator()<AttentionMatrix::softmax>();
    with_mixing.template operator()<AttentionMatrix::skip_init>();
    with_mixing.template operator()<AttentionMatrix::shaped>();
  }
}

}  // namespace test
