// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/streamed.hpp
/// How ops run when the tokens of a sequence come one after the other: streamed<"name"> for each op.
///
/// | op                       | what it remembers of the tokens before                                     |
/// |--------------------------|----------------------------------------------------------------------------|
/// | elementwise, norms, ...  | nothing: its ordinary kernel runs on the new rows                          |
/// | positions, rotary        | nothing: Context::past counts the tokens before                            |
/// | shift(x, n), n >= 0      | the last n rows of x                                                       |
/// | cumulative_sum           | one row                                                                    |
/// | attention, causal        | keys and values, or what both are made of (streamed_attention.hpp)         |
///
/// Several sequences go on at once: by many tokens of one, or by one token of each, and each has memory of its own.
/// What reads tokens to come cannot be streamed, and does not compile. An op of one's own, whose rows do not look at
/// each other, is streamed by its ordinary kernel after
///
///     template <> struct simplx::streamed<"my_op"> : simplx::by_row {};
///
/// On a GPU simplx/cuda/streamed.cuh has those that remember; one of your own that does needs
/// streamed_on<Cuda<p>, "my_op"> for it.

#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/softmax.hpp>

#include <algorithm>
#include <limits>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("streamed", (possible<left, right>),
            "a stream gives its model one token after the other, but this op (left number: its line) reads tokens to "
            "come, or all at once: full attention, sums and maxima over rows, first_of_sequence, shifts up; evaluate "
            "whole sequences by Inference, or, if it is an op of yours that reads no row but its own, specialise "
            "streamed<\"its name\">")

/// Elements that a node remembers.
struct Remembered {
  Index per_token = 0;
  Index once = 0;
  Index most_tokens = std::numeric_limits<Index>::max();  ///< of a longer context so many are remembered

  /// Of a context of so many tokens, in whole blocks.
  constexpr Index elements(Index context) const {
    return round_up(per_token * std::min(context, most_tokens) + once, alignment);
  }
};

namespace detail {
/// Which part of a feed is evaluated: of the last one results are wanted, of others what the tokens after them need.
enum class Chunk : bool { between, last };
}  // namespace detail

/// The new tokens of a stream at most: of one sequence, or one of each; and its context.
struct StreamRoom {
  Index rows, sequences, context;
};

/// Where a node finds what it remembers of the first sequence of a stream; zeros before the first token.
template <class S>
struct StreamMemory {
  S* stores = nullptr;   ///< per_token * capacity elements
  S* once = nullptr;
  Index capacity = 0;    ///< tokens, in whole blocks
  S* scratch = nullptr;  ///< of the op that runs
  const Index* sequences = nullptr;  ///< which of the stream's have new tokens
  Index apart = 0;                   ///< elements from what is remembered of one to that of the next

  /// A node's own, at the beginning of that of a graph.
  StreamMemory own(const Remembered& node) const {
    const Index tokens = std::min(capacity, node.most_tokens);
    return {stores, stores + node.per_token * tokens, tokens, scratch, sequences, apart};
  }
  /// Of layers, which divide it among themselves.
  StreamMemory own(const auto&) const { return *this; }
  /// That of one of the sequences with new tokens.
  StreamMemory of(Index sequence) const {
    const Index offset = sequences[sequence] * apart;
    return {stores + offset, once + offset, capacity, scratch, nullptr, 0};
  }
};

/// An op that cannot be streamed, or of which nothing is known.
template <Tag name>
struct streamed {
  template <class F>
  static constexpr bool possible = false;
  template <class F>
  static constexpr Remembered remembers{};
};

/// Every row of the result depends on the same row of its operands alone.
struct by_row {
  template <class F>
  static constexpr bool possible = true;
  template <class F>
  static constexpr Remembered remembers{};
  /// Elements of StreamMemory::scratch, beside Context::scratch.
  template <class F>
  static constexpr Index scratch(const StreamRoom&) {
    return 0;
  }
  template <class Backend, class F>
  static void forward(Backend backend, const F& frame, const StreamMemory<typename F::Scalar>&) {
    kernels_of<Backend, typename F::Graph, F::index>::forward(backend, frame);
  }
};

/// What streams an op on a backend: as streamed says, unless the backend knows better (simplx/cuda).
template <class Backend, Tag name>
struct streamed_on : streamed<name> {};

template <> struct streamed<"matmul"> : by_row {};
template <> struct streamed<"batched_matmul"> : by_row {};
template <> struct streamed<"rms_norm"> : by_row {};
template <> struct streamed<"layer_norm"> : by_row {};
template <> struct streamed<"softmax"> : by_row {};
template <> struct streamed<"log_softmax"> : by_row {};
template <> struct streamed<"log_sum_exp"> : by_row {};
template <> struct streamed<"slice_columns"> : by_row {};
template <> struct streamed<"concatenate"> : by_row {};
template <> struct streamed<"repeat_columns"> : by_row {};
template <> struct streamed<"sum_of_repeated"> : by_row {};
template <> struct streamed<"dropout"> : by_row {};  // there is none outside of training
template <> struct streamed<"stop_gradient"> : by_row {};
template <> struct streamed<"positions"> : by_row {};
template <> struct streamed<"rotary"> : by_row {};

template <>
struct streamed<"embedding"> : by_row {
  template <class F>
  static constexpr bool possible = F::template shape<0>.is_fixed();  // rows of the sequence itself may be yet to come
};
template <>
struct streamed<"maximum"> : by_row {
  template <class F>
  static constexpr bool possible = detail::over_of(F::attributes) == Over::columns;
};

/// The last rows in a ring: row t lies where row t - n lay before.
template <>
struct streamed<"shift"> : by_row {
  template <class F>
  static constexpr bool possible = op<"shift">::by(F::attributes) >= 0;
  template <class F>
  static constexpr Remembered remembers{.once = op<"shift">::by(F::attributes) * F::out_shape.cols};

  template <class Backend, class F>
  static void forward(Backend backend, const F& frame, const StreamMemory<typename F::Scalar>& memory) {
    constexpr Index cols = F::out_shape.cols, by = op<"shift">::by(F::attributes);
    if constexpr (by == 0) {
      op<"shift">::forward(backend, frame);
    } else {
      frame.context.segments.each([&](Index sequence, Index first, Index rows) {
        auto* const ring = memory.of(sequence).once;
        for (Index row = 0; row < rows; ++row) {
          auto* const place = ring + (frame.context.past_of(sequence) + row) % by * cols;
          std::copy_n(place, cols, frame.out() + (first + row) * cols);
          std::copy_n(frame.template in<0>() + (first + row) * cols, cols, place);
        }
      });
    }
  }
};

template <>
struct streamed<"cumulative_sum"> : by_row {
  template <class F>
  static constexpr bool possible = !op<"cumulative_sum">::from_last(F::attributes);
  template <class F>
  static constexpr Remembered remembers{.once = F::out_shape.cols};

  template <class Backend, class F>
  static void forward(Backend, const F& frame, const StreamMemory<typename F::Scalar>& memory) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index sequence, Index first, Index rows) {
      auto* const sums = memory.of(sequence).once;
      const auto *const x = frame.template in<0>() + first * cols;
      auto* const y = frame.out() + first * cols;
      for (Index i = 0; i < rows * cols; ++i) y[i] = sums[i % cols] += x[i];
    });
  }
};

}  // namespace simplx
