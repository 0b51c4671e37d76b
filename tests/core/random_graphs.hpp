// SPDX-License-Identifier: MIT
#pragma once

/// Random graphs over every kind of op that the planner tells apart, described by `Info` alone.

#include <simplx/core/info.hpp>
#include <simplx/cpu/random_numbers.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace test {

using namespace simplx;

/// What a node computes. Maps, reductions, products, then kernels of every temper.
enum class Op {
  leaf,
  add, subtract, multiply, quotient, tanh, half_square, identity, spread, blend, select, clamp,
  sum, mean,
  product, turned_product,
  triple, row_scale, gain, custom, stack, shift, cumulative_sum, slice, concatenate, gather, contract, transpose, stop,
  outputs
};
inline constexpr const char* op_names[] = {
    "leaf",        "add",       "subtract", "multiply",  "quotient", "tanh",   "half_square",    "identity",
    "spread",      "blend",     "select",   "clamp",     "sum",      "mean",   "product",        "turned_product",
    "triple",      "row_scale", "gain",     "custom",    "stack",    "shift",  "cumulative_sum", "slice",
    "concatenate", "gather",    "contract", "transpose", "stop",     "outputs"};
inline constexpr int op_count = static_cast<int>(Op::outputs) + 1;
static_assert(std::size(op_names) == op_count);

struct Random {
  std::uint64_t key, counter = 0;
  int below(int n) { return static_cast<int>(bits(key, counter++) % static_cast<std::uint64_t>(n)); }
  bool chance(double p) { return uniform(key, counter++) < p; }
  double number() { return normal(key, counter++); }
};

struct TestGraph {
  std::vector<Info> info;
  std::vector<Op> op;
  std::vector<int> number;  ///< of a reduction: Over; of a shift: rows; of a slice: its first column

  int add(Op kind_of_op, const Info& node, int number_of_op = 0) {
    info.push_back(node);
    op.push_back(kind_of_op);
    number.push_back(number_of_op);
    return count() - 1;
  }
  int count() const { return static_cast<int>(info.size()); }
  const Info& argument(int node, int k) const {
    return info[static_cast<std::size_t>(info[static_cast<std::size_t>(node)].arguments[k])];
  }
};

inline constexpr int axis_rows[axis_count] = {1, 3, 2, 4, 2};
inline Index rows_of_axis(Axis axis) { return axis_rows[static_cast<int>(axis)]; }
inline Index rows_of_shape(const Shape& s) { return s.is_fixed() ? s.rows : rows_of_axis(s.axis); }
inline std::size_t size_of(const Shape& s) { return static_cast<std::size_t>(rows_of_shape(s) * s.cols); }
inline constexpr Index most_columns = 6;
inline constexpr std::size_t most_elements = most_columns * most_columns;

