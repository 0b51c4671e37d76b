// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/workspace.hpp
/// The arena of one evaluation: kept values, temporaries, scratch and results; made once and reused.

#include <simplx/core/counts.hpp>
#include <simplx/cpu/memory.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// One allocation that holds an evaluation of at most `capacity` rows.
///
/// Cost    arena_bytes<model>(capacity), and the results; nothing is allocated afterwards
template <class G, class Backend>
class Workspace {
 public:
  using S = typename Backend::Scalar;

  explicit Workspace(const Rows& capacity)
      : capacity_(capacity),
        kept_(elements(G::layout.kept, capacity)),
        temporary_(elements(G::layout.temporary, capacity)),
        results_(result_elements(capacity)),
        memory_(kept_ + temporary_ + detail::graph_scratch<G, Backend>(capacity) + 2 * results_) {}

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
    split(context.kept, G::layout.kept);
    place = memory_.data() + kept_;
    split(context.temporary, G::layout.temporary);
    context.scratch = memory_.data() + kept_ + temporary_;
    place = memory_.data() + memory_.size() - 2 * results_;
    for (int i = 0; i < G::count; ++i) {
      if (!G::table.info[i].result) continue;
      const Index size = padded_size(G::table.info[i].shape, rows);
      context.outputs[G::layout.output[i]] = place;
      context.output_gradients[G::layout.output[i]] = place + size;
      place += 2 * size;
    }
    return context;
  }

  const Rows& capacity() const { return capacity_; }
  std::span<S> memory() { return memory_.span(); }
  Index size() const { return memory_.size(); }

 private:
  static Index padded_size(const Shape& shape, const Rows& rows) {
    const Index count = shape.is_fixed() ? shape.rows : rows.count(shape.axis);
    return round_up(count * shape.cols, alignment);
  }
  static Index result_elements(const Rows& rows) {
    Index total = 0;
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].result) total += padded_size(G::table.info[i].shape, rows);
    }
    return total;
  }

  Rows capacity_;
  Index kept_, temporary_, results_;
  Buffer<S> memory_;
};

}  // namespace simplx
