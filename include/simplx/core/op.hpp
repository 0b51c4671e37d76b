// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/op.hpp
/// How a node of an op is made: `apply` asks its shape rule and notes what its pull-backs read and write over. What an
/// op may define is said in ops/elementwise.hpp and ops/kernel.hpp.

#include <simplx/core/expr.hpp>

#include <initializer_list>

namespace simplx::inline SIMPLX_TARGET {

/// The definition of an op; a specialisation for each name. See ops/elementwise.hpp and ops/norm.hpp.
template <Tag name>
struct op;

/// What a shape rule answers: the shape of the result, or the rule that is broken and its two numbers.
struct Checked {
  Shape shape{};
  Tag rule{};
  Index left = 0, right = 0;
  constexpr Checked(Shape s) : shape(s) {}
  constexpr Checked(Tag broken, Index l, Index r) : rule(broken), left(l), right(r) {}
};

/// The rule that two operands break whose rows differ in axis or in number.
constexpr Checked unequal_rows(const Shape& a, const Shape& b) {
  if (a.axis != b.axis) return {"equal axes", static_cast<Index>(a.axis), static_cast<Index>(b.axis)};
  return {"equal rows", a.rows, b.rows};
}

namespace detail {

template <class Op>
constexpr unsigned char reads_of(int argument, int count) {
  unsigned mask = 0;
  for (int i = 0; i < count; ++i) {
    bool reads;
    if constexpr (requires { Op::reads(0, 0); }) {
      reads = Op::reads(argument, i);
    } else {
      reads = Op::needs_inputs;
    }
    mask |= static_cast<unsigned>(reads) << i;
  }
  return static_cast<unsigned char>(mask);
}

/// The operand that must be indices(...): lookups and labels; -1 if there is none.
template <class Op>
constexpr int index_operand() {
  if constexpr (requires { Op::index_operand; }) {
    return Op::index_operand;
  } else {
    return -1;
  }
}

/// Defined in ops/term.hpp.
template <Tag name, int count>
[[gnu::cold]] constexpr Term derive(const Node* node, int argument, const Term& gradient);

/// Whether an op's pull-back can be written as an expression.
template <Tag name>
constexpr bool derivable() {
  using Op = op<name>;
  return Op::kind == Kind::map || requires(const Node* node, const Term& gradient) { Op::derive(node, 0, gradient); };
}

/// Gives a new node its operands. An error among them passes through it, and through all that follows it.
[[gnu::cold]] constexpr bool take(Node* node, std::initializer_list<At> operands, int index_operand) {
  const Node *first_error = nullptr, *index_as_number = nullptr;
  for (const At& operand : operands) {
    if (operand.node->kind == Kind::indices && index_operand != node->argument_count) index_as_number = operand.node;
    use(node, operand.node);
    node->where = operand.where;
    if (!first_error && operand.node->kind == Kind::error) first_error = operand.node;
  }
  if (first_error) {
    node->kind = Kind::error;
    node->rule = first_error->rule;
    node->left = first_error->left;
    node->right = first_error->right;
    node->where = first_error->where;
  } else if (index_as_number) {
    broken(node, "indices as numbers", index_as_number->where.line, 0);
  }
  return !first_error && !index_as_number;
}

}  // namespace detail

/// Makes a node of an op.
///
/// Errors  a broken shape rule is recorded and reported once, by Graph, with the user's line
template <Tag name, class... Operands>
[[gnu::cold]] constexpr Expr apply(const Attributes& attributes, const Operands&... operands) {
  static_assert(sizeof...(operands) <= max_arguments, "simplx: an op has at most eight operands; nest two of them");
  constexpr bool known = requires { sizeof(op<name>); };
  static_assert(known, "simplx: there is no op of this name (in apply<name>); correct it, or include the op's header");
  Node* node = detail::new_node();
  if constexpr (known) {
    using Op = op<name>;
    node->kind = Op::kind;
    node->op = name;
    node->attributes = attributes;
    if (!detail::take(node, {operands...}, detail::index_operand<Op>())) return {node};
    const Checked checked = Op::shape(attributes, operands.shape()...);
    if (!checked.rule.empty()) return {detail::broken(node, checked.rule, checked.left, checked.right)};
    node->shape = checked.shape;
    constexpr int count = sizeof...(operands);
    for (int i = 0; i < count; ++i) node->reads[i] = detail::reads_of<Op>(i, count);
    node->derivable = detail::derivable<name>();
    if constexpr (detail::derivable<name>()) node->derive = &detail::derive<name, count>;
    node->reads_output = Op::needs_output ? static_cast<unsigned char>((1u << count) - 1) : 0;
    if constexpr (Op::kind == Kind::map || Op::kind == Kind::reduction) {
      node->passes = Op::passes;
      node->costly = Op::costly;
    } else {
      if constexpr (requires { Op::constant_operands; }) node->constant_operands = Op::constant_operands;
      if constexpr (requires { Op::overwrites; }) node->overwrites = Op::overwrites;
      node->rows_apart = Op::rows_apart(node->shape.axis);
      node->saved = Op::saved(attributes, operands.shape()...);
      bool is_prepared = true;
      if constexpr (requires { Op::packs; }) is_prepared = node->arguments[Op::packs]->kind == Kind::parameter;
      node->packed = is_prepared ? Op::packed(attributes, operands.shape()...) : 0;
    }
  }
  return {node};
}

/// Refuses what a module is asked to do: the rule is reported like a broken shape rule, unless one was broken before.
constexpr Expr refuse(Tag rule, At x, Index left = 0, Index right = 0) {
  Node* node = detail::new_node();
  return {detail::take(node, {x}, 0) ? detail::broken(node, rule, left, right) : node};
}

}  // namespace simplx
