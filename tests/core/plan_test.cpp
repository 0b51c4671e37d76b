// SPDX-License-Identifier: MIT
//
// Random graphs, planned at run time, against a plain interpreter: every value and gradient of the plan lives
// where the plan says, in memory full of NaN, and only what the plan allows is read. SIMPLX_FUZZ sets the number
// of graphs.
#include <simplx/core/plan.hpp>

#include <simplx/core/layout.hpp>
#include <simplx/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace simplx;

namespace {

constexpr int capacity = 64;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Ops of the random graphs: maps, products, and kernels of every temper.
enum class Op { leaf, add, subtract, multiply, tanh, half_square, identity, product, triple, row_scale, gain, clobber, outputs };

struct Random {
  std::uint64_t key, counter = 0;
  int below(int n) { return static_cast<int>(bits(key, counter++) % static_cast<std::uint64_t>(n)); }
  bool chance(double p) { return uniform(key, counter++) < p; }
  double number() { return normal(key, counter++); }
};

struct TestGraph {
  std::vector<Info> info;
  std::vector<Op> op;
  int add(Op kind_of_op, const Info& node) {
    info.push_back(node);
    op.push_back(kind_of_op);
    return static_cast<int>(info.size()) - 1;
  }
  int count() const { return static_cast<int>(info.size()); }
};

Index rows_of_axis(Axis axis) { return axis == Axis::tokens ? 3 : axis == Axis::batch ? 2 : 1; }
Index rows_of_shape(const Shape& s) { return s.is_fixed() ? s.rows : rows_of_axis(s.axis); }
std::size_t size_of(const Shape& s) { return static_cast<std::size_t>(rows_of_shape(s) * s.cols); }

// ------------------------------------------------------------------------------------- making random graphs

bool broadcasts(const Shape& from, const Shape& to) {
  const bool cols = from.cols == to.cols || from.cols == 1;
  return cols && (from.is_fixed() ? from.rows == 1 || (to.is_fixed() && from.rows == to.rows) : from.axis == to.axis);
}
Shape joined(const Shape& a, const Shape& b) {
  Shape s = a.is_fixed() ? b : a;
  if (a.is_fixed() && b.is_fixed()) s.rows = std::max(a.rows, b.rows);
  s.cols = std::max(a.cols, b.cols);
  return s;
}

Info node_of(Op op, const Shape& shape, std::vector<int> arguments) {
  Info info;
  info.shape = shape;
  info.argument_count = static_cast<int>(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) info.arguments[i] = arguments[i];
  const auto all = [&](unsigned char mask) {
    for (int i = 0; i < info.argument_count; ++i) info.reads[i] = mask;
  };
  switch (op) {
    case Op::add: info.kind = Kind::map, info.passes = 3; break;
    case Op::subtract: info.kind = Kind::map, info.passes = 1; break;
    case Op::multiply: info.kind = Kind::map, info.reads[0] = 2, info.reads[1] = 1; break;
    case Op::tanh: info.kind = Kind::map, info.reads_output = 1; break;
    case Op::half_square: info.kind = Kind::map, info.reads[0] = 1; break;
    case Op::identity: info.kind = Kind::map, info.passes = 1; break;
    case Op::product: info.kind = Kind::product, info.reads[0] = 2, info.reads[1] = 1; break;
    case Op::triple: info.kind = Kind::kernel, info.reads[0] = 2, info.reads[1] = 1; break;  // a * b + c
    case Op::row_scale: info.kind = Kind::kernel, all(1), info.saved[shape.axis] = shape.is_fixed() ? 16 : 1; break;  // a * (sum of its row)
    case Op::gain: info.kind = Kind::kernel, all(3), info.workspace[shape.axis] = 2; break;   // a * row, as a kernel
    case Op::clobber:  // tanh a, reading its result; it ruins its incoming gradient, as a stack does
      info.kind = Kind::kernel, info.reads_output = 1, info.stack = true;
      info.workspace[shape.axis] = shape.is_fixed() ? 32 : 3;
      break;
    default: break;
  }
  return info;
}

TestGraph random_graph(Random& random) {
  TestGraph all;
  const auto leaf = [&](Kind kind, Shape shape, bool wanted = false) {
    Info info;
    info.kind = kind;
    info.shape = shape;
    info.wanted_input = wanted;
    if (kind == Kind::parameter) info.trained = shape.columns(), info.parameters = round_up(info.trained, alignment);
    return all.add(Op::leaf, info);
  };
  const bool block = random.chance(0.4);  // as the block of a stack: a carry, one output of its shape
  const int carry = leaf(Kind::input, rows_of(Axis::tokens, 4), true);
  all.info[0].carry = block;
  leaf(Kind::input, rows_of(Axis::tokens, 4), !block && random.chance(0.5));
  leaf(Kind::input, rows_of(Axis::tokens, 1), !block && random.chance(0.5));
  leaf(Kind::input, rows_of(Axis::batch, 4), !block && random.chance(0.5));
  leaf(Kind::parameter, fixed_shape(1, 1)), leaf(Kind::parameter, fixed_shape(1, 4));
  leaf(Kind::parameter, fixed_shape(4, 4)), leaf(Kind::parameter, fixed_shape(4, 1));
  leaf(Kind::constant, fixed_shape(1, 4)), leaf(Kind::number, fixed_shape(1, 1));

  const int ops = 3 + random.below(28);
  for (int tries = 0, made = 0; made < ops && tries < 400; ++tries) {
    // Recent nodes are likelier operands; the carry is always a good one.
    const auto pick = [&] {
      if (block && random.chance(0.15)) return carry;
      return random.chance(0.6) ? std::max(0, all.count() - 1 - random.below(6)) : random.below(all.count());
    };
    const int a = pick(), b = random.chance(0.2) ? a : pick(), c = random.chance(0.2) ? a : pick();
    const Shape A = all.info[a].shape, B = all.info[b].shape, C = all.info[c].shape;
    const Op op = static_cast<Op>(1 + random.below(11));
    const int before = all.count();
    switch (op) {
      case Op::add: case Op::subtract: case Op::multiply: {
        const Shape shape = joined(A, B);
        if (broadcasts(A, shape) && broadcasts(B, shape)) all.add(op, node_of(op, shape, {a, b}));
        break;
      }
      case Op::tanh: case Op::half_square: all.add(op, node_of(op, A, {a})); break;
      case Op::identity:
        all.add(op, node_of(op, A, {a}));
        all.info.back().observed = random.chance(0.3);
        break;
      case Op::product:
        if (B.is_fixed() && B.rows > 1 && A.cols == B.rows) all.add(op, node_of(op, Shape{A.axis, A.rows, B.cols}, {a, b}));
        break;
      case Op::triple:
        if (A == B && B == C) all.add(op, node_of(op, A, {a, b, c}));
        break;
      case Op::row_scale: case Op::clobber: all.add(op, node_of(op, A, {a})); break;
      case Op::gain:
        if (B == fixed_shape(1, A.cols)) all.add(op, node_of(op, A, {a, b}));
        break;
      default: break;
    }
    made += all.count() > before;
  }

  std::vector<int> results;
  const int wanted_results = block ? 1 : 1 + random.below(3);
  for (int tries = 0; static_cast<int>(results.size()) < wanted_results && tries < 100; ++tries) {
    const int node = all.count() - 1 - (random.chance(0.7) ? random.below(std::min(4, all.count())) : random.below(all.count()));
    if (!block || all.info[node].shape == all.info[carry].shape) results.push_back(node);
  }
  if (results.empty()) results.push_back(carry);
  Info root;
  root.kind = Kind::outputs;
  for (const int node : results) {
    Info output = node_of(Op::identity, all.info[node].shape, {node});
    output.result = true;
    root.arguments[root.argument_count++] = all.add(Op::identity, output);
  }
  all.add(Op::outputs, root);

  // Only what the outputs need is part of a graph.
  std::vector<int> number(static_cast<std::size_t>(all.count()), -1);
  std::vector<bool> needed(number.size());
  needed.back() = true;
  for (int i = all.count() - 1; i >= 0; --i) {
    for (int k = 0; needed[static_cast<std::size_t>(i)] && k < all.info[i].argument_count; ++k) {
      needed[static_cast<std::size_t>(all.info[i].arguments[k])] = true;
    }
  }
  TestGraph graph;
  for (int i = 0; i < all.count(); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    Info info = all.info[i];
    for (int k = 0; k < info.argument_count; ++k) info.arguments[k] = number[static_cast<std::size_t>(info.arguments[k])];
    number[static_cast<std::size_t>(i)] = graph.add(all.op[i], info);
  }
  return graph;
}

// ---------------------------------------------------------------------------------------- what the ops compute

double value_of(Op op, const double* x) {
  switch (op) {
    case Op::add: return x[0] + x[1];
    case Op::subtract: return x[0] - x[1];
    case Op::multiply: return x[0] * x[1];
    case Op::tanh: return std::tanh(x[0]);
    case Op::half_square: return 0.5 * x[0] * x[0];
    default: return x[0];
  }
}
double pull_back(Op op, int to, double g, double y, const double* x) {
  switch (op) {
    case Op::subtract: return to == 0 ? g : -g;
    case Op::multiply: return g * x[1 - to];
    case Op::tanh: return g * (1 - y * y);
    case Op::half_square: return g * x[0];
    default: return g;
  }
}

using View = std::function<double&(Index row, Index col)>;

/// Forward of a product or kernel. `in(k)` and `out` address its operands and result, `saved` one number per row.
void run_op(Op op, const Info& info, const std::vector<Info>& all, const std::function<View(int)>& in, const View& out, const View& saved) {
  const Shape a = all[static_cast<std::size_t>(info.arguments[0])].shape;
  for (Index r = 0; r < rows_of_shape(info.shape); ++r) {
    double row_sum = 0;
    for (Index c = 0; op == Op::row_scale && c < a.cols; ++c) row_sum += in(0)(r, c);
    if (op == Op::row_scale) saved(r, 0) = row_sum;
    for (Index c = 0; c < info.shape.cols; ++c) {
      double y = 0;
      if (op == Op::product) {
        for (Index k = 0; k < a.cols; ++k) y += in(0)(r, k) * in(1)(k, c);
      } else if (op == Op::triple) {
        y = in(0)(r, c) * in(1)(r, c) + in(2)(r, c);
      } else if (op == Op::row_scale) {
        y = 0.3 * in(0)(r, c) * row_sum;
      } else if (op == Op::gain) {
        y = in(0)(r, c) * in(1)(0, c);
      } else {
        y = std::tanh(in(0)(r, c));
      }
      out(r, c) = y;
    }
  }
}

/// Backward of a product or kernel: calls add(k, row, col, contribution) for each operand in turn.
template <class Add>
void pull_op(Op op, const Info& info, const std::vector<Info>& all, const std::function<View(int)>& in, const View& out, const View& saved,
             const View& g, const std::vector<bool>& wanted, const Add& add) {
  const Shape a = all[static_cast<std::size_t>(info.arguments[0])].shape;
  const Index rows = rows_of_shape(info.shape), cols = info.shape.cols;
  for (int k = 0; k < info.argument_count; ++k) {
    if (!wanted[static_cast<std::size_t>(info.arguments[k])]) continue;
    const Shape to = all[static_cast<std::size_t>(info.arguments[k])].shape;
    for (Index i = 0; i < rows_of_shape(to); ++i) {
      for (Index j = 0; j < to.cols; ++j) {
        double sum = 0;
        if (op == Op::product && k == 0) {
          for (Index c = 0; c < cols; ++c) sum += g(i, c) * in(1)(j, c);
        } else if (op == Op::product) {
          for (Index r = 0; r < rows; ++r) sum += in(0)(r, i) * g(r, j);
        } else if (op == Op::triple) {
          sum = k == 2 ? g(i, j) : g(i, j) * in(1 - k)(i, j);
        } else if (op == Op::row_scale) {
          sum = 0.3 * g(i, j) * saved(i, 0);
          for (Index c = 0; c < a.cols; ++c) sum += 0.3 * g(i, c) * in(0)(i, c);
        } else if (op == Op::gain && k == 0) {
          sum = g(i, j) * in(1)(0, j);
        } else if (op == Op::gain) {
          for (Index r = 0; r < rows; ++r) sum += g(r, j) * in(0)(r, j);
        } else {
          sum = g(i, j) * (1 - out(i, j) * out(i, j));
        }
        add(k, i, j, sum);
      }
    }
  }
}

struct Numbers {  // what both executions have to agree on, and what both begin with
  std::vector<std::vector<double>> leaf, seed;  // by node
  std::vector<std::vector<double>> value, gradient;
};

/// The index of an element of `from` that is spread over `to`.
std::size_t spread(const Shape& from, Index row, Index col) {
  const Index r = rows_of_shape(from) == 1 && from.is_fixed() ? 0 : row, c = from.cols == 1 ? 0 : col;
  return static_cast<std::size_t>(r * from.cols + c);
}

View dense(std::vector<double>& data, const Shape& shape) {
  return [&data, shape](Index r, Index c) -> double& { return data[static_cast<std::size_t>(r * shape.cols + c)]; };
}

/// The plain interpreter: a buffer for everything, gradients begin at zero and add up.
void interpret(const TestGraph& graph, const std::vector<bool>& wanted, Numbers& n) {
  const int count = graph.count();
  std::vector<std::vector<double>> saved(static_cast<std::size_t>(count), std::vector<double>(16));
  n.value.assign(static_cast<std::size_t>(count), {});
  n.gradient.assign(static_cast<std::size_t>(count), {});
  const auto argument_view = [&](int i) {
    return [&, i](int k) {
      const int a = graph.info[i].arguments[k];
      return dense(n.value[static_cast<std::size_t>(a)], graph.info[a].shape);
    };
  };
  for (int i = 0; i < count; ++i) {
    const Info& info = graph.info[i];
    auto& value = n.value[static_cast<std::size_t>(i)];
    value = info.executes() ? std::vector<double>(size_of(info.shape)) : n.leaf[static_cast<std::size_t>(i)];
    n.gradient[static_cast<std::size_t>(i)].assign(size_of(info.shape), 0);
    if (info.kind == Kind::map) {
      for (Index r = 0; r < rows_of_shape(info.shape); ++r) {
        for (Index c = 0; c < info.shape.cols; ++c) {
          double x[2] = {};
          for (int k = 0; k < info.argument_count; ++k) {
            const int a = info.arguments[k];
            x[k] = n.value[static_cast<std::size_t>(a)][spread(graph.info[a].shape, r, c)];
          }
          value[static_cast<std::size_t>(r * info.shape.cols + c)] = value_of(graph.op[i], x);
        }
      }
    } else if (info.executes()) {
      run_op(graph.op[i], info, graph.info, argument_view(i), dense(value, info.shape), dense(saved[static_cast<std::size_t>(i)], fixed_shape(16, 1)));
    }
    if (info.result) n.gradient[static_cast<std::size_t>(i)] = n.seed[static_cast<std::size_t>(i)];
  }
  for (int i = count - 1; i >= 0; --i) {
    const Info& info = graph.info[i];
    auto& g = n.gradient[static_cast<std::size_t>(i)];
    if (!info.executes()) continue;
    if (info.kind == Kind::map) {
      for (Index r = 0; r < rows_of_shape(info.shape); ++r) {
        for (Index c = 0; c < info.shape.cols; ++c) {
          const auto at = static_cast<std::size_t>(r * info.shape.cols + c);
          double x[2] = {};
          for (int k = 0; k < info.argument_count; ++k) {
            const int a = info.arguments[k];
            x[k] = n.value[static_cast<std::size_t>(a)][spread(graph.info[a].shape, r, c)];
          }
          for (int k = 0; k < info.argument_count; ++k) {
            const int a = info.arguments[k];
            n.gradient[static_cast<std::size_t>(a)][spread(graph.info[a].shape, r, c)] += pull_back(graph.op[i], k, g[at], n.value[static_cast<std::size_t>(i)][at], x);
          }
        }
      }
    } else {
      pull_op(graph.op[i], info, graph.info, argument_view(i), dense(n.value[static_cast<std::size_t>(i)], info.shape),
              dense(saved[static_cast<std::size_t>(i)], fixed_shape(16, 1)), dense(g, info.shape), wanted,
              [&](int k, Index r, Index c, double sum) {
                const int a = info.arguments[k];
                n.gradient[static_cast<std::size_t>(a)][static_cast<std::size_t>(r * graph.info[a].shape.cols + c)] += sum;
              });
    }
  }
}

// ------------------------------------------------------------------------------------ the planned execution

struct Planned {
  const TestGraph& graph;
  Fusion<capacity> fusion;
  Plan<capacity> plan;
  Layout<capacity> layout;
  std::vector<double> kept[axis_count], temporary[axis_count];
  std::vector<std::vector<double>> value, gradient;  // outside of the arena: leaves, results, inputs, parameters
  const std::vector<Info>& info;

