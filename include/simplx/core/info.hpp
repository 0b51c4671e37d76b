// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/info.hpp
/// The numbered graph: what remains of a model once the compiler has evaluated it.
///
/// Node i of a graph of N nodes only refers to nodes below i; node N - 1 is the root, whose arguments are the
/// outputs. `Info` is what the planner reads (fuse.hpp, plan.hpp), `Label` what kernels and people read.

#include <simplx/core/layers.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Columns on each axis: a size in memory before the row counts are known.
struct Columns {
  Index on[axis_count]{};

  constexpr Index& operator[](Axis axis) { return on[static_cast<int>(axis)]; }
  constexpr Index operator[](Axis axis) const { return on[static_cast<int>(axis)]; }
  constexpr Columns& operator+=(const Columns& other) {
    for (int i = 0; i < axis_count; ++i) on[i] += other.on[i];
    return *this;
  }
  constexpr void raise_to(const Columns& other) {
    for (int i = 0; i < axis_count; ++i) on[i] = std::max(on[i], other.on[i]);
  }
  constexpr bool operator==(const Columns&) const = default;
};

/// Tensors of a flat buffer start at multiples of this many elements.
inline constexpr Index alignment = 16;

/// What the planner reads of a node.
struct Info {
  Kind kind{};
  Shape shape{};
  int argument_count = 0;
  int arguments[max_arguments]{};
  unsigned char reads[max_arguments]{};
  unsigned char reads_output = 0;
  unsigned char passes = 0;  ///< bit i: the pull-back to argument i is the incoming gradient itself
  unsigned char overwrites = 0;  ///< bit i: the gradient of argument i may be written over its value
  bool rows_apart = true;    ///< a row reads that row of the arguments alone
  bool costly = false;       ///< of a map: rather stored than evaluated again
  bool carry = false;        ///< the input of a stack's block
  bool wanted_input = false;
  bool frozen = false;  ///< a parameter that is not trained
  bool stops = false;   ///< no gradient flows through
  bool observed = false;
  bool result = false;
  bool stack = false;
  bool own_rule = false;   ///< a function with its user's own pull-back
  Columns saved{};         ///< kept columns that forward fills for backward
  Columns workspace{};     ///< temporary columns during its forward and backward
  Index parameters = 0;    ///< elements in the flat buffer of parameters, padding included
  Index trained = 0;       ///< the same without padding: what a person counts
  Index constants = 0;     ///< elements in the buffer of constants
  Index packed = 0;        ///< elements prepared from the parameters
  Index further = 0;       ///< of a stack: elements of gradients of further uses of its parameters

  constexpr bool executes() const { return looped() || kind == Kind::product || kind == Kind::kernel; }
  /// Evaluated element by element, in a group with its neighbours.
  constexpr bool looped() const { return kind == Kind::map || kind == Kind::reduction; }
};

/// The shape over which a group is evaluated: of a reduction, what it reduces.
constexpr Shape loop_shape(const Info* info, int root) {
  return info[info[root].kind == Kind::reduction ? info[root].arguments[0] : root].shape;
}

/// What kernels and people read of a node.
struct Label {
  Tag op{};
  Attributes attributes{};
  Name name{};
  Init init{};
  signed char rank = 0;
  bool decays = false;
  Where where{};
};

/// The nodes of a graph, arguments before those that use them.
template <int count>
struct Flat {
  Info info[count]{};
  Label label[count]{};
};

/// What is learned from a first walk: the number of nodes, or what is wrong with the model.
struct Summary {
  int count = 0;
  Tag rule{};
  Index left = 0, right = 0;
  Where where{};
};

