// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/execute.hpp
/// Running a planned graph: straight-line code, one call for each step, for any backend.
///
/// A backend supplies its `Scalar`, `map_forward`, `map_backward`, the elements of `map_scratch` that these need,
/// `clear`, `copy` and `add`; ops supply `forward(backend, frame)` and `backward(backend, frame)`, products an epilogue
/// in addition. A backend with kernels of its own specialises `kernels`; one whose memory is not the host's says
/// `on_device`.

#include <simplx/core/frame.hpp>
#include <simplx/core/op.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Asked by what simplx/cuda specialises for its backends.
template <class Backend>
constexpr bool runs_on_host() {
  static_assert(!requires { Backend::on_device; },
                "simplx: Trainer, Learner, Inference, Stream, Evaluation and Function on a GPU are those of "
                "simplx/cuda/trainer.cuh, learner.cuh, inference.cuh, stream.cuh, evaluation.cuh and function.cuh: "
                "include the one that is used, in a source of nvcc");
  return true;
}

}  // namespace detail

/// The definition of the op of a node.
template <class G, int node>
using op_of = op<G::flat.label[node].op>;

/// What runs an op on a backend: the op itself, unless the backend knows better (simplx/cuda).
template <class Backend, Tag name>
struct kernels : op<name> {};

template <class Backend, class G, int node>
using kernels_of = kernels<Backend, G::flat.label[node].op>;

/// The steps of a graph on a backend: prepare, forward, backward.
template <class G, class Backend>
struct Execute {
  using S = typename Backend::Scalar;
  template <int node>
  using FrameOf = Frame<G, node, S>;

  /// Kernels bring parameters into the form they read fastest, once for each step: `packed` for forward, `turned` for
  /// backward, unless that is null. Part `part` of `parts`.
  __attribute__((noinline)) static void prepare(const S* parameters, S* packed, S* turned, int part = 0,
                                                int parts = 1) {
    constexpr int nodes = G::layout.packed_elements > 0 ? G::count : 0;
    detail::unroll<0, nodes>([&]<int i>(std::integral_constant<int, i>) {
      [[maybe_unused]] constexpr Index place = G::layout.packed[i];
      if constexpr (G::table.info[i].stack) {
        op_of<G, i>::template prepare<G, i>(Backend{}, parameters, packed + place, turned ? turned + place : turned,
                                            part, parts);
      } else if constexpr (G::table.info[i].packed > 0) {
        if (i % parts != part) return;
        op_of<G, i>::template prepare<G, i>(Backend{}, parameters, packed + place, turned ? turned + place : turned);
      }
    });
  }

  __attribute__((noinline)) static void forward(const Context<S>& context) {
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[s];
      if constexpr (G::table.info[node].looped()) {
        Backend::template map_forward<G, node>(context);
      } else {
        kernels_of<Backend, G, node>::forward(Backend{}, FrameOf<node>{context});
      }
    });
  }

  __attribute__((noinline)) static void backward(const Context<S>& context) {
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[G::fusion.steps - 1 - s];
      if constexpr (G::fusion.wanted[node]) {
        if constexpr (G::table.info[node].looped()) {
          clear_leaves<node>(context);
          if constexpr (!G::plan.idle[node]) {
            const detail::Addition addition(G::plan.adds[node] ? context.turn : nullptr);
            Backend::template map_backward<G, node>(context);
          }
          constexpr int product = G::fusion.epilogue_of[node];
          if constexpr (product >= 0) {
            if constexpr (G::fusion.wanted[product]) op_backward<product>(context);
          }
        } else {
          op_backward<node>(context);
        }
      }
    });
    // An input that nothing depends on differentiably has a gradient of zero.
    detail::unroll<0, unreached_inputs() ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (G::table.info[i].kind == Kind::input && G::fusion.wanted[i] &&
                    G::plan.first_write[i] == never) {
        clear<i>(context);
      }
    });
  }

 private:
  static constexpr bool unreached_inputs() {
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].kind == Kind::input && G::fusion.wanted[i] && G::plan.first_write[i] == never) return true;
    }
    return false;
  }
  template <int node>
  static void clear(const Context<S>& context) {
    constexpr Shape shape = G::table.info[node].shape;
    Backend::clear(context, Address<G>::template gradient<node>(context), context.rows_of(shape) * shape.cols);
  }
  template <int node>
  static void op_backward(const Context<S>& context) {
    constexpr Info info = G::table.info[node];
    detail::unroll<0, info.argument_count>([&]<int a>(std::integral_constant<int, a>) {
      if constexpr (G::plan.argument_cleared[node][a]) clear<info.arguments[a]>(context);
    });
    const detail::Addition addition(G::plan.adds[node] && !op_of<G, node>::adds_by_itself ? context.turn : nullptr);
    kernels_of<Backend, G, node>::backward(Backend{}, FrameOf<node>{context});
  }
  template <int root>
  static void clear_leaves(const Context<S>& context) {
    detail::unroll<G::fusion.leaf_begin[root], G::fusion.leaf_end[root]>(
        [&]<int l>(std::integral_constant<int, l>) {
          if constexpr (G::plan.leaf_cleared[l]) clear<G::fusion.leaves[l]>(context);
        });
  }
};

}  // namespace simplx