  explicit Planned(const TestGraph& g) : graph(g), info(g.info) {
    fusion = fuse<capacity>(info.data(), g.count());
    plan = make_plan<capacity>(info.data(), g.count(), fusion);
    layout = lay_out<capacity>(info.data(), g.count(), fusion, plan);
    for (int i = 0; i < axis_count; ++i) {
      const Index rows = rows_of_axis(static_cast<Axis>(i));
      kept[i].assign(static_cast<std::size_t>(layout.kept.on[i] * rows), nan);
      temporary[i].assign(static_cast<std::size_t>(layout.temporary.on[i] * rows), nan);
    }
  }

  double* region(std::vector<double> (&of)[axis_count], Axis axis, Index columns) {
    return of[static_cast<int>(axis)].data() + columns * rows_of_axis(axis);
  }
  double* value_at(int i) {
    if (!info[i].executes() || info[i].result) return value[static_cast<std::size_t>(i)].data();
    REQUIRE((stores_value<capacity>(info.data(), fusion, plan, i)));
    return region(plan.kept[i] ? kept : temporary, info[i].shape.axis, layout.value[i]);
  }
  double* gradient_at(int i) {
    const int home = plan.shares[i];
    if (info[home].kind == Kind::input && info[home].carry && plan.in_place) FAIL("a carry in place has a home of its own");
    if (!info[home].executes() || info[home].result) return gradient[static_cast<std::size_t>(home)].data();
    return region(info[home].observed ? kept : temporary, info[home].shape.axis, layout.gradient[home]);
  }
  View view(double* data, const Shape& shape) const {
    return [data, cols = shape.cols](Index r, Index c) -> double& { return data[r * cols + c]; };
  }
  std::function<View(int)> arguments(int i) {
    return [this, i](int k) { return view(value_at(info[i].arguments[k]), info[info[i].arguments[k]].shape); };
  }
  View saved(int i) { return view(region(kept, info[i].shape.axis, layout.saved[i][info[i].shape.axis]), fixed_shape(16, 1)); }
  void poison(const Columns& at, const Columns& size) {
    for (int i = 0; i < axis_count; ++i) {
      const Index rows = rows_of_axis(static_cast<Axis>(i));
      std::fill_n(temporary[i].begin() + at.on[i] * rows, size.on[i] * rows, nan);
    }
  }

