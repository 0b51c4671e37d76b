// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/streamed_attention.hpp
/// What causal attention remembers when tokens come one after the other (d = H d_k = H d_v):
///
/// | values                         | per token   | once   |                                                       |
/// |--------------------------------|-------------|--------|-------------------------------------------------------|
/// | V = x W_V, or any other        | k and v: 2d | -      |                                                       |
/// | V = x, where K = x W_K (SAS)   | x: d        | -      | W_K is applied to the query: q (x W)^T = (q W^T) x^T  |
/// | and with shaped attention      |             | d + H  | the running mean C V: O(1) for each token             |
/// | the same in a window           |             | -      | the mean of what the window has of V                  |
///
/// SAS thus has neither keys nor a value cache beside its inputs; keys are projected, into scratch, where many tokens
/// are new at once (cpu/attention_step.hpp). Keys and values that groups of heads share (repeat_columns of whole heads)
/// are remembered once for each group. Of a window the tokens of twice as many whole blocks are remembered as it
/// reaches back.

#include <simplx/cpu/attention_step.hpp>
#include <simplx/generate/streamed.hpp>
#include <simplx/ops/attention.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Whether node `key` of a graph is x W with a parameter W, and x the node `value`.
template <class G>
constexpr bool projects(int key, int value) {
  const Info& info = G::table.info[key];
  return G::flat.label[key].op == Tag("matmul") && !is_transposed(G::flat.label[key].attributes) &&
         info.arguments[0] == value && G::table.info[info.arguments[1]].kind == Kind::parameter;
}

/// How many heads of that width a node has before it repeats each for others.
template <class G>
constexpr int heads_of_its_own(int node, int heads, int width) {
  const Label& label = G::flat.label[node];
  const Copies copies = copies_in(label.attributes);
  return label.op == Tag("repeat_columns") && copies.width == width ? heads / static_cast<int>(copies.times) : heads;
}

template <AttentionMatrix matrix>
struct streamed_attention : by_row {
  using Op = attention_op<matrix>;
  template <class F>
  static constexpr AttentionSize size = Op::template size<F, false>;
  template <class F>
  static constexpr int key_heads =
      heads_of_its_own<typename F::Graph>(F::template argument<1>, size<F>.heads, size<F>.key_width);
  template <class F>
  static constexpr int value_heads =
      heads_of_its_own<typename F::Graph>(F::template argument<2>, size<F>.heads, size<F>.value_width);
  /// The keys before they are repeated.
  template <class F>
  static constexpr int own_keys = key_heads<F> == size<F>.heads
                                      ? F::template argument<1>
                                      : F::Graph::table.info[F::template argument<1>].arguments[0];
  template <class F>
  static constexpr bool folds = projects<typename F::Graph>(own_keys<F>, F::template argument<2>);
  template <class F>
  static constexpr Index stored_keys = folds<F> ? 0 : key_heads<F> * size<F>.key_width;

  template <class F>
  static constexpr bool possible = size<F>.mask == Mask::causal;
  template <class F>
  static constexpr Remembered remembers{
      .per_token = value_heads<F> * size<F>.value_width + stored_keys<F>,
      .once = matrix == AttentionMatrix::shaped && size<F>.window == 0 ? F::out_shape.cols + size<F>.heads : 0,
      .most_tokens = cpu::step_tokens<size<F>, typename F::Scalar>};
  /// Of a sequence with one new token.
  template <class F>
  static constexpr Index scratch_of_one(Index context) {
    return cpu::attention_step_scratch<size<F>, false, typename F::Scalar>(context);
  }
  template <class F>
  static constexpr Index scratch(const StreamRoom& room) {
    return std::max(
        cpu::attention_step_scratch<size<F>, folds<F>, typename F::Scalar>(room.context, key_heads<F>),
        room.sequences * scratch_of_one<F>(room.context));
  }

  /// The heads of one sequence are shared among the team; of several the sequences.
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame, const StreamMemory<S>& memory) {
    const Context<S>& context = frame.context;
    const auto attend = [&](Index sequence, S* scratch, cpu::Team* team) {
      const StreamMemory<S> own = memory.of(sequence);
      cpu::AttentionPast<S> past{own.stores, own.stores, own.once};
      if constexpr (folds<F>) {
        constexpr int weight = F::Graph::table.info[own_keys<F>].arguments[1];
        past.projection = Address<typename F::Graph>::template value<weight>(context);
      } else {
        past.values += stored_keys<F> * own.capacity;
      }
      const Index first = context.segments.offsets[sequence], end = context.segments.offsets[sequence + 1];
      AttentionOperands<S> in = Op::operands(frame);
      in.query += first * size<F>.heads * size<F>.key_width, in.key += first * size<F>.heads * size<F>.key_width;
      in.value += first * F::out_shape.cols;
      cpu::attention_steps<size<F>, folds<F>, key_heads<F>, value_heads<F>>(
          end - first, context.past[sequence], in, past, frame.out() + first * F::out_shape.cols, scratch, team);
    };
    const Index sequences = context.segments.count;
    if (sequences == 1) return attend(0, memory.scratch, frame.team());
    const Index past = *std::max_element(context.past, context.past + sequences);
    const Index longest = std::min(past + 1, memory.capacity);
    const Index work_per_token = size<F>.heads * (folds<F> ? size<F>.heads + 1 : 2) * size<F>.value_width;
    cpu::divide(frame.team(), sequences, sequences * longest * work_per_token, [&](Index begin, Index end) {
      for (Index s = begin; s < end; ++s) attend(s, memory.scratch + s * scratch_of_one<F>(memory.capacity), nullptr);
    });
  }
};

}  // namespace detail

template <>
struct streamed<"softmax_attention"> : detail::streamed_attention<AttentionMatrix::softmax> {};
template <>
struct streamed<"skip_init_attention"> : detail::streamed_attention<AttentionMatrix::skip_init> {};
template <>
struct streamed<"shaped_attention"> : detail::streamed_attention<AttentionMatrix::shaped> {};

}  // namespace simplx