namespace detail {

inline bool broadcasts(const Shape& from, const Shape& to) {
  const bool cols = from.cols == to.cols || from.cols == 1;
  return cols && (from.is_fixed() ? from.rows == 1 || (to.is_fixed() && from.rows == to.rows) : from.axis == to.axis);
}
inline Shape joined(const Shape& a, const Shape& b) {
  Shape s = a.is_fixed() ? b : a;
  if (a.is_fixed() && b.is_fixed()) s.rows = std::max(a.rows, b.rows);
  s.cols = std::max(a.cols, b.cols);
  return s;
}

/// What the planner is told of an op.
inline Info node_of(Op op, const Shape& shape, std::initializer_list<int> arguments) {
  Info info;
  info.shape = shape;
  for (const int argument : arguments) info.arguments[info.argument_count++] = argument;
  const auto all_read = [&](unsigned char mask) { std::fill_n(info.reads, info.argument_count, mask); };
  const auto each_reads_the_other = [&] { info.reads[0] = 2, info.reads[1] = 1; };
  info.kind = op < Op::sum       ? Kind::map
              : op < Op::product ? Kind::reduction
              : op < Op::triple  ? Kind::product
                                 : Kind::kernel;
  switch (op) {
    case Op::add: info.passes = 3; break;
    case Op::subtract: case Op::identity: info.passes = 1; break;
    case Op::multiply:
    case Op::product:
    case Op::turned_product:
    case Op::triple:
    case Op::contract:
      each_reads_the_other();
      break;
    case Op::quotient: all_read(2), info.reads_output = 2; break;  // a / (1 + b^2)
    case Op::tanh: info.reads_output = 1; break;
    case Op::half_square: info.reads[0] = 1; break;
    case Op::blend: each_reads_the_other(), info.passes = 4; break;  // a b + c
    case Op::select: all_read(1); break;
    case Op::clamp: all_read(7); break;
    case Op::row_scale:  // a * (sum of its row), which is saved
      all_read(1), info.saved[shape.axis] = shape.is_fixed() ? alignment : 1, info.overwrites = 1;
      break;
    case Op::gain:  // a * row, as a kernel
      all_read(3), info.workspace[shape.axis] = 2, info.overwrites = 1;
      break;
    case Op::custom:  // a b by a rule of its own
      all_read(3), info.reads_output = 3, info.own_rule = true, info.overwrites = 3;
      info.workspace[shape.axis] = shape.is_fixed() ? 2 * alignment : 5, info.workspace[Axis::fixed] += alignment;
      break;
    case Op::stack:  // tanh(a + its own row), in memory of its own; it uses its incoming gradient up
      info.reads_output = 1, info.stack = true;
      info.workspace[shape.axis] = shape.is_fixed() ? 2 * alignment : 3, info.workspace[Axis::tokens] += 1;
      info.saved[shape.axis] = shape.is_fixed() ? alignment : 2, info.saved[Axis::batch] += 1;
      info.trained = shape.cols, info.parameters = alignment;
      break;
    case Op::gather: info.reads[0] = 2; break;
    case Op::stop: info.stops = true; break;
    default: break;
  }
  return info;
}

/// Adds one node, if the operands that are found by chance suit.
inline void add_random_op(TestGraph& graph, Random& random, int carry) {
  std::vector<bool> used(static_cast<std::size_t>(graph.count()));
  for (const Info& info : graph.info) {
    for (int k = 0; k < info.argument_count; ++k) used[static_cast<std::size_t>(info.arguments[k])] = true;
  }
  const auto any = [&] {  // the carry is always a good operand; what nobody uses yet and recent nodes are likelier
    if (carry >= 0 && random.chance(0.1)) return carry;
    if (random.chance(0.6)) {
      for (int i = graph.count() - 1; i >= 0; --i) {
        if (!used[static_cast<std::size_t>(i)] && random.chance(0.6)) return i;
      }
    }
    return random.chance(0.6) ? std::max(0, graph.count() - 1 - random.below(6)) : random.below(graph.count());
  };
  const auto shape_of = [&](int i) { return graph.info[static_cast<std::size_t>(i)].shape; };
  const auto pick = [&] {  // values without an axis easily crowd out the others
    const int i = any();
    return shape_of(i).is_fixed() && random.chance(0.5) ? any() : i;
  };
  const auto real = [&](int i) { return graph.info[static_cast<std::size_t>(i)].kind != Kind::indices; };
  const auto pick_where = [&](auto suits) {
    for (int tries = 0; tries < 12; ++tries) {
      const int i = pick();
      if (real(i) && suits(shape_of(i))) return i;
    }
    return -1;
  };
  const int a = pick();
  if (!real(a)) return;
  const Shape A = shape_of(a);
  const auto make = [&](Op op, Shape shape, std::initializer_list<int> arguments, int number = 0) {
    for (const int argument : arguments) {
      if (argument < 0) return;
    }
    if (shape.cols > most_columns || (shape.is_fixed() && shape.rows > most_columns)) return;
    graph.add(op, node_of(op, shape, arguments), number);
  };
  const auto joins = [&](const Shape& with) {
    return pick_where([&](Shape s) { return broadcasts(s, joined(s, with)) && broadcasts(with, joined(s, with)); });
  };
  const auto like = [&](Shape shape) {
    return random.chance(0.2) && shape == A ? a : pick_where([&](Shape s) { return s == shape; });
  };

  // Maps and reductions are what is planned most finely: they come more often.
  const int kinds = random.below(10);
  const int first = kinds < 4 ? 1 : kinds < 5 ? static_cast<int>(Op::sum) : static_cast<int>(Op::product);
  const int end = static_cast<int>(kinds < 4 ? Op::sum : kinds < 5 ? Op::product : Op::outputs);
  const Op op = static_cast<Op>(first + random.below(end - first));
  switch (op) {
    case Op::add: case Op::subtract: case Op::multiply: case Op::quotient: case Op::spread: {
      const int b = random.chance(0.15) ? a : joins(A);
      if (b >= 0) make(op, joined(A, shape_of(b)), {a, b});
      break;
    }
    case Op::blend: case Op::select: case Op::clamp: {
      const int b = random.chance(0.15) ? a : joins(A);
      if (b < 0) break;
      const Shape both = joined(A, shape_of(b));
      const int c = random.chance(0.15) ? a : joins(both);
      if (c < 0) break;
      const Shape all = joined(both, shape_of(c));
      if (broadcasts(A, all) && broadcasts(shape_of(b), all)) make(op, all, {a, b, c});
      break;
    }
    case Op::identity: {
      const int before = graph.count();
      make(op, A, {a});
      if (graph.count() > before) graph.info.back().observed = random.chance(0.4);
      break;
    }
    case Op::sum: case Op::mean: {
      const int over = random.below(3);
      const Shape shapes[] = {fixed_shape(1, A.cols), Shape{A.axis, A.rows, 1}, fixed_shape(1, 1)};
      make(op, shapes[over], {a}, over);
      break;
    }
    case Op::product: {
      const int b = pick_where([&](Shape s) { return s.is_fixed() && s.rows > 1 && s.rows == A.cols; });
      if (b >= 0) make(op, Shape{A.axis, A.rows, shape_of(b).cols}, {a, b});
      break;
    }
    case Op::turned_product: {
      const int b = pick_where([&](Shape s) { return s.is_fixed() && s.rows > 1 && s.cols == A.cols; });
      if (b >= 0) make(op, Shape{A.axis, A.rows, shape_of(b).rows}, {a, b});
      break;
    }
    case Op::triple: make(op, A, {a, like(A), like(A)}); break;
    case Op::custom: make(op, A, {a, like(A)}); break;
    case Op::gain: make(op, A, {a, pick_where([&](Shape s) { return s == fixed_shape(1, A.cols); })}); break;
    case Op::tanh:
    case Op::half_square:
    case Op::row_scale:
    case Op::stack:
    case Op::cumulative_sum:
      make(op, A, {a});
      break;
    case Op::stop:
      if (random.chance(0.4)) make(op, A, {a});
      break;
    case Op::shift: make(op, A, {a}, random.chance(0.5) ? 1 : -1); break;
    case Op::slice: {
      const int begin = random.below(static_cast<int>(A.cols));
      make(op, Shape{A.axis, A.rows, 1 + random.below(static_cast<int>(A.cols) - begin)}, {a}, begin);
      break;
    }
    case Op::concatenate: {
      const int b = random.chance(0.15) ? a : pick_where([&](Shape s) { return s.axis == A.axis && s.rows == A.rows; });
      if (b >= 0) make(op, Shape{A.axis, A.rows, A.cols + shape_of(b).cols}, {a, b});
      break;
    }
    case Op::gather: {
      std::vector<int> indices;
      for (int i = 0; i < graph.count(); ++i) {
        if (!real(i)) indices.push_back(i);
      }
      const int index = indices[static_cast<std::size_t>(random.below(static_cast<int>(indices.size())))];
      make(op, rows_of(shape_of(index).axis, A.cols), {a, index});
      break;
    }
    case Op::contract: {
      const int b = pick_where([&](Shape s) { return s.axis == A.axis && s.rows == A.rows; });
      if (b >= 0) make(op, fixed_shape(A.cols, shape_of(b).cols), {a, b});
      break;
    }
    case Op::transpose:
      if (A.is_fixed()) make(op, fixed_shape(A.cols, A.rows), {a});
      break;
    default: break;
  }
}

/// Only what the root needs is part of a graph.
inline TestGraph pruned(const TestGraph& all) {
  const auto n = static_cast<std::size_t>(all.count());
  std::vector<bool> needed(n);
  needed.back() = true;
  for (std::size_t i = n; i-- > 0;) {
    for (int k = 0; needed[i] && k < all.info[i].argument_count; ++k) {
      needed[static_cast<std::size_t>(all.info[i].arguments[k])] = true;
    }
  }
  std::vector<int> place(n);
  TestGraph graph;
  for (std::size_t i = 0; i < n; ++i) {
    if (!needed[i]) continue;
    Info info = all.info[i];
    for (int k = 0; k < info.argument_count; ++k) {
      info.arguments[k] = place[static_cast<std::size_t>(info.arguments[k])];
    }
    place[i] = graph.add(all.op[i], info, all.number[i]);
  }
  return graph;
}

}  // namespace detail