  /// One element of a group; `loaded` says which leaves may be read.
  template <class Leaf>
  void evaluate(int root, const std::vector<bool>& which, std::vector<double>& local, const Leaf& leaf) {
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const int node = fusion.members[m];
      if (!which[static_cast<std::size_t>(node)]) continue;
      double x[2] = {};
      for (int k = 0; k < info[node].argument_count; ++k) {
        const int a = info[node].arguments[k];
        x[k] = fusion.group[a] == root ? local[static_cast<std::size_t>(a)] : leaf(a);
      }
      local[static_cast<std::size_t>(node)] = value_of(graph.op[node], x);
    }
  }

  void forward() {
    for (int s = 0; s < fusion.steps; ++s) {
      const int node = fusion.order[s];
      poison(layout.forward_workspace[node], info[node].workspace);
      if (info[node].kind != Kind::map) {
        run_op(graph.op[node], info[node], info, arguments(node), view(value_at(node), info[node].shape), saved(node));
        continue;
      }
      const int product = fusion.epilogue_of[node];
      const Shape shape = info[node].shape;
      for (Index r = 0; r < rows_of_shape(shape); ++r) {
        for (Index c = 0; c < shape.cols; ++c) {
          double accumulator = 0;
          if (product >= 0) {
            const auto in = arguments(product);
            for (Index k = 0; k < info[info[product].arguments[0]].shape.cols; ++k) accumulator += in(0)(r, k) * in(1)(k, c);
            if (plan.kept[product]) value_at(product)[r * shape.cols + c] = accumulator;
          }
          std::vector<double> local(capacity, nan);
          evaluate(node, std::vector<bool>(capacity, true), local, [&](int a) {
            return a == product ? accumulator : value_at(a)[spread(info[a].shape, r, c)];
          });
          value_at(node)[r * shape.cols + c] = local[static_cast<std::size_t>(node)];
        }
      }
    }
  }

