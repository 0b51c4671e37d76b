// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/graph_on.cuh
/// GraphOn: the graph of a model as a GPU evaluates it. Its parameters, their order and what it computes are those of
/// every other backend; two things are not:
///
///     slices of products are products (sliced_products.cuh)
///     what Cuda<Precision::bfloat16> stores so takes half of the room of floats (bfloat16_values.cuh)

#include <simplx/cuda/between_products.cuh>
#include <simplx/cuda/sliced_products.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// What changes of a model.
template <class Backend>
struct LoweredTo {
  static constexpr void rewrite(Node* root) { slice_products(root); }

  template <class Planned, int capacity = Planned::count>
  static constexpr Rooms<capacity> rooms() {
    Rooms<capacity> rooms = whole_rooms<capacity>(Planned::table.info, capacity);
    detail::unroll<0, Backend::rounds_values ? capacity : 0>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (stores_bfloat16_gradient<Backend, Planned, i>) rooms.gradient[i] /= 2;
      if constexpr (stores_bfloat16<Backend, Planned, i>) rooms.value[i] /= 2;
    });
    return rooms;
  }
};

/// A source with these changes.
template <class Source, class Backend>
struct LoweredSource {
  using Lowering = LoweredTo<Backend>;
  template <class F>
  static constexpr auto with(F f) {
    return Source::with([f](Node* root) {
      Lowering::rewrite(root);
      return f(root);
    });
  }
};

/// The graph of a source on a backend of a GPU.
template <class Source, class Backend>
using GraphOn = Graph<LoweredSource<Source, Backend>>;

}  // namespace simplx::gpu
