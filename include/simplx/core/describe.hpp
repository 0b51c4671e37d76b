// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/describe.hpp
/// describe<model>(): the forward schedule and the reverse schedule derived from it, as text.
///
/// A line is a step: one kernel. `%7` is a value, `d%7` its gradient; `=` stores, `+=` accumulates, `is` means
/// that both are the same memory. Elementwise steps are printed by running the op's own rules over formulas,
/// so what is shown is what is computed.

#include <simplx/core/counts.hpp>
#include <simplx/core/formula.hpp>

#include <vector>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The rules of an op over formulas: f, and d of operands whose gradients are wanted; what it says of its attributes.
struct OpText {
  Formula (*value)(const Formula* all, const int* operands) = nullptr;
  Formula (*pull_back[max_arguments])(const Formula& dy, const Formula& y, const Formula* all, const int* operands){};
  std::string (*settings)(const Attributes&) = nullptr;
};
template <class Op, int... a>
Formula value_text(const Formula* all, const int* operands) {
  return Op::f(all[operands[a]]...);
}
template <class Op, int i, int... a>
Formula pull_back_text(const Formula& dy, const Formula& y, const Formula* all, const int* operands) {
  return Op::template d<i>(dy, y, all[operands[a]]...);
}
template <class Op>
std::string settings_text(const Attributes& attributes) {
  return Op::settings(attributes);
}
template <class G, int node>
constexpr OpText op_text() {
  constexpr Info info = G::table.info[node];
  OpText text;
  if constexpr (info.looped()) {
    using Op = op_of<G, node>;
    [&]<int... a>(std::integer_sequence<int, a...>) {
      text.value = value_text<Op, a...>;
      const auto pull_back = [&]<int i>(std::integral_constant<int, i>) {
        constexpr int operand = G::table.info[node].arguments[i];
        if constexpr (G::fusion.wanted[operand]) text.pull_back[i] = pull_back_text<Op, i, a...>;
      };
      (pull_back(std::integral_constant<int, a>{}), ...);
    }(std::make_integer_sequence<int, info.argument_count>{});
  } else if constexpr (info.kind == Kind::kernel) {
    using Op = op_of<G, node>;
    if constexpr (requires(const Attributes& attributes) { Op::settings(attributes); }) {
      text.settings = settings_text<Op>;
    }
  }
  return text;
}

/// A graph without its type, so that its text is written by one function for all.
struct Schedule {
  /// The layers of a stack: which of so many distinct schedules each has.
  struct Layers {
    int layers = 0, distinct = 0;
    bool shared = false;
    const int* which = nullptr;
    const Schedule* const* schedules = nullptr;
  };
  int steps, count;
  const Info* info;
  const Label* label;
  const OpText* op;
  const Layers* stack;  ///< of each node, empty where it is none
  const int *order, *member_begin, *member_end, *members, *leaf_begin, *leaf_end, *leaves, *epilogue_of;
  const bool *wanted, *kept;
  const Write (*argument_write)[max_arguments];
  const Write* leaf_write;
};

/// The schedule of a graph, a constant, and of the layers of its stacks.
template <class G>
struct ScheduleOf {
  template <class Stack, int... k>
  static constexpr const Schedule* of_layers[] = {&ScheduleOf<typename Stack::template child<k>>::value...};
  template <int node>
  static constexpr Schedule::Layers layers() {
    if constexpr (G::table.info[node].stack) {
      using Stack = typename G::template layers_of<node>;
      return []<int... k>(std::integer_sequence<int, k...>) {
        return Schedule::Layers{Stack::layers, Stack::distinct, Stack::sets < Stack::layers, Stack::grouping.which,
                                of_layers<Stack, k...>};
      }(std::make_integer_sequence<int, Stack::distinct>{});
    } else {
      return {};
    }
  }
  struct PerNode {
    OpText op[G::count];
    Schedule::Layers stack[G::count];
  };
  static constexpr PerNode nodes = []<int... node>(std::integer_sequence<int, node...>) {
    return PerNode{{op_text<G, node>()...}, {layers<node>()...}};
  }(std::make_integer_sequence<int, G::count>{});

  static constexpr Schedule value{
      .steps = G::fusion.steps, .count = G::count, .info = G::table.info, .label = G::flat.label, .op = nodes.op,
      .stack = nodes.stack, .order = G::fusion.order, .member_begin = G::fusion.member_begin,
      .member_end = G::fusion.member_end, .members = G::fusion.members, .leaf_begin = G::fusion.leaf_begin,
      .leaf_end = G::fusion.leaf_end, .leaves = G::fusion.leaves, .epilogue_of = G::fusion.epilogue_of,
      .wanted = G::fusion.wanted, .kept = G::plan.kept, .argument_write = G::plan.argument_write,
      .leaf_write = G::plan.leaf_write};
};

