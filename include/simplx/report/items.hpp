// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/items.hpp
/// From the ops of a model to what a reader wants to see of them: boxes, sums, and gains, with their words.
///
///     x * W (+ b)       a box that bears the name of W; its leaves are no boxes of their own
///     s * x             a gain on the line, s its symbol
///     x + y             a circle
///     norm, attention   a box
///
/// Only parameters bear the name of the scope that made them; an item has what is common to the scopes of its leaves.

#include <simplx/ops/attention.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/report/label.hpp>
#include <simplx/report/op_table.hpp>

#include <algorithm>
#include <set>

namespace simplx::inline SIMPLX_TARGET::drawing {

/// What an item is to the block, which gives it its colour.
enum class Role : signed char { plain, norm, attention, mlp, sum, gain };

/// What is drawn in one place.
struct Item {
  enum class Form : signed char { box, circle, gain, end };
  Form form = Form::box;
  Role role = Role::plain;
  Label title;
  std::vector<Label> details;      ///< lines below the title
  std::string tip;                 ///< a sentence for who points at it
  std::vector<int> inputs;         ///< the items it reads, one for each port, from left to right
  std::vector<std::string> ports;  ///< their letters, or none
  int minus = -1;                  ///< of a circle: the input that is subtracted
  bool output = false;             ///< of an end
  std::vector<int> ops;            ///< the rows of the table that it stands for
  std::string scope;
  bool named = false;  ///< a leaf or the op itself bears a name, which says the scope
  int frame = -1;
};

/// How ops are titled whose name alone would not do.
struct KnownOp {
  std::string_view op, title;
  Role role;
  std::string_view detail, ports;
};
inline constexpr KnownOp known_ops[] = {
    {"rms_norm", "RMSNorm", Role::norm, "", ""},
    {"layer_norm", "LayerNorm", Role::norm, "", ""},
    {"softmax_attention", "Softmax attention", Role::attention, "A V", "QKV"},
    {"skip_init_attention", "SkipInit attention", Role::attention, "(α I + β A) V", "QKV"},
    {"shaped_attention", "Shaped attention", Role::attention, "(α I + β A − γ C) V", "QKV"},
    {"relu", "ReLU", Role::mlp, "", ""},
    {"leaky_relu", "Leaky ReLU", Role::mlp, "", ""},
    {"gelu", "GELU", Role::mlp, "", ""},
    {"gelu_tanh", "GELU", Role::mlp, "by tanh", ""},
    {"sigmoid", "Sigmoid", Role::mlp, "", ""},
    {"tanh", "tanh", Role::mlp, "", ""},
    {"divide", "a ÷ b", Role::plain, "", "ab"},
    {"greater", "a > b", Role::plain, "", "ab"},
    {"pow", "a to the power b", Role::plain, "", "ab"},
    {"select", "a ? b : c", Role::plain, "", "abc"},
    {"matmul", "Matrix product", Role::plain, "", "ab"},
    {"sum", "Sum", Role::plain, "", ""},
    {"mean", "Mean", Role::plain, "", ""},
};

inline std::string shape_text(const Shape& shape) {
  const std::string rows = shape.is_fixed() ? std::to_string(shape.rows) : name_of(shape.axis);
  return rows + " × " + std::to_string(shape.cols);
}

/// How a parameter begins: "starts at 0.1".
inline std::string start_of(const Init& init) {
  switch (init.law) {
    case Init::Law::constant: return "starts at " + number_text(init.value);
    case Init::Law::normal: return "starts normal, deviation " + number_text(init.value);
    case Init::Law::uniform: return "starts uniform, up to " + number_text(init.value);
    case Init::Law::sinusoid: return "sinusoids";
    case Init::Law::identity: return "starts as the identity";
    case Init::Law::orthogonal: return "starts orthogonal";
    case Init::Law::normal_by_rows: return "starts normal, variance 1 / rows";
    case Init::Law::alibi_slopes: return "the slopes of ALiBi";
  }
  return {};
}

/// A scope lies within another if that one is a prefix of it, part by part.
inline bool within(const std::string& scope, const std::string& outer) {
  return outer.empty() || scope == outer || scope.starts_with(outer + ".");
}
/// The innermost scope around two: "mlp" of "mlp.up" and "mlp.down".
inline std::string common(std::string a, const std::string& b) {
  while (!within(b, a)) a = scope_of(a);
  return a;
}

/// Makes the items of a model from its table of ops; leaves that a box names are no items of their own.
class ItemMaker {
 public:
  explicit ItemMaker(const OpTable& table) : table_(table) {
    const int count = static_cast<int>(table.size());
    readers_.resize(count), leaf_.resize(count), item_of_.assign(count, -1);
    for (const OpRow& row : table) {
      in_layer_ |= row.carry;
      for (const int a : row.arguments) ++readers_[a];
    }
    for (int i = 0; i < count; ++i) {
      const OpRow& row = table[i];
      leaf_[i] = row.kind == Kind::parameter || row.kind == Kind::constant || row.kind == Kind::number ||
                 (is_view(row) && leaf_[row.arguments[0]]);
    }
    for (int i = 0; i < count; ++i) {
      if (table[i].kind != Kind::outputs && !leaf_[i]) make_item(i);
    }
  }
  std::vector<Item> take() { return std::move(items_); }

