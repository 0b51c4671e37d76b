// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/divided_loss.hpp
/// DividedLoss: a loss of many rows, evaluated some rows at a time, by as many threads as there are.
///
///     mean over all rows = sum over parts of (rows of the part / rows of all) mean over the part
///
/// and the same is true of a sum of such means, of their multiples, and of what reads no rows beside them:
/// mean(error) + 0.1 * mean(divergence) + penalty. A sum over rows is that over its parts. So the same graph is
/// evaluated for each part, and its gradients, times the part's share, add up to that of the whole. A part stays in
/// cache, and memory is that of a part for each thread. Parts are read off the rows and lengths of sequences, and add
/// in their order (core/turn.hpp): threads change no bits.

#include <simplx/core/rows_apart.hpp>
#include <simplx/core/turn.hpp>
#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/train/gradient_sums.hpp>
#include <simplx/train/micro_batches.hpp>

#include <algorithm>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// What a fixed value says of rows: nothing, a mean or a sum over them to which parts add up, or what they do not tell.
enum class Says : unsigned char { nothing, mean, sum, more };

/// How the rows of a graph are divided, if its result allows it.
struct Division {
  Says result = Says::more;  ///< a mean or a sum: it does
  Axis axis{};               ///< of the rows of that mean
  bool sequences = false;    ///< parts are whole sequences, with their tokens; otherwise rows of Axis::batch

  constexpr bool possible() const { return result == Says::mean || result == Says::sum; }
};

/// Reads off a graph what its nodes say of rows.
template <class G>
struct DivisionOf {
  Says says[G::count]{};
  Axis axis[G::count]{};  ///< of a mean
  bool apart = true;      ///< no row reads others than those of its own sequence, nor what they were reduced to
  bool batch = false, sequences = false;

  constexpr DivisionOf() {
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].kind != Kind::outputs) take(i);
    }
    each_inner_graph<G>([&]<class Inner>() {
      const DivisionOf<Inner> inner;
      apart &= inner.apart && std::ranges::all_of(inner.says, [](Says s) { return s == Says::nothing; });
      batch |= inner.batch, sequences |= inner.sequences;
    });
  }

 private:
  constexpr void take(int i) {
    const Info& info = G::table.info[i];
    if (info.shape.is_fixed()) return take_fixed(i);
    batch |= info.shape.axis == Axis::batch;
    sequences |= info.shape.axis == Axis::tokens || info.shape.axis == Axis::sequences;
    apart &= info.rows_apart && info.shape.axis != Axis::labelled;
    for (int a = 0; a < info.argument_count; ++a) apart &= says[info.arguments[a]] == Says::nothing;
    apart &= looked_up_axis<G>(i) == Axis::fixed;
  }
  /// A fixed value: a mean or sum over rows, or what such make of others that they are linear in.
  constexpr void take_fixed(int i) {
    const Info& info = G::table.info[i];
    const Tag name = G::flat.label[i].op;
    const auto is = [&](auto... names) { return ((name == Tag(names)) || ...); };
    if (info.argument_count == 0) return;
    const int x = info.arguments[0], y = info.argument_count == 2 ? info.arguments[1] : x;
    const auto say = [&](Says what, Axis over) { says[i] = what, axis[i] = over; };
    if (!G::table.info[x].shape.is_fixed()) {
      return say(is("mean") ? Says::mean : is("sum") ? Says::sum : Says::more, G::table.info[x].shape.axis);
    }
    // One mask is for all rows, and a pull-back of a user's own may be other than linear in the gradient.
    bool of_rows = is("dropout", "custom");
    for (int a = 0; a < info.argument_count; ++a) {
      of_rows |= !G::table.info[info.arguments[a]].shape.is_fixed() || says[info.arguments[a]] != Says::nothing;
    }
    if (!of_rows) return;
    const bool x_says = says[x] != Says::nothing, y_says = says[y] != Says::nothing;
    const auto as = [&](int operand) { say(says[operand], axis[operand]); };
    if (is("output", "probe", "negate", "sum", "mean")) {
      as(x);
    } else if (is("add", "subtract") && x_says && y_says && says[x] == says[y] && axis[x] == axis[y]) {
      as(x);
    } else if (is("add", "subtract") && x_says != y_says && says[x_says ? x : y] == Says::mean) {
      as(x_says ? x : y);  // m + c is the mean of m + c; a sum would count c once for each part
    } else if (is("multiply") && x_says != y_says) {
      as(x_says ? x : y);
    } else if (is("divide") && !y_says) {
      as(x);
    } else {
      say(Says::more, {});
    }
  }
};

