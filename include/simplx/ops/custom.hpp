// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/custom.hpp
/// A function with a pull-back of its user's own, both written as expressions:
///
///     constexpr auto clipped = with_pull_back(
///         [](Expr x) { return x; },                                              // y = f(x)
///         [](Expr dy, Expr y, Expr x) { return clamp(dy, -1.0, 1.0); });         // dx from dy, y and x
///     auto h = clipped(x);
///
/// With several operands the pull-back returns an aggregate of as many expressions.
///
/// Trainers evaluate some sequences at a time and add up what the pull-back of a weight gives for each. That is the
/// gradient if it is linear in dy, as derivatives are and straight-through estimators; a clamp of a weight's dy is not.
/// On rows, where each has a dy of its own, it is the same everywhere.

#include <simplx/core/counts.hpp>
#include <simplx/ops/stack.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The graph of the function (0) or of its pull-back (1). Not a member of the op: nvcc cannot spell op<"custom">.
template <class F, int part>
using PartOf = typename F::Graph::template rule_of<F::index, part>;

}  // namespace detail

template <>
struct op<"custom"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool needs_output = true;

  /// The function's own, found by evaluating it once.
  static constexpr Checked shape(const Attributes& attributes, auto...) {
    return Shape{static_cast<Axis>(attributes.integers[0]), attributes.integers[1], attributes.integers[2]};
  }

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    return std::max(detail::graph_scratch<detail::PartOf<F, 0>, Backend>(rows),
                    detail::graph_scratch<detail::PartOf<F, 1>, Backend>(rows));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    return detail::graph_flops<detail::PartOf<F, 0>>(rows, causal);
  }
  /// The context of a part: its kept and temporary columns, one after the other, in the node's workspace.
  template <class G, class S>
  static Context<S> part_context(const Context<S>& whole, const Columns& workspace) {
    Context<S> mine = whole;
    for (int i = 0; i < axis_count; ++i) {
      mine.kept[i] = whole.temporary[i] + workspace.on[i] * whole.stride[i];
      mine.temporary[i] = mine.kept[i] + G::layout.kept.on[i] * whole.stride[i];
    }
    return mine;
  }
  template <class Backend, class F>
  static void forward(Backend, const F& frame) {
    using G = detail::PartOf<F, 0>;
    using S = typename Backend::Scalar;
    Context<S> mine = part_context<G>(frame.context, F::Graph::layout.forward_workspace[F::index]);
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int number = G::input_number(detail::operand_names[k]);
      if constexpr (number >= 0) mine.inputs[number] = frame.template in<k>();
    });
    mine.outputs[0] = frame.out();
    Execute<G, Backend>::forward(mine);
  }

  template <class Backend, class F>
  static void backward(Backend, const F& frame) {
    using G = detail::PartOf<F, 1>;
    using S = typename Backend::Scalar;
    constexpr const Columns& workspace = F::Graph::layout.backward_workspace[F::index];
    Context<S> mine = part_context<G>(frame.context, workspace);
    S* room[axis_count];
    for (int i = 0; i < axis_count; ++i) room[i] = mine.temporary[i] + G::layout.temporary.on[i] * mine.stride[i];
    constexpr int gradient = G::input_number("gradient"), result = G::input_number("result");
    if constexpr (gradient >= 0) mine.inputs[gradient] = frame.out_grad();
    if constexpr (result >= 0) mine.inputs[result] = frame.out();
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int number = G::input_number(detail::operand_names[k]);
      if constexpr (number >= 0) mine.inputs[number] = frame.template in<k>();
      constexpr Shape shape = F::template shape<k>;
      constexpr int axis = static_cast<int>(shape.axis);
      mine.outputs[k] = room[axis];
      room[axis] += room_of(shape) * mine.stride[axis];
    });
    Execute<G, Backend>::forward(mine);
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr Write mode = F::template write<k>;
      const Index size = frame.template rows_in<k>() * F::template shape<k>.cols;
      if constexpr (mode == Write::store) Backend::copy(frame.context, mine.outputs[k], size, frame.template grad<k>());
      if constexpr (mode == Write::accumulate) {
        Backend::add(frame.context, mine.outputs[k], size, frame.template grad<k>());
      }
    });
  }

  static constexpr int most_operands = max_outputs;  ///< of which each has a result of the pull-back

  /// The user's pull-back itself.
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    Node* inputs[max_arguments + 2] = {detail::whole(g, node).node, const_cast<Node*>(node)};
    Node* results[max_arguments]{};
    for (int i = 0; i < node->argument_count; ++i) inputs[2 + i] = node->arguments[i];
    node->rules->make(node->rules, 1, inputs, results);
    return Term(Expr{results[argument]});
  }
};

