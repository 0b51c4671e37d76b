// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/expr.hpp
/// Expressions are constexpr values: `Expr` is a trivial handle to a node made during constant evaluation.
///
/// Sharing is identity: `auto y = norm(x); return x + f(y) * y;` computes y once, because y is one node.
/// The heap of a constant evaluation ends with it, so nothing of this is left in the program; Graph (graph.hpp)
/// copies what it needs into fixed arrays. The same functions run at run time, in a debugger for instance.

#include <simplx/core/init.hpp>
#include <simplx/core/shape.hpp>
#include <simplx/core/text.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// What a node is, as far as the planner tells them apart.
enum class Kind : signed char {
  input,      ///< real values given at run time
  indices,    ///< whole numbers given at run time (tokens, labels)
  parameter,  ///< trained
  constant,   ///< a named tensor or hyper-parameter that is not trained
  number,     ///< a literal of the model's code
  map,        ///< elementwise; fused with its neighbours
  reduction,  ///< a sum over rows, columns or both; fused with the elementwise expression it sums
  product,    ///< a matrix product; takes a map as its epilogue
  kernel,     ///< any other op, with a forward and a backward of its own
  outputs,    ///< the root: its arguments are the results
  error,      ///< a broken shape rule, passed on to the root
};

/// A line of the user's code.
struct Where {
  const char* file = "";
  int line = 0;

  /// As a default argument the caller's line.
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

/// Numbers of an op that never vary: heads, flags. Read as constants by its kernels.
struct Attributes {
  Index integers[4]{};
  double reals[4]{};
  constexpr bool operator==(const Attributes&) const = default;
};

namespace detail {
/// Those of a reduction, and of a product x W or x W^T. What is meant by others each op says beside its shape rule. By
/// value: for a reference to a part of a constant nvcc's front end takes memory, gigabytes for a small model.
constexpr Attributes attributes_of(Over over) { return {.integers = {static_cast<Index>(over)}}; }
SIMPLX_HD constexpr Over over_of(Attributes reduction) { return static_cast<Over>(reduction.integers[0]); }
constexpr bool is_transposed(Attributes product) { return product.integers[0] != 0; }
}  // namespace detail

/// Of a node; and of a whole model.
inline constexpr int max_arguments = 8, max_inputs = 8, max_outputs = 4;

struct Node;
struct Term;

/// The block of a stack, kept as a function of the layer so that depth costs nothing until a layer is asked for.
struct BlockMaker {
  bool layered = false;  ///< it takes the number of the layer
  Node* (*make)(const BlockMaker*, int layer, Node* carry) = nullptr;
  void (*destroy)(BlockMaker*) = nullptr;
};

/// A function with a pull-back of its user's own: part 0 is the function, part 1 the pull-back.
struct RuleMaker {
  /// Makes the results of a part from its inputs: x... of the function; g, y, x... of the pull-back.
  void (*make)(const RuleMaker*, int part, Node* const* inputs, Node** results) = nullptr;
  void (*destroy)(RuleMaker*) = nullptr;
};

/// One value of a model. Users see `Expr`; ops and the planner see the numbered copy in Graph.
struct Node {
  Kind kind{};
  Tag op{};
  Shape shape{};
  Attributes attributes{};
  Where where{};

  int argument_count = 0;
  Node* arguments[max_arguments]{};
  unsigned char reads[max_arguments]{};  ///< bit j of reads[i]: the pull-back to argument i reads argument j
  unsigned char reads_output = 0;        ///< bit i: the pull-back to argument i reads the result
  unsigned char passes = 0;              ///< bit i: the pull-back to argument i is the incoming gradient itself
  bool costly = false;                   ///< of a map: rather stored than evaluated again
  unsigned char constant_operands = 0;   ///< bit i: argument i has no gradient, so it must not be trained
  unsigned char overwrites = 0;          ///< bit i: the gradient of argument i may be written over its value
  bool rows_apart = true;                ///< a row reads that row of the arguments alone (ops/kernel.hpp)
  Index saved = 0;                       ///< columns that forward saves for backward
  Index packed = 0;                      ///< elements prepared from the parameters once per step

  Name name{};            ///< of a leaf, a probe, an output, a stack, or a kernel that draws masks
  Init init{};            ///< of a parameter or constant
  signed char rank = 2;   ///< of a parameter: 0 scalar, 1 vector, 2 matrix; in checkpoints
  bool decays = false;    ///< of a parameter: weight decay applies
  bool frozen = false;    ///< of a parameter, or of all in a stack: not trained, its backward is not compiled
  bool stops = false;     ///< no gradient flows through
  bool wanted = false;    ///< of an input: its gradient is wanted
  bool carry = false;     ///< of an input: what a stack's block is given
  bool observed = false;  ///< a probe: value and gradient stay readable
  bool result = false;    ///< an output

  BlockMaker* block = nullptr;  ///< of a stack
  RuleMaker* rules = nullptr;   ///< of a function with its own pull-back