template <class G>
constexpr Division division_of() {
  if constexpr (G::sound) {
    const GraphView& graph = view_of<G>;
    const DivisionOf<G> all;
    if (G::layout.outputs != 1 || !all.apart) return {};
    if (all.batch == all.sequences) return {};  // parts have rows of one kind: neither of none, nor of both
    for (int i = 0; i < graph.count; ++i) {
      if (graph.is_input(i) && graph.wanted[i]) return {};  // its gradient is that of all rows, wherever they are
    }
    const int result = graph.result_node(0);
    if (graph.info[result].shape == fixed_shape(1, 1)) return {all.says[result], all.axis[result], all.sequences};
  }
  return {};
}

}  // namespace detail

/// Cost    gradients of a parameter's further uses (GradientSums), and for each thread an arena of a part: at most 64
///         rows of Axis::batch; or 64 sequences of together at most 64 tokens and a sixteenth of all; or one longer one
template <class G, class Backend>
class DividedLoss {
  static constexpr detail::Division division = detail::division_of<G>();
  static_assert(division.possible());

 public:
  using S = typename Backend::Scalar;
  using Run = Execute<G, Backend>;

  /// The loss; `all` has the rows, inputs, parameters and buffers of everything that was given.
  double value(cpu::Team& team, const Context<S>& all) {
    divide(team, all);
    team.run([&](int member) {
      for (Index p = member; p < parts(); p += team.size()) forward(all, p, member);
    });
    return loss();
  }
  /// The same, and its gradient in `all.gradients`.
  double value_and_grad(cpu::Team& team, const Context<S>& all) {
    divide(team, all);
    const Index share = round_up((G::layout.parameters + team.size() - 1) / team.size(), alignment);
    const auto begin_of = [&](int member) { return std::min(member * share, G::layout.parameters); };
    team.run([&](int member) {
      std::fill(all.gradients + begin_of(member), all.gradients + begin_of(member + 1), S(0));
    });
    turns_.start();
    team.run([&](int member) {
      for (Index p = turns_.deal(); p < parts(); p = turns_.deal()) {
        detail::Turn turn(turns_, p);
        Context<S> part = forward(all, p, member);
        const double weight = weight_of(all, part);
        if (weight == 0) continue;
        part.turn = &turn;
        part.output_gradients[0][0] = static_cast<S>(weight);
        Run::backward(part);
      }
    });
    team.run([&](int member) { further_.fold(all.gradients, begin_of(member), begin_of(member + 1)); });
    return loss();
  }

 private:
  static constexpr Index parts_at_least = 16;  // as train/micro_batches.hpp, which says why

  /// Evaluates part p and notes its share of the loss: of no rows, whose mean is not a number, nothing.
  Context<S> forward(const Context<S>& all, Index p, int member) {
    const Context<S> part = context_of(all, p, members_[static_cast<std::size_t>(member)]);
    const double weight = weight_of(all, part);
    Run::forward(part);
    losses_[p] = weight != 0 ? weight * static_cast<double>(part.outputs[0][0]) : 0;
    return part;
  }
  double loss() const {
    double total = 0;
    for (Index p = 0; p < parts(); ++p) total += losses_[p];
    return total;
  }