/// A graph of up to 50 ops; with probability 0.4 the block of a stack, with a carry and one result of its shape.
inline TestGraph random_graph(Random& random) {
  TestGraph all;
  const auto leaf = [&](Kind kind, Shape shape, bool wanted = false) {
    Info info;
    info.kind = kind;
    info.shape = shape;
    info.wanted_input = wanted;
    info.frozen = kind == Kind::parameter && random.chance(0.2);
    if (kind == Kind::parameter) info.trained = shape.columns(), info.parameters = round_up(info.trained, alignment);
    return all.add(Op::leaf, info);
  };
  const bool block = random.chance(0.4);
  const Shape carries[] = {rows_of(Axis::tokens, 4), rows_of(Axis::batch, 4), fixed_shape(3, 4)};
  const int carry = leaf(Kind::input, block ? carries[random.below(3)] : carries[0], true);
  all.info[0].carry = block;
  for (const Axis axis : {Axis::tokens, Axis::sequences, Axis::labelled, Axis::batch}) {
    leaf(Kind::input, rows_of(axis, random.chance(0.2) ? 1 : 4), !block && random.chance(0.5));
  }
  leaf(Kind::indices, rows_of(Axis::batch, 1)), leaf(Kind::indices, rows_of(Axis::labelled, 1));
  for (const Shape shape :
       {fixed_shape(1, 1), fixed_shape(1, 4), fixed_shape(4, 4), fixed_shape(4, 1), fixed_shape(3, 4)}) {
    leaf(Kind::parameter, shape);
  }
  leaf(Kind::constant, fixed_shape(1, 4)), leaf(Kind::number, fixed_shape(1, 1));

  const int before = all.count(), ops = 5 + random.below(46);
  for (int tries = 0; all.count() - before < ops && tries < 400; ++tries) {
    detail::add_random_op(all, random, block ? carry : -1);
  }
  std::vector<int> results;
  const int wanted_results = block ? 1 : 1 + random.below(4);
  for (int tries = 0; static_cast<int>(results.size()) < wanted_results && tries < 100; ++tries) {
    const int node = all.count() - 1 - random.below(random.chance(0.8) ? std::min(6, all.count()) : all.count());
    const Info& info = all.info[static_cast<std::size_t>(node)];
    if (block ? info.shape == all.info[0].shape : info.kind != Kind::indices) results.push_back(node);
  }
  if (results.empty()) results.push_back(carry);
  Info root;
  root.kind = Kind::outputs;
  for (const int node : results) {
    Info output = detail::node_of(Op::identity, all.info[static_cast<std::size_t>(node)].shape, {node});
    output.result = true;
    root.arguments[root.argument_count++] = all.add(Op::identity, output);
  }
  all.add(Op::outputs, root);
  return detail::pruned(all);
}

inline std::string print(const TestGraph& graph) {
  std::string text;
  for (int i = 0; i < graph.count(); ++i) {
    const Info& n = graph.info[static_cast<std::size_t>(i)];
    const auto number = [](auto x) { return std::to_string(static_cast<long>(x)); };
    text += '%' + number(i) + " = " + op_names[static_cast<int>(graph.op[static_cast<std::size_t>(i)])];
    for (int k = 0; k < n.argument_count; ++k) text += " %" + number(n.arguments[k]);
    text += "  [" + number(graph.number[static_cast<std::size_t>(i)]) + "] kind " + number(n.kind) + " axis " +
            number(n.shape.axis) + " (" + number(n.shape.rows) + ", " + number(n.shape.cols) + ")" +
            (n.observed ? " observed" : "") + (n.carry ? " carry" : "") + (n.wanted_input ? " wanted" : "") +
            (n.frozen ? " frozen" : "") + (n.result ? " result" : "") + "\n";
  }
  return text;
}

}  // namespace test