/// Writes a schedule and, indented, those of its stacks.
class Description {
 public:
  Description(const Schedule& schedule, std::string indent, std::string& text)
      : graph_(schedule), indent_(std::move(indent)), text_(text) {}

  void write() {
    line("forward");
    for (int step = 0; step < graph_.steps; ++step) forward(graph_.order[step]);
    line("backward");
    for (int step = graph_.steps - 1; step >= 0; --step) {
      if (graph_.wanted[graph_.order[step]]) backward(graph_.order[step]);
    }
  }

 private:
  void line(const std::string& content) { text_ += indent_ + content + "\n"; }

  std::string name_of(int node) const {
    const Label& label = graph_.label[node];
    if (graph_.info[node].kind == Kind::number) return Formula(label.attributes.reals[0]).text;
    if (!label.name.empty() && !graph_.info[node].executes()) return std::string(label.name.view());
    return '%' + std::to_string(node);
  }
  std::string gradient_of(int node) const {
    const std::string name = name_of(node);
    return name[0] == '%' ? "d" + name : "d(" + name + ")";
  }
  static std::string shape_of(const Shape& shape) {
    const std::string rows = shape.is_fixed() ? std::to_string(shape.rows) : simplx::name_of(shape.axis);
    return "(" + rows + ", " + std::to_string(shape.cols) + ")";
  }
  bool transposed(int product) const { return is_transposed(graph_.label[product].attributes); }
  std::string product_text(int node) const {
    const Info& info = graph_.info[node];
    return name_of(info.arguments[0]) + " * " + name_of(info.arguments[1]) + (transposed(node) ? "^T" : "");
  }
  /// "shaped_attention(%6, %8)"
  std::string call_text(int node, const std::string& settings = {}) const {
    std::string arguments;
    for (int a = 0; a < graph_.info[node].argument_count; ++a) {
      arguments += (a ? ", " : "") + name_of(graph_.info[node].arguments[a]);
    }
    return std::string(graph_.label[node].op.view()) + "(" + arguments + settings + ")";
  }
  /// "; heads 4, causal" of a kernel that has any.
  std::string settings(int node) const {
    if (!graph_.op[node].settings) return {};
    const std::string told = graph_.op[node].settings(graph_.label[node].attributes);
    return told.empty() ? told : "; " + told;
  }
  void columns(std::string left, const std::string& middle, const std::string& right) {
    left.resize(std::max<std::size_t>(left.size() + 2, 64), ' ');
    std::string rest = middle;
    if (!right.empty()) rest.resize(std::max<std::size_t>(rest.size() + 2, 16), ' ');
    line("  " + left + rest + right);
  }

  /// The values of a group's members as formulas of its leaves.
  std::vector<Formula> values(int root, bool product_by_name) const {
    std::vector<Formula> value(static_cast<std::size_t>(graph_.count));
    const auto at = [&](int node) -> Formula& { return value[static_cast<std::size_t>(node)]; };
    for (int l = graph_.leaf_begin[root]; l < graph_.leaf_end[root]; ++l) {
      at(graph_.leaves[l]) = Formula(name_of(graph_.leaves[l]));
    }
    const int product = graph_.epilogue_of[root];
    if (product >= 0 && !product_by_name) at(product) = Formula(product_text(product), Formula::product);
    for (int m = graph_.member_begin[root]; m < graph_.member_end[root]; ++m) {
      const int node = graph_.members[m];
      at(node) = graph_.op[node].value(value.data(), graph_.info[node].arguments);
    }
    return value;
  }
  std::string formula(int root) const { return values(root, false)[static_cast<std::size_t>(root)].text; }
  /// "sum of rows", "mean", ...
  std::string reduction(int node) const {
    static constexpr const char* over[] = {" of rows", " of columns", ""};
    return std::string(graph_.label[node].op.view()) + over[static_cast<int>(over_of(graph_.label[node].attributes))];
  }