  void clear(int node) { std::fill_n(gradient_at(node), size_of(info[node].shape), 0.0); }

  void op_backward(int node, const std::vector<bool>& wanted) {
    for (int k = 0; k < info[node].argument_count; ++k) {
      if (plan.argument_cleared[node][k]) clear(info[node].arguments[k]);
    }
    const auto in = [this, node](int k) {  // a value that the plan did not keep is not there
      const int a = info[node].arguments[k];
      return info[a].executes() && !info[a].result && !plan.kept[a] ? View([](Index, Index) -> double& { static double gone; return gone = nan; })
                                                                     : view(value_at(a), info[a].shape);
    };
    std::vector<double> result(64, nan), incoming(gradient_at(node), gradient_at(node) + size_of(info[node].shape));
    if (plan.kept[node]) std::copy_n(value_at(node), size_of(info[node].shape), result.begin());
    // Contributions are complete before the first is written, as kernels read before they write what they own.
    std::vector<std::vector<double>> parts(max_arguments);
    pull_op(graph.op[node], info[node], info, in, dense(result, info[node].shape), saved(node), dense(incoming, info[node].shape), wanted,
            [&](int k, Index, Index, double sum) { parts[static_cast<std::size_t>(k)].push_back(sum); });
    if (info[node].stack) std::fill_n(gradient_at(node), size_of(info[node].shape), nan);
    // In the reverse order: a kernel may write its operands' gradients in any.
    for (int k = info[node].argument_count - 1; k >= 0; --k) {
      const auto& part = parts[static_cast<std::size_t>(k)];
      for (std::size_t e = 0; e < part.size(); ++e) {
        double& place = gradient_at(info[node].arguments[k])[e];
        place = plan.argument_write[node][k] == Write::store ? part[e] : place + part[e];
      }
    }
  }

