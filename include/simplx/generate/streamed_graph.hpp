// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/streamed_graph.hpp
/// A planned graph run on new tokens alone: the steps of core/execute.hpp, each op as streamed_on<Backend, op> has it.
/// What they remember lies in the order of the steps. Layers of a stack remember each for itself.

#include <simplx/generate/streamed_attention.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Runs the steps of a graph on new tokens; each op keeps what it remembers.
template <class G, class Backend>
struct StreamedGraph {
  using S = typename Backend::Scalar;
  template <int node>
  using FrameOf = Frame<G, node, S>;
  template <int node>
  using streamed_of = streamed_on<Backend, G::flat.label[node].op>;

  /// Computed from weights: no tokens are involved, and the ordinary kernel runs.
  static constexpr bool of_weights(int node) {
    const Info& info = G::table.info[node];
    bool fixed = info.shape.is_fixed();
    for (int a = 0; a < info.argument_count; ++a) fixed &= G::table.info[info.arguments[a]].shape.is_fixed();
    return fixed;
  }

  template <int node>
  static constexpr bool streams() {
    constexpr Info info = G::table.info[node];
    if constexpr (!info.executes() || of_weights(node)) {
      return true;
    } else if constexpr (info.shape.axis != Axis::tokens) {
      return false;
    } else if constexpr (info.kind == Kind::reduction) {
      return detail::over_of(G::flat.label[node].attributes) == Over::columns;
    } else {
      return info.kind == Kind::map || streamed_of<node>::template possible<FrameOf<node>>;
    }
  }
  /// Reports what cannot be streamed, with its line.
  template <int node>
  static constexpr void check() {
    if constexpr (!streams<node>()) {
      constexpr Where where = G::flat.label[node].where;
      constexpr detail::ShortPath path = detail::short_path(where.file);
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        detail::at_line<"streamed", where.line, 0, where.line, detail::File<path.chars[i]...>>();
      }(std::make_index_sequence<path.size>{});
    }
  }
  /// An op that is neither elementwise nor of weights, and streams.
  template <int node>
  static constexpr bool op_streams() {
    constexpr Info info = G::table.info[node];
    return info.executes() && !info.looped() && !of_weights(node) && streams<node>();
  }

  struct Table {
    bool idle[G::count]{};  ///< keys whose projection is folded into the query
    bool possible = true;
  };
  static constexpr Table table = [] {
    Table t;
    int uses[G::count]{}, folded[G::count]{};
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      check<i>();
      t.possible &= streams<i>();
      for (int a = 0; a < G::table.info[i].argument_count; ++a) ++uses[G::table.info[i].arguments[a]];
      if constexpr (op_streams<i>()) {
        if constexpr (requires { streamed_of<i>::template folds<FrameOf<i>>; }) {
          if (streamed_of<i>::template folds<FrameOf<i>>) ++folded[G::table.info[i].arguments[1]];
        }
      }
    });
    for (int i = G::count - 1; i >= 0; --i) {
      t.idle[i] = folded[i] > 0 && folded[i] == uses[i];
      if (t.idle[i] && G::flat.label[i].op == Tag("repeat_columns")) ++folded[G::table.info[i].arguments[0]];
    }
    return t;
  }();

  /// Elements that a node remembers of a context of so many tokens, in whole blocks; and that all of them do.
  template <int node>
  static constexpr Index elements_of(Index context) {
    if constexpr (op_streams<node>()) {
      return streamed_of<node>::template remembers<FrameOf<node>>.elements(context);
    } else {
      return 0;
    }
  }
  static constexpr Index elements(Index context) {
    Index sum = 0;
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) { sum += elements_of<i>(context); });
    return sum;
  }

  /// Elements of StreamMemory::scratch.
  static constexpr Index scratch(const StreamRoom& room) {
    Index most = 0;
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (op_streams<i>()) {
        most = std::max(most, streamed_of<i>::template scratch<FrameOf<i>>(room));
      }
    });
    return most;
  }

  /// Steps up to the last one that remembers something: those after it are for results alone.
  static constexpr int remembering = [] {
    int steps = 0;
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      if (elements_of<G::fusion.order[s]>(1) > 0) steps = s + 1;
    });
    return steps;
  }();

  __attribute__((noinline)) static void forward(const Context<S>& context, const StreamMemory<S>& memory,
                                                detail::Chunk chunk = detail::Chunk::last) {
    StreamMemory<S> left = memory;
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[s];
      if constexpr (s >= remembering) {
        if (chunk == detail::Chunk::between) return;
      }
      if constexpr (G::table.info[node].looped()) {
        Backend::template map_forward<G, node>(context);
      } else if constexpr (of_weights(node)) {
        kernels_of<Backend, G, node>::forward(Backend{}, FrameOf<node>{context});
      } else if constexpr (!table.idle[node]) {
        streamed_of<node>::forward(Backend{}, FrameOf<node>{context},
                                   left.own(streamed_of<node>::template remembers<FrameOf<node>>));
        left.stores += elements_of<node>(memory.capacity);
      }
    });
  }
};

namespace detail {

/// What the layers of a stack remember together.
template <class Layers, class Backend, class = std::make_integer_sequence<int, Layers::distinct>>
struct LayersRemembered;
template <class Layers, class Backend, int... k>
struct LayersRemembered<Layers, Backend, std::integer_sequence<int, k...>> {
  static constexpr bool possible = (StreamedGraph<typename Layers::template child<k>, Backend>::table.possible && ...);
  static constexpr Index elements(Index context) {
    const Index each[] = {StreamedGraph<typename Layers::template child<k>, Backend>::elements(context)...};
    Index sum = 0;
    for (int layer = 0; layer < Layers::layers; ++layer) sum += each[Layers::grouping.which[layer]];
    return sum;
  }
};

}  // namespace detail

/// Layer after layer; each remembers for itself.
template <class Backend>
struct streamed_on<Backend, "stack"> : by_row {
  template <class F>
  using Layers = op<"stack">::Layers<F>;

  template <class F>
  static constexpr detail::LayersRemembered<Layers<F>, Backend> remembers{};
  template <class F>
  static constexpr bool possible = detail::LayersRemembered<Layers<F>, Backend>::possible;
  template <class F>
  static constexpr Index scratch(const StreamRoom& room) {
    Index most = 0;
    for (int layer = 0; layer < Layers<F>::layers; ++layer) {
      Layers<F>::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        most = std::max(most, StreamedGraph<Child, Backend>::scratch(room));
      });
    }
    return most;
  }

  template <class F, class S = typename F::Scalar>
  static void forward(Backend, const F& frame, const StreamMemory<S>& memory) {
    constexpr const Columns& workspace = F::Graph::layout.forward_workspace[F::index];
    StreamMemory<S> left = memory;
    for (int layer = 0; layer < Layers<F>::layers; ++layer) {
      const Context<S> mine = op<"stack">::layer_context<F, S>(frame, layer, workspace);
      Layers<F>::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        StreamedGraph<Child, Backend>::forward(mine, left);
        left.stores += StreamedGraph<Child, Backend>::elements(memory.capacity);
      });
    }
  }
};

/// A function with its user's own pull-back, if nothing in it has to be remembered.
template <class Backend>
struct streamed_on<Backend, "custom"> : by_row {
  template <class F>
  static constexpr bool possible = [] {
    using Part = StreamedGraph<detail::PartOf<F, 0>, Backend>;
    return Part::table.possible && Part::elements(1) == 0;
  }();
};

}  // namespace simplx
