// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/graph.hpp
/// Graph<Source>: a model evaluated by the compiler, planned, and addressed by node number from here on.
///
/// A *source* is a type whose `with(f)` evaluates a model and calls f with its root: `Root<model>` for a model,
/// `LayerSource` for a layer of one of its stacks. Nothing of an evaluation is kept but numbers, so each of them is
/// evaluated a few times. A constant is initialised by `with` itself, not by a function or lambda around it: g++ would
/// evaluate that three times, since it does not remember what happened on the heap. What hands `f` on captures it by
/// value: by reference g++ first tries it as a constant, and evaluates the model once in vain. The source's `Lowering`
/// says what a backend changes of it: nothing, or what its kernels do better otherwise (cuda/graph_on.cuh).

#include <simplx/core/equal_layers.hpp>
#include <simplx/core/layout.hpp>
#include <simplx/core/rules.hpp>
#include <simplx/core/unroll.hpp>

#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// A model is evaluated as it is written, and all values and gradients are numbers of one type.
struct AsWritten {
  static constexpr void rewrite(Node*) {}
  template <class Planned, int capacity = Planned::count>
  static constexpr Rooms<capacity> rooms() {
    return whole_rooms<capacity>(Planned::table.info, Planned::count);
  }
};

/// The expressions of a model: a constexpr object whose operator() returns an Expr, or an aggregate of them.
template <auto const& model>
struct Root {
  using Lowering = AsWritten;
  template <class F>
  static constexpr auto with(F f) {
    const detail::Evaluated evaluated = detail::evaluate(model);
    return f(evaluated.root);
  }
};

/// The function, or the pull-back, of a node with a rule of its user's own.
template <class Parent, int node, int part>
struct RuleSource {
  using Lowering = typename Parent::Lowering;
  template <class F>
  static constexpr auto with(F f) {
    return Parent::with([f](Node* root) {
      const detail::RulePart built = detail::rule_part(detail::node_at(root, node), part);
      return f(built.root);
    });
  }
};

/// The expressions of one layer of a stack of another source.
template <class Parent, int stack_node, int layer>
struct LayerSource {
  using Lowering = typename Parent::Lowering;
  template <class F>
  static constexpr auto with(F f) {
    return Parent::with([f](Node* root) {
      const Node* const stack = detail::node_at(root, stack_node);
      const detail::Layer built = detail::layer_of(stack, layer);
      if (stack->stops) detail::stop_at_frozen_layers(built.root);
      Lowering::rewrite(built.root);
      return f(built.root);
    });
  }
};

namespace detail {

/// The summary of all that can be wrong: in the model's own nodes, and in the blocks of its stacks. Those are made
/// in any case, so that what they capture is freed.
constexpr Summary inspect(Node* root) {
  Summary summary = summarise(root);
  const BlockFault fault = fault_of_blocks(root);
  if (summary.rule.empty() && !fault.rule.empty()) {
    summary.rule = fault.rule;
    summary.left = fault.line;
    summary.right = fault.stack.line;
    summary.where = fault.stack;
  }
  return summary;
}

/// Of a model whose rule is broken, evaluated a second time.
template <class Source>
inline constexpr Summary broken_summary = Source::with(inspect);

/// How many nodes a model has: 0 if a rule is broken, -1 if it cannot be evaluated.
constexpr int sound_nodes(Node* root) {
  const Summary summary = inspect(root);
  return summary.rule.empty() ? summary.count : 0;
}
template <class Source, int count = Source::with(sound_nodes)>
constexpr int nodes_of(int) {
  return count;
}
template <class Source>
constexpr int nodes_of(...) {
  return -1;
}

/// Reports a broken rule: the sentence, both numbers and the user's line, before anything else goes wrong.
template <class Source>
struct Gate {
  static constexpr int count = nodes_of<Source>(0);
  static constexpr bool check() {
    if constexpr (count > 0) {
      return true;
    } else if constexpr (count < 0) {
      static_assert(count >= 0,
                    "simplx: the compiler cannot evaluate this model, for the reason that it gives below: operator() "
                    "of the model or of a module is not constexpr, the model itself is not, or an expression is made "
                    "and never used");
      static_assert((Source::with(inspect), true));  // which says the reason
      return false;
    } else if constexpr (broken_summary<Source>.rule == said_already) {
      return false;
    } else {
      constexpr const Summary& summary = broken_summary<Source>;
      constexpr ShortPath path = short_path(summary.where.file);
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        using In = File<path.chars[i]...>;
        if constexpr (summary.rule == Tag("one name")) {
          constexpr Name name = Source::with([](Node* root) {
            fault_of_blocks(root);  // frees what blocks capture, as above
            return name_given_twice(root, broken_summary<Source>);
          });
          return [&]<std::size_t... n>(std::index_sequence<n...>) {
            using Of = Called<name.chars[n]...>;
            return at_line<summary.rule, summary.left, summary.right, summary.where.line, In, Of>();
          }(std::make_index_sequence<name.size()>{});
        } else {
          return at_line<summary.rule, summary.left, summary.right, summary.where.line, In>();
        }
      }(std::make_index_sequence<path.size>{}) && false;
    }
  }
  static constexpr bool sound = check();
};

