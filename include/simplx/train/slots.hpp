// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/slots.hpp
/// Gradient slots: a fixed number of copies of the gradient, so that a sum over sequences has one order.
///
/// Sequence n of a step is added to slot n modulo their number, each slot adds its sequences in order, and slots are
/// added in order: the bits depend neither on the threads nor on where a step is cut into parts.

#include <simplx/cpu/memory.hpp>

#include <algorithm>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

template <class S>
class GradientSlots {
 public:
  GradientSlots(Index count, Index elements) {
    for (Index s = 0; s < count; ++s) slots_.emplace_back(elements);
  }

  Index count() const { return static_cast<Index>(slots_.size()); }
  Index size() const { return count() * slots_[0].size(); }

  /// The slot of a step's sequence. Sequences of one slot must not run at once.
  S* of(Index sequence) { return slots_[static_cast<std::size_t>(sequence % count())].data(); }

  /// Adds elements [begin, end) of all slots to the first one and clears them in the others.
  void fold(Index begin, Index end) {
    for (std::size_t s = 1; s < slots_.size(); ++s) {
      S *from = slots_[s].data(), *to = slots_[0].data();
      for (Index i = begin; i < end; ++i) {
        to[i] += from[i];
        from[i] = 0;
      }
    }
  }

  /// The first slot: after fold the gradient.
  S* folded() { return slots_[0].data(); }
  const S* folded() const { return slots_[0].data(); }

  void clear() {
    for (Buffer<S>& slot : slots_) std::ranges::fill(slot, S(0));
  }

 private:
  std::vector<Buffer<S>> slots_;
};

}  // namespace simplx