 private:
  const OpRow& row(int i) const { return table_[i]; }
  /// A leaf that is turned, or repeated for the columns of its head, is a leaf still.
  static bool is_view(const OpRow& row) { return row.op == "transpose" || row.op == "repeat_columns"; }
  int leaf_of(int i) const { return is_view(row(i)) ? leaf_of(row(i).arguments[0]) : i; }

  /// A leaf as it is written: β_SA, W^T, 0.5.
  Label leaf_label(int i) const {
    if (is_view(row(i))) {
      Label label = leaf_label(row(i).arguments[0]);
      if (row(i).op == "transpose") label.push_back({"ᵀ"});
      return label;
    }
    if (row(i).kind == Kind::number) return {{number_text(row(i).attributes.reals[0])}};
    return symbol_of(row(i).name);
  }
  std::string leaf_sentence(int i) const {
    const OpRow& leaf = row(leaf_of(i));
    if (leaf.kind == Kind::number) return number_text(leaf.attributes.reals[0]);
    const bool trained = leaf.kind == Kind::parameter && !leaf.frozen;
    return leaf.name + " (" + shape_text(leaf.shape) + ", " + start_of(leaf.init) + (trained ? ")" : ", not trained)");
  }

  /// Makes an item for a row, which stands for the leaves it is the first to read as well.
  int add(int i, Item item) {
    item.ops.push_back(i);
    std::string leaves;
    for (const int a : row(i).arguments) {
      if (!leaf_[a]) continue;
      leaves += (leaves.empty() ? "; " : ", ") + leaf_sentence(a);
      claim(a, item);
    }
    item.tip += (row(i).op.empty() ? row(i).name : row(i).op) + " → " + shape_text(row(i).shape) + leaves;
    if (!row(i).name.empty() && row(i).kind != Kind::input && row(i).op != "output") enter(item, scope_of(row(i).name));
    item_of_[i] = static_cast<int>(items_.size());
    items_.push_back(std::move(item));
    return item_of_[i];
  }
  void claim(int a, Item& item) {
    for (int i = a;; i = row(i).arguments[0]) {
      if (!claimed_.insert(i).second) return;
      item.ops.push_back(i);
      if (!row(i).name.empty()) enter(item, scope_of(row(i).name));
      if (row(i).arguments.empty()) return;
    }
  }
  /// The scope of an item: what is common to its leaves.
  static void enter(Item& item, const std::string& scope) {
    item.scope = item.named ? common(item.scope, scope) : scope;
    item.named = true;
  }
  void make_item(int i) {
    const OpRow& op = row(i);
    std::vector<int> data, leaves;
    for (const int a : op.arguments) (leaf_[a] ? leaves : data).push_back(a);
    Item item;
    for (const int a : data) item.inputs.push_back(item_of_[a]);
    const bool two = data.size() == 2, one = data.size() == 1 && leaves.size() == 1;
    const int leaf = leaves.empty() ? -1 : leaves[0];
    if (op.kind == Kind::input || op.kind == Kind::indices) {
      item.form = Item::Form::end;
      item.title = op.carry ? Label{{"X", Run::Style::symbol}, {"in", Run::Style::index}} : Label{{op.name}};
      item.details = {{{shape_text(op.shape)}}};
    } else if (op.op == "output") {
      item.form = Item::Form::end;
      item.output = true;
      item.title = in_layer_ ? Label{{"X", Run::Style::symbol}, {"out", Run::Style::index}} : Label{{op.name}};
      if (leaf >= 0) item.details = {leaf_label(leaf)};
    } else if (two && (op.op == "add" || op.op == "subtract" || op.op == "multiply")) {
      item.form = Item::Form::circle;
      item.role = Role::sum;
      item.title = {{op.op == "multiply" ? "×" : "+"}};
      if (op.op == "subtract") item.minus = 1;
    } else if (op.op == "add" && one && is_bias(leaf, data[0])) {
      return add_bias(i, item.inputs[0]);
    } else if (one && (commutes(op) || ((op.op == "divide" || op.op == "subtract") && leaf == op.arguments[1]))) {
      make_gain(op, leaf, item);
    } else if (op.kind == Kind::product && one && leaf == op.arguments[1]) {
      make_linear(op, leaf, item);
    } else {
      make_box(op, leaves, item);
    }
    add(i, std::move(item));
  }

  static bool commutes(const OpRow& op) { return op.op == "add" || op.op == "multiply"; }