template <class Source, int stack_node, int layers, int chunk>
struct GroupedLayers {
  static constexpr int begin = (chunk - 1) * layers_per_evaluation;
  static constexpr int end = std::min(layers, begin + layers_per_evaluation);
  static constexpr Grouping<layers> value = Source::with([](Node* root) {
    return group_layers<layers>(node_at(root, stack_node), GroupedLayers<Source, stack_node, layers, chunk - 1>::value,
                                begin, end);
  });
};
template <class Source, int stack_node, int layers>
struct GroupedLayers<Source, stack_node, layers, 0> {
  static constexpr Grouping<layers> value{};
};

}  // namespace detail

template <class Source>
struct Graph;

/// The layers of a stack: which graph each has, and where its share of every buffer begins. Layers that share their
/// parameters have one place there, and one of constants and of what is prepared; their graphs may differ in what
/// backward evaluates again.
template <class Source, int node, int count, bool shared>
struct LayersOf {
  static constexpr int layers = count;
  static constexpr int sets = shared ? 1 : layers;  ///< of parameters and constants
  static constexpr int chunks = (layers + detail::layers_per_evaluation - 1) / detail::layers_per_evaluation;
  static constexpr detail::Grouping<layers> grouping =
      detail::GroupedLayers<Source, node, layers, chunks>::value;
  static constexpr int distinct = grouping.distinct;

  template <int k>
  using child = Graph<LayerSource<Source, node, grouping.representative[k]>>;

  template <class Child>
  static constexpr bool sees_the_carry_alone() {
    static_assert(!Child::sound || Child::layout.inputs == 1,
                  "simplx: one of the later layers of a stack makes an input; make inputs outside of the stack");
    return true;
  }

  struct Offsets {
    Index parameter[layers + 1]{}, constant[layers + 1]{}, packed[layers + 1]{};
    /// Right before that of a shared layer after the first lies its sum of the gradient of all parameters.
    Index further[layers + 1]{};
    Columns kept[layers + 1]{};
    Columns temporary{}, largest_kept{};  ///< the largest over the distinct graphs
    Index trained = 0;
    bool in_place = true, uses_up_values = false;
  };
  static constexpr Offsets offsets = []<int... k>(std::integer_sequence<int, k...>) {
    Offsets at;
    for (int layer = 0; layer < layers; ++layer) {
      const auto add = [&](int index, const auto& layout, bool in_place, bool uses_up_values) {
        if (grouping.which[layer] != index) return;
        const Index own = layer < layers - sets ? 0 : 1;  // what is shared counts once, with the last
        at.parameter[layer + 1] = at.parameter[layer] + own * layout.parameters;
        at.constant[layer + 1] = at.constant[layer] + own * layout.constants;
        at.packed[layer + 1] = at.packed[layer] + own * layout.packed_elements;
        at.further[layer + 1] = at.further[layer] + layout.further_elements + (1 - own) * layout.parameters;
        at.kept[layer + 1] = at.kept[layer];
        at.kept[layer + 1] += layout.kept;
        at.temporary.raise_to(layout.temporary);
        at.largest_kept.raise_to(layout.kept);
        at.trained += own * layout.trained;
        at.in_place &= in_place;
        at.uses_up_values |= uses_up_values;
      };
      (add(k, child<k>::layout, child<k>::plan.in_place, child<k>::uses_up_values), ...);
      static_assert((sees_the_carry_alone<child<k>>() && ...));
    }
    return at;
  }(std::make_integer_sequence<int, distinct>{});

  /// Calls f with the graph of that layer: a switch over the distinct graphs, each instantiated once.
  template <class F>
  static constexpr void with_graph(int layer, F&& f) {
    [&]<int... k>(std::integer_sequence<int, k...>) {
      (void)((grouping.which[layer] == k ? (f(std::type_identity<child<k>>{}), true) : false) || ...);
    }(std::make_integer_sequence<int, distinct>{});
  }
};

/// A planned model, all of it static: nodes, fusion, plan, and the graphs of its layers.
template <class Source_>
struct PlannedGraph {
  using Source = Source_;
  using Planned = PlannedGraph;
  static constexpr bool sound = detail::Gate<Source>::sound;
  static constexpr int count = sound ? detail::Gate<Source>::count : 1;

  static constexpr Flat<count> flat = sound ? Source::with(detail::flatten<count>) : Flat<count>{};

  template <int node>
  static constexpr detail::StackSettings stack = detail::stack_settings(flat.label[node].attributes);
  template <int node>
  using layers_of = LayersOf<Source, node, stack<node>.layers, stack<node>.shared>;

  /// The layers of this stack are evaluated again in backward.
  template <int node>
  static constexpr bool recomputes = stack<node>.recomputed;
  template <int node, int part>
  using rule_of = Graph<RuleSource<Source, node, part>>;

