// SPDX-License-Identifier: MIT
#pragma once

/// Every op of the library, with a model around it: what table_test.cpp checks and docs/ops.md is written from.

#include <simplx/core/named.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/linear_cross_entropy.hpp>
#include <simplx/ops/recompute.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/sequences.hpp>
#include <simplx/ops/softmax.hpp>

namespace test::ops_table {

using namespace simplx;

/// An op and how a model writes it.
struct Entry {
  Tag op;
  const char* usage;
};

constexpr Expr tokens_of(Index width, const char* name = "x") { return variable(name, rows_of(Axis::tokens, width)); }

// Each group is a model of width C whose results use the ops of its entries; notes are lines below its table.

template <Index C>
struct Arithmetic {
  static constexpr const char* title = "Arithmetic";
  static constexpr Entry entries[] = {{"add", "`a + b`"},
                                      {"subtract", "`a - b`"},
                                      {"multiply", "`a * b`, `multiply(a, b)`"},
                                      {"divide", "`a / b`"},
                                      {"negate", "`-a`"},
                                      {"spread", "`spread(a, like)`"},
                                      {"probe", "`probe(\"name\", a)`"},
                                      {"output", "results of a model"}};
  struct Results {
    Expr sum, product, quotient, probe;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    auto row = vector("row", C);
    return {x + row, x * row - x, -x / (square(row) + 1.0), spread(row, x) + simplx::probe("p", x * scalar("s"))};
  }
};

template <Index C>
struct Functions {
  static constexpr const char* title = "Functions, element by element";
  static constexpr const char* notes =
      "`exp` of floats saturates on the CPU: its argument is held in [-87.33, 88.37], so that `exp(1000)` is 2.4e38\n"
      "and not infinite, `exp(-1000)` 1.2e-38 and not 0; `sigmoid(-1000)` likewise. With doubles, and on a GPU, `exp`\n"
      "goes to infinity and to 0 as `std::exp` does.\n";
  static constexpr Entry entries[] = {{"exp", "`exp(a)`"},         {"log", "`log(a)`"},       {"log1p", "`log1p(a)`"},
                                      {"sin", "`sin(a)`"},         {"cos", "`cos(a)`"},       {"tanh", "`tanh(a)`"},
                                      {"sigmoid", "`sigmoid(a)`"}, {"erf", "`erf(a)`"},       {"sqrt", "`sqrt(a)`"},
                                      {"rsqrt", "`rsqrt(a)`"},     {"square", "`square(a)`"}, {"pow", "`pow(a, b)`"},
                                      {"gelu", "`gelu(a)`"},       {"gelu_tanh", "`gelu_tanh(a)`"},
                                      {"softplus", "`softplus(a)`"}};
  struct Results {
    Expr logarithms, waves, steps, powers;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    auto positive = square(x) + 0.5;
    return {exp(x) + log(positive) + log1p(positive), sin(x) * cos(x) + gelu(x) - gelu_tanh(x),
            tanh(x) + sigmoid(x) + erf(x) + softplus(x),
            pow(positive, vector("row", C)) + sqrt(positive) - rsqrt(positive)};
  }
};

template <Index C>
struct Kinks {
  static constexpr const char* title = "Functions with kinks";
  static constexpr Entry entries[] = {{"relu", "`relu(a)`"},
                                      {"leaky_relu", "`leaky_relu(a, slope)`"},
                                      {"abs", "`abs(a)`"},
                                      {"max", "`max(a, b)`"},
                                      {"min", "`min(a, b)`"},
                                      {"clamp", "`clamp(a, low, high)`"},
                                      {"greater", "`a > b`, `b < a`"},
                                      {"select", "`select(condition, yes, no)`"}};
  struct Results {
    Expr relus, extremes, clamped, selected;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    auto row = vector("row", C);
    return {relu(x) + leaky_relu(x, scalar("slope", constant(0.2))), max(x, row) * min(x, 0.5 * row),
            clamp(x, -0.8, 0.9), select(x > row, square(x), abs(x))};
  }
};

template <Index C>
struct Reductions {
  static constexpr const char* title = "Reductions";
  static constexpr Entry entries[] = {
      {"sum", "`sum(a, over)`"},         {"mean", "`mean(a, over)`"},
      {"maximum", "`max(a, over)`"}, {"log_sum_exp", "`log_sum_exp(a, Over::columns)`"},
      {"softmax", "`softmax(a)`"},       {"log_softmax", "`log_softmax(a)`"}};
  struct Results {
    Expr sums, means, largest, soft;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C) * vector("row", C);
    return {sum(x, Over::columns) * sum(x, Over::rows), x - mean(x, Over::columns), max(x, Over::columns),
            softmax(x) * log_softmax(x) + log_sum_exp(x, Over::columns)};
  }
};

