// SPDX-License-Identifier: MIT
//
// The table of ops: each is evaluated once, allocates nothing, has all its derivatives, and agrees in float and double
// for no row, one row and many. docs/ops.md says what the table says; SIMPLX_WRITE_DOCS=1 writes it anew.
#include "table.hpp"

#include "allocations.hpp"
#include "support.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace simplx;
using namespace test::ops_table;

namespace {

template <class Group>
inline constexpr Group model{};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
const std::filesystem::path root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

// --------------------------------------------------------------------------------------------- what docs/ops.md says

constexpr Index documented = 24;  // the width C of the models that the document is written from

std::string size_name(Index size) {
  if (size % documented == 0) return (size == documented ? "" : std::to_string(size / documented)) + "C";
  return std::to_string(size);
}
std::string shape_name(const Shape& shape) {
  const char* rows[] = {"", "n", "s", "l", "b"};
  const bool fixed = shape.is_fixed();
  std::string name = "(";
  name += fixed ? size_name(shape.rows) : rows[static_cast<int>(shape.axis)];
  name.append(", ").append(size_name(shape.cols)).append(")");
  return name;
}

/// What backward reads: operands by letter, the result, columns that forward saves.
std::string kept_by(const Info& info, bool is_stack) {
  unsigned operands = 0;
  for (int k = 0; k < info.argument_count; ++k) operands |= info.reads[k];
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  for (int k = 0; k < info.argument_count; ++k) {
    if (operands >> k & 1) add(std::string(1, static_cast<char>('a' + k)));
  }
  if (info.reads_output) add("result");
  if (is_stack) {
    add("what its layers keep");
  } else if (info.saved[info.shape.axis]) {
    add(size_name(info.saved[info.shape.axis]) + " for each row");
  }
  return text.empty() ? "nothing" : text;
}

template <class G>
constexpr int first_of(const Tag& op) {
  for (int i = 0; i < G::count; ++i) {
    if (G::flat.label[i].op == op) return i;
  }
  return -1;
}

std::string line_of(const Entry& entry, const GraphView& graph, int node, bool derivable) {
  const Info& info = graph.info[node];
  std::string text = "| " + std::string(entry.usage) + " | ";
  for (int k = 0; k < info.argument_count; ++k) text += shape_name(graph.info[info.arguments[k]].shape) + " ";
  text += "→ " + shape_name(info.shape) + " | ";
  text += info.kind == Kind::map         ? "loop"
          : info.kind == Kind::reduction ? "end of a loop"
          : info.kind == Kind::product   ? "product"
                                         : "kernel";
  text += " | " + (info.stops ? std::string("nothing") : kept_by(info, info.stack)) + " | ";
  text += info.stops ? "0" : derivable ? "yes" : "no";
  return text + " |\n";
}
template <class Group, int e>
std::string line_of() {
  using G = GraphOf<model<Group>>;
  constexpr Tag tag = Group::entries[e].op;
  constexpr int node = first_of<G>(tag);
  static_assert(node >= 0, "the model of an entry uses its op");
  return line_of(Group::entries[e], view_of<G>, node, detail::derivable<tag>());
}

std::string document() {
  std::string text = R"(# Ops

Written from the table of the tests, which check every line of it:
`SIMPLX_WRITE_DOCS=1 simplx_tests -tc="*docs/ops.md*"`.

Every op has its reverse mode checked against differences, its forward mode and second order over dual numbers; it runs
in `float` and `double`, at an odd width, for one row, many rows and, except for ops over sequences, none. A forward and
a backward allocate nothing.

*Shapes* are those of the table's model: n tokens, s sequences, width C; tables of 64 or 6 rows, two heads, matrices of
two columns. A loop takes one row, one column or one number for any operand. *Runs as*: a **loop** over elements, fused
with its neighbours; the **end of a loop**, which sums what it computes; a matrix **product**, with the loop that
follows in its registers; a **kernel** of its own. *Backward reads* the operands a, b, c, ... or the result, which are
kept unless a loop computes them again. *As expression*: whether `grad(y, x)` goes through.
)";
  each_group([&]<template <Index> class Group>() {
    using Is = Group<documented>;
    text += "\n## " + std::string(Is::title) +
            "\n\n| op | shapes | runs as | backward reads | as expression |\n|---|---|---|---|---|\n";
    detail::unroll<0, static_cast<int>(std::size(Is::entries))>(
        [&]<int e>(std::integral_constant<int, e>) { text += line_of<Is, e>(); });
    if constexpr (requires { Is::notes; }) text.append("\n").append(Is::notes);
  });
  text += R"(
## Composed of these

| | is |
|---|---|
| `silu(a)`, `relu_squared(a)` | `multiply(a, sigmoid(a))`, `square(relu(a))` |
| `glu(a)`, `reglu(a)`, `geglu(a)`, `swiglu(a)` | the first half of a, times sigmoid, ReLU, GELU or SiLU of the second |
| `mean_squared_error(a, b)` | `mean(square(a - b))` |
| `split_columns(a)` | two halves, as `slice_columns` gives them |
)";
  return text;
}