  void make_gain(const OpRow& op, int leaf, Item& item) const {
    item.form = Item::Form::gain;
    item.role = Role::gain;
    item.title = leaf_label(leaf);
    const char* sign = op.op == "add" ? "+ " : op.op == "divide" ? "÷ " : op.op == "subtract" ? "− " : nullptr;
    if (sign) item.title.insert(item.title.begin(), Run{sign});
    const OpRow& from = row(leaf_of(leaf));
    if (from.kind != Kind::number && from.init.law == Init::Law::constant && from.shape == fixed_shape(1, 1)) {
      item.title.push_back({" = " + number_text(from.init.value)});
    }
  }

  void make_linear(const OpRow& op, int leaf, Item& item) const {
    const OpRow& matrix = row(leaf_of(leaf));
    const std::string last = last_name(matrix.name), scope = last_name(scope_of(matrix.name));
    item.role = Role::mlp;  // until its frame says otherwise
    item.title = {{title_case(last == "weight" && !scope.empty() ? scope : last == "weight" ? "linear" : last)}};
    const bool transposed = op.op == "matmul" && detail::is_transposed(op.attributes);
    if (transposed) item.title.push_back({"ᵀ"});
    const Index inner = row(op.arguments[0]).shape.cols;
    item.details = {{{std::to_string(inner) + " → " + std::to_string(op.shape.cols)}}};
    if (matrix.kind == Kind::constant) item.details.push_back({{"not trained"}});
    item.tip = "y = x " + plain_text(leaf_label(leaf)) + (transposed ? "ᵀ: " : ": ");
  }

  /// A bias belongs to the matrix whose product it is added to.
  bool is_bias(int leaf, int product) const {
    const int item = item_of_[product];
    if (row(leaf).kind != Kind::parameter || row(product).kind != Kind::product || readers_[product] != 1) return false;
    return item >= 0 && scope_of(row(leaf).name) == items_[item].scope;
  }
  void add_bias(int i, int linear) {
    Item& item = items_[linear];
    const int leaf = row(row(i).arguments[0]).kind == Kind::parameter ? row(i).arguments[0] : row(i).arguments[1];
    item.details[0].push_back({" + b"});
    item.tip += " + " + leaf_sentence(leaf);
    item.ops.push_back(i);
    claim(leaf, item);
    item_of_[i] = linear;
  }

  void make_box(const OpRow& op, const std::vector<int>& leaves, Item& item) const {
    const auto* known = std::ranges::find(known_ops, op.op, &KnownOp::op);
    const bool has_title = known != std::end(known_ops);
    item.title = {{has_title ? std::string(known->title) : title_case(op.op)}};
    if (has_title) item.role = known->role;
    if (has_title && !known->detail.empty()) item.details.push_back({{std::string(known->detail)}});
    const std::string_view letters = has_title ? known->ports : op.arguments.size() > 1 ? "abcdefgh" : "";
    std::size_t port = 0;
    for (std::size_t a = 0; a < op.arguments.size() && a < letters.size(); ++a) {
      if (leaf_[op.arguments[a]]) continue;
      item.ports.push_back(std::string(1, letters[a]));
      ++port;
    }
    if (port < 2) item.ports.clear();
    if (item.role == Role::attention) {
      const Heads heads = detail::heads_in(op.attributes);
      item.details.push_back({{fmt::format("{} {}{}", heads.count, heads.count == 1 ? "head" : "heads",
                                           heads.mask == Mask::causal ? ", causal" : "")}});
      if (heads.window > 0) item.details.push_back({{fmt::format("window {}", heads.window)}});
      if (heads.alibi) item.details.push_back({{"ALiBi"}});
      if (detail::drops_weights(op.attributes)) {  // the rate is the last operand
        item.details.push_back({{"dropout " + number_text(row(op.arguments.back()).init.value)}});
      }
    } else if (item.role != Role::norm) {
      for (const int leaf : leaves) item.details.push_back(leaf_label(leaf));
    }
    if (op.op == "slice_columns") {
      item.details.push_back({{detail::range_text(detail::slice_in(op.attributes))}});
    }
    if (op.op == "stack") {
      const detail::StackSettings stack = detail::stack_settings(op.attributes);
      item.details.push_back({{fmt::format("{} layers{}", stack.layers, stack.shared ? ", shared" : "")}});
    }
    if (op.op == "stack" || op.op == "probe") item.title.push_back({" " + last_name(op.name)});
  }

  const OpTable& table_;
  std::vector<Item> items_;
  std::vector<int> readers_, item_of_;
  std::vector<char> leaf_;
  std::set<int> claimed_;
  bool in_layer_ = false;
};
/// The items of a table of ops, inputs first.
inline std::vector<Item> items_of(const OpTable& table) { return ItemMaker(table).take(); }

}  // namespace simplx::drawing