template <Index C>
struct Products {
  static constexpr const char* title = "Products";
  static constexpr const char* notes =
      "What `a * b` is, its shapes say. A matrix at the right, of several fixed rows or a `transpose(w)`, makes it a\n"
      "matrix product, unless `a` is one number; `transpose(a) * b` over run-time rows sums over them. All else is\n"
      "element by element: a value of `rows_of(...)` with another, with a column along its axis, with one row or one\n"
      "number; a matrix with one row or one number at its right. So two square matrices are multiplied as matrices,\n"
      "and so are fixed shapes (3, 3) and (3, 1). `multiply(a, b)` is element by element always: by it a column\n"
      "scales rows, fixed or not; `matmul(a, b)` is the matrix product always.\n";
  static constexpr Entry entries[] = {{"matmul", "`a * w`, `a * transpose(w)`, `matmul(a, w)`"},
                                      {"contract", "`transpose(a) * b`"},
                                      {"transpose", "`transpose(w)`"},
                                      {"batched_matmul", "`batched_matmul(a, b, rows, inner, cols)`"}};
  struct Results {
    Expr product, turned, contracted, batched;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    auto h = relu(x * weight("up", C, 2 * C, normal(0.3)));
    auto w = weight("w", 2 * C, C, normal(0.3));
    return {h * weight("down", 2 * C, C, normal(0.3)), x * transpose(w) + x * tanh(transpose(w)), transpose(x) * h,
            batched_matmul(x, h, 1, C, 2)};
  }
};

template <Index C>
struct Norms {
  static constexpr const char* title = "Norms";
  static constexpr Entry entries[] = {{"rms_norm", "`rms_norm(a, gain, epsilon)`, `rms_norm_inside(...)`"},
                                      {"layer_norm", "`layer_norm(a, gain, bias, epsilon)`"}};
  struct Results {
    Expr rms, inside, layer;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C) * scalar("s");
    return {named("a", RmsNorm{0.3})(x), named("b", RmsNormInside{0.3})(x), named("c", LayerNorm{0.3})(x)};
  }
};

template <Index C>
struct Moves {
  static constexpr const char* title = "Columns and rows";
  static constexpr Entry entries[] = {{"slice_columns", "`slice_columns(a, begin, count)`"},
                                      {"concatenate", "`concatenate(a, b, ...)`"},
                                      {"repeat_columns", "`repeat_columns(a, times)`"},
                                      {"sum_of_repeated", "`sum_of_repeated(a, times)`"},
                                      {"slice_rows", "`slice_rows(w, begin, count)`"},
                                      {"shift", "`shift(a, by)`"},
                                      {"cumulative_sum", "`cumulative_sum(a)`"},
                                      {"embedding", "`embedding(table, index)`, `gather(a, index)`"},
                                      {"positions", "`positions(table)`"}};
  struct Results {
    Expr columns, rows, moved, found;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    auto table = weight("table", 64, C, normal(1));
    auto twice = concatenate(x, x * scalar("s"));
    return {slice_columns(twice, 0, C) * repeat_columns(vector("number", 1), C) + sum_of_repeated(twice, 2),
            x * slice_rows(table, 3, 1),
            shift(x, 1) + cumulative_sum(x), embedding(table, indices("tokens", Axis::tokens)) + positions(table)};
  }
};