// ------------------------------------------------------------------------------------------------- what is checked

/// Every node that executes is in one step, alone, as a member of a group or as the product that a group finishes.
template <class G>
void check_steps() {
  int times[G::count]{};
  for (int s = 0; s < G::fusion.steps; ++s) {
    const int node = G::fusion.order[s];
    if (!G::table.info[node].looped()) ++times[node];
    for (int m = G::fusion.member_begin[node]; m < G::fusion.member_end[node]; ++m) ++times[G::fusion.members[m]];
    if (G::table.info[node].looped() && G::fusion.epilogue_of[node] >= 0) ++times[G::fusion.epilogue_of[node]];
  }
  for (int i = 0; i < G::count; ++i) CHECK(times[i] == G::table.info[i].executes());
}

/// Runs an evaluation from poisoned memory; nothing is allocated on the way.
template <class S>
void run_once(detail::EvaluationMemory<S>& memory, const detail::Subject<S>& run) {
  test::fill_inputs(memory);
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    auto values = memory.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<S>(0.2 * normal(key_of(9, tensor.name), i));
    }
  }
  std::ranges::fill(memory.memory(), S(1e30));
  for (const std::span<S> seed : run.seeds) {
    for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<S>(normal(11, i));
  }
  CHECK(test::allocations_of([&] { run.forward(), run.backward(); }) == 0);
}

void check_close(std::span<const float> a, std::span<const double> b) {
  double largest = 1e-6, difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    difference = d <= difference ? difference : d;  // a NaN stays
  }
  CHECK(difference < 2e-5 * largest);
}

template <class Group>
void check_rows(const std::vector<Index>& lengths) {
  const Rows rows = test::rows_of_lengths(lengths);
  Evaluation<model<Group>, Cpu<float>> single({.tokens = rows.tokens}, 0, lengths);
  Evaluation<model<Group>> plain({.tokens = rows.tokens}, 0, lengths);
  const auto a = detail::subject_of(single);
  const auto b = detail::subject_of(plain);
  run_once(single, a), run_once(plain, b);
  for (std::size_t k = 0; k < b.outputs.size(); ++k) check_close(a.outputs[k], b.outputs[k]);
  check_close(single.gradients(), plain.gradients());
  check_close(single.input_gradient("x"), plain.input_gradient("x"));
}

template <template <Index> class Group, Index width>
void check_group() {
  using Is = Group<width>;
  const std::string name = Is::title;
  CAPTURE(name);
  CAPTURE(width);
  check_steps<GraphOf<model<Is>>>();
  std::vector<std::vector<Index>> all_lengths{{1}, {3, 1, 5}, {20, 1, 33}};
  if (name != "Sequences") all_lengths.push_back({0});  // a sequence of no tokens has no first one
  for (const std::vector<Index>& lengths : all_lengths) check_rows<Is>(lengths);
  const GradientReport report = gradcheck<model<Is>>({.entries_per_tensor = 2, .step = 0.005});
  test::check_report(report, {});
  CHECK(report.jvp < 1e-13);
  CHECK(report.hvp < 1e-6);
}

}  // namespace

/// Copies, and counts how often.
struct Counts {
  static inline int forward = 0, backward = 0;
};
template <>
struct simplx::op<"counted"> : simplx::detail::same_shape_op {
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    ++Counts::forward;
    std::copy_n(frame.template in<0>(), frame.rows() * F::out_shape.cols, frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    ++Counts::backward;
    constexpr Index cols = F::out_shape.cols;
    simplx::detail::move_columns<F::template write<0>, S>(frame.rows(), cols, {frame.out_grad(), cols},
                                                          {frame.template grad<0>(), cols});
  }
};

TEST_SUITE_BEGIN("ops/table");

TEST_CASE("every op: steps, allocations, rows, types, derivatives, at an odd width") {
  each_group([]<template <Index> class Group>() { check_group<Group, 7>(); });
}

