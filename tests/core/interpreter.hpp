// SPDX-License-Identifier: MIT
#pragma once

/// What the ops of random graphs compute, and a plain interpreter of them: a buffer for every value and gradient,
/// gradients begin at zero and add up.

#include "random_graphs.hpp"

#include <cmath>

namespace test {

/// A row-major matrix somewhere in memory.
struct View {
  double* data = nullptr;
  Index cols = 0;
  double& operator()(Index row, Index col) const { return data[row * cols + col]; }
};
inline View view(std::vector<double>& data, const Shape& shape) { return {data.data(), shape.cols}; }

/// One element of a map; a reduction sums what this gives.
inline double value_of(Op op, const double* x) {
  switch (op) {
    case Op::add: return x[0] + x[1];
    case Op::subtract: return x[0] - x[1];
    case Op::multiply: return x[0] * x[1];
    case Op::quotient: return x[0] / (1 + x[1] * x[1]);
    case Op::tanh: return std::tanh(x[0]);
    case Op::half_square: return 0.5 * x[0] * x[0];
    case Op::blend: return x[0] * x[1] + x[2];
    case Op::select: return x[0] > 0 ? x[1] : x[2];
    case Op::clamp: return std::min(std::max(x[0], x[1]), x[2]);
    default: return x[0];
  }
}
inline double pull_back(Op op, int to, double g, double y, const double* x) {
  switch (op) {
    case Op::subtract: return to == 0 ? g : -g;
    case Op::multiply: return g * x[1 - to];
    case Op::quotient: return to == 0 ? g / (1 + x[1] * x[1]) : -2 * g * y * x[1] / (1 + x[1] * x[1]);
    case Op::tanh: return g * (1 - y * y);
    case Op::half_square: return g * x[0];
    case Op::spread: return to == 0 ? g : 0;
    case Op::blend: return to == 2 ? g : g * x[1 - to];
    case Op::select: return to == 0 ? 0 : (x[0] > 0) == (to == 1) ? g : 0;
    case Op::clamp: {
      const bool high = std::max(x[0], x[1]) > x[2], low = x[1] > x[0];
      return to == (high ? 2 : low ? 1 : 0) ? g : 0;
    }
    default: return g;
  }
}

/// Where an element of a reduction's operand is summed, and how much one counts.
inline std::size_t target_of(const TestGraph& graph, int node, Index row, Index col) {
  const Over over = static_cast<Over>(graph.number[static_cast<std::size_t>(node)]);
  return static_cast<std::size_t>(over == Over::rows ? col : over == Over::columns ? row : 0);
}
inline double scale_of(const TestGraph& graph, int node) {
  if (graph.op[static_cast<std::size_t>(node)] != Op::mean) return 1;
  const Shape& x = graph.argument(node, 0).shape;
  return static_cast<double>(size_of(graph.info[static_cast<std::size_t>(node)].shape)) /
         static_cast<double>(size_of(x));
}
/// The index of an element of `from` that is spread over a larger shape.
inline std::size_t spread(const Shape& from, Index row, Index col) {
  const Index r = rows_of_shape(from) == 1 && from.is_fixed() ? 0 : row, c = from.cols == 1 ? 0 : col;
  return static_cast<std::size_t>(r * from.cols + c);
}

/// Memory of a product or kernel: its operands, its result, a number for each row that it saves, its own parameters.
struct Memory {
  View in[3], out, saved;
  const double* own = nullptr;
};

inline Index row_of_index(const TestGraph& graph, int node, const Memory& at, Index row) {
  return static_cast<Index>(at.in[1](row, 0)) % rows_of_shape(graph.argument(node, 0).shape);
}

/// Forward of a product or kernel.
inline void run_op(const TestGraph& graph, int node, const Memory& at) {
  const Op op = graph.op[static_cast<std::size_t>(node)];
  const Shape shape = graph.info[static_cast<std::size_t>(node)].shape, a = graph.argument(node, 0).shape;
  const int number = graph.number[static_cast<std::size_t>(node)];
  const View x = at.in[0], w = at.in[1];
  const Index rows = rows_of_shape(shape);
  for (Index r = 0; r < rows; ++r) {
    double row_sum = 0;
    for (Index c = 0; op == Op::row_scale && c < a.cols; ++c) row_sum += x(r, c);
    if (op == Op::row_scale) at.saved(r, 0) = row_sum;
    for (Index c = 0; c < shape.cols; ++c) {
      double y = 0;
      switch (op) {
        case Op::product: for (Index k = 0; k < a.cols; ++k) y += x(r, k) * w(k, c); break;
        case Op::turned_product: for (Index k = 0; k < a.cols; ++k) y += x(r, k) * w(c, k); break;
        case Op::contract: for (Index k = 0; k < rows_of_shape(a); ++k) y += x(k, r) * w(k, c); break;
        case Op::triple: y = x(r, c) * w(r, c) + at.in[2](r, c); break;
        case Op::custom: y = x(r, c) * w(r, c); break;
        case Op::row_scale: y = 0.3 * x(r, c) * row_sum; break;
        case Op::gain: y = x(r, c) * w(0, c); break;
        case Op::stack: y = std::tanh(x(r, c) + at.own[c]); break;
        case Op::shift: y = r - number >= 0 && r - number < rows ? x(r - number, c) : 0; break;
        case Op::cumulative_sum: y = x(r, c) + (r > 0 ? at.out(r - 1, c) : 0); break;
        case Op::slice: y = x(r, number + c); break;
        case Op::concatenate: y = c < a.cols ? x(r, c) : w(r, c - a.cols); break;
        case Op::gather: y = x(row_of_index(graph, node, at, r), c); break;
        case Op::transpose: y = x(c, r); break;
        default: y = x(r, c); break;
      }
      at.out(r, c) = y;
    }
  }
}

/// What operand k of a product or kernel gets, added to `part` (of the operand's shape).
inline void pull_op(const TestGraph& graph, int node, const Memory& at, const View& g, int k, double* part) {
  const Op op = graph.op[static_cast<std::size_t>(node)];
  const Shape shape = graph.info[static_cast<std::size_t>(node)].shape, to = graph.argument(node, k).shape;
  const Shape a = graph.argument(node, 0).shape;
  const int number = graph.number[static_cast<std::size_t>(node)];
  const View x = at.in[0], w = at.in[1], dx{part, to.cols};
  const Index rows = rows_of_shape(shape);
  for (Index r = 0; r < rows; ++r) {
    double along = 0;
    for (Index c = 0; op == Op::row_scale && c < a.cols; ++c) along += g(r, c) * x(r, c);
    for (Index c = 0; c < shape.cols; ++c) {
      const double dy = g(r, c);
      switch (op) {
        case Op::product:
          for (Index i = 0; i < a.cols; ++i) (k == 0 ? dx(r, i) : dx(i, c)) += k == 0 ? dy * w(i, c) : x(r, i) * dy;
          break;
        case Op::turned_product:
          for (Index i = 0; i < a.cols; ++i) (k == 0 ? dx(r, i) : dx(c, i)) += k == 0 ? dy * w(c, i) : x(r, i) * dy;
          break;
        case Op::contract:
          for (Index i = 0; i < rows_of_shape(a); ++i) {
            (k == 0 ? dx(i, r) : dx(i, c)) += k == 0 ? dy * w(i, c) : x(i, r) * dy;
          }
          break;
        case Op::triple: dx(r, c) += k == 2 ? dy : dy * at.in[1 - k](r, c); break;
        case Op::custom: dx(r, c) += dy * at.in[1 - k](r, c) + 0 * at.out(r, c); break;  // reads its result as well
        case Op::row_scale: dx(r, c) += 0.3 * (dy * at.saved(r, 0) + along); break;
        case Op::gain: dx(k == 0 ? r : 0, c) += k == 0 ? dy * w(0, c) : dy * x(r, c); break;
        case Op::stack: dx(r, c) += dy * (1 - at.out(r, c) * at.out(r, c)); break;
        case Op::shift:
          if (r - number >= 0 && r - number < rows) dx(r - number, c) += dy;
          break;
        case Op::cumulative_sum: for (Index i = 0; i <= r; ++i) dx(i, c) += dy; break;
        case Op::slice: dx(r, number + c) += dy; break;
        case Op::concatenate:
          if ((c < a.cols) == (k == 0)) dx(r, k == 0 ? c : c - a.cols) += dy;
          break;
        case Op::gather:
          if (k == 0) dx(row_of_index(graph, node, at, r), c) += dy;
          break;
        case Op::transpose: dx(c, r) += dy; break;
        default: break;  // nothing flows through
      }
    }
  }
}
/// The gradient of the parameters that a stack has of its own.
inline void pull_own(const Shape& shape, const Memory& at, const View& g, double* own) {
  for (Index r = 0; r < rows_of_shape(shape); ++r) {
    for (Index c = 0; c < shape.cols; ++c) own[c] += g(r, c) * (1 - at.out(r, c) * at.out(r, c));
  }
}

/// By node: what both executions begin with, and what they have to agree on.
struct Numbers {
  std::vector<std::vector<double>> leaf, seed, own;
  std::vector<std::vector<double>> value, gradient, own_gradient;
  std::vector<bool> flows;  ///< a gradient comes from a result and goes on to something that wants one
};

/// Where gradients flow: below what depends on a variable or trained parameter, above nothing but stops.
inline std::vector<bool> where_gradients_flow(const TestGraph& graph) {
  const auto n = static_cast<std::size_t>(graph.count());
  std::vector<bool> depends(n), reached(n), flows(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Info& info = graph.info[i];
    depends[i] = (info.kind == Kind::parameter && !info.frozen) || (info.kind == Kind::input && info.wanted_input) ||
                 graph.op[i] == Op::stack;
    for (int k = 0; k < info.argument_count && !info.stops; ++k) {
      depends[i] = depends[i] || depends[static_cast<std::size_t>(info.arguments[k])];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    const Info& info = graph.info[i];
    if (info.result) reached[i] = true;
    flows[i] = reached[i] && depends[i];
    for (int k = 0; k < info.argument_count && reached[i] && !info.stops && info.executes(); ++k) {
      reached[static_cast<std::size_t>(info.arguments[k])] = true;
    }
  }
  return flows;
}

inline void interpret(const TestGraph& graph, Numbers& n) {
  const int count = graph.count();
  const auto size = static_cast<std::size_t>(count);
  std::vector<std::vector<double>> saved(size, std::vector<double>(alignment));
  n.value.assign(size, {});
  n.gradient.assign(size, {});
  n.own_gradient.assign(size, {});
  n.flows = where_gradients_flow(graph);
  const auto memory = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Memory m{{}, view(n.value[at], graph.info[at].shape), {saved[at].data(), 1}, n.own[at].data()};
    for (int k = 0; k < graph.info[at].argument_count; ++k) {
      m.in[k] = view(n.value[static_cast<std::size_t>(graph.info[at].arguments[k])], graph.argument(i, k).shape);
    }
    return m;
  };
  /// Calls f(row, col, operands) for every element of the shape of a map, or of a reduction's operand.
  const auto each_element = [&](int i, auto f) {
    const Info& info = graph.info[static_cast<std::size_t>(i)];
    const Shape shape = info.kind == Kind::reduction ? graph.argument(i, 0).shape : info.shape;
    for (Index r = 0; r < rows_of_shape(shape); ++r) {
      for (Index c = 0; c < shape.cols; ++c) {
        double x[3] = {};
        for (int k = 0; k < info.argument_count; ++k) {
          x[k] = n.value[static_cast<std::size_t>(info.arguments[k])][spread(graph.argument(i, k).shape, r, c)];
        }
        const bool reduces = info.kind == Kind::reduction;
        f(reduces ? target_of(graph, i, r, c) : static_cast<std::size_t>(r * shape.cols + c), r, c, x);
      }
    }
  };
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Info& info = graph.info[at];
    n.value[at] = info.executes() ? std::vector<double>(size_of(info.shape)) : n.leaf[at];
    n.gradient[at].assign(size_of(info.shape), 0);
    n.own_gradient[at].assign(n.own[at].size(), 0);
    if (info.result) n.gradient[at] = n.seed[at];
    if (info.looped()) {
      const double scale = scale_of(graph, i);
      each_element(i, [&](std::size_t to, Index, Index, const double* x) {
        n.value[at][to] += scale * value_of(graph.op[at], x);
      });
    } else if (info.executes()) {
      run_op(graph, i, memory(i));
    }
  }
  for (int i = count - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const Info& info = graph.info[at];
    if (!info.executes() || info.stops) continue;
    if (info.looped()) {
      const double scale = scale_of(graph, i);
      each_element(i, [&](std::size_t from, Index r, Index c, const double* x) {
        for (int k = 0; k < info.argument_count; ++k) {
          n.gradient[static_cast<std::size_t>(info.arguments[k])][spread(graph.argument(i, k).shape, r, c)] +=
              pull_back(graph.op[at], k, scale * n.gradient[at][from], n.value[at][from], x);
        }
      });
    } else {
      const View g = view(n.gradient[at], info.shape);
      for (int k = 0; k < info.argument_count; ++k) {
        pull_op(graph, i, memory(i), g, k, n.gradient[static_cast<std::size_t>(info.arguments[k])].data());
      }
      if (info.stack) pull_own(info.shape, memory(i), g, n.own_gradient[at].data());
    }
  }
}

}  // namespace test