namespace detail {

/// A kernel that is no stack has a name only if it draws masks, which its name tells from those of others.
constexpr bool draws(const Info& info, const Label& label) {
  return info.kind == Kind::kernel && !info.stack && !label.name.empty();
}
constexpr bool draws(const Node& node) { return node.kind == Kind::kernel && !node.block && !node.name.empty(); }

constexpr bool needs_own_name(const Node& node) {
  const bool names_layers = node.block && !is_recomputed(node);
  const bool is_input = (node.kind == Kind::input && !node.carry) || node.kind == Kind::indices;
  return is_input || node.kind == Kind::parameter || node.kind == Kind::constant || names_layers ||
         draws(node);
}

constexpr Summary summarise(Node* root) {
  Summary summary;
  const auto complain = [&](Tag rule, Index left, Index right, Where where) {
    if (!summary.rule.empty()) return;
    summary.rule = rule;
    summary.left = left;
    summary.right = right;
    summary.where = where;
  };
  if (root->kind == Kind::error) complain(root->rule, root->left, root->right, root->where);
  if (!summary.rule.empty()) return summary;
  constexpr int buckets = 64;
  Node* bucket[buckets]{};  // names seen, chained by link, which a visited node no longer needs
  each_node(root, [&](Node* node) {
    ++summary.count;
    node->depends = (node->kind == Kind::parameter && !node->frozen) || (node->kind == Kind::input && node->wanted);
    for (int i = 0; i < node->argument_count && !node->stops; ++i) {
      node->depends |= node->arguments[i]->depends;
      if (node->arguments[i]->depends && (node->constant_operands >> i & 1)) {
        complain("constant operand", i, 0, node->where);
      }
    }
    if (!needs_own_name(*node)) return;
    if (node->name.lacks_a_part()) complain("a name", node->where.line, 0, node->where);
    Node*& first = bucket[node->name.hash() % buckets];
    for (Node* other = first; other; other = other->link) {
      if (other->name == node->name) complain("one name", other->where.line, node->where.line, node->where);
    }
    node->link = first;
    first = node;
  });
  return summary;
}

/// The name that makes "one name" of a summary: of a node of its first line and one of its second.
constexpr Name name_given_twice(Node* root, const Summary& summary) {
  Name name{};
  Node* earlier = nullptr;
  each_node(root, [&](Node* node) {
    if (!needs_own_name(*node)) return;
    for (Node* other = earlier; other && node->where.line == summary.right; other = other->link) {
      if (name.empty() && other->name == node->name) name = node->name;
    }
    if (node->where.line == summary.left) node->link = earlier, earlier = node;
  });
  return name;
}

template <int count>
constexpr Flat<count> flatten(Node* root) {
  Flat<count> flat;
  each_node(root, [&](Node* node) {
    Info& info = flat.info[node->index];
    Label& label = flat.label[node->index];
    info.kind = node->kind;
    info.shape = node->shape;
    info.argument_count = node->argument_count;
    for (int i = 0; i < node->argument_count; ++i) {
      info.arguments[i] = node->arguments[i]->index;
      info.reads[i] = node->reads[i];
    }
    info.reads_output = node->reads_output;
    info.passes = node->passes;
    info.overwrites = node->overwrites;
    info.rows_apart = node->rows_apart;
    info.costly = node->costly;
    info.carry = node->carry;
    info.wanted_input = node->wanted;
    info.frozen = node->frozen;
    info.stops = node->stops;
    info.observed = node->observed;
    info.result = node->result;
    info.stack = node->block != nullptr;
    info.own_rule = node->rules != nullptr;
    const Shape& shape = node->shape;
    info.saved[shape.axis] = shape.is_fixed() ? round_up(node->saved * shape.rows, alignment) : node->saved;
    info.packed = node->packed;
    if (node->kind == Kind::parameter) {
      info.trained = node->shape.columns();
      info.parameters = round_up(info.trained, alignment);
    }
    if (node->kind == Kind::constant) info.constants = round_up(node->shape.columns(), alignment);
    label = {node->op, node->attributes, node->name, node->init, node->rank, node->decays, node->where};
  });
  return flat;
}

}  // namespace detail
}  // namespace simplx