  void map_backward(int root) {
    for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
      if (plan.leaf_cleared[l]) clear(fusion.leaves[l]);
    }
    if (plan.idle[root]) return;
    const Shape shape = info[root].shape;
    std::vector<bool> again(capacity);
    for (int i = 0; i < graph.count(); ++i) again[static_cast<std::size_t>(i)] = plan.recomputed[i] && fusion.group[i] == root && i != root;
    for (Index r = 0; r < rows_of_shape(shape); ++r) {
      std::vector<double> row_sum(capacity, 0);
      for (Index c = 0; c < shape.cols; ++c) {
        std::vector<double> local(capacity, nan), adjoint(capacity, 0);
        const auto leaf = [&](int a) {
          for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
            if (fusion.leaves[l] != a || !plan.leaf_read[l]) continue;
            if (info[a].executes() && !info[a].result && !plan.kept[a]) return nan;
            return value_at(a)[spread(info[a].shape, r, c)];
          }
          return nan;
        };
        evaluate(root, again, local, leaf);
        if (plan.kept[root]) local[static_cast<std::size_t>(root)] = value_at(root)[r * shape.cols + c];
        adjoint[static_cast<std::size_t>(root)] = gradient_at(root)[r * shape.cols + c];
        for (int m = fusion.member_end[root] - 1; m >= fusion.member_begin[root]; --m) {
          const int node = fusion.members[m];
          for (int k = 0; k < info[node].argument_count; ++k) {
            const int a = info[node].arguments[k];
            if (!fusion.wanted[a]) continue;
            double x[2] = {nan, nan};  // only what the pull-back declares to read
            for (int b = 0; b < info[node].argument_count; ++b) {
              const int operand = info[node].arguments[b];
              if (info[node].reads[k] >> b & 1) x[b] = fusion.group[operand] == root ? local[static_cast<std::size_t>(operand)] : leaf(operand);
            }
            const double y = info[node].reads_output >> k & 1 ? local[static_cast<std::size_t>(node)] : nan;
            adjoint[static_cast<std::size_t>(a)] += pull_back(graph.op[node], k, adjoint[static_cast<std::size_t>(node)], y, x);
          }
        }
        for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
          const int a = fusion.leaves[l];
          if (!fusion.wanted[a] || plan.leaf_write[l] == Write::skip) continue;
          const bool column = !(info[a].shape == shape) && !(info[a].shape.is_fixed() && info[a].shape.rows == 1);
          if (column) {
            row_sum[static_cast<std::size_t>(a)] += adjoint[static_cast<std::size_t>(a)];
            if (c + 1 < shape.cols) continue;
          }
          double& place = gradient_at(a)[spread(info[a].shape, r, c)];
          const double sum = column ? row_sum[static_cast<std::size_t>(a)] : adjoint[static_cast<std::size_t>(a)];
          place = plan.leaf_write[l] == Write::store ? sum : place + sum;
        }
      }
    }
  }

  void backward(const std::vector<bool>& wanted) {
    for (int s = fusion.steps - 1; s >= 0; --s) {
      const int node = fusion.order[s];
      if (!fusion.wanted[node]) continue;
      poison(layout.backward_workspace[node], info[node].workspace);
      if (info[node].kind == Kind::map) {
        map_backward(node);
        const int product = fusion.epilogue_of[node];
        if (product >= 0 && fusion.wanted[product]) op_backward(product, wanted);
      } else {
        op_backward(node, wanted);
      }
    }
  }
};

