// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/workspace.hpp
/// The arena of one evaluation: kept values, temporaries, scratch and results; made once and reused.

#include <simplx/core/counts.hpp>
#include <simplx/core/view.hpp>
#include <simplx/cpu/memory.hpp>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Whether an arena has the gradients of results, which a backward begins with.
enum class Seeds : bool { none, room };

/// One allocation that holds an evaluation of at most `capacity` rows, in memory of any kind.
///
/// Cost    arena_bytes<model>(capacity), and the results; nothing is allocated afterwards
template <class S, class Memory = cpu::Buffer<S>>
class Arena {
 public:
  /// `scratch` elements are for the op that runs.
  Arena(const GraphView& graph, Index scratch, const Rows& capacity, Seeds seeds = Seeds::room)
      : copies_(seeds == Seeds::room ? 2 : 1),
        graph_(graph),
        capacity_(capacity),
        kept_(elements(graph.kept, capacity)),
        temporary_(elements(graph.temporary, capacity)),
        results_(result_elements()),
        memory_(kept_ + temporary_ + scratch + copies_ * results_) {}

  /// A context for these rows, which must fit the capacity; inputs, parameters and sequences are the caller's.
  Context<S> context(const Rows& rows, const Segments& segments, Index longest) {
    Context<S> context;
    set_rows(context, rows);
    context.segments = segments;
    context.longest = longest;
    S* place = memory_.data();
    const auto split = [&](S* (&region)[axis_count], const Columns& columns) {
      for (int i = 0; i < axis_count; ++i) {
        region[i] = place;
        place += columns.on[i] * context.stride[i];
      }
    };
    split(context.kept, graph_.kept);
    place = memory_.data() + kept_;
    split(context.temporary, graph_.temporary);
    context.scratch = memory_.data() + kept_ + temporary_;
    place = memory_.data() + memory_.size() - copies_ * results_;
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.info[i].result) continue;
      const Index size = padded_size(graph_.info[i].shape, rows);
      context.outputs[graph_.output[i]] = place;
      if (copies_ == 2) context.output_gradients[graph_.output[i]] = place + size;
      place += copies_ * size;
    }
    return context;
  }

  const Rows& capacity() const { return capacity_; }
  std::span<S> memory() { return memory_.span(); }
  Index size() const { return memory_.size(); }

 private:
  static Index padded_size(const Shape& shape, const Rows& rows) {
    return round_up(rows.count(shape) * shape.cols, alignment);
  }
  Index result_elements() const {
    Index total = 0;
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].result) total += padded_size(graph_.info[i].shape, capacity_);
    }
    return total;
  }

  Index copies_;  ///< of results: these, and their gradients
  GraphView graph_;
  Rows capacity_;
  Index kept_, temporary_, results_;
  Memory memory_;
};

/// That of a graph on a backend.
template <class G, class Backend>
class Workspace : public Arena<typename Backend::Scalar> {
 public:
  explicit Workspace(const Rows& capacity, Seeds seeds = Seeds::room)
      : Arena<typename Backend::Scalar>(view_of<G>, graph_scratch<G, Backend>(capacity), capacity, seeds) {}
};

}  // namespace simplx::detail