  struct Table {
    Info info[count]{};
    int stack[count]{};  ///< numbers of the nodes with graphs of their own
    int stacks = 0;
  };
  static constexpr Table plain = [] {
    Table result;
    for (int i = 0; i < count; ++i) {
      result.info[i] = flat.info[i];
      if (flat.info[i].stack || flat.info[i].own_rule) result.stack[result.stacks++] = i;
    }
    return result;
  }();
  /// Values that go from layer to layer: all are kept for a backward, and without one each is read by the next alone.
  template <int node>
  static constexpr int carries = std::min(stack<node>.layers - 1, plain.info[node].stops ? 2 : stack<node>.layers);
  /// What the layers of a stack need.
  template <int node>
  static constexpr void count_layers(Info& info) {
    using Layers = layers_of<node>;
    constexpr int last = Layers::layers;
    const Index carry = room_of(info.shape);
    info.parameters = Layers::offsets.parameter[last];
    info.trained = Layers::offsets.trained;
    info.constants = Layers::offsets.constant[last];
    info.packed = Layers::offsets.packed[last];
    info.further = Layers::offsets.further[last];
    info.workspace = Layers::offsets.temporary;
    if constexpr (recomputes<node>) {
      info.workspace += Layers::offsets.largest_kept;
      info.workspace[info.shape.axis] += carry;  // a result that nobody reads again
    } else {
      info.saved = Layers::offsets.kept[last];
    }
    info.saved[info.shape.axis] += carries<node> * carry;
    if (!info.stops) info.workspace[info.shape.axis] += carry;  // a second gradient of the carry
  }
  /// What a function with its own pull-back needs: each part in turn, and the gradients that the pull-back gives.
  template <int node>
  static constexpr void count_rule(Info& info) {
    const auto room_in = [](const auto& layout) {
      Columns columns = layout.kept;
      columns += layout.temporary;
      return columns;
    };
    Columns pull = room_in(rule_of<node, 1>::layout);
    for (int i = 0; i < info.argument_count; ++i) {
      const Shape& shape = plain.info[info.arguments[i]].shape;
      pull[shape.axis] += room_of(shape);
    }
    info.workspace = room_in(rule_of<node, 0>::layout);
    info.workspace.raise_to(pull);
  }
  /// The numbers of the planner, with what the layers of each stack need.
  static constexpr Table table = [] {
    Table result = plain;
    detail::unroll<0, plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = plain.stack[s];
      if constexpr (plain.info[node].stack) {
        count_layers<node>(result.info[node]);
      } else {
        count_rule<node>(result.info[node]);
      }
    });
    return result;
  }();

  static constexpr Fusion<count> fusion = fuse<count>(table.info, count);
  static constexpr Plan<count> plan = make_plan<count>(table.info, count, fusion);
  /// Whether backward writes over values that it has read: a second one then asks for another forward.
  static constexpr bool uses_up_values = [] {
    bool any = false;
    for (int i = 0; i < count; ++i) any |= plan.over_value[i];
    detail::unroll<0, plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = plain.stack[s];
      if constexpr (plain.info[node].stack && !recomputes<node>) any |= layers_of<node>::offsets.uses_up_values;
    });
    return any;
  }();

  /// Whether it has ops that are not elementwise.
  static constexpr bool has_kernels() {
    for (int i = 0; i < count; ++i) {
      if (table.info[i].kind == Kind::product || table.info[i].kind == Kind::kernel) return true;
    }
    return false;
  }
};

/// A model where everything has its place.
template <class Source>
struct Graph : PlannedGraph<Source> {
  using typename PlannedGraph<Source>::Planned;
  using Planned::count, Planned::flat, Planned::table, Planned::fusion, Planned::plan;

  static constexpr Layout<count> layout =
      lay_out<count>(table.info, count, fusion, plan, Source::Lowering::template rooms<Planned>());
  static_assert(layout.inputs <= max_inputs,
                "simplx: a model has at most eight inputs; put some beside each other in one");
  static_assert(layout.outputs <= max_outputs);  // results.hpp and most_operands of custom.hpp see to it

  /// The number of the input of that name, or -1.
  static constexpr int input_number(std::string_view name) {
    for (int i = 0; i < count; ++i) {
      const Kind kind = table.info[i].kind;
      if ((kind == Kind::input || kind == Kind::indices) && flat.label[i].name.view() == name) return layout.input[i];
    }
    return -1;
  }
};

/// Calls f.operator()<Inner>() for each graph within a graph: its stacks' layers, equal ones once, and functions with
/// their pull-backs.
template <class G, class F>
constexpr void each_inner_graph(const F& f) {
  detail::unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      detail::unroll<0, Layers::distinct>([&]<int k>(std::integral_constant<int, k>) {
        f.template operator()<typename Layers::template child<k>>();
      });
    } else {
      f.template operator()<typename G::template rule_of<node, 0>>();
      f.template operator()<typename G::template rule_of<node, 1>>();
    }
  });
}

/// The graph of a model.
template <auto const& model>
using GraphOf = Graph<Root<model>>;

}  // namespace simplx
