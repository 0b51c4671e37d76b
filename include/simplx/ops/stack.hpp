// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/stack.hpp
/// `stack`: a block applied several times in a row. Depth is a loop at run time.
///
///     x = stack("blocks", 6, SasP{...}, x)        parameters blocks.0.*, blocks.1.*, ...
///
/// Layers whose graphs are equal share one instantiation, whatever their number (core/equal_layers.hpp). Each layer
/// has its own parameters, unless the block is Shared (ops/shared.hpp), and its own share of the kept region;
/// temporaries are shared by all.

#include <simplx/core/counts.hpp>
#include <simplx/core/random.hpp>
#include <simplx/ops/kernel.hpp>
#include <simplx/ops/shared.hpp>

#include <string>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"stack"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool adds_by_itself = true;

  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const int layers = detail::stack_settings(attributes).layers;
    if (layers < 1) return {"layers", layers, 1};
    return x;
  }

  template <class F>
  using Layers = typename F::Graph::template layers_of<F::index>;
  template <class F>
  static constexpr bool recomputes = F::Graph::template recomputes<F::index>;

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    using Stack = Layers<F>;
    Index most = 0;
    [&]<int... k>(std::integer_sequence<int, k...>) {
      ((most = std::max(most, detail::graph_scratch<typename Stack::template child<k>, Backend>(rows))), ...);
    }(std::make_integer_sequence<int, Stack::distinct>{});
    return most;
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    using Stack = Layers<F>;
    double total = 0;
    for (int layer = 0; layer < Stack::layers; ++layer) {
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        total += detail::graph_flops<Child>(rows, causal);
      });
    }
    return total;
  }

  template <class G, int node, class Backend, class S>
  static void prepare(Backend, const S* parameters, S* packed, S* turned, int part, int parts) {
    using Stack = typename G::template layers_of<node>;
    for (int layer = part; layer < Stack::sets; layer += parts) {
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        const Index place = Stack::offsets.packed[layer];
        Execute<Child, Backend>::prepare(parameters + G::layout.parameter[node] + Stack::offsets.parameter[layer],
                                         packed + place, turned ? turned + place : turned);
      });
    }
  }

  /// What the names in a layer have before them: "blocks.3.", or the scope of a module that is recomputed, its name. By
  /// it dropout draws: the number stays where layers share their parameters, so that each has masks of its own.
  template <class F>
  static std::uint64_t scope_of(std::uint64_t scope, int layer) {
    scope = detail::extended(scope, F::name.view());
    if constexpr (recomputes<F>) return scope;
    return detail::extended(detail::extended(detail::extended(scope, "."), std::to_string(layer)), ".");
  }

  /// The context of one layer: its share of every buffer, and the carry in and out.
  template <class F, class S>
  static Context<S> layer_context(const F& frame, int layer, const Columns& workspace) {
    using Stack = Layers<F>;
    const Context<S>& whole = frame.context;
    Context<S> mine = whole;
    constexpr const auto& at = Stack::offsets;
    mine.parameters += F::Graph::layout.parameter[F::index] + at.parameter[layer];
    mine.constants += F::Graph::layout.constant[F::index] + at.constant[layer];
    const Index packed = F::Graph::layout.packed[F::index] + at.packed[layer];
    if (mine.packed) mine.packed += packed;
    if (mine.turned) mine.turned += packed;
    if (mine.gradients) mine.gradients += F::Graph::layout.parameter[F::index] + at.parameter[layer];
    if (mine.further_gradients) {
      mine.further_gradients += F::Graph::layout.further[F::index] + at.further[layer];
      if (layer >= Stack::sets) mine.gradients = mine.further_gradients - at.parameter[Stack::layers];
    }
    const Columns& saved = F::Graph::layout.saved[F::index];
    for (int i = 0; i < axis_count; ++i) {
      if constexpr (recomputes<F>) {
        mine.kept[i] = mine.temporary[i] + (workspace.on[i] + at.temporary.on[i]) * whole.stride[i];
      } else {
        mine.kept[i] += (saved.on[i] + at.kept[layer].on[i]) * whole.stride[i];
      }
      mine.temporary[i] += workspace.on[i] * whole.stride[i];
    }
    mine.random.scope = scope_of<F>(whole.random.scope, layer);
    mine.inputs[0] = layer == 0 ? frame.template in<0>() : carry(frame, layer - 1);
    mine.outputs[0] = layer == Stack::layers - 1 ? frame.out() : carry(frame, layer);
    return mine;
  }

  /// What goes from layer to layer + 1.
  template <class F>
  static auto* carry(const F& frame, int layer) {
    using Stack = Layers<F>;
    constexpr int axis = static_cast<int>(F::out_shape.axis);
    constexpr Index columns = room_of(F::out_shape);
    const Index layers_kept = recomputes<F> ? 0 : Stack::offsets.kept[Stack::layers].on[axis];
    const Index at = F::Graph::layout.saved[F::index].on[axis] + layers_kept;
    constexpr int carries = std::max(F::Graph::template carries<F::index>, 1);
    return frame.context.kept[axis] + (at + layer % carries * columns) * frame.context.stride[axis];
  }

  template <class Backend, class F>
  static void forward(Backend, const F& frame) {
    using Stack = Layers<F>;
    using S = typename Backend::Scalar;
    for (int layer = 0; layer < Stack::layers; ++layer) {
      const Context<S> mine = layer_context<F, S>(frame, layer, F::Graph::layout.forward_workspace[F::index]);
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) { Execute<Child, Backend>::forward(mine); });
    }
  }

  /// Two gradients of the carry take turns, except where a layer turns the one into the other in place.
  template <class Backend, class F>
  static void backward(Backend, const F& frame) {
    using Stack = Layers<F>;
    using S = typename Backend::Scalar;
    constexpr int axis = static_cast<int>(F::out_shape.axis);
    constexpr const Columns& workspace = F::Graph::layout.backward_workspace[F::index];
    const Index size = frame.rows() * F::out_shape.cols;
    S* current = const_cast<S*>(frame.out_grad());
    const Index kept_again = recomputes<F> ? Stack::offsets.largest_kept.on[axis] : 0;
    const Index layer_room = Stack::offsets.temporary.on[axis] + kept_again;
    S* other = frame.context.temporary[axis] + (workspace.on[axis] + layer_room) * frame.context.stride[axis];
    [[maybe_unused]] S* unread = other + room_of(F::out_shape) * frame.context.stride[axis];
    for (int layer = Stack::layers - 1; layer >= 0; --layer) {
      Context<S> mine = layer_context<F, S>(frame, layer, workspace);
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        if constexpr (recomputes<F>) {
          mine.outputs[0] = unread;
          Execute<Child, Backend>::forward(mine);
        }
        mine.output_gradients[0] = current;
        mine.input_gradients[0] = Child::plan.in_place ? current : other;
        Execute<Child, Backend>::backward(mine);
        if (!Child::plan.in_place) std::swap(current, other);
      });
    }
    const detail::Addition addition(frame.template turn<0>());
    if constexpr (F::template write<0> == Write::store) {
      Backend::copy(frame.context, current, size, frame.template grad<0>());
    } else if constexpr (F::template write<0> == Write::accumulate) {
      Backend::add(frame.context, current, size, frame.template grad<0>());
    }
  }
};