  Index parts() const { return std::ssize(begins_) - 1; }
  /// Finds where parts begin, and the last ends, in rows of Axis::batch or in sequences; and makes room for them. Of
  /// what has no rows all is one part: what a mean or a sum over none is, the graph says.
  void divide(const cpu::Team& team, const Context<S>& all) {
    begins_.clear();
    if (rows_divided(all) == 0) {
      begins_.push_back(0);
      begins_.push_back(division.sequences ? all.segments.count : 0);
    } else if constexpr (!division.sequences) {
      const Index rows = all.rows[static_cast<int>(Axis::batch)];
      for (Index row = 0; row < rows; row += detail::micro_batch_rows) begins_.push_back(row);
      begins_.push_back(rows);
    } else {
      const Index tokens = all.rows[static_cast<int>(Axis::tokens)];
      detail::divide_sequences(all.segments, detail::micro_batch_tokens(tokens, parts_at_least), begins_);
    }
    make_room(team, all);
  }
  Rows rows_of(const Context<S>& all, Index p) const {
    const Index begin = begins_[static_cast<std::size_t>(p)], end = begins_[static_cast<std::size_t>(p) + 1];
    if constexpr (!division.sequences) return {.batch = end - begin};
    const Index* const offsets = all.segments.offsets;
    Rows rows{.tokens = offsets[end] - offsets[begin], .sequences = end - begin};
    for (Index s = begin; s < end; ++s) {
      rows.longest_sequence = std::max(rows.longest_sequence, offsets[s + 1] - offsets[s]);
    }
    return rows;
  }
  /// Makes what holds the largest part, and the largest so far, unless there is room.
  void make_room(const cpu::Team& team, const Context<S>& all) {
    turns_.make_room(parts());
    if (losses_.size() < parts()) losses_ = cpu::Buffer<double>(parts());
    Rows largest = capacity_;
    for (Index p = 0; p < parts(); ++p) largest = largest.or_more(rows_of(all, p));
    if (!members_.empty() && capacity_.hold(largest)) return;
    members_.clear();  // the larger ones come in their place, not beside them
    capacity_ = {.sequences = 0};
    std::vector<MicroBatchWorkspace<G, Backend>> members;
    for (int t = 0; t < team.size(); ++t) members.emplace_back(largest);
    members_ = std::move(members);  // all of them, or none where memory is short
    capacity_ = largest;
  }

  Context<S> context_of(const Context<S>& all, Index p, MicroBatchWorkspace<G, Backend>& workspace) {
    const Index begin = begins_[static_cast<std::size_t>(p)], end = begins_[static_cast<std::size_t>(p) + 1];
    Context<S> part;
    if constexpr (division.sequences) {
      part = workspace.context_of(all.segments, begin, end);
    } else {
      part = workspace.context({.batch = end - begin}, all.segments, 0);
    }
    part.parameters = all.parameters;
    part.packed = all.packed;
    part.turned = all.turned;
    part.constants = all.constants;
    part.gradients = all.gradients;
    part.further_gradients = further_.data();
    part.random = all.random;
    part.random.first_sequence += begin;
    const GraphView& graph = view_of<G>;
    for (int i = 0; i < graph.count; ++i) {
      if (!graph.is_input(i)) continue;
      const Shape& shape = graph.info[i].shape;
      const Index first = shape.is_fixed() ? 0 : shape.axis == Axis::tokens ? all.segments.offsets[begin] : begin;
      const bool whole_numbers = graph.info[i].kind == Kind::indices;
      const Index bytes = first * shape.cols * static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      part.inputs[graph.input[i]] = static_cast<const char*>(all.inputs[graph.input[i]]) + bytes;
    }
    return part;
  }
  /// The rows that the loss is a mean or a sum over.
  static Index rows_divided(const Context<S>& context) { return context.rows[static_cast<int>(division.axis)]; }
  /// What the loss of a part counts in that of all.
  static double weight_of(const Context<S>& all, const Context<S>& part) {
    if (division.result == detail::Says::sum || rows_divided(all) == 0) return 1;
    return static_cast<double>(rows_divided(part)) / static_cast<double>(rows_divided(all));
  }

  FurtherSums<G, S> further_;
  std::vector<Index> begins_;
  std::vector<MicroBatchWorkspace<G, Backend>> members_;
  cpu::Buffer<double> losses_;
  detail::Turns turns_{0};
  Rows capacity_{.sequences = 0};
};

}  // namespace simplx
