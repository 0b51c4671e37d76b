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

/// Writes the schedule of one graph.
template <class G>
class Description {
 public:
  Description(std::string indent, std::string& text) : indent_(std::move(indent)), text_(text) {}

  void write() {
    line("forward");
    unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) { forward<G::fusion.order[s]>(); });
    line("backward");
    unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[G::fusion.steps - 1 - s];
      if constexpr (G::fusion.wanted[node]) backward<node>();
    });
  }

 private:
  void line(const std::string& content) { text_ += indent_ + content + "\n"; }

  static std::string name_of(int node) {
    const Label& label = G::flat.label[node];
    const Info& info = G::table.info[node];
    if (info.kind == Kind::number) return Formula(label.attributes.reals[0]).text;
    if (!label.name.empty() && !info.executes()) return std::string(label.name.view());
    return '%' + std::to_string(node);
  }
  static std::string gradient_of(int node) {
    const std::string name = name_of(node);
    return name[0] == '%' ? "d" + name : "d(" + name + ")";
  }
  static std::string shape_of(const Shape& shape) {
    const std::string rows = shape.is_fixed() ? std::to_string(shape.rows) : simplx::name_of(shape.axis);
    return "(" + rows + ", " + std::to_string(shape.cols) + ")";
  }
  static std::string product_text(int node) {
    const Info& info = G::table.info[node];
    const bool transposed = G::flat.label[node].attributes.integers[0] != 0;
    return name_of(info.arguments[0]) + " * " + name_of(info.arguments[1]) + (transposed ? "^T" : "");
  }
  static std::string call_text(int node, const std::string& settings = {}) {
    const Info& info = G::table.info[node];
    std::string arguments;
    for (int a = 0; a < info.argument_count; ++a) {
      arguments += (a ? ", " : "") + name_of(info.arguments[a]);
    }
    return std::string(G::flat.label[node].op.view()) + "(" + arguments + settings + ")";
  }
  /// "; heads 4, causal" of a kernel that has any.
  template <int node>
  static std::string settings() {
    if constexpr (requires(const Attributes& attributes) { op_of<G, node>::settings(attributes); }) {
      const std::string told = op_of<G, node>::settings(G::flat.label[node].attributes);
      return told.empty() ? told : "; " + told;
    } else {
      return {};
    }
  }
  void columns(std::string left, const std::string& middle, const std::string& right) {
    left.resize(std::max<std::size_t>(left.size() + 2, 64), ' ');
    std::string rest = middle;
    if (!right.empty()) rest.resize(std::max<std::size_t>(rest.size() + 2, 16), ' ');
    line("  " + left + rest + right);
  }

  /// The values of a group's members as formulas of its leaves.
  template <int root>
  struct Formulas {
    static constexpr int begin = G::fusion.member_begin[root], end = G::fusion.member_end[root];
    std::vector<Formula> value = std::vector<Formula>(G::count);

    explicit Formulas(bool by_name = false) {
      for (int l = G::fusion.leaf_begin[root]; l < G::fusion.leaf_end[root]; ++l) {
        const int leaf = G::fusion.leaves[l];
        value[static_cast<std::size_t>(leaf)] = Formula(name_of(leaf));
      }
      constexpr int product = G::fusion.epilogue_of[root];
      if constexpr (product >= 0) {
        if (!by_name) value[product] = Formula(product_text(product), Formula::product);
      }
      unroll<begin, end>([&]<int m>(std::integral_constant<int, m>) {
        constexpr int node = G::fusion.members[m];
        [&]<int... a>(std::integer_sequence<int, a...>) {
          value[node] = op_of<G, node>::f(value[G::table.info[node].arguments[a]]...);
        }(std::make_integer_sequence<int, G::table.info[node].argument_count>{});
      });
    }
  };

  template <int node>
  void forward() {
    constexpr Info info = G::table.info[node];
    const std::string kept = info.result ? "result" : G::plan.kept[node] ? "kept" : "";
    std::string what;
    if constexpr (info.kind == Kind::map) {
      what = Formulas<node>{}.value[node].text;
    } else if constexpr (info.kind == Kind::reduction) {
      what = reduction<node>() + "(" + Formulas<node>{}.value[node].text + ")";
    } else {
      what = info.kind == Kind::product ? product_text(node) : call_text(node, settings<node>());
    }
    columns(name_of(node) + " = " + what, shape_of(info.shape), kept);
    constexpr int product = G::fusion.epilogue_of[node];
    if constexpr (product >= 0) {
      if constexpr (G::plan.kept[product]) {
        columns("  with " + name_of(product) + " = " + product_text(product), shape_of(info.shape), "kept");
      }
    }
    if constexpr (info.stack) layers<node>();
  }

  template <int node>
  void layers() {
    using Stack = typename G::template layers_of<node>;
    unroll<0, Stack::distinct>([&]<int k>(std::integral_constant<int, k>) {
      std::string which;
      for (int layer = 0; layer < Stack::layers; ++layer) {
        if (Stack::grouping.which[layer] == k) which += ' ' + std::to_string(layer);
      }
      const char* const sharing = Stack::sets < Stack::layers ? ", which share their parameters:" : ":";
      line("    " + std::string(G::flat.label[node].name.view()) + ", layers" + which + sharing);
      Description<typename Stack::template child<k>>(indent_ + "      ", text_).write();
    });
  }

  /// "sum of rows", "mean", ...
  template <int node>
  static std::string reduction() {
    static constexpr const char* over[] = {" of rows", " of columns", ""};
    return std::string(G::flat.label[node].op.view()) + over[G::flat.label[node].attributes.integers[0]];
  }

  static const char* sign(Write write) { return write == Write::accumulate ? " += " : " = "; }

  template <int node>
  void backward() {
    constexpr Info info = G::table.info[node];
    if constexpr (info.looped()) {
      map_backward<node>();
      constexpr int product = G::fusion.epilogue_of[node];
      if constexpr (product >= 0) {
        if constexpr (G::fusion.wanted[product]) product_backward(product);
      }
    } else if constexpr (info.kind == Kind::product) {
      product_backward(node);
    } else {
      std::string targets;
      for (int a = 0; a < info.argument_count; ++a) {
        if (!G::fusion.wanted[info.arguments[a]]) continue;
        targets += (targets.empty() ? "" : ", ") + gradient_of(info.arguments[a]) +
                   (G::plan.argument_write[node][a] == Write::accumulate ? " +=" : " =");
      }
      line("  " + targets + " pull-back of " + call_text(node) + " at " + gradient_of(node));
    }
  }

  void product_backward(int node) {
    const Info& info = G::table.info[node];
    const bool transposed = G::flat.label[node].attributes.integers[0] != 0;
    const std::string x = name_of(info.arguments[0]), w = name_of(info.arguments[1]), dy = gradient_of(node);
    if (G::fusion.wanted[info.arguments[1]]) {
      line("  " + gradient_of(info.arguments[1]) + " += " + (transposed ? dy + "^T * " + x : x + "^T * " + dy));
    }
    if (G::fusion.wanted[info.arguments[0]]) {
      line("  " + gradient_of(info.arguments[0]) + sign(G::plan.argument_write[node][0]) + dy + " * " + w +
           (transposed ? "" : "^T"));
    }
  }

  template <int root>
  void map_backward() {
    using F = Formulas<root>;
    F values(true);
    if (G::table.info[root].kind == Kind::map) values.value[root] = Formula(name_of(root));
    std::vector<Formula> adjoint(G::count);
    std::vector<bool> begun(G::count);
    adjoint[root] = Formula(gradient_of(root));
    if (G::flat.label[root].op == Tag("mean")) adjoint[root] = Formula(gradient_of(root) + " / n", Formula::product);
    unroll<0, F::end - F::begin>([&]<int back>(std::integral_constant<int, back>) {
      constexpr int node = G::fusion.members[F::end - 1 - back];
      constexpr Info info = G::table.info[node];
      unroll<0, info.argument_count>([&]<int a>(std::integral_constant<int, a>) {
        constexpr int target = info.arguments[a];
        if constexpr (G::fusion.wanted[target]) {
          const Formula part = [&]<int... b>(std::integer_sequence<int, b...>) {
            return op_of<G, node>::template d<a>(adjoint[node], values.value[node],
                                                 values.value[info.arguments[b]]...);
          }(std::make_integer_sequence<int, info.argument_count>{});
          adjoint[target] = begun[target] ? adjoint[target] + part : part;
          begun[target] = true;
        }
      });
    });
    for (int l = G::fusion.leaf_begin[root]; l < G::fusion.leaf_end[root]; ++l) {
      const int leaf = G::fusion.leaves[l];
      if (!G::fusion.wanted[leaf]) continue;
      const Shape from = loop_shape(G::table.info, root), &to = G::table.info[leaf].shape;
      const bool reduced = !(from == to);
      const std::string over = to.columns() == 1 && to.is_fixed() ? "sum "
                               : to.cols == 1                     ? "sum of columns "
                                                                  : "sum of rows ";
      const Formula& all = adjoint[static_cast<std::size_t>(leaf)];
      const std::string what = reduced ? over + all.within(Formula::product) : all.text;
      const std::string how = G::plan.leaf_write[l] == Write::skip ? " is " : sign(G::plan.leaf_write[l]);
      line("  " + gradient_of(leaf) + how + what);
    }
  }

  std::string indent_;
  std::string& text_;
};

}  // namespace detail

/// The forward and the reverse schedule of a model, one kernel a line.
template <auto const& model>
std::string describe() {
  std::string text = std::to_string(parameters<model>) + " parameters\n";
  detail::Description<GraphOf<model>>("", text).write();
  return text;
}

}  // namespace simplx