namespace detail {

template <class Block>
concept BlockInStack = requires(const Block& block, Expr x) { Expr(block(x)); } ||
                       requires(const Block& block, Expr x) { Expr(block(0, x)); };

/// What a block makes of x in a layer, whether it asks for the layer's number or not.
template <class Block>
constexpr Expr apply_block(const Block& block, int layer, Expr x) {
  if constexpr (requires { Expr(block(layer, x)); }) {
    return block(layer, x);
  } else if constexpr (requires { Expr(block(x)); }) {
    return block(x);
  } else {
    static_assert(BlockInStack<Block>,
                  "simplx: the block of a stack needs `constexpr Expr operator()(Expr x) const`, or one of (int layer, "
                  "Expr x) in that order: it must be const, and return an Expr");
    return x;
  }
}

template <class Block>
constexpr Expr apply_block(const Shared<Block>& shared, int layer, Expr x) {
  if constexpr (requires { shared.block.in_layer(layer, 0, x); }) {
    return shared.block.in_layer(layer, 0, x);
  } else {
    return apply_block(shared.block, 0, x);
  }
}

template <class Block>
constexpr bool asks_for_the_layer(const Block&) {
  return requires(const Block& block, Expr x) { block(0, x); };
}
template <class Block>
constexpr bool asks_for_the_layer(const Shared<Block>&) {
  return requires(const Block& block, Expr x) { block.in_layer(0, 0, x); };
}

template <class Block>
inline constexpr bool shares_parameters = false;
template <class Block>
inline constexpr bool shares_parameters<Shared<Block>> = true;

/// A block of any type behind two function pointers.
template <class Block>
struct BlockOf : BlockMaker {
  Block block;

  constexpr explicit BlockOf(const Block& b) : block(b) {
    layered = asks_for_the_layer(b);
    make = [](const BlockMaker* self, int layer, Node* carry) {
      return apply_block(static_cast<const BlockOf*>(self)->block, layer, Expr{carry}).node;
    };
    destroy = [](BlockMaker* self) { delete static_cast<BlockOf*>(self); };
  }
};

template <class Block>
constexpr Expr stack_of(const char* name, const StackSettings& settings, const Block& block, At x) {
  Expr result = apply<"stack">(attributes_of(settings), x);
  if (result.node->kind == Kind::error) return result;
  result.node->name = name;
  result.node->block = new BlockOf<Block>(block);
  return result;
}

}  // namespace detail

/// Applies a block `layers` times; block(x) or block(layer, x), each layer with parameters of its own unless the block
/// is Shared.
///
/// Shapes  the block returns the shape it is given
/// Errors  does not compile if the block uses an expression made outside of it, or changes the shape
/// Cost    `layers` times the block's kept columns, once its temporaries; compile time of the distinct layers
template <class Block>
constexpr Expr stack(const char* name, int layers, const Block& block, At x) {
  return detail::stack_of(name, {.layers = layers, .shared = detail::shares_parameters<Block>}, block, x);
}

/// Calls f(name, shape, value, gradient) for every probe of a graph, in stacks for each layer.
///
/// Values are those of the last forward, gradients (null where none flows) those of the last backward.
template <class G, class S, class F>
void each_probe(const Context<S>& context, const std::string& prefix, F& f) {
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Info info = G::table.info[i];
    const std::string name = prefix + std::string(G::flat.label[i].name.view());
    if constexpr (info.observed) {
      const S* gradient = nullptr;
      if constexpr (G::fusion.wanted[i]) gradient = Address<G>::template gradient<i>(context);
      f(name, info.shape, Address<G>::template value<i>(context), gradient);
    } else if constexpr (info.stack && !G::template recomputes<i>) {
      using Stack = typename G::template layers_of<i>;
      const Frame<G, i, S> frame{context};
      for (int layer = 0; layer < Stack::layers; ++layer) {
        const Context<S> mine = op<"stack">::layer_context<Frame<G, i, S>, S>(frame, layer, Columns{});
        Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
          each_probe<Child>(mine, name + "." + std::to_string(layer) + ".", f);
        });
      }
    }
  });
}

}  // namespace simplx