  void forward(int node) {
    const Info& info = graph_.info[node];
    const std::string what = info.kind == Kind::map         ? formula(node)
                             : info.kind == Kind::reduction ? reduction(node) + "(" + formula(node) + ")"
                             : info.kind == Kind::product   ? product_text(node)
                                                            : call_text(node, settings(node));
    const char* const kept = info.result ? "result" : graph_.kept[node] ? "kept" : "";
    columns(name_of(node) + " = " + what, shape_of(info.shape), kept);
    const int product = graph_.epilogue_of[node];
    if (product >= 0 && graph_.kept[product]) {
      columns("  with " + name_of(product) + " = " + product_text(product), shape_of(info.shape), "kept");
    }
    const Schedule::Layers& stack = graph_.stack[node];
    for (int k = 0; k < stack.distinct; ++k) {
      std::string which;
      for (int layer = 0; layer < stack.layers; ++layer) {
        if (stack.which[layer] == k) which += ' ' + std::to_string(layer);
      }
      const char* const sharing = stack.shared ? ", which share their parameters:" : ":";
      line("    " + std::string(graph_.label[node].name.view()) + ", layers" + which + sharing);
      Description(*stack.schedules[k], indent_ + "      ", text_).write();
    }
  }

  static const char* sign(Write write) { return write == Write::accumulate ? " += " : " = "; }

  void backward(int node) {
    const Info& info = graph_.info[node];
    if (info.looped()) {
      map_backward(node);
      const int product = graph_.epilogue_of[node];
      if (product >= 0 && graph_.wanted[product]) product_backward(product);
    } else if (info.kind == Kind::product) {
      product_backward(node);
    } else {
      std::string targets;
      for (int a = 0; a < info.argument_count; ++a) {
        if (!graph_.wanted[info.arguments[a]]) continue;
        targets += (targets.empty() ? "" : ", ") + gradient_of(info.arguments[a]) +
                   (graph_.argument_write[node][a] == Write::accumulate ? " +=" : " =");
      }
      line("  " + targets + " pull-back of " + call_text(node) + " at " + gradient_of(node));
    }
  }

  void product_backward(int node) {
    const int *const operands = graph_.info[node].arguments;
    const std::string x = name_of(operands[0]), w = name_of(operands[1]), dy = gradient_of(node);
    if (graph_.wanted[operands[1]]) {
      line("  " + gradient_of(operands[1]) + " += " + (transposed(node) ? dy + "^T * " + x : x + "^T * " + dy));
    }
    if (graph_.wanted[operands[0]]) {
      line("  " + gradient_of(operands[0]) + sign(graph_.argument_write[node][0]) + dy + " * " + w +
           (transposed(node) ? "" : "^T"));
    }
  }

  void map_backward(int root) {
    std::vector<Formula> value = values(root, true), adjoint(value.size());
    const auto at = [](int node) { return static_cast<std::size_t>(node); };
    if (graph_.info[root].kind == Kind::map) value[at(root)] = Formula(name_of(root));
    std::vector<int> begun(value.size());  // 0 or 1
    adjoint[at(root)] = Formula(gradient_of(root));
    if (graph_.label[root].op == Tag("mean")) adjoint[at(root)] = Formula(gradient_of(root) + " / n", Formula::product);
    for (int m = graph_.member_end[root] - 1; m >= graph_.member_begin[root]; --m) {
      const int node = graph_.members[m];
      const Info& info = graph_.info[node];
      for (int a = 0; a < info.argument_count; ++a) {
        const int target = info.arguments[a];
        if (!graph_.wanted[target]) continue;
        Formula part = graph_.op[node].pull_back[a](adjoint[at(node)], value[at(node)], value.data(), info.arguments);
        adjoint[at(target)] = begun[at(target)] ? adjoint[at(target)] + part : part;
        begun[at(target)] = 1;
      }
    }
    for (int l = graph_.leaf_begin[root]; l < graph_.leaf_end[root]; ++l) {
      const int leaf = graph_.leaves[l];
      if (!graph_.wanted[leaf]) continue;
      const Shape from = loop_shape(graph_.info, root), &to = graph_.info[leaf].shape;
      const char* const over = to.columns() == 1 && to.is_fixed() ? "sum "
                               : to.cols == 1                     ? "sum of columns "
                                                                  : "sum of rows ";
      const Formula& all = adjoint[at(leaf)];
      const std::string what = from == to ? all.text : over + all.within(Formula::product);
      const char* const how = graph_.leaf_write[l] == Write::skip ? " is " : sign(graph_.leaf_write[l]);
      line("  " + gradient_of(leaf) + how + what);
    }
  }

  const Schedule& graph_;
  std::string indent_;
  std::string& text_;
};

}  // namespace detail

/// The forward and the reverse schedule of a model, one kernel a line.
template <auto const& model>
std::string describe() {
  std::string text = std::to_string(parameters<model>) + " parameters\n";
  detail::Description(detail::ScheduleOf<GraphOf<model>>::value, "", text).write();
  return text;
}

}  // namespace simplx