TEST_CASE("a value is computed once, however often it is used") {
  static constexpr auto shared = [] {
    auto x = variable("x", rows_of(Axis::tokens, 4));
    auto y = apply<"counted">({}, x);
    auto z = y * y + exp(y);
    return z * sum(y, Over::rows) + y * weight("w", 4, 4);
  };
  Evaluation<shared> run({.tokens = 3});
  test::fill_inputs(run);
  Counts::forward = Counts::backward = 0;
  run.forward(), run.backward();
  CHECK(Counts::forward == 1);
  CHECK(Counts::backward == 1);
}

TEST_CASE("every op of include/simplx/ops is in the table") {
  std::set<std::string> defined, listed;
  for (const auto& header : std::filesystem::directory_iterator(root / "include/simplx/ops")) {
    const std::string text = read_file(header.path());
    const std::regex definition("struct op<\"(\\w+)\"> :");
    for (std::sregex_iterator it(text.begin(), text.end(), definition), end; it != end; ++it) defined.insert((*it)[1]);
  }
  each_group([&]<template <Index> class Group>() {
    for (const Entry& entry : Group<documented>::entries) CHECK(listed.insert(std::string(entry.op.view())).second);
  });
  CHECK(defined == listed);
}

/// The op and the shape that a * b has.
template <class A, class B>
constexpr bool is_product(Tag op, Shape shape, A a, B b) {
  const detail::Evaluated evaluated = detail::evaluate([=] { return a() * b(); });
  const Node* node = evaluated.root->arguments[0];
  if (node->op == Tag("output")) node = node->arguments[0];
  return node->op == op && node->shape == shape;
}

TEST_CASE("docs/ops.md: what a * b is, its shapes say") {
  constexpr auto rows = [] { return input("x", rows_of(Axis::tokens, 4)); };
  constexpr auto column = [] { return input("c", rows_of(Axis::tokens, 1)); };
  constexpr auto row = [] { return vector("row", 4); };
  constexpr auto number = [] { return scalar("s"); };
  constexpr auto square = [] { return weight("w", 4, 4); };
  constexpr auto wide = [] { return weight("v", 4, 6); };
  constexpr auto turned_square = [] { return transpose(weight("w", 4, 4)); };
  constexpr auto turned_rows = [] { return transpose(input("x", rows_of(Axis::tokens, 4))); };
  constexpr Shape run_time = rows_of(Axis::tokens, 4);
  static_assert(is_product("matmul", rows_of(Axis::tokens, 6), rows, wide));
  static_assert(is_product("matmul", run_time, rows, turned_square));
  static_assert(is_product("matmul", fixed_shape(1, 6), row, wide));
  static_assert(is_product("matmul", fixed_shape(4, 4), square, square));
  static_assert(is_product("contract", fixed_shape(4, 4), turned_rows, rows));
  static_assert(is_product("multiply", run_time, rows, rows));
  static_assert(is_product("multiply", run_time, rows, column));
  static_assert(is_product("multiply", run_time, rows, row));
  static_assert(is_product("multiply", run_time, number, rows));
  static_assert(is_product("multiply", fixed_shape(4, 6), number, wide));
  static_assert(is_product("multiply", fixed_shape(4, 6), wide, number));
  static_assert(is_product("multiply", fixed_shape(4, 4), square, row));
}

TEST_CASE("docs/ops.md: exp of floats saturates, exp of doubles does not") {
  struct Results {
    Expr exponential, sigmoid;
  };
  static constexpr auto both = [] {
    auto x = input("x", rows_of(Axis::tokens, 1));
    return Results{exp(x), sigmoid(x)};
  };
  const auto at = [](auto run, double x, int result) {
    run.input("x")[0] = static_cast<std::remove_reference_t<decltype(run.input("x")[0])>>(x);
    run.forward();
    return static_cast<double>(run.output(result)[0]);
  };
  using Single = Evaluation<both, Cpu<float>>;
  using Double = Evaluation<both, Cpu<double>>;
  CHECK(at(Single({.tokens = 1}), 1000, 0) == doctest::Approx(2.4e38).epsilon(0.01));
  CHECK(at(Single({.tokens = 1}), -1000, 0) == doctest::Approx(1.2e-38).epsilon(0.02));
  CHECK(at(Single({.tokens = 1}), -1000, 1) == doctest::Approx(1.2e-38).epsilon(0.02));
  CHECK(at(Double({.tokens = 1}), 1000, 0) == std::numeric_limits<double>::infinity());
  CHECK(at(Double({.tokens = 1}), -1000, 0) == 0);
}

TEST_CASE("docs/ops.md says what the table says") {
  const auto path = root / "docs/ops.md";
  if (std::getenv("SIMPLX_WRITE_DOCS")) std::ofstream(path) << document();
  CHECK(read_file(path) == document());
}

TEST_SUITE_END();