  /// The pull-back to an argument as an expression, where there is one (ops/grad.hpp).
  Term (*derive)(const Node*, int argument, const Term& gradient) = nullptr;
  bool derivable = false;  ///< whether there is one: g++ -fsanitize=undefined takes no comparison for a constant

  Tag rule{};  ///< of an error: the rule that was broken, and the two numbers
  Index left = 0, right = 0;

  // Every node knows its users, so that all that is connected can be freed, dead code included.
  Node* first_user = nullptr;
  Node* next_user[max_arguments]{};

  // Marks of the walk in progress.
  bool depends = false;
  int index = -1, cursor = 0;
  Node* link = nullptr;
};

/// A value of a model: what its author computes with.
struct Expr {
  Node* node = nullptr;
  constexpr Shape shape() const { return node->shape; }
};

constexpr Index width(Expr x) { return x.shape().cols; }

namespace detail {

/// The one place where nodes come to life.
constexpr Node* new_node() {
  return new Node;  // simplx: an expression made by the model, e.g. a weight, is never used: remove it or use it
}

constexpr void use(Node* user, Node* argument) {
  const int slot = user->argument_count++;
  user->arguments[slot] = argument;
  user->next_user[slot] = argument->first_user;
  argument->first_user = user;
}

constexpr Node* broken(Node* node, Tag rule, Index left, Index right) {
  node->kind = Kind::error;
  node->rule = rule;
  node->left = left;
  node->right = right;
  return node;
}

constexpr Node* leaf(Kind kind, Shape shape, Where where) {
  Node* node = new_node();
  node->kind = kind;
  node->shape = shape;
  node->where = where;
  const Index rows = shape.is_fixed() ? shape.rows : 1;
  return rows < 1 || shape.cols < 1 ? broken(node, "sizes", rows, shape.cols) : node;
}

constexpr Node* number(double value, Where where) {
  Node* node = leaf(Kind::number, fixed_shape(1, 1), where);
  node->attributes.reals[0] = value;
  return node;
}

}  // namespace detail

/// An operand together with the line it was written on. Numbers become literals.
struct At {
  Node* node;
  Where where;
  // Not by Where::here(): there is one for every operand, and a call more for each takes compilers memory.
  constexpr At(Expr x, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : node(x.node), where{file, line} {}
  constexpr At(double x, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : node(detail::number(x, {file, line})), where{file, line} {}
  constexpr At(Expr x, Where line) : node(x.node), where(line) {}
  constexpr Shape shape() const { return node->shape; }
};

// ---------------------------------------------------------------------------------------------------- leaves
// Does not compile for a size below 1: rule "sizes".

/// Real values given at run time under that name; their gradient is not wanted.
constexpr Expr input(const char* name, Shape shape, Where where = Where::here()) {
  Node* node = detail::leaf(Kind::input, shape, where);
  node->name = name;
  return {node};
}

/// An input whose gradient is wanted.
constexpr Expr variable(const char* name, Shape shape, Where where = Where::here()) {
  Expr x = input(name, shape, where);
  x.node->wanted = true;
  return x;
}

/// Whole numbers given at run time, one for each row of the axis: tokens, labels.
constexpr Expr indices(const char* name, Axis axis, Where where = Where::here()) {
  Node* node = detail::leaf(Kind::indices, rows_of(axis, 1), where);
  node->name = name;
  return {node};
}

namespace detail {
constexpr Expr parameter(const char* name, Shape shape, int rank, Init init, Where where) {
  Node* node = leaf(Kind::parameter, shape, where);
  node->name = name;
  node->rank = static_cast<signed char>(rank);
  node->init = init;
  node->decays = rank == 2;  // [He & Hofmann's code]: matrices decay; gains, biases and norms do not
  return {node};
}
}  // namespace detail

/// A trained matrix (rows, cols), multiplied from the right: x * weight("up.weight", width(x), hidden).
constexpr Expr weight(const char* name, Index rows, Index cols, Init init = normal(0.02),
                      Where where = Where::here()) {
  return detail::parameter(name, fixed_shape(rows, cols), 2, init, where);
}

/// A trained row (size), broadcast over rows: gains, biases, one number for each head.
constexpr Expr vector(const char* name, Index size, Init init = ones, Where where = Where::here()) {
  return detail::parameter(name, fixed_shape(1, size), 1, init, where);
}

/// A trained number, broadcast over everything.
constexpr Expr scalar(const char* name, Init init = ones, Where where = Where::here()) {
  return detail::parameter(name, fixed_shape(1, 1), 0, init, where);
}

/// A named tensor that is not trained.
constexpr Expr fixed(const char* name, Index rows, Index cols, Init init, Where where = Where::here()) {
  Node* node = detail::leaf(Kind::constant, fixed_shape(rows, cols), where);
  node->name = name;
  node->init = init;
  return {node};
}

/// A named number that is not trained, can be set at run time by its name and belongs to the record of a run.
constexpr Expr hyper(const char* name, double value, Where where = Where::here()) {
  Expr x = fixed(name, 1, 1, constant(value), where);
  x.node->rank = 0;
  return x;
}

}  // namespace simplx
