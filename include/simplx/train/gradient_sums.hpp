// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/gradient_sums.hpp
/// The gradient of a model's parameters while sequences add to it: one copy, whatever the number of threads.
///
/// A parameter that several steps of the model use has a sum for each use (core/plan.hpp), and one that the layers of a
/// stack share has them for each layer: that of the first lies in the layout of the parameters, the further ones after
/// it, until `fold` adds them up.

#include <simplx/core/context.hpp>
#include <simplx/core/graph.hpp>
#include <simplx/cpu/memory.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A further sum of a parameter's gradient, in elements of the two buffers.
struct FurtherUse {
  Index parameter, sum, size;
};

namespace detail {

template <class G>
void list_further_uses(Index parameters, Index sums, std::vector<FurtherUse>& uses) {
  unroll<0, G::layout.further_elements ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Info info = G::table.info[i];
    const Index parameter = parameters + G::layout.parameter[i], sum = sums + G::layout.further[i];
    if constexpr (info.stack) {
      using Layers = typename G::template layers_of<i>;
      for (int layer = 0; layer < Layers::layers; ++layer) {
        const Index first = parameter + Layers::offsets.parameter[layer];
        const Index further = sum + Layers::offsets.further[layer];
        Layers::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
          constexpr Index size = Child::layout.parameters;
          if (layer >= Layers::sets && size > 0) uses.push_back({first, further - size, size});
          list_further_uses<Child>(first, further, uses);
        });
      }
    } else if constexpr (info.kind == Kind::parameter) {
      for (int use = 1; use < G::plan.uses[i]; ++use) {
        uses.push_back({parameter, sum + (use - 1) * info.parameters, info.parameters});
      }
    }
  });
}

}  // namespace detail

/// The sums of further uses, beside a buffer for those of the first.
///
/// Cost    the parameters that several steps or layers use, for each use after the first
template <class G, class S>
class FurtherSums {
 public:
  FurtherSums() : sums_(G::layout.further_elements) { detail::list_further_uses<G>(0, 0, uses_); }

  S* data() { return sums_.data(); }
  Index size() const { return sums_.size(); }
  void clear() { std::ranges::fill(sums_, S(0)); }

  /// Adds them to elements [begin, end) of `first`, in the layout of the parameters, which are then the gradient, and
  /// leaves zeros.
  void fold(S* first, Index begin, Index end) {
    for (const FurtherUse& use : uses_) {
      const Index from = std::max(begin, use.parameter), to = std::min(end, use.parameter + use.size);
      for (Index i = from; i < to; ++i) first[i] += std::exchange(sums_[use.sum + i - use.parameter], S(0));
    }
  }

 private:
  cpu::Buffer<S> sums_;
  std::vector<FurtherUse> uses_;
};

/// All sums of a gradient.
///
/// Cost    the parameters, and FurtherSums
template <class G, class S>
class GradientSums {
 public:
  GradientSums() : first_(G::layout.parameters) {}

  /// Where the backward pass of a sequence adds its gradient.
  void give_to(Context<S>& context) {
    context.gradients = first_.data();
    context.further_gradients = further_.data();
  }

  /// Adds up elements [begin, end), in the layout of the parameters: then they are the gradient.
  void fold(Index begin, Index end) { further_.fold(first_.data(), begin, end); }

  /// What the first uses added: after fold the gradient.
  std::span<S> folded() { return first_.span(); }
  Index size() const { return first_.size() + further_.size(); }

  void clear() {
    std::ranges::fill(first_, S(0));
    further_.clear();
  }

 private:
  cpu::Buffer<S> first_;
  FurtherSums<G, S> further_;
};

}  // namespace simplx