namespace detail {

template <class Function, class PullBack, int count>
struct RulesOf : RuleMaker {
  Function function;
  PullBack pull_back;

  constexpr RulesOf(const Function& f, const PullBack& p) : function(f), pull_back(p) {
    make = [](const RuleMaker* base, int part, Node* const* inputs, Node** results) {
      const RulesOf& self = *static_cast<const RulesOf*>(base);
      const auto x = [&](int i) { return Expr{inputs[i]}; };
      [&]<int... i>(std::integer_sequence<int, i...>) {
        if (part == 0) {
          results[0] = self.function(x(i)...).node;
        } else {
          int next = 0;
          each_result(self.pull_back(x(0), x(1), x(2 + i)...),
                      [&](Expr value, const char*) { results[next++] = value.node; });
        }
      }(std::make_integer_sequence<int, count>{});
    };
    destroy = [](RuleMaker* self) { delete static_cast<RulesOf*>(self); };
  }
};

/// What is wrong with a part: it makes leaves of its own, or uses expressions from outside.
constexpr BlockFault fault_of_part(const Node* node, int part) {
  const RulePart first = rule_part(node, part), second = rule_part(node, part);
  return fault_of(first.root, second.root, [](const Node& made) -> Tag {
    const bool leaf = made.kind == Kind::parameter || made.kind == Kind::constant || made.kind == Kind::indices;
    return leaf || made.block ? Tag("own parameters") : Tag();
  });
}

}  // namespace detail

/// A function and its pull-back as a module.
template <class Function, class PullBack>
struct WithPullBack {
  Function function;
  PullBack pull_back;

  template <class... More>
  constexpr Expr operator()(At x, const More&... more) const {
    constexpr int count = 1 + static_cast<int>(sizeof...(more));
    static_assert(count <= op<"custom">::most_operands,
                  "simplx: a function with its own pull-back has at most four operands; put some beside each other by "
                  "concatenate");
    return make<count>(x, At(more)...);
  }

 private:
  template <int count, class... Operands>
  constexpr Expr make(const Operands&... operands) const {
    auto* rules = new detail::RulesOf<Function, PullBack, count>(function, pull_back);
    const At given[] = {operands...};
    Node* inputs[count]{};
    Node* results[max_arguments]{};
    for (int i = 0; i < count; ++i) inputs[i] = detail::leaf(Kind::input, given[i].shape(), given[i].where);
    rules->make(rules, 0, inputs, results);
    const Node& sample = *results[0];
    const Shape shape = sample.shape;
    const bool sound = sample.kind != Kind::error;
    const Expr error = sound ? Expr{} : refuse(sample.rule, given[0], sample.left, sample.right);
    Node* hub = detail::new_node();
    for (Node* input : inputs) detail::use(hub, input);
    detail::use(hub, results[0]);
    if (!sound) {
      detail::use(error.node, hub);
      delete rules;
      return error;
    }
    detail::release(hub);

    Expr result = apply<"custom">({.integers = {static_cast<Index>(shape.axis), shape.rows, shape.cols}}, operands...);
    if (result.node->kind == Kind::error) {
      delete rules;
      return result;
    }
    result.node->rules = rules;
    for (int part = 0; part < 2; ++part) {
      const detail::BlockFault fault = detail::fault_of_part(result.node, part);
      if (!fault.rule.empty()) return {detail::broken(result.node, fault.rule, fault.line, given[0].where.line)};
    }
    return result;
  }
};

/// A module of a function and its pull-back.
///
/// Shapes  function(x...) any; pull_back(dy, y, x...) one expression of the shape of each operand
/// Errors  does not compile if either makes parameters or uses expressions from outside, or if shapes differ: rules
///         "own parameters", "captured" and "pull-back shape"
/// Cost    keeps the operands and the result; both parts run in temporary memory
template <class Function, class PullBack>
constexpr WithPullBack<Function, PullBack> with_pull_back(const Function& function, const PullBack& pull_back) {
  return {function, pull_back};
}

}  // namespace simplx