template <Index C>
struct Sequences {
  static constexpr const char* title = "Sequences";
  static constexpr Entry entries[] = {{"first_of_sequence", "`first_of_sequence(a)`"},
                                      {"sum_of_sequence", "`sum_of_sequence(a)`, `mean_of_sequence(a)`"},
                                      {"repeat_over_sequence", "`repeat_over_sequence(a)`"},
                                      {"rotary", "`rotary(a, heads, base)`"},
                                      {"softmax_attention", "`softmax_attention(q, k, v, {.count = heads})`"},
                                      {"skip_init_attention",
                                       "`skip_init_attention(q, k, v, alpha, beta, {.count = heads})`"},
                                      {"shaped_attention",
                                       "`shaped_attention(q, k, v, alpha, beta, gamma, {.count = heads})`"},
                                      {"cross_entropy", "`cross_entropy(logits, labels)`"},
                                      {"linear_cross_entropy", "`linear_cross_entropy(x, table, labels)`, a = table, b = labels, c = x"}};
  struct Results {
    Expr first, soft, skipping, shaped;
  };
  constexpr Results operator()() const {
    constexpr Index D = 2 * C;  // two heads
    auto x = tokens_of(D);
    auto q = x * vector("row", D);
    constexpr Heads heads{.count = 2};
    const auto gain = [](const char* name) { return vector(name, 2); };
    auto turned = rotary(q, C % 2 == 0 ? 2 : 1, hyper("base", 10000));  // heads of even width
    auto labels = indices("labels", Axis::tokens);
    return {first_of_sequence(q * cross_entropy(q, labels)),
            softmax_attention(turned, x, q, heads) * repeat_over_sequence(sum_of_sequence(q)) *
                linear_cross_entropy(x, weight("classes", 6, D, normal(1)), labels, 4),
            skip_init_attention(q, x, x, gain("a"), gain("b"), heads),
            shaped_attention(x, q, q, gain("c"), gain("d"), gain("e"), heads)};
  }
};

template <Index C>
struct Composites {
  static constexpr const char* title = "Modules";
  static constexpr Entry entries[] = {{"stack", "`stack(\"name\", layers, block, a)`, `recompute(block)(a)`"},
                                      {"custom", "`with_pull_back(f, pull_back)(a, ...)`"},
                                      {"dropout", "`dropout(\"name\", a, rate)`"},
                                      {"stop_gradient", "`stop_gradient(a)`"}};
  struct Results {
    Expr layers, again, own_rule, dropped;
  };
  constexpr Results operator()() const {
    auto x = tokens_of(C);
    const auto block = [](Expr h) { return h + tanh(h * weight("w", width(h), width(h), normal(0.3))); };
    constexpr auto wave = [](Expr h) { return sin(h); };
    constexpr auto pull_back = [](Expr dy, Expr, Expr h) { return dy * cos(h); };
    return {stack("layers", 3, block, x), stack("again", 2, recompute(block), x),
            with_pull_back(wave, pull_back)(x * scalar("s")),
            dropout("drop", x, 0.1) * stop_gradient(fixed("c", 1, C, constant(2)))};
  }
};

/// Calls f<Group>() for every group of the table.
template <class F>
void each_group(F f) {
  f.template operator()<Arithmetic>(), f.template operator()<Functions>(), f.template operator()<Kinks>();
  f.template operator()<Reductions>(), f.template operator()<Products>(), f.template operator()<Norms>();
  f.template operator()<Moves>(), f.template operator()<Sequences>(), f.template operator()<Composites>();
}

}  // namespace test::ops_table