std::string print(const TestGraph& graph) {
  static const char* names[] = {"leaf", "add", "subtract", "multiply", "tanh", "half_square", "identity", "product", "triple", "row_scale", "gain", "clobber", "outputs"};
  std::string text;
  for (int i = 0; i < graph.count(); ++i) {
    const Info& n = graph.info[i];
    text += "%" + std::to_string(i) + " = " + names[static_cast<int>(graph.op[i])];
    for (int k = 0; k < n.argument_count; ++k) text += " %" + std::to_string(n.arguments[k]);
    text += "  kind " + std::to_string(static_cast<int>(n.kind)) + " axis " + std::to_string(static_cast<int>(n.shape.axis)) + " (" +
            std::to_string(n.shape.rows) + ", " + std::to_string(n.shape.cols) + ")" + (n.observed ? " observed" : "") + (n.carry ? " carry" : "") +
            (n.wanted_input ? " wanted" : "") + (n.result ? " result" : "") + "\n";
  }
  return text;
}

/// Plans and runs one random graph; the name of what differs, or nothing.
std::string check_graph(std::uint64_t seed, TestGraph& graph) {
  Random random{key_of(seed, "graph")};
  graph = random_graph(random);
  Numbers plain;
  plain.leaf.resize(static_cast<std::size_t>(graph.count()));
  plain.seed.resize(plain.leaf.size());
  for (int i = 0; i < graph.count(); ++i) {
    auto& numbers = graph.info[i].result ? plain.seed[static_cast<std::size_t>(i)] : plain.leaf[static_cast<std::size_t>(i)];
    if (graph.info[i].result || !graph.info[i].executes()) {
      for (std::size_t e = 0; e < size_of(graph.info[i].shape); ++e) numbers.push_back(0.7 * random.number());
    }
  }
  Planned planned(graph);
  std::vector<bool> wanted(planned.fusion.wanted, planned.fusion.wanted + graph.count());
  interpret(graph, wanted, plain);
  for (const auto& values : plain.value) {
    for (const double x : values) {
      if (!(std::abs(x) < 1e4)) return {};  // products of products: nothing to compare
    }
  }
  planned.value = plain.leaf;
  planned.gradient.resize(plain.leaf.size());
  int carry = -1;
  for (int i = 0; i < graph.count(); ++i) {
    const Info& info = graph.info[i];
    if (info.result) {
      planned.value[static_cast<std::size_t>(i)].assign(size_of(info.shape), nan);
      planned.gradient[static_cast<std::size_t>(i)] = plain.seed[static_cast<std::size_t>(i)];
    } else if (info.kind == Kind::parameter) {
      planned.gradient[static_cast<std::size_t>(i)].assign(size_of(info.shape), 0);
    } else if (info.kind == Kind::input) {
      planned.gradient[static_cast<std::size_t>(i)].assign(size_of(info.shape), planned.plan.first_write[i] == never ? 0 : nan);
      if (info.carry) carry = i;
    }
  }
  planned.forward();
  planned.backward(wanted);

  const auto differs = [](const double* a, const std::vector<double>& b) {
    for (std::size_t e = 0; e < b.size(); ++e) {
      if (!(std::abs(a[e] - b[e]) <= 1e-9 * std::max(1.0, std::abs(b[e])))) return true;
    }
    return false;
  };
  for (int i = 0; i < graph.count(); ++i) {
    const Info& info = graph.info[i];
    const auto at = static_cast<std::size_t>(i);
    if ((info.result || info.observed) && differs(planned.value_at(i), plain.value[at])) return "value of %" + std::to_string(i);
    const bool readable = info.kind == Kind::parameter || info.observed || (info.kind == Kind::input && wanted[at]);
    if (!readable || !wanted[at]) continue;
    const double* gradient = i == carry && planned.plan.in_place ? planned.gradient[static_cast<std::size_t>(planned.plan.shares[i])].data()
                             : info.observed                     ? planned.gradient_at(i)
                                                                 : planned.gradient[at].data();
    if (differs(gradient, plain.gradient[at])) return "gradient of %" + std::to_string(i);
  }
  return {};
}

}  // namespace

TEST_SUITE_BEGIN("core/plan");

TEST_CASE("random graphs, planned at run time, agree with a plain interpreter") {
  const char* setting = std::getenv("SIMPLX_FUZZ");
  const long graphs = setting ? std::atol(setting) : 3000;
  long shared = 0, in_place = 0, fused = 0, recomputed = 0;
  for (long seed = 0; seed < graphs; ++seed) {
    TestGraph graph;
    const std::string difference = check_graph(static_cast<std::uint64_t>(seed), graph);
    if (!difference.empty()) {
      FAIL("seed " << seed << ": " << difference << "\n" << print(graph));
    }
    const Planned planned(graph);
    in_place += planned.plan.in_place;
    for (int i = 0; i < graph.count(); ++i) {
      shared += planned.plan.shares[i] != i;
      fused += planned.fusion.finished_by[i] >= 0;
      recomputed += planned.plan.recomputed[i];
    }
  }
  // The graphs reach what the plan can do.
  CHECK(shared > graphs / 2);
  CHECK(in_place > graphs / 20);
  CHECK(fused > graphs / 50);
  CHECK(recomputed > graphs / 20);
}

TEST_SUITE_END();
