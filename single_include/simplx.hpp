// SPDX-License-Identifier: MIT
//
// simplx 0.1.0, made of the headers of include/ by tools/amalgamate.py: do not edit.
// sha256 of the headers: e80823c8dcbbcb83
//
//   g++ -std=c++20 -O3 -march=native -I single_include -I /usr/include/eigen3 my.cpp -pthread
//
// The umbrella header with all it includes. simplx/io and simplx/report, which need more than Eigen, and simplx/cuda,
// which needs nvcc, are not part of it: a program that wants them takes include/ instead, and all headers from there.
#pragma once

#if defined(SIMPLX_TARGET)
#error "simplx: this file is the whole library; include either it or headers of include/simplx, not both"
#endif

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// ---- simplx/core/target.hpp

/// \file simplx/core/target.hpp
/// The inline namespace that holds the library: one name for each instruction set it can be compiled for.
///
/// The kernels are inline functions. Were two translation units with different -march flags to share their names,
/// the linker would keep one of the two at random, and a program meant for every machine would stop at the first
/// instruction that is missing. With the set in every symbol both live in one binary, each its own:
///
///     simplx::Trainer<model>                 what one writes
///     simplx::avx512::Trainer<model>         what the linker sees
///
/// Objects of the library cannot cross between such units; the linker names the function that is missing. What is not
/// of the library has one name for all of them, of which the linker keeps the first. Therefore such a program
///
/// - links the plainest unit first,
/// - defines EIGEN_MAX_ALIGN_BYTES=64 for all units, since Eigen allocates by the alignment of the flags, and memory
///   that it takes in one unit's way and frees in another's is lost (clang -O2: a crash),
/// - opens a namespace of its own inline functions and models with `inline SIMPLX_TARGET`, as the library does.
///
/// tests/consumer/mixed_targets is one. The name follows the widest vectors; flags that differ in less (-mbmi2, -mtune)
/// give one name, so such units must run on the same machines.

// Up to and including C++17: g++ 10 calls its C++20 201709L. A file that is not there ends the compilation, or
// thousands of errors would follow the one that tells.
#if __cplusplus <= 201703L
#error "simplx: the library needs C++20; compile with -std=c++20"
#include "simplx needs -std=c++20"
#endif

#if defined(SIMPLX_SINGLE_INCLUDE)
#error "simplx: single_include/simplx.hpp is the whole library; include either it or include/simplx, not both"
#endif

#if defined(__AVX512BF16__) && defined(__AMX_BF16__)
#define SIMPLX_TARGET amx_bf16
#elif defined(__AVX512BF16__)
#define SIMPLX_TARGET avx512_bf16
#elif defined(__AVX512F__)
#define SIMPLX_TARGET avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define SIMPLX_TARGET avx2_fma
#elif defined(__AVX2__)
#define SIMPLX_TARGET avx2
#elif defined(__AVX__)
#define SIMPLX_TARGET avx
#elif defined(__SSE2__)
#define SIMPLX_TARGET sse2
#elif defined(__ARM_FEATURE_SVE)
#define SIMPLX_TARGET sve
#elif defined(__ARM_NEON)
#define SIMPLX_TARGET neon
#else
#define SIMPLX_TARGET portable
#endif

/// What kernels on a GPU use as well. Between BEGIN and END such templates run wherever their arguments do (a rule over
/// numbers on the device, over expressions on the host), so nvcc need not ask that each works on both.
#if defined(__CUDACC__)
#define SIMPLX_HD __host__ __device__
#define SIMPLX_HD_BEGIN _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 20011,20013,20014,20015")
#define SIMPLX_HD_END _Pragma("nv_diagnostic pop")
#else
#define SIMPLX_HD
#define SIMPLX_HD_BEGIN
#define SIMPLX_HD_END
#endif

/// Before a short loop over an array, which then stays in registers. What nvcc passes on to the host's compiler it
/// leaves alone: only kernels count there.
#if defined(__CUDA_ARCH__)
#define SIMPLX_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define SIMPLX_UNROLL
#else
#define SIMPLX_UNROLL _Pragma("GCC unroll 16")
#endif

/// Before a loop whose body is as long as it should be.
#if defined(__clang__)
#define SIMPLX_ROLLED _Pragma("unroll 1")
#elif defined(__CUDACC__)
#define SIMPLX_ROLLED
#else
#define SIMPLX_ROLLED _Pragma("GCC unroll 1")
#endif

namespace simplx::inline SIMPLX_TARGET {}

// ---- simplx/core/init.hpp

/// \file simplx/core/init.hpp
/// The laws by which parameters and constants are filled before training; train/initialise.hpp draws by them.

namespace simplx::inline SIMPLX_TARGET {

/// How a parameter or constant is filled before training.
struct Init {
  enum class Law : signed char {
    constant, normal, sinusoid, identity, orthogonal, normal_by_rows, alibi_slopes, uniform
  };
  Law law = Law::constant;
  double value = 0;  ///< constant, deviation of the normal law (by rows: times sqrt(rows)), bound of the uniform law
  constexpr bool operator==(const Init&) const = default;
  /// Whether the values depend on a seed.
  constexpr bool is_drawn() const {
    return law == Law::normal || law == Law::normal_by_rows || law == Law::uniform || law == Law::orthogonal;
  }
};
constexpr Init normal(double deviation) { return {Init::Law::normal, deviation}; }
constexpr Init uniform(double bound) { return {Init::Law::uniform, bound}; }  ///< between -bound and bound
constexpr Init constant(double value) { return {Init::Law::constant, value}; }
inline constexpr Init zeros = constant(0), ones = constant(1);
/// Row t is sin and cos of t / 10000^(2k/d), interleaved ("Attention Is All You Need", Sec. 3.5).
inline constexpr Init sinusoid{Init::Law::sinusoid, 0};
inline constexpr Init identity{Init::Law::identity, 0};
/// Uniform among matrices with orthonormal rows (columns, where those are fewer).
inline constexpr Init orthogonal{Init::Law::orthogonal, 0};
/// N(0, 1 / rows), which keeps the size of what it multiplies.
inline constexpr Init normal_by_rows{Init::Law::normal_by_rows, 1};
/// Head h of n = 2^k has slope 2^(-8 h / n), h = 1 .. n; heads beyond a power of two take every other slope of 2n
/// heads, from the first on (Press et al. 2022, Sec. 3 and its code).
inline constexpr Init alibi_slopes{Init::Law::alibi_slopes, 0};

}  // namespace simplx

// ---- simplx/core/shape.hpp

/// \file simplx/core/shape.hpp
/// Shapes: the number of columns is always static, the rows are static or counted by a named axis.
///
/// One row count is not enough: a decoder has one row per token, a classifier one per sequence, a regression
/// one per sample. A shape therefore names the axis its rows run along, and the counts come at run time.

namespace simplx::inline SIMPLX_TARGET {

using Index = std::ptrdiff_t;

/// What the rows of a value count. `fixed` rows are known at compile time.
enum class Axis : signed char { fixed, tokens, sequences, labelled, batch };
inline constexpr int axis_count = 5;

/// Its name in models and texts; none of fixed rows.
constexpr const char* name_of(Axis axis) {
  constexpr const char* names[axis_count] = {"", "tokens", "sequences", "labelled", "batch"};
  return names[static_cast<int>(axis)];
}

/// Rows and columns of a value. For `Axis::fixed`, `rows` is their number; otherwise `rows` is 0.
struct Shape {
  Axis axis = Axis::fixed;
  Index rows = 1;
  Index cols = 1;

  constexpr bool operator==(const Shape&) const = default;
  constexpr bool is_fixed() const { return axis == Axis::fixed; }
  /// Elements for each row of the axis; all elements of a fixed shape.
  constexpr Index columns() const { return is_fixed() ? rows * cols : cols; }
};

constexpr Shape fixed_shape(Index rows, Index cols) { return {Axis::fixed, rows, cols}; }
constexpr Shape rows_of(Axis axis, Index cols) { return {axis, 0, cols}; }

/// How many rows each axis has in one evaluation: `Rows{.tokens = 1024, .sequences = 8}`.
struct Rows {
  Index tokens = 0;
  Index sequences = 1;
  Index labelled = 0;
  Index batch = 0;
  Index longest_sequence = 0;  ///< 0 if all sequences are equally long

  constexpr Index count(Axis axis) const {
    switch (axis) {
      case Axis::tokens: return tokens;
      case Axis::sequences: return sequences;
      case Axis::labelled: return labelled;
      case Axis::batch: return batch;
      case Axis::fixed: break;
    }
    return 1;
  }
  /// Rows of a value of that shape.
  constexpr Index count(const Shape& shape) const { return shape.is_fixed() ? shape.rows : count(shape.axis); }
  /// Tokens of the longest sequence.
  constexpr Index longest() const {
    return longest_sequence ? longest_sequence : sequences > 0 ? (tokens + sequences - 1) / sequences : 0;
  }

  bool operator==(const Rows&) const = default;
  /// Whether memory for these rows is enough for others.
  constexpr bool hold(const Rows& others) const {
    return tokens >= others.tokens && sequences >= others.sequences && labelled >= others.labelled &&
           batch >= others.batch && longest() >= others.longest();
  }
  /// As many as either has.
  constexpr Rows or_more(const Rows& others) const {
    const auto more = [](Index one, Index other) { return one > other ? one : other; };
    return {more(tokens, others.tokens), more(sequences, others.sequences), more(labelled, others.labelled),
            more(batch, others.batch), more(longest(), others.longest())};
  }
};

/// One sequence of that many tokens, for `arena_bytes<model>(tokens{128})`.
struct tokens {
  Index count = 0;
  constexpr operator Rows() const { return {.tokens = count}; }
};

/// Packed sequences: sequence s occupies the rows offsets[s] .. offsets[s + 1].
struct Segments {
  const Index* offsets = nullptr;
  Index count = 0;

  /// Calls visit(sequence, first row, rows) for each.
  template <class Visit>
  constexpr void each(const Visit& visit) const {
    for (Index s = 0; s < count; ++s) visit(s, offsets[s], offsets[s + 1] - offsets[s]);
  }
};

/// What a reduction sums: all rows of a column, all columns of a row, everything.
enum class Over : signed char { rows, columns, all };

/// What a backward kernel does with a gradient: not wanted, first writer, later writer.
enum class Write : signed char { skip, store, accumulate };

constexpr Index round_up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace simplx

// ---- simplx/core/text.hpp

/// \file simplx/core/text.hpp
/// Short texts that may be template arguments: the names of ops and of parameters.

namespace simplx::inline SIMPLX_TARGET {

/// A text of fewer than `capacity` characters, stored in place.
///
/// Errors  a longer text is not a constant expression: "a name is too long"; when the program runs it is_cut()
template <int capacity>
struct Text {
  char chars[capacity]{};

  constexpr Text() = default;
  /// As nvcc writes a text that is a template argument.
  struct Chars {
    char of[capacity];
  };
  constexpr Text(const Chars& all) {
    for (int i = 0; i < capacity; ++i) chars[i] = all.of[i];
  }
  constexpr Text(const char* text) {
    int length = 0;
    while (text[length]) {
      if (length + 1 >= capacity) {
        if (!std::is_constant_evaluated()) break;
        throw "simplx: a name is too long; shorten it";
      }
      chars[length] = text[length];
      ++length;
    }
    if (text[length]) cut();
  }

  /// Whether it was too long when the program ran, and is not whole.
  constexpr bool is_cut() const { return chars[capacity - 1] != 0; }
  constexpr bool empty() const { return chars[0] == 0; }
  constexpr int size() const {
    int length = 0;
    while (length < capacity && chars[length]) ++length;
    return length;
  }
  constexpr std::string_view view() const { return {chars, static_cast<std::size_t>(size())}; }
  /// Whether a part before, between or after its dots is empty: "", ".weight", "mlp..weight".
  constexpr bool lacks_a_part() const {
    for (int i = 0; i < capacity; ++i) {
      const bool ends = !chars[i] || chars[i] == '.';
      if (ends && (i == 0 || chars[i - 1] == '.')) return true;
      if (!chars[i]) break;
    }
    return false;
  }

  constexpr bool operator==(const Text& other) const {
    for (int i = 0; i < capacity; ++i) {
      if (chars[i] != other.chars[i]) return false;
      if (!chars[i]) return true;
    }
    return true;
  }

  /// Puts "prefix." in front: how a scope names what is made inside it.
  constexpr void put_in_scope(const Text& prefix) {
    const int added = prefix.size() + 1, length = size();
    if (length + added >= capacity || is_cut()) {
      if (!std::is_constant_evaluated()) return cut();
      throw "simplx: a name with its scopes is too long; shorten it";
    }
    for (int i = length; i >= 0; --i) chars[i + added] = chars[i];
    for (int i = 0; i < added - 1; ++i) chars[i] = prefix.chars[i];
    chars[added - 1] = '.';
  }

  constexpr unsigned hash() const {
    unsigned value = 2166136261u;
    for (int i = 0; i < capacity && chars[i]; ++i) value = (value ^ static_cast<unsigned char>(chars[i])) * 16777619u;
    return value;
  }

 private:
  constexpr void cut() { chars[capacity - 1] = '~'; }
};

/// Identifies an op: `op<"matmul">`.
using Tag = Text<24>;
/// Names a parameter, a constant, an input, a probe or a stack, with its scopes.
using Name = Text<96>;

}  // namespace simplx

// ---- simplx/core/expr.hpp

/// \file simplx/core/expr.hpp
/// Expressions are constexpr values: `Expr` is a trivial handle to a node made during constant evaluation.
///
/// Sharing is identity: `auto y = norm(x); return x + f(y) * y;` computes y once, because y is one node.
/// The heap of a constant evaluation ends with it, so nothing of this is left in the program; Graph (graph.hpp)
/// copies what it needs into fixed arrays. The same functions run at run time, in a debugger for instance.

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

// ---- simplx/core/results.hpp

/// \file simplx/core/results.hpp
/// What a model or a module returns: an expression, or an aggregate of up to four.

namespace simplx::inline SIMPLX_TARGET::detail {

struct AnyResult {
  constexpr operator Expr() const;
};

/// How many expressions an aggregate has, at most four; 0 where it has other members.
template <class Result>
constexpr int result_count() {
  using A = AnyResult;
  int count = 0;
  if constexpr (std::is_aggregate_v<Result> && !requires { Result{A{}, A{}, A{}, A{}, A{}}; }) {
    count = requires { Result{A{}, A{}, A{}, A{}}; } ? 4 : requires { Result{A{}, A{}, A{}}; } ? 3
          : requires { Result{A{}, A{}}; } ? 2 : requires { Result{A{}}; } ? 1 : 0;
  }
  static_assert(max_outputs == 4);
  return sizeof(Result) == static_cast<std::size_t>(count) * sizeof(Expr) ? count : 0;
}

template <class Result>
concept Results = std::is_same_v<Result, Expr> || result_count<Result>() > 0;

/// What a module made, as it is, or as the expression that it converts to.
constexpr Expr as_results(Expr result) { return result; }
template <Results Result>
constexpr Result as_results(const Result& results) {
  return results;
}

/// Calls take(field, name) for the expression, or for each of an aggregate of up to four expressions.
template <class Result, class Take>
constexpr void each_result(const Result& result, Take take) {
  static_assert(Results<Result>, "simplx: a model returns an Expr, or an aggregate of up to four of them");
  constexpr int count = result_count<Result>();
  if constexpr (std::is_same_v<Result, Expr>) {
    take(result, "output");
  } else if constexpr (count == 4) {
    const auto& [a, b, c, d] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2"), take(d, "output3");
  } else if constexpr (count == 3) {
    const auto& [a, b, c] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2");
  } else if constexpr (count == 2) {
    const auto& [a, b] = result;
    take(a, "output0"), take(b, "output1");
  } else if constexpr (count == 1) {
    const auto& [a] = result;
    take(a, "output0");
  }
}

}  // namespace simplx::detail

// ---- simplx/core/walk.hpp

/// \file simplx/core/walk.hpp
/// Walking and freeing expressions.
///
/// Nodes are numbered by a walk from the root, never by creation: compilers evaluate operands in different
/// orders, and with the order every offset of a checkpoint would change. Walks are iterative, because the
/// depth of constant evaluation is limited.

namespace simplx::inline SIMPLX_TARGET::detail {

inline constexpr int unvisited = -1, entered = -2;

/// Calls visit(node) for every node that root needs, arguments first. visit sets node->index (>= 0).
template <class Visit>
constexpr void postorder(Node* root, Visit visit) {
  if (root->index != unvisited) return;
  root->link = nullptr;
  root->index = entered;
  root->cursor = 0;
  for (Node* top = root; top;) {
    if (top->cursor < top->argument_count) {
      Node* argument = top->arguments[top->cursor++];
      if (argument->index == unvisited) {
        argument->index = entered;
        argument->cursor = 0;
        argument->link = top;
        top = argument;
      }
    } else {
      Node* done = top;
      top = top->link;
      visit(done);
    }
  }
}

/// Undoes the marks of postorder, but not beyond nodes that are marked as `outside`.
constexpr void clear_marks(Node* root, int outside = unvisited) {
  root->link = nullptr;
  root->index = unvisited;
  root->cursor = 0;
  for (Node* top = root; top;) {
    if (top->cursor < top->argument_count) {
      Node* argument = top->arguments[top->cursor++];
      if (argument->index != unvisited && argument->index != outside) {
        argument->index = unvisited;
        argument->cursor = 0;
        argument->link = top;
        top = argument;
      }
    } else {
      top = top->link;
    }
  }
}

/// The same of every node, numbered from 0 on; afterwards none is marked.
template <class Visit>
constexpr void each_node(Node* root, Visit visit) {
  int count = 0;
  postorder(root, [&](Node* node) {
    node->index = count++;
    visit(node);
  });
  clear_marks(root);
}

/// What frozen(...) does to a node.
constexpr void freeze(Node* node) { node->frozen |= node->kind == Kind::parameter || node->block; }

/// Frees all that is connected to the node: what it uses, what uses it, and so on.
constexpr void release(Node* seed) {
  constexpr int listed = -3;
  Node *todo = seed, *all = nullptr;
  seed->index = listed;
  seed->link = nullptr;
  const auto list = [&](Node* node) {
    if (node && node->index != listed) {
      node->index = listed;
      node->link = todo;
      todo = node;
    }
  };
  while (todo) {
    Node* node = todo;
    todo = node->link;
    node->link = all;
    all = node;
    for (int i = 0; i < node->argument_count; ++i) list(node->arguments[i]);
    for (Node* user = node->first_user; user;) {
      list(user);
      int slot = 0;
      while (user->arguments[slot] != node) ++slot;
      user->arguments[slot] = nullptr;  // a node used twice stands twice in the list: take the next slot then
      user = user->next_user[slot];
    }
  }
  while (all) {
    Node* node = all;
    all = all->link;
    if (node->block) node->block->destroy(node->block);
    if (node->rules) node->rules->destroy(node->rules);
    delete node;
  }
}

/// The nth node of the walk from root.
constexpr Node* node_at(Node* root, int wanted) {
  Node* found = nullptr;
  each_node(root, [&](Node* node) {
    if (node->index == wanted) found = node;
  });
  return found;
}

/// Calls visit(node) for what a module made: the nodes of its results up to, and without, what it was given.
template <class Made, class Visit, class... Arguments>
constexpr void each_made(const Made& results, Visit visit, const Arguments&... given) {
  [[maybe_unused]] const auto mark = [](const auto& argument, int index) {
    if constexpr (requires { argument.node; }) argument.node->index = index;
  };
  (mark(given, 0), ...);  // the walk stops there
  int count = 0;
  each_result(results, [&](Expr result, const char*) {
    postorder(result.node, [&](Node* node) {
      node->index = ++count;
      visit(node);
    });
  });
  (mark(given, unvisited), ...);
  each_result(results, [](Expr result, const char*) {
    if (result.node->index != unvisited) clear_marks(result.node);
  });
}

}  // namespace simplx::detail

// ---- simplx/core/named.hpp

/// \file simplx/core/named.hpp
/// Names for what a module makes: named("mlp", Mlp{512})(x).

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr bool takes_scope(const Node& node) {
  return (!node.name.empty() || node.block) && node.kind != Kind::input && node.kind != Kind::indices && !node.result;
}

}  // namespace detail

/// A module with a name: the parameters it *makes* get "name." in front, never what it is *given*. What a module
/// captures or holds it makes, as far as can be seen from its results: give it as an operand.
template <class Module>
struct Named {
  Name scope;
  Module module;

  template <class... Arguments>
  constexpr auto operator()(const Arguments&... arguments) const
      -> decltype(detail::as_results(module(arguments...))) {
    const auto results = detail::as_results(module(arguments...));
    const auto enter = [&](Node* node) {
      if (detail::takes_scope(*node)) node->name.put_in_scope(scope);
    };
    detail::each_made(results, enter, arguments...);
    return results;
  }
};

/// named("mlp", Mlp{512})(x): the parameters made inside are mlp.up.weight, mlp.down.weight.
template <class Module>
constexpr Named<Module> named(const char* scope, const Module& module) {
  return {scope, module};
}

/// One of several, from 0 on: named("expert", 3, Mlp{512})(x) makes expert.3.up.weight and expert.3.down.weight.
template <class Module>
constexpr Named<Module> named(const char* scope, int number, const Module& module) {
  char digits[12]{};
  int place = 11;
  do digits[--place] = static_cast<char>('0' + number % 10);
  while (number /= 10);
  Name numbered(digits + place);
  numbered.put_in_scope(scope);
  return {numbered, module};
}

}  // namespace simplx

// ---- simplx/core/op.hpp

/// \file simplx/core/op.hpp
/// How a node of an op is made: `apply` asks its shape rule and notes what its pull-backs read and write over. What an
/// op may define is said in ops/elementwise.hpp and ops/kernel.hpp.

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

// ---- simplx/core/rules.hpp

/// \file simplx/core/rules.hpp
/// What the compiler says when a model breaks a rule: one sentence with a remedy, and both numbers.
///
/// A shape rule records its name and two numbers in the expression; Graph hands them to `rule<name>::check`,
/// whose static_assert makes every compiler print the sentence and the comparison, for example
///
///     error: static assertion failed: simplx: in x * W the width of x (left number) must equal the rows of W ...
///     note: the comparison reduces to '(512 == 256)'
///
/// An op outside the library adds its own sentence by specialising `rule`.

namespace simplx::inline SIMPLX_TARGET {

template <Tag name>
struct rule {
  template <Index left, Index right>
  static constexpr bool check() {
    static_assert(left == right,
                  "simplx: a shape rule of this op is broken: the two numbers must be equal; give the rule a sentence "
                  "by SIMPLX_RULE");
    return true;
  }
  template <Index left, Index right>
  static constexpr bool differ() {
    static_assert(left != right, "simplx: a shape rule of this op is broken; give the rule a sentence by SIMPLX_RULE");
    return true;
  }
};

/// Never true: the condition of a rule about what no two numbers can mend. Compilers print both numbers with it.
template <Index left, Index right>
inline constexpr bool possible = false;

/// In namespace simplx, defines what is said when the rule is broken; `left` and `right` are its two numbers. A shape
/// may break it where the numbers do not: one number for each row in place of one number.
#define SIMPLX_RULE(name, condition, sentence)                                                              \
  template <>                                                                                               \
  struct rule<name> {                                                                                       \
    template <Index left, Index right>                                                                      \
    static constexpr bool check() {                                                                         \
      static_assert(condition, "simplx: " sentence);                                                        \
      return true;                                                                                          \
    }                                                                                                       \
    template <Index left, Index right>                                                                      \
    static constexpr bool differ() {                                                                        \
      static_assert(!(condition), "simplx: not the numbers but the rows or the axis are wrong: " sentence); \
      return true;                                                                                          \
    }                                                                                                       \
  };

SIMPLX_RULE("sizes", left >= 1 && right >= 1,
            "a parameter, a constant or an input has at least 1 row (left number; 1 where rows are counted at run time)"
            " and 1 column (right number): give every width and size a number of 1 or more")
SIMPLX_RULE("inner widths", left == right,
            "in x * W the width of x (left number) must equal the rows of W (right number); give W that many rows")
SIMPLX_RULE("equal widths", left == right,
            "elementwise operands must have equal widths (left and right number), or be one row, one column or "
            "one number; a matrix product is x * weight(...)")
SIMPLX_RULE("equal rows", left == right,
            "these operands must have equal numbers of rows (left and right number); gather or reduce one of them "
            "first")
SIMPLX_RULE("equal axes", left == right,
            "these operands must run along one axis (left and right number: 0 a static number of rows, 1 tokens, "
            "2 sequences, 3 labelled, 4 batch); gather or reduce one of them first, or give tokens what their sequence "
            "has by repeat_over_sequence")
SIMPLX_RULE("matrix on the left", (possible<left, right>),
            "a matrix of static rows (left number: rows, right number: columns) stands left of run-time rows: rows are "
            "samples or tokens, so that a linear map of them is written x * W, or x * transpose(W)")
SIMPLX_RULE("static right operand", left == right,
            "in x * W the right operand must have a static number of rows (a weight, or computed from weights): a "
            "product of two run-time row counts would be a matrix of rows by rows")
SIMPLX_RULE("static transpose", left == right,
            "transpose(x) by itself needs a static number of rows (a weight, or computed from weights); of run-time "
            "rows the product transpose(x) * y is possible, which sums over them")
SIMPLX_RULE("gain width", left == right,
            "a gain or bias (left number: its width) must be one row of the width of x (right number): vector(name, "
            "width(x))")
SIMPLX_RULE("one number", left == right,
            "this operand must be one number, such as hyper(\"rate\", 0.1): its elements are the left number")
SIMPLX_RULE("query and key", left == right,
            "query (left number) and key (right number) must have equal widths: give both weights as many columns")
SIMPLX_RULE("heads", left > 0 && right % left == 0,
            "the number of heads (left number) must divide the width (right number), and be at least 1")
SIMPLX_RULE("gains per head", left == right,
            "alpha, beta and gamma need one number per head: give vectors whose width (left number) is the number of "
            "heads (right number)")
SIMPLX_RULE("token rows", left == right,
            "this operand must run along the axis of tokens (right number), not along another (left number: 0 a static "
            "number of rows, 2 sequences, 3 labelled, 4 batch): rows_of(Axis::tokens, ...)")
SIMPLX_RULE("dropout rows", left == right,
            "dropout takes no labelled rows, whose masks would depend on the other labels of the batch: apply it "
            "before gather")
SIMPLX_RULE("dropout rate", (possible<left, right>),
            "a dropout rate (left number, in thousandths) is the probability to drop a number: give one from 0 to 1")
SIMPLX_RULE("indices", left == right,
            "a table is looked up by indices(...), whole numbers, one for each row: embedding(table, indices(...))")
SIMPLX_RULE("static positions", left == right,
            "positions(table) needs a table with a static number of rows, as weight(\"position.weight\", context, d)")
SIMPLX_RULE("labels", left == right,
            "labels must be indices(...) along the rows of the logits, one for each row: indices(\"labels\", axis) of "
            "the logits' axis")
SIMPLX_RULE("indices as numbers", (possible<left, right>),
            "indices(...) are whole numbers that name rows or classes (left number: their line), not values to compute "
            "with: look them up by embedding or gather, or give real numbers by input(...)")
SIMPLX_RULE("constant operand", (possible<left, right>),
            "this operand of an op (left number: which, from 0) has no gradient, but depends on something that is "
            "trained: an epsilon, a rate, a base, a smoothing is a number, a hyper(...), or wrapped in stop_gradient")
SIMPLX_RULE("frozen", (possible<left, right>),
            "frozen(...) takes a parameter (or a module whose parameters are not trained), not an expression: a value "
            "that counts as a constant is stop_gradient(x)")
SIMPLX_RULE("recompute", (possible<left, right>),
            "recompute(...) takes a module, which it evaluates again in backward, not an expression, of which it could "
            "not know where it begins: recompute(Mlp{})(x)")
SIMPLX_RULE("block width", left == right,
            "a block of a stack must return the shape that it is given: its result has the width (left number), its "
            "input (right number); change the width before or after the stack")
SIMPLX_RULE("captured", (possible<left, right>),
            "the block of a stack, a module that is recomputed, or a function with its own pull-back uses an "
            "expression that was made outside it (left number: its line, right number: the line of its use); make it "
            "inside, or hand it in: as an operand of the function, or beside what the block is given (concatenate); "
            "parameters that all layers share are made in the block: stack(\"blocks\", layers, Shared{block}, x)")
SIMPLX_RULE("input in a block", (possible<left, right>),
            "the block of a stack makes an input (left number: its line); make inputs outside of the stack")
SIMPLX_RULE("pull-back shape", left == right,
            "a function's own pull-back must give a gradient of the shape of each operand (left number: elements for "
            "each row that it gives, right number: those of the operand)")
SIMPLX_RULE("pull-back count", left == right,
            "a function's own pull-back must give one gradient for each operand (left number: those it gives, right "
            "number: operands): an aggregate of as many expressions")
SIMPLX_RULE("own parameters", (possible<left, right>),
            "a function with its own pull-back, or the pull-back, makes a parameter, constant or input (left number: "
            "its line); make it outside and give it as an operand")
SIMPLX_RULE("probe in recompute", (possible<left, right>),
            "a module that is recomputed contains a probe (left number: its line), whose value would not outlive it; "
            "put the probe outside")
SIMPLX_RULE("tile", left >= right,
            "logits are computed for a tile of classes at a time, at least 1 (left number): linear_cross_entropy(x, "
            "table, labels, 512)")
SIMPLX_RULE("layers", left >= 1, "a stack needs at least one layer (left number): set .layers to 1 or more")
SIMPLX_RULE("a name", (possible<left, right>),
            "a parameter, constant, input or stack (left number: its line), or a scope that it is in, has an empty "
            "name, by which no checkpoint could find it: weight(\"up.weight\", ...), named(\"mlp\", ...)")
SIMPLX_RULE("one name", (possible<left, right>),
            "two parameters or inputs have one name, which the note of at_line spells (left and right number: the "
            "lines that make them; one line twice is one module used twice): give one of them another name, or each "
            "use of the module a scope, named(\"first\", Linear{...})(x) and named(\"second\", ...), or make the "
            "value once and use it twice")

namespace detail {

template <char... letters>
struct File {};
template <char... letters>
struct Called {};

/// The line that broke the rule, of the user's code or of a module of the library that it uses, spelt in the notes of
/// every compiler: at_line<"inner widths", 512, 256, 7, File<'s', 'r', 'c', '/', 'm', 'l', 'p', ...>>. Where a name is
/// wrong, Called<...> has its letters.
template <Tag name, Index left, Index right, int line, class In, class... Of>
constexpr bool at_line() {
  if constexpr (requires { rule<name>::template differ<left, right>(); }) rule<name>::template differ<left, right>();
  return rule<name>::template check<left, right>();
}

struct ShortPath {
  char chars[48]{};
  int size = 0;
};

/// The file's name and its folder: several folders have a norm.hpp.
constexpr ShortPath short_path(const char* file) {
  const char *name = file, *last = file;
  for (const char* c = file; *c; ++c) {
    if (*c != '/' && *c != '\\') continue;
    name = last;
    last = c + 1;
  }
  ShortPath path;
  while (name[path.size] && path.size < 47) {
    path.chars[path.size] = name[path.size];
    ++path.size;
  }
  return path;
}

}  // namespace detail
}  // namespace simplx

// ---- simplx/nn/first_layer.hpp

/// \file simplx/nn/first_layer.hpp
/// Modules that only the first layer of a stack has: the value matrix of SAS, the norm of models "without norms".

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("first layer", (possible<left, right>),
            "a module that only the first layer has must be told its layer: attention.at(layer), or at_layer(module, "
            "layer), in a block's operator()(int layer, Expr x); outside of a stack attention.at(0) has it")

/// Where a module stands that only the first layer has. Unknown is neither: either guess would lose parameters in
/// silence, or make them in every layer.
enum class LayerPlace : signed char { unknown, first, later };

/// The module in layer 0, x itself in all others.
///
///     named("value", at_layer(FirstLayer<Reparameterised>{}, layer))(x)
///
/// Errors  does not compile where it was not told its layer: rule "first layer"
template <class Module>
struct FirstLayer {
  Module module{};
  LayerPlace place = LayerPlace::unknown;

  constexpr FirstLayer at(int layer) const { return {module, layer == 0 ? LayerPlace::first : LayerPlace::later}; }
  constexpr Expr operator()(Expr x) const {
    if (place == LayerPlace::unknown) return refuse("first layer", x);
    return place == LayerPlace::first ? module(x) : x;
  }
};

/// A module as it is in one layer of a stack; most are the same in all.
template <class Module>
constexpr Module at_layer(const Module& module, int layer) {
  if constexpr (requires { module.at(layer); }) {
    return module.at(layer);
  } else {
    return module;
  }
}

}  // namespace simplx

// ---- simplx/cpu/simd.hpp

/// \file simplx/cpu/simd.hpp
/// Vectors of the build's instruction set, by the portable vector extensions of g++ and clang.
///
/// Everything here also takes a plain float or double as a vector of one lane, so that an elementwise rule
/// written once runs over vectors and over single numbers.
///
/// What the library needs of the compiler: IEEE arithmetic. With -ffast-math (or -Ofast) infinities and NaNs
/// are assumed away, masks and stopping on a broken loss no longer work, and training goes wrong silently.

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "simplx: compile without -ffast-math, -Ofast and -ffinite-math-only; use -O3 -march=native instead"
#endif

namespace simplx::inline SIMPLX_TARGET {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

/// Elements of a vector; numbers that are not built in (dual.hpp) go one by one.
template <class S>
inline constexpr int lanes = std::is_arithmetic_v<S> ? vector_bytes / static_cast<int>(sizeof(S)) : 1;

namespace detail {
/// A vector of so many bytes. (g++ drops vector_size where it depends on a function template's parameters.)
template <class S, std::size_t bytes>
struct VectorOf {
  typedef S type __attribute__((vector_size(bytes)));
};

template <class S>
struct VecOf {
  using type = S;
};
template <class S>
  requires std::is_arithmetic_v<S>
struct VecOf<S> : VectorOf<S, vector_bytes> {};
}  // namespace detail

template <class S>
using Vec = typename detail::VecOf<S>::type;

namespace detail {
template <class V, bool single = std::is_arithmetic_v<V>>
struct LaneOf {
  using type = V;
};
template <class V>
  requires requires(V& v) { v[0]; }
struct LaneOf<V, false> {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
}  // namespace detail

/// The element type of a vector, or the type itself.
template <class V>
using Lane = typename detail::LaneOf<V>::type;

/// Reads sizeof(V) bytes, aligned or not.
template <class V, class S>
__attribute__((always_inline)) inline V load(const S* place) {
  V value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

template <class V, class S>
__attribute__((always_inline)) inline void store(S* place, V value) {
  std::memcpy(place, &value, sizeof value);
}

/// The same number in every lane.
template <class V, class S>
__attribute__((always_inline)) inline V splat(S number) {
  if constexpr (std::is_same_v<V, Lane<V>>) {
    return static_cast<V>(number);
  } else {
    return static_cast<Lane<V>>(number) - V{};  // + would turn -0 into 0 and cost an addition
  }
}

/// A constant of an op's rule, as a number of the rule's type: a float, a vector, a dual number, a formula.
template <class V>
SIMPLX_HD __attribute__((always_inline)) constexpr V literal(double number) {
  if constexpr (requires { V{}[0]; }) {
    return static_cast<Lane<V>>(number) - V{};
  } else {
    return static_cast<V>(number);
  }
}

/// Lane by lane, `yes` where the condition holds.
template <class Condition, class V>
  requires requires(Condition c, V v) { c ? v : v; }
__attribute__((always_inline)) inline V select(Condition condition, V yes, V no) {
  return condition ? yes : no;
}

namespace detail {
/// Makes g++ forget that a vector is a constant: else it compares with zero and masks instead of taking the maximum.
template <class V>
__attribute__((always_inline)) inline void hide_constant([[maybe_unused]] V& v) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__CUDACC__)
  if constexpr (!std::is_arithmetic_v<V>) asm("" : "+v"(v));
#endif
}
}  // namespace detail

/// The larger one, lane by lane, in one instruction; `b` if either is NaN.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline V max(V a, V b) {
  detail::hide_constant(a), detail::hide_constant(b);
  return a > b ? a : b;
}

/// The smaller one, lane by lane, in one instruction; `b` if either is NaN.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline V min(V a, V b) {
  detail::hide_constant(a), detail::hide_constant(b);
  return a < b ? a : b;
}

namespace detail {
/// The lower and the upper lanes of a vector.
template <class V>
struct Halves {
  using Half = typename VectorOf<Lane<V>, sizeof(V) / 2>::type;
  Half lower, upper;

  __attribute__((always_inline)) explicit Halves(V v) {
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_shufflevector)  // g++ 12 would go through memory
    if constexpr (sizeof(V) == 64) {
      typedef double Doubles __attribute__((vector_size(64)));
      lower = (Half)__builtin_shufflevector((Doubles)v, (Doubles)v, 0, 1, 2, 3);
      upper = (Half)__builtin_shufflevector((Doubles)v, (Doubles)v, 4, 5, 6, 7);
      return;
    }
#endif
#endif
    std::memcpy(static_cast<void*>(this), &v, sizeof v);
  }
};

/// All lanes made one number by f, one half with the other. (Of a loop over an array g++ makes one at run time.)
template <class V, class F>
__attribute__((always_inline)) inline Lane<V> folded(V v, F f) {
  using S = Lane<V>;
  if constexpr (std::is_same_v<V, S>) {
    return v;
  } else if constexpr (sizeof(V) > 16) {
    const Halves halves(v);
    return folded(f(halves.lower, halves.upper), f);
  } else if constexpr (sizeof(V) == 4 * sizeof(S)) {
    return f(f(S(v[0]), S(v[2])), f(S(v[1]), S(v[3])));
  } else {
    return f(S(v[0]), S(v[1]));
  }
}
}  // namespace detail

/// The sum of all lanes, pairwise.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline Lane<V> sum(V v) {
  return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) -> H { return a + b; });
}

/// The largest lane.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline Lane<V> largest(V v) {
  return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) -> H { return a > b ? a : b; });
}

namespace cpu {

/// 0, 1, 2, ... over the lanes.
template <class V>
__attribute__((always_inline)) inline V lane_numbers() {
  V numbers{};
  for (int i = 0; i < lanes<Lane<V>>; ++i) numbers[i] = static_cast<Lane<V>>(i);
  return numbers;
}

/// Writes a vector past the caches, which keep what they hold and do not read first what it is written over; `place` is
/// aligned to the vector. Needs end_stream before another thread reads it. Without such an instruction, as store.
template <class V, class S>
__attribute__((always_inline)) inline void stream(S* place, V value) {
#if defined(__clang__) && !defined(__CUDACC__)
  __builtin_nontemporal_store(value, reinterpret_cast<V*>(place));
#elif defined(__SSE2__) && !defined(__CUDACC__)
  using Floats = Vec<float>;
  float* const floats = reinterpret_cast<float*>(place);
#if defined(__AVX512F__)
  __builtin_ia32_movntps512(floats, std::bit_cast<Floats>(value));
#elif defined(__AVX2__)
  __builtin_ia32_movntps256(floats, std::bit_cast<Floats>(value));
#else
  __builtin_ia32_movntps(floats, std::bit_cast<Floats>(value));
#endif
#else
  store(place, value);
#endif
}
inline void end_stream() {
#if defined(__SSE2__) && !defined(__CUDACC__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace cpu
}  // namespace simplx

// ---- simplx/ops/term.hpp

/// \file simplx/ops/term.hpp
/// Term: the scalar over which an op's rules give expressions again, so that derivatives can be part of a model.
///
/// A rule such as `g * y` runs over numbers, vectors, dual numbers and formulas; over terms it makes nodes. Numbers
/// stay numbers as long as possible: products with 0 and 1 and sums with 0 make no node.

namespace simplx::inline SIMPLX_TARGET {

/// A number or an expression; its products are elementwise.
struct Term {
  Node* node = nullptr;
  double number = 0;

  constexpr Term() = default;
  SIMPLX_HD constexpr Term(double value) : number(value) {}
  constexpr explicit Term(Expr x) : node(x.node) {}

  constexpr bool is(double value) const { return !node && number == value; }
  constexpr At operand() const { return node ? At(Expr{node}) : At(number); }

  // Here, as compilers instantiate the rule of an op, which calls these, as soon as a model uses it.
  friend constexpr Term operator+(const Term& a, const Term& b);
  friend constexpr Term operator-(const Term& a, const Term& b);
  friend constexpr Term operator*(const Term& a, const Term& b);
  friend constexpr Term operator/(const Term& a, const Term& b);
  friend constexpr Term operator-(const Term& a);
  friend constexpr Term operator>(const Term& a, const Term& b);
  friend constexpr Term max(const Term& a, const Term& b);
  friend constexpr Term min(const Term& a, const Term& b);
  friend constexpr Term select(const Term& condition, const Term& yes, const Term& no);
  friend constexpr Term exp(const Term& x);
  friend constexpr Term log(const Term& x);
  friend constexpr Term log1p(const Term& x);
  friend constexpr Term sin(const Term& x);
  friend constexpr Term cos(const Term& x);
  friend constexpr Term tanh(const Term& x);
  friend constexpr Term sigmoid(const Term& x);
  friend constexpr Term erf(const Term& x);
  friend constexpr Term sqrt(const Term& x);
  friend constexpr Term abs(const Term& x);
  friend constexpr Term pow(const Term& x, const Term& p);
};

namespace detail {

/// The pull-back of the incoming gradient to an argument, as an expression; each node carries that of its op.
template <Tag name, int count>
constexpr Term derive(const Node* node, int argument, const Term& gradient) {
  using Op = op<name>;
  if constexpr (requires { Op::derive(node, argument, gradient); }) {
    return Op::derive(node, argument, gradient);
  } else {  // a map: Node::derive of others is null
    const auto operand = [&](int i) { return Term(Expr{node->arguments[i]}); };
    const Term result(Expr{const_cast<Node*>(node)});
    const auto pull = [&]<int to>(std::integral_constant<int, to>) {
      if constexpr (count == 1) {
        return Op::template d<to>(gradient, result, operand(0));
      } else if constexpr (count == 2) {
        return Op::template d<to>(gradient, result, operand(0), operand(1));
      } else {
        return Op::template d<to>(gradient, result, operand(0), operand(1), operand(2));
      }
    };
    if constexpr (count > 1) {
      if (argument == 1) return pull(std::integral_constant<int, 1>{});
    }
    if constexpr (count > 2) {
      if (argument == 2) return pull(std::integral_constant<int, 2>{});
    }
    return pull(std::integral_constant<int, 0>{});
  }
}

}  // namespace detail
}  // namespace simplx

// ---- simplx/ops/elementwise.hpp

/// \file simplx/ops/elementwise.hpp
/// Elementwise ops: arithmetic with broadcast, probes. Functions are in functions.hpp.
///
/// An op's rules are written once, over any scalar or vector type: `f` is the value, `d<i>` the pull-back of
/// the incoming gradient g to operand i, given the result y and the operands. What a pull-back does not
/// declare that it reads is never kept and passed as NaN, so that a forgotten declaration shows in the gradient.

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

/// Base of elementwise ops: operands of one shape, or one row, one column or one number spread over it.
struct elementwise {
  static constexpr Kind kind = Kind::map;
  static constexpr bool needs_inputs = false;  ///< pull-backs read the operands
  static constexpr bool needs_output = false;  ///< pull-backs read the result
  static constexpr unsigned char passes = 0;   ///< bit i: the pull-back to operand i is g itself
  static constexpr bool costly = false;        ///< as exp is: many times the cost of storing its result

  template <class... Shapes>
  static constexpr Checked shape(const Attributes&, Shapes... shapes) {
    static_assert(sizeof...(shapes) <= 3, "simplx: an elementwise op has at most three operands; make it of two ops");
    Shape result = fixed_shape(1, 1);
    const auto widen = [&](const Shape& s) {
      result.cols = std::max(result.cols, s.cols);
      if (result.is_fixed() && !s.is_fixed()) {
        result.axis = s.axis;
        result.rows = 0;
      } else if (result.is_fixed()) {
        result.rows = std::max(result.rows, s.rows);
      }
    };
    (widen(shapes), ...);
    Checked checked(result);
    const auto check = [&](const Shape& s) {
      if (!checked.rule.empty()) return;
      if (s.cols != 1 && s.cols != result.cols) {
        checked = Checked("equal widths", s.cols, result.cols);
      } else if (s.is_fixed() ? s.rows != 1 && s.rows != result.rows : s.axis != result.axis) {
        checked = unequal_rows(s, result);
      }
    };
    (check(shapes), ...);
    return checked;
  }
};

template <>
struct op<"add"> : elementwise {
  static constexpr unsigned char passes = 0b11;
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a + b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    return g;
  }
};

template <>
struct op<"subtract"> : elementwise {
  static constexpr unsigned char passes = 0b01;
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a - b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    if constexpr (i == 0) {
      return g;
    } else {
      return -g;
    }
  }
};

template <>
struct op<"multiply"> : elementwise {
  static constexpr bool reads(int to, int operand) { return to != operand; }
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a * b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto a, auto b) {
    if constexpr (i == 0) {
      return g * b;
    } else {
      return g * a;
    }
  }
};

template <>
struct op<"divide"> : elementwise {
  static constexpr bool needs_output = true;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a / b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto, auto b) {
    if constexpr (i == 0) {
      return g / b;
    } else {
      return -(g / b) * y;
    }
  }
};

template <>
struct op<"negate"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a) { return -a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto) {
    return -g;
  }
};

/// Copies: a result of the model, a value that stays readable.
struct identity_op : elementwise {
  static constexpr unsigned char passes = 0b1;
  SIMPLX_HD static constexpr auto f(auto a) { return a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto) {
    return g;
  }
};
template <>
struct op<"output"> : identity_op {};
template <>
struct op<"probe"> : identity_op {};

/// The first operand, spread over the shape of the second, whose values are not read.
template <>
struct op<"spread"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a, auto) { return a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    if constexpr (i == 0) {
      return g;
    } else {
      return literal<decltype(g)>(0);
    }
  }
};

/// Element by element, one row, one column or one number spread over the rest; likewise a - b and a / b.
///
/// Shapes  operands (rows, C), (1, C), (rows, 1) or (1, 1) -> (rows, C), rows static or run-time
/// Errors  does not compile otherwise: rules "equal widths", "equal axes" and "equal rows"
constexpr Expr operator+(At a, At b) { return apply<"add">({}, a, b); }
constexpr Expr operator-(At a, At b) { return apply<"subtract">({}, a, b); }
/// A divisor that is spread over rows, columns or everything is inverted first: one division for each of its elements.
constexpr Expr operator/(At a, At b) {
  const Checked whole = elementwise::shape({}, a.shape(), b.shape());
  if (!whole.rule.empty() || whole.shape == b.shape()) return apply<"divide">({}, a, b);
  return apply<"multiply">({}, a, At(apply<"divide">({}, At(1.0), b)));
}
constexpr Expr operator/(At a, double b) {
  if (a.shape() == fixed_shape(1, 1)) return apply<"divide">({}, a, At(b));
  return apply<"multiply">({}, a, At(1.0 / b));
}
constexpr Expr operator-(At a) { return apply<"negate">({}, a); }
constexpr Expr& operator+=(Expr& x, At y) { return x = x + y; }
constexpr Expr& operator-=(Expr& x, At y) { return x = x - y; }
constexpr Expr& operator/=(Expr& x, At y) { return x = x / y; }

/// x repeated until it has the shape of `like`: a number, a row or a column.
constexpr Expr spread(At x, At like) { return apply<"spread">({}, x, like); }

namespace detail {
/// A gradient with all the elements of the node's value, for ops that need every one of them.
constexpr At whole(const Term& gradient, const Node* node) {
  const bool complete = gradient.node && gradient.node->shape == node->shape;
  return complete ? gradient.operand() : At(spread(gradient.operand(), At(Expr{const_cast<Node*>(node)})));
}
constexpr At argument(const Node* node, int i) { return Expr{node->arguments[i]}; }
}  // namespace detail

constexpr Term operator+(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number + b.number;
  if (a.is(0) || b.is(0)) return a.is(0) ? b : a;
  return Term(apply<"add">({}, a.operand(), b.operand()));
}
constexpr Term operator-(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number - b.number;
  if (a.is(0) || b.is(0)) return a.is(0) ? -b : a;
  return Term(apply<"subtract">({}, a.operand(), b.operand()));
}
constexpr Term operator*(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number * b.number;
  if (a.is(0) || b.is(0)) return 0;
  if (a.is(1) || b.is(1)) return a.is(1) ? b : a;
  return Term(apply<"multiply">({}, a.operand(), b.operand()));
}
constexpr Term operator/(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number / b.number;
  if (a.is(0) || b.is(1)) return a;
  return Term(apply<"divide">({}, a.operand(), b.operand()));
}
constexpr Term operator-(const Term& a) { return a.node ? Term(apply<"negate">({}, a.operand())) : Term(-a.number); }

/// The elementwise product; `x * y` is this too, unless y is a matrix (static rows, of one column too): then it is the
/// matrix product.
///
/// Shapes  as a + b: a column (rows, 1) scales rows, static or run-time
/// Errors  as a + b
constexpr Expr multiply(At a, At b) { return apply<"multiply">({}, a, b); }

/// Keeps a value and its gradient readable under a name; nothing is paid where there is no probe.
///
/// Cost    the columns of x twice in the kept region, one copy of its gradient
constexpr Expr probe(const char* name, At x) {
  Expr result = apply<"probe">({}, x);
  result.node->name = name;
  result.node->observed = true;
  return result;
}

SIMPLX_HD_END
}  // namespace simplx

// ---- simplx/cpu/lane_bits.hpp

/// \file simplx/cpu/lane_bits.hpp
/// What elementary functions are made of: the bits of lanes, their signs, powers of two, polynomials, lanes in need.
///
///     float   sign 1 | exponent 8, bias 127   | fraction 23
///     double  sign 1 | exponent 11, bias 1023 | fraction 52
///
/// Whole numbers are made by adding 1.5 * 2^fraction: the sum is rounded to a whole number, whose bits are the lowest
/// of the sum. No conversion, hence nothing undefined for NaN, and the same instruction on every machine.

#if defined(__AVX2__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

/// float, double, or a vector of them.
template <class V>
concept FloatLanes = std::is_same_v<Lane<V>, float> || std::is_same_v<Lane<V>, double>;

namespace detail {

template <class V, bool single = std::is_arithmetic_v<V>>
struct BitsOf {
  using type = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
};
template <class V>
struct BitsOf<V, false> : VectorOf<typename BitsOf<Lane<V>>::type, sizeof(V)> {};

/// Unsigned words as wide as the lanes, as many.
template <class V>
using Bits = typename BitsOf<V>::type;

template <class S>
inline constexpr int fraction_bits = sizeof(S) == 4 ? 23 : 52;
template <class S>
inline constexpr int exponent_bias = sizeof(S) == 4 ? 127 : 1023;
template <class S>
inline constexpr Bits<S> sign_bit = Bits<S>(1) << (8 * sizeof(S) - 1);

/// Added to a number below 2^(fraction - 1), it rounds it to a whole one.
template <class S>
inline constexpr S rounding_shift = sizeof(S) == 4 ? S(12582912) : S(6755399441055744);

template <FloatLanes V>
__attribute__((always_inline)) inline Bits<V> bits_of(V value) {
  Bits<V> bits;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <FloatLanes V>
__attribute__((always_inline)) inline V value_of(Bits<V> bits) {
  V value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// 2^n from the rounding shift + n, for the n of normal numbers.
template <FloatLanes V>
__attribute__((always_inline)) inline V power_of_two(V shifted) {
  using S = Lane<V>;
  return value_of<V>((bits_of(shifted) + exponent_bias<S>) << fraction_bits<S>);
}

/// The sign bits of the lanes of v, all else 0.
template <FloatLanes V>
__attribute__((always_inline)) inline Bits<V> sign_of(V v) {
  return bits_of(v) & sign_bit<Lane<V>>;
}

/// v, negated in the lanes whose sign bit is set.
template <FloatLanes V>
__attribute__((always_inline)) inline V flip(V v, Bits<V> sign) {
  return value_of<V>(bits_of(v) ^ sign);
}

/// A vector as it is, a number in every lane.
template <FloatLanes V, class T>
__attribute__((always_inline)) inline V in_lanes(T t) {
  if constexpr (std::is_same_v<T, V>) {
    return t;
  } else {
    return splat<V>(static_cast<Lane<V>>(t));
  }
}

/// a b + c, rounded once where the machine has the instruction; b and c may be single numbers.
///
/// Written out, since compilers contract products and sums in one place and not in the other (g++ 12 -O3 did so in
/// vectors but not in single numbers): the elements left at the end of a row would differ in their last digit.
template <FloatLanes V, class B, class C>
__attribute__((always_inline)) inline V fma(V a, B b_or_number, C c_or_number) {
  const V b = in_lanes<V>(b_or_number), c = in_lanes<V>(c_or_number);
#if defined(__FMA__)
  if constexpr (std::is_arithmetic_v<V>) {
    return std::fma(a, b, c);
  } else {
    static_assert(sizeof(V) == vector_bytes, "fma: a full vector is wanted");
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
  }
#else
  return a * b + c;
#endif
}

/// ((highest x + next) x + ...) x + lowest, by Horner.
template <FloatLanes V, class... Coefficients>
__attribute__((always_inline)) inline V polynomial(V x, Lane<V> highest, Coefficients... next) {
  V p = splat<V>(highest);
  ((p = fma(p, x, next)), ...);
  return p;
}

/// Whether a comparison of full vectors, or of single numbers, holds in some lane.
template <class Mask>
__attribute__((always_inline)) inline bool any(Mask mask) {
  if constexpr (std::is_same_v<Mask, bool>) {
    return mask;
  } else {
    static_assert(sizeof(Mask) == vector_bytes, "any: a mask of a full vector is wanted");
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#else
    std::uint64_t word[sizeof(Mask) / 8], found = 0;
    std::memcpy(word, &mask, sizeof mask);
    for (const std::uint64_t w : word) found |= w;
    return found != 0;
#endif
  }
}

/// y, replaced by the single-number function in the lanes whose argument is beyond the limit; for rare arguments.
template <auto single, FloatLanes V>
__attribute__((noinline, cold)) V replaced_beyond(Lane<V> limit, V x, V y) {
  if constexpr (std::is_arithmetic_v<V>) {
    return std::abs(x) > limit ? single(x) : y;
  } else {
    for (unsigned i = 0; i < sizeof(V) / sizeof(Lane<V>); ++i) {
      if (std::abs(x[i]) > limit) y[i] = single(x[i]);
    }
    return y;
  }
}

}  // namespace detail

/// |x|: the sign bit cleared, of zeros and NaNs too.
template <FloatLanes V>
__attribute__((always_inline)) inline V abs(V x) {
  return detail::value_of<V>(detail::bits_of(x) & ~detail::sign_bit<Lane<V>>);
}

}  // namespace simplx

// ---- simplx/cpu/exponential.hpp

/// \file simplx/cpu/exponential.hpp
/// exp, sigmoid and tanh.
///
///     e^x     = 2^n (1 + q),   n = round(x / ln 2),   r = x - n ln 2 in two steps (Cody & Waite),   q = e^r - 1
///     sigmoid = 1 / (1 + e^-x) = {1, e^-|x|} / (1 + e^-|x|)                     for x >= 0, x < 0
///     tanh    = sign(x) (-t) / (2 + t),   t = e^(-2|x|) - 1 = 2^n q + (2^n - 1)
///
/// No branches. t keeps its relative accuracy near 0, since n is 0 there, so tanh does as well.
///
/// exp of floats clamps its argument to [-87.33, 88.37], so that results are normal numbers: exp(-1000) is 1.2e-38,
/// never 0; sigmoid(-1000) likewise. exp of doubles goes to infinity, to subnormal numbers and to 0 as std::exp does.
///
/// Source    float: the polynomial of Cephes' expf (Moshier). double: minimax on |r| <= ln(2)/2 by Remez' exchange,
///           relative error of q 1.8e-17; the two parts of ln 2 are those of Cephes

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// e^x = 2^n (1 + q); n stays in the lowest bits of the rounding shift + n.
template <class V>
struct ExpParts {
  V shifted, q;
};

template <FloatLanes V>
__attribute__((always_inline)) inline ExpParts<V> exp_parts(V x) {
  using S = Lane<V>;
  const V shifted = fma(x, S(1.44269504088896340736), rounding_shift<S>);
  const V n = shifted - rounding_shift<S>;
  if constexpr (std::is_same_v<S, float>) {
    const V r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
    const V p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                           1.6666665459e-1f, 5.0000001201e-1f);
    return {shifted, fma(p, r * r, r)};
  } else {
    const V r = fma(n, -1.42860682030941723212e-6, fma(n, -6.93145751953125e-1, x));
    const V p = polynomial(r, 2.5053818231796892e-08, 2.7626037754879266e-07, 2.7557407408065592e-06,
                           2.4801505273593661e-05, 1.9841269719149521e-04, 1.3888888931565845e-03,
                           8.3333333333894949e-03, 4.1666666666576747e-02, 1.6666666666666589e-01,
                           5.0000000000000052e-01);
    return {shifted, fma(p, r * r, r)};
  }
}

/// e^x - 1 for x of [-80, 0], with its relative accuracy near 0.
template <FloatLanes V>
__attribute__((always_inline)) inline V exp_less_one(V x) {
  const auto [shifted, q] = exp_parts(x);
  const V power = power_of_two(shifted);
  return fma(power, q, power - 1);
}

}  // namespace detail

/// e^x, lane by lane.
template <FloatLanes V>
__attribute__((always_inline)) inline V exp(V x) {
  if constexpr (std::is_same_v<Lane<V>, float>) {
    x = min(splat<V>(88.37f), max(splat<V>(-87.33f), x));  // in this order a NaN stays one
    const auto [shifted, q] = detail::exp_parts(x);
    return (q + 1) * detail::power_of_two(shifted);
  } else {
    x = min(splat<V>(710), max(splat<V>(-746), x));
    const auto [shifted, q] = detail::exp_parts(x);
    const auto n = detail::bits_of(shifted) + 2 * 1023;  // 2^n in two factors: n goes beyond what one can hold
    const auto half = n >> 1;
    return (q + 1) * detail::value_of<V>(half << 52) * detail::value_of<V>((n - half) << 52);
  }
}

/// 1 / (1 + e^-x), in [0, 1].
template <FloatLanes V>
__attribute__((always_inline)) inline V sigmoid(V x) {
  const V t = exp(-abs(x));
  return select(x < 0, t, splat<V>(1)) / (t + 1);
}

/// The hyperbolic tangent, in [-1, 1]; odd.
template <FloatLanes V>
__attribute__((always_inline)) inline V tanh(V x) {
  constexpr auto saturated = std::is_same_v<Lane<V>, float> ? 10 : 20;  // 1 - tanh is below half an ulp of 1
  const V t = detail::exp_less_one(-2 * min(splat<V>(saturated), abs(x)));
  return detail::flip(abs(t) / (t + 2), detail::sign_of(x));
}

}  // namespace simplx

// ---- simplx/cpu/erf.hpp

/// \file simplx/cpu/erf.hpp
/// The error function.
///
///     erf x = sign(x) (1 - e^-g),   g(a) = -log(1 - erf a) = a P(a),   a = |x|,   P(0) = 2 / sqrt(pi)
///
/// One formula for all x: g is smooth where the usual methods change from a series to an asymptotic one, and e^-g - 1
/// is taken with its relative accuracy near 0. The farther out, the less an error of g counts (by e^-g), so P has
/// fewer terms than g alone would ask for.
///
/// Source    P: minimax of the relative error of erf by Remez' exchange in 50 digits, 4.0e-9 on [0, 3.95] for float,
///           7.1e-17 on [0, 5.92] for double

namespace simplx::inline SIMPLX_TARGET {

/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x, in [-1, 1]; odd.
///
/// Cost    no branches, no division
template <FloatLanes V>
__attribute__((always_inline)) inline V erf(V x) {
  V a, p;  // p = P - 1
  if constexpr (std::is_same_v<Lane<V>, float>) {
    a = min(splat<V>(3.95f), abs(x));  // 1 - erf is below half an ulp of 1 from here
    p = detail::polynomial(a, -9.255061969e-06f, 1.176311759e-04f, -6.328039725e-04f, 1.666975060e-03f,
                           -1.603539603e-04f, -1.915307953e-02f, 1.027778326e-01f, 6.366193819e-01f, 1.283791716e-01f);
  } else {
    a = min(splat<V>(5.92), abs(x));
    p = detail::polynomial(
        a, 1.18001712468466358e-14, -4.75488528792667924e-13, 8.72102805158080731e-12, -9.54810403959932751e-11,
        6.81076530742772662e-10, -3.15296417883224829e-09, 7.78152551563295994e-09, 8.37504816425728522e-09,
        -1.74104564096396230e-07, 8.53737534731029213e-07, -2.42983184441773750e-06, 3.56472525735610575e-06,
        2.79582745531951284e-06, -2.93235120622576950e-05, 6.42899942280516606e-05, 2.59552158637578223e-05,
        -5.90146816741744166e-04, 1.69621053102468047e-03, -2.09195230506370520e-04, -1.91284469630416433e-02,
        1.02772603300058746e-01, 6.36619772367611580e-01, 1.28379167095512503e-01);
  }
  return detail::flip(abs(detail::exp_less_one(-detail::fma(a, p, a))), detail::sign_of(x));
}

}  // namespace simplx

// ---- simplx/cpu/logarithm.hpp

/// \file simplx/cpu/logarithm.hpp
/// log and log1p.
///
///     log x   = k ln 2 + log m,   x = 2^k m,   m in [sqrt(1/2), sqrt(2)),   f = m - 1
///     float     log m = f - f^2/2 + f^3 P(f)
///     double    log m = f - s (f - s^2 P(s^2)),   s = f / (2 + f)
///     log1p x = k ln 2 + log (1 + f),   k of 1 + x rounded,   f = x / 2^k + (1 / 2^k - 1), rounded once
///
/// log(0) is -infinity, log of a negative number NaN, log of infinity infinity. Subnormal numbers are scaled first.
///
/// Source    float: the polynomial of Cephes' logf (Moshier). double: the coefficients of fdlibm's e_log.c (Sun)

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// x = 2^k m of normal numbers, m in [sqrt(1/2), sqrt(2)).
template <class V>
struct LogParts {
  V k, m, power;  ///< power is 2^-k
};

template <FloatLanes V>
__attribute__((always_inline)) inline LogParts<V> log_parts(V x) {
  using S = Lane<V>;
  using Word = Bits<S>;
  constexpr int fraction = fraction_bits<S>;
  constexpr S two_to_fraction = S(Word(1) << fraction);
  constexpr Word fraction_mask = (Word(1) << fraction) - 1;
  constexpr Word one = Word(exponent_bias<S>) << fraction;
  constexpr Word root_half = sizeof(S) == 4 ? Word(0x3f3504f3) : Word(0x3fe6a09e667f3bcd);  // sqrt(1/2)
  const auto moved = bits_of(x) + (one - root_half);  // the exponent field now is k + bias
  // k + bias as a number: in the fraction of 2^fraction, which is subtracted together with the bias.
  const V k = value_of<V>((moved >> fraction) | bits_of(two_to_fraction)) - (two_to_fraction + exponent_bias<S>);
  return {k, value_of<V>((moved & fraction_mask) + root_half), value_of<V>(2 * one - (moved & ~fraction_mask))};
}

/// k ln 2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)).
template <FloatLanes V>
__attribute__((always_inline)) inline V log_of_parts(V k, V f) {
  using S = Lane<V>;
  if constexpr (std::is_same_v<S, float>) {
    const V p = polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                           1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f,
                           -0.5f);
    return fma(k, 0.693359375f, fma(p, f * f, fma(k, -2.12194440e-4f, f)));
  } else {
    const V s = f / (f + 2);
    const V z = s * s;
    const V p = polynomial(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                           2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                           6.666666666666735130e-01);
    const V y = fma(-s, fma(-p, z, f), fma(k, 1.90821492927058770002e-10, f));
    return fma(k, 6.93147180369123816490e-01, y);
  }
}

/// y = log x where x is positive and finite; elsewhere what the logarithm is there.
template <FloatLanes V>
__attribute__((always_inline)) inline V with_corners(V x, V y) {
  using Limits = std::numeric_limits<Lane<V>>;
  y = select(x < Limits::infinity(), y, x);  // infinity and NaN stay
  const V corner = select(x < 0, splat<V>(Limits::quiet_NaN()), splat<V>(-Limits::infinity()));
  return select(x <= 0, corner, y);
}

}  // namespace detail

/// The natural logarithm, lane by lane.
template <FloatLanes V>
__attribute__((always_inline)) inline V log(V x) {
  using S = Lane<V>;
  constexpr int raised = detail::fraction_bits<S> + 2;
  const auto subnormal = x < std::numeric_limits<S>::min();
  const auto [k, m, power] = detail::log_parts(select(subnormal, V(x * S(std::uint64_t(1) << raised)), x));
  const V own = k - select(subnormal, splat<V>(S(raised)), splat<V>(S(0)));
  return detail::with_corners(x, detail::log_of_parts(own, V(m - 1)));
}

/// log(1 + x) with its relative accuracy near 0.
template <FloatLanes V>
__attribute__((always_inline)) inline V log1p(V x) {
  using S = Lane<V>;
  const V u = x + 1;
  const auto [k, m, power] = detail::log_parts(u);
  constexpr S much = S(std::uint64_t(1) << (detail::fraction_bits<S> + 2));  // 1 + x is x, and 1 / 2^k may be no number
  const V f = select(u > much, V(m - 1), V(x * power + (power - 1)));
  const V y = detail::with_corners(u, detail::log_of_parts(k, f));
  return select(u == 1, x, y);  // also -0
}

}  // namespace simplx

// ---- simplx/cpu/power.hpp

/// \file simplx/cpu/power.hpp
/// sqrt, rsqrt and pow.
///
///     pow(x, p) = s e^(p log |x|),   s = -1 for x < 0 and odd p, else 1;   NaN for x < 0 unless p is whole
///
/// An error of p log |x| is one of the result, and that number reaches 88: pow of floats is computed in double, hence
/// right to half an ulp and a little. pow of doubles, and of floats on SSE2, goes to the standard library lane by lane.

namespace simplx::inline SIMPLX_TARGET {

/// The square root of every lane. (Compilers keep std::sqrt out of vectors, since it may set errno.)
template <FloatLanes V>
__attribute__((always_inline)) inline V sqrt(V x) {
  if constexpr (std::is_arithmetic_v<V>) {
    return std::sqrt(x);
  } else {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm256_sqrt_ps((__m256)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm_sqrt_ps((__m128)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm_sqrt_pd((__m128d)x);
#else
    for (unsigned i = 0; i < sizeof(V) / sizeof(Lane<V>); ++i) x[i] = std::sqrt(x[i]);
    return x;
#endif
  }
}

/// 1 / sqrt(x).
template <FloatLanes V>
__attribute__((always_inline)) inline V rsqrt(V x) {
  return 1 / sqrt(x);
}

namespace detail {

/// Whether doubles are whole; infinities are, and even.
template <FloatLanes V>
__attribute__((always_inline)) inline auto whole(V p) {
  constexpr double shift = rounding_shift<double>, all_whole_from = 0x1p51;
  const V size = abs(p);
  return (size >= all_whole_from) | ((size + shift) - shift == size);
}

/// x^p in double; its last digits are lost.
template <FloatLanes V>
__attribute__((always_inline)) inline V pow_by_log(V x, V p) {
  using Limits = std::numeric_limits<double>;
  const V size = abs(x);
  V y = exp(p * log(size));
  y = select((size == 1) | (p == 0), splat<V>(1), y);  // also where p log |x| is 0 times infinity
  y = select(whole(V(p * 0.5)), y, flip(y, sign_of(x)));  // a whole half: p is even
  const auto even_or_odd = whole(p);
  y = select(even_or_odd, y, abs(y));
  y = select((x < 0) & (x > -Limits::infinity()), select(even_or_odd, y, splat<V>(Limits::quiet_NaN())), y);
  return select((x == x) & (p == p), y, V(x + p));
}

}  // namespace detail

/// x^p, lane by lane, as std::pow: of negative numbers for whole p only. A NaN in x or p is one in the result, also
/// where std::pow says 1.
///
/// Cost    float: a logarithm and an exponential of doubles; double, and float on SSE2: std::pow for every lane
template <FloatLanes V>
__attribute__((always_inline)) inline V pow(V x, V p) {
  using S = Lane<V>;
  constexpr bool by_log = std::is_same_v<S, float> && vector_bytes > 16;  // two doubles at a time do not pay
  if constexpr (std::is_arithmetic_v<V>) {
    if constexpr (by_log) return static_cast<float>(detail::pow_by_log<double>(x, p));
    return x == x && p == p ? std::pow(x, p) : x + p;
  } else if constexpr (by_log) {
    using Half = typename detail::VectorOf<float, sizeof(V) / 2>::type;
    using Wide = typename detail::VectorOf<double, sizeof(V)>::type;
    Half base[2], exponent[2];
    std::memcpy(base, &x, sizeof x);
    std::memcpy(exponent, &p, sizeof p);
    for (int i = 0; i < 2; ++i) {
      base[i] = __builtin_convertvector(
          detail::pow_by_log(__builtin_convertvector(base[i], Wide), __builtin_convertvector(exponent[i], Wide)), Half);
    }
    std::memcpy(&x, base, sizeof x);
    return x;
  } else {
    for (unsigned i = 0; i < sizeof(V) / sizeof(S); ++i) x[i] = pow(static_cast<S>(x[i]), static_cast<S>(p[i]));
    return x;
  }
}

/// The same exponent for all lanes.
template <FloatLanes V>
  requires(!std::is_arithmetic_v<V>)
__attribute__((always_inline)) inline V pow(V x, Lane<V> p) {
  return pow(x, splat<V>(p));
}

}  // namespace simplx

// ---- simplx/cpu/trigonometry.hpp

/// \file simplx/cpu/trigonometry.hpp
/// sin and cos.
///
///     |x| = n pi/2 + r + tail,   n = round(|x| 2/pi),   |r| <= pi/4                             (Cody & Waite)
///     sin |x| = sin r, cos r, -sin r, -cos r   for n mod 4 = 0, 1, 2, 3;   cos |x| one quarter on
///
/// pi/2 is taken in three parts; the first two are short enough that their products with n < 2^13 are exact. Beyond
/// |x| = 12800, and for infinities, lanes go one by one to the standard library: rare, slow, and right. floats are
/// right to 1e-7 of the largest value, 1; doubles to their last digits also beside the zeros of sin and cos, which
/// is what the tail is for.
///
/// Source    float: the polynomials of Cephes' sinf and cosf (Moshier). double: those of fdlibm's k_sin.c and
///           k_cos.c (Sun)

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

inline constexpr int reduction_limit = 12800;

/// n quarter turns and r + tail more; the lowest bits of `quarters` are n.
template <class V>
struct Angle {
  V r, tail;
  Bits<V> quarters;
};

/// Of 0 <= x <= reduction_limit.
template <FloatLanes V>
__attribute__((always_inline)) inline Angle<V> reduced(V x) {
  using S = Lane<V>;
  const V shifted = fma(x, S(0.63661977236758134308), rounding_shift<S>);
  const V n = shifted - rounding_shift<S>;
  if constexpr (std::is_same_v<S, float>) {
    const V r = fma(n, -7.54978995489188e-8f, fma(n, -4.837512969970703125e-4f, fma(n, -1.5703125f, x)));
    return {r, V{}, bits_of(shifted)};
  } else {
    const V first = x - n * 0x1.921fb54442p+0;  // exact
    const V second = n * 0x1.a308d31318p-41;    // exact; the difference is not, so that its error is kept
    const V difference = first - second;
    const V rest = fma(n, -6.3683171635109501e-25, (first - difference) - second);
    const V r = difference + rest;
    return {r, (difference - r) + rest, bits_of(shifted)};
  }
}

template <FloatLanes V>
__attribute__((always_inline)) inline V sin_of(const Angle<V>& angle) {
  const V r = angle.r, z = r * r;
  if constexpr (std::is_same_v<Lane<V>, float>) {
    return fma(polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f), z * r, r);
  } else {
    const V p = polynomial(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
                           -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
    return r + fma(p, z * r, angle.tail);  // tail cos r would be a sixth of an ulp better at worst
  }
}

template <FloatLanes V>
__attribute__((always_inline)) inline V cos_of(const Angle<V>& angle) {
  const V r = angle.r, z = r * r;
  if constexpr (std::is_same_v<Lane<V>, float>) {
    return polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f, -0.5f, 1.0f);
  } else {
    const V p = polynomial(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
                           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02);
    const V half = 0.5 * z, rounded = 1 - half;
    const V small = (1 - rounded) - half;  // what rounding took from 1 - half
    return rounded + fma(z, z * p, fma(-r, angle.tail, small));
  }
}

/// The sine of |x| + more quarter turns.
template <FloatLanes V>
__attribute__((always_inline)) inline V sin_of_quarters(V x, unsigned more) {
  using S = Lane<V>;
  const Angle<V> angle = reduced(abs(x));
  const Bits<V> quarters = angle.quarters + more;
  const V y = select((quarters & 1) != 0, cos_of(angle), sin_of(angle));
  return flip(y, (quarters << (8 * sizeof(S) - 2)) & sign_bit<S>);
}

}  // namespace detail

/// The sine, lane by lane; odd.
///
/// Cost    both polynomials and a choice; lanes beyond |x| = 12800 one by one through std::sin
template <FloatLanes V>
__attribute__((always_inline)) inline V sin(V x) {
  using S = Lane<V>;
  const V y = detail::flip(detail::sin_of_quarters(x, 0), detail::sign_of(x));
  constexpr auto single = [](S number) { return std::sin(number); };
  if (detail::any(abs(x) > detail::reduction_limit)) {
    return detail::replaced_beyond<single>(detail::reduction_limit, x, y);
  }
  return y;
}

/// The cosine, lane by lane; even.
///
/// Cost    as sin
template <FloatLanes V>
__attribute__((always_inline)) inline V cos(V x) {
  using S = Lane<V>;
  const V y = detail::sin_of_quarters(x, 1);
  constexpr auto single = [](S number) { return std::cos(number); };
  if (detail::any(abs(x) > detail::reduction_limit)) {
    return detail::replaced_beyond<single>(detail::reduction_limit, x, y);
  }
  return y;
}

}  // namespace simplx

// ---- simplx/cpu/math.hpp

/// \file simplx/cpu/math.hpp
/// Elementary functions of floats, doubles and vectors of them, all from one include.
///
///                             largest error     float, relative    double, ulps
///     exp                     exponential.hpp        9e-8             1.1
///     sigmoid                                        1.7e-7           2.3
///     tanh                                           1.7e-7           2.6
///     log                     logarithm.hpp          8.1e-8           1.3
///     log1p                                          1.4e-7           1.7
///     sin, cos                trigonometry.hpp       8e-8 of 1        0.9
///     erf                     erf.hpp                1.4e-7           2.4
///     sqrt, rsqrt             power.hpp              6e-8, 9e-8       0.5, 1.5
///     pow                                            6e-8             0.6
///     abs                     lane_bits.hpp          exact            exact
///
/// Measured against long double, at a million arguments, with and without FMA; the tests hold these bounds. NaN gives
/// NaN, so that a broken loss is seen. A lane of a vector and a single number give the same bits, whatever the
/// compiler, its optimisation and the width of vectors; with and without FMA they differ in the last digits.

// ---- simplx/ops/functions.hpp

/// \file simplx/ops/functions.hpp
/// Elementary functions, element by element:
///
///     relu exp log log1p sin cos tanh sigmoid softplus erf sqrt rsqrt square pow abs max min clamp a > b select
///
/// Where a function has a kink the derivative is 0 (relu, abs) or shared (max and min of equal numbers: one half each).

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

template <>
struct op<"relu"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto a) {
    if constexpr (requires { a.tangent; }) {
      return a > decltype(a){} ? a : decltype(a)(f(a.value));  // where max of a dual number would share a kink
    } else {
      return max(decltype(a){}, a);  // in this order NaN stays NaN
    }
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) {
    return select(y > decltype(y){}, g, decltype(g){});
  }
};

template <>
struct op<"exp"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return exp(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * y; }
};

template <>
struct op<"log"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return log(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g / x; }
};

template <>
struct op<"log1p"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return log1p(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g / (literal<decltype(x)>(1) + x); }
};

template <>
struct op<"sin"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sin(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g * cos(x); }
};

template <>
struct op<"cos"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return cos(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return -g * sin(x); }
};

template <>
struct op<"tanh"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return tanh(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * (literal<decltype(y)>(1) - y * y); }
};

template <>
struct op<"sigmoid"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sigmoid(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * y * (literal<decltype(y)>(1) - y); }
};

template <>
struct op<"softplus"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) {
    if constexpr (requires { x.tangent; }) {
      return decltype(x)(f(x.value), sigmoid(x.value) * x.tangent);  // max and abs have a kink, their sum has none
    } else {
      return max(literal<decltype(x)>(0), x) + log1p(exp(-abs(x)));
    }
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g * sigmoid(x); }
};

template <>
struct op<"erf"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return erf(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    return g * literal<decltype(x)>(1.1283791670955126) * exp(-(x * x));  // 2 / sqrt(pi)
  }
};

template <>
struct op<"sqrt"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sqrt(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return literal<decltype(y)>(0.5) * g / y; }
};

template <>
struct op<"rsqrt"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return literal<decltype(x)>(1) / sqrt(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return literal<decltype(y)>(-0.5) * g * y * y * y; }
};

template <>
struct op<"square"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return x * x; }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return literal<decltype(x)>(2) * g * x; }
};

template <>
struct op<"abs"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return abs(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    const auto zero = literal<decltype(x)>(0);
    return select(x > zero, g, select(zero > x, -g, zero));
  }
};

template <>
struct op<"pow"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto p) { return pow(x, p); }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto x, auto p) {
    const auto zero = literal<decltype(x)>(0), one = literal<decltype(x)>(1);
    if constexpr (i == 0) {
      const auto unless_zero = select(x > zero, x, select(zero > x, x, one));
      const auto base = select(p > zero, x, select(zero > p, x, unless_zero));  // x^0 does not depend on x, not at 0
      return g * p * pow(base, p - one);
    } else {
      return select(x > zero, g * y * log(x), zero);  // 0^p does not depend on p > 0
    }
  }
};

/// Of the larger (or smaller) of two operands; NaN if either is, where max(a, b) of vectors would be b.
template <bool larger>
struct extreme_op : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto a, auto b) {
    const auto extreme = [&] {
      if constexpr (larger) {
        return max(a, b);
      } else {
        return min(a, b);
      }
    }();
    if constexpr (requires { a == a; }) {
      return select(a == a, extreme, a);
    } else {
      return extreme;
    }
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto a, auto b) {
    const auto zero = literal<decltype(g)>(0), half = literal<decltype(g)>(0.5) * g;
    if constexpr (larger == (i == 0)) {
      return select(a > b, g, select(b > a, zero, half));
    } else {
      return select(b > a, g, select(a > b, zero, half));
    }
  }
};
template <>
struct op<"max"> : extreme_op<true> {};
template <>
struct op<"min"> : extreme_op<false> {};

template <>
struct op<"clamp"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto low, auto high) {
    const auto raised = select(low > x, low, x);
    return select(raised > high, high, raised);
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x, auto low, auto high) {
    const auto zero = literal<decltype(g)>(0);
    if constexpr (i == 0) {
      return select(x > high, zero, select(low > x, zero, g));
    } else if constexpr (i == 1) {
      return select(low > x, select(low > high, zero, g), zero);
    } else {
      return select(x > high, g, select(low > high, g, zero));
    }
  }
};

template <>
struct op<"greater"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a, auto b) {
    return select(a > b, literal<decltype(a)>(1), literal<decltype(a)>(0));
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) { return literal<decltype(g)>(0); }
};

template <>
struct op<"select"> : elementwise {
  static constexpr bool reads(int, int operand) { return operand == 0; }
  SIMPLX_HD static constexpr auto f(auto condition, auto yes, auto no) {
    return select(condition > literal<decltype(condition)>(0), yes, no);
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto condition, auto, auto) {
    const auto zero = literal<decltype(g)>(0);
    if constexpr (i == 0) {
      return zero;
    } else if constexpr (i == 1) {
      return select(condition > zero, g, zero);
    } else {
      return select(condition > zero, zero, g);
    }
  }
};

// The same functions of terms, which rules call.
constexpr Term exp(const Term& x) { return Term(apply<"exp">({}, x.operand())); }
constexpr Term log(const Term& x) { return Term(apply<"log">({}, x.operand())); }
constexpr Term log1p(const Term& x) { return Term(apply<"log1p">({}, x.operand())); }
constexpr Term sin(const Term& x) { return Term(apply<"sin">({}, x.operand())); }
constexpr Term cos(const Term& x) { return Term(apply<"cos">({}, x.operand())); }
constexpr Term tanh(const Term& x) { return Term(apply<"tanh">({}, x.operand())); }
constexpr Term sigmoid(const Term& x) { return Term(apply<"sigmoid">({}, x.operand())); }
constexpr Term erf(const Term& x) { return Term(apply<"erf">({}, x.operand())); }
constexpr Term sqrt(const Term& x) { return Term(apply<"sqrt">({}, x.operand())); }
constexpr Term abs(const Term& x) { return Term(apply<"abs">({}, x.operand())); }
constexpr Term max(const Term& a, const Term& b) { return Term(apply<"max">({}, a.operand(), b.operand())); }
constexpr Term min(const Term& a, const Term& b) { return Term(apply<"min">({}, a.operand(), b.operand())); }
constexpr Term pow(const Term& x, const Term& p) { return Term(apply<"pow">({}, x.operand(), p.operand())); }
constexpr Term operator>(const Term& a, const Term& b) {
  return Term(apply<"greater">({}, a.operand(), b.operand()));
}
constexpr Term select(const Term& condition, const Term& yes, const Term& no) {
  return Term(apply<"select">({}, condition.operand(), yes.operand(), no.operand()));
}

/// max(x, 0).
constexpr Expr relu(At x) { return apply<"relu">({}, x); }
constexpr Expr exp(At x) { return apply<"exp">({}, x); }
/// The natural logarithm.
constexpr Expr log(At x) { return apply<"log">({}, x); }
/// log(1 + x), accurate near 0.
constexpr Expr log1p(At x) { return apply<"log1p">({}, x); }
constexpr Expr sin(At x) { return apply<"sin">({}, x); }
constexpr Expr cos(At x) { return apply<"cos">({}, x); }
constexpr Expr tanh(At x) { return apply<"tanh">({}, x); }
/// 1 / (1 + exp(-x)).
constexpr Expr sigmoid(At x) { return apply<"sigmoid">({}, x); }
/// log(1 + exp(x)).
constexpr Expr softplus(At x) { return apply<"softplus">({}, x); }
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
constexpr Expr erf(At x) { return apply<"erf">({}, x); }
constexpr Expr sqrt(At x) { return apply<"sqrt">({}, x); }
/// 1 / sqrt(x).
constexpr Expr rsqrt(At x) { return apply<"rsqrt">({}, x); }
constexpr Expr square(At x) { return apply<"square">({}, x); }
/// x^p for x > 0, or any x if p is a whole number; the derivative with respect to p is for x >= 0.
constexpr Expr pow(At x, At p) { return apply<"pow">({}, x, p); }
constexpr Expr abs(At x) { return apply<"abs">({}, x); }
/// The larger of both (min: the smaller), NaN if either is; of equal numbers each has half the gradient.
///
/// Shapes  as a + b
/// Errors  as a + b
constexpr Expr max(At a, At b) { return apply<"max">({}, a, b); }
constexpr Expr min(At a, At b) { return apply<"min">({}, a, b); }
/// x limited to [low, high]; high where they are the wrong way round.
constexpr Expr clamp(At x, At low, At high) { return apply<"clamp">({}, x, low, high); }
/// 1 where a > b, 0 elsewhere; no gradient flows through.
constexpr Expr operator>(At a, At b) { return apply<"greater">({}, a, b); }
constexpr Expr operator<(At a, At b) { return apply<"greater">({}, b, a); }
/// `yes` where the condition is positive, `no` elsewhere: select(x > 1.0, x, square(x)).
///
/// Shapes  as a + b, of three operands
/// Errors  as a + b
constexpr Expr select(At condition, At yes, At no) { return apply<"select">({}, condition, yes, no); }

SIMPLX_HD_END
}  // namespace simplx

// ---- simplx/cpu/part.hpp

/// \file simplx/cpu/part.hpp
/// The end of a row that is no whole vector: computed as one more vector, of which only the first lanes are read from
/// memory and written to it. A loop over a row calls its body for V = Vec<S>, and once for V = Part<S, count>; the body
/// says load<V>, store<V> and splat<V>, and computes with what they give, a Register<V>.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET {
namespace cpu {

/// The first `count` lanes of a vector, some but not all.
template <class S, int count>
struct Part {};

template <class V>
struct RegisterOf {
  static constexpr bool is_part = false;
  using type = V;
};
template <class S, int count>
struct RegisterOf<Part<S, count>> {
  static constexpr bool is_part = true;
  static constexpr int lanes_that_count = count;
  using type = Vec<S>;
  using Mask = Vec<std::conditional_t<sizeof(S) == 4, std::int32_t, std::int64_t>>;
  /// All bits of the lanes that count.
  static constexpr Mask mask = []<int... lane>(std::integer_sequence<int, lane...>) {
    return Mask{(lane < count ? -1 : 0)...};
  }(std::make_integer_sequence<int, lanes<S>>{});

  __attribute__((always_inline)) static type load(const S* place) {
#if defined(__AVX512F__)
    if constexpr (sizeof(S) == 4) return (type)_mm512_maskz_loadu_ps((1 << count) - 1, place);
    if constexpr (sizeof(S) == 8) return (type)_mm512_maskz_loadu_pd((1 << count) - 1, place);
#elif defined(__AVX2__)
    if constexpr (sizeof(S) == 4) return (type)_mm256_maskload_ps(place, (__m256i)mask);
    if constexpr (sizeof(S) == 8) return (type)_mm256_maskload_pd(place, (__m256i)mask);
#else
    type value{};
    std::memcpy(&value, place, count * sizeof(S));
    return value;
#endif
  }
};

/// Writes the first lanes of a vector. Half by half, since of a masked store a processor takes all lanes for written:
/// what reads behind it, as the next row does, would have to wait. (Some take ten times as long for those of AVX2.)
template <int count, class S, class V>
__attribute__((always_inline)) inline void store_first(S* place, V value) {
  constexpr int all = sizeof(V) / sizeof(S);
  if constexpr (count == all) {
    store(place, value);
  } else if constexpr (all <= 4) {
    for (int i = 0; i < count; ++i) place[i] = value[i];
  } else {
    const detail::Halves halves(value);
    constexpr int half = all / 2;
    store_first<count < half ? count : half>(place, halves.lower);
    if constexpr (count > half) store_first<count - half>(place + half, halves.upper);
  }
}

/// What a V is computed with: itself, or the whole vector of a part.
template <class V>
using Register = typename RegisterOf<V>::type;

template <class V>
concept PartOfVector = RegisterOf<V>::is_part;

}  // namespace cpu

/// The lanes of a part, and zeros.
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline Vec<S> load(const S* place) {
  return cpu::RegisterOf<V>::load(place);
}
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline void store(S* place, Vec<S> value) {
  cpu::store_first<cpu::RegisterOf<V>::lanes_that_count>(place, value);
}
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline cpu::Register<V> splat(S number) {
  return splat<cpu::Register<V>>(number);
}

namespace cpu {

/// The value in the lanes of V, `other` in those beyond a part.
template <class V>
__attribute__((always_inline)) inline Register<V> counted(Register<V> value, Register<V> other) {
  if constexpr (PartOfVector<V>) {
    return select(RegisterOf<V>::mask, value, other);
  } else {
    return value;
  }
}
/// The value in the lanes of V, zeros in those beyond a part, which then do not count in a sum.
template <class V>
__attribute__((always_inline)) inline Register<V> counted(Register<V> value) {
  return counted<V>(value, Register<V>{});
}

}  // namespace cpu
}  // namespace simplx

// ---- simplx/cpu/elements.hpp

/// \file simplx/cpu/elements.hpp
/// Loops over the elements of a shape, and of one row of it, by vectors.

namespace simplx::inline SIMPLX_TARGET {

/// Writes a gradient as its mode says: over what is there, added to it, or not at all. V is a vector, or S: one number,
/// which compilers see as one, to make vectors of it themselves.
template <Write mode, class V, class S>
__attribute__((always_inline)) inline void put(S* place, cpu::Register<V> value) {
  if constexpr (std::is_same_v<V, S>) {
    if constexpr (mode == Write::store) *place = value;
    if constexpr (mode == Write::accumulate) *place += value;
  } else {
    if constexpr (mode == Write::store) store<V>(place, value);
    if constexpr (mode == Write::accumulate) store<V>(place, load<V>(place) + value);
  }
}

namespace cpu {

/// Whether the last `count` numbers of a row are taken as a part of a vector; few are faster one by one.
template <class S, Index count>
inline constexpr bool takes_part = lanes<S> >= 8 && count >= 3;

/// Calls f<V>(col) for the `count` numbers from `col` on with which a row ends: for a part of a vector, or for each.
template <class S, Index count, class F>
__attribute__((always_inline)) inline void each_left(Index col, F&& f) {
  if constexpr (takes_part<S, count>) {
    f.template operator()<Part<S, count>>(col);
  } else {
    for (Index i = 0; i < count; ++i) f.template operator()<S>(col + i);
  }
}

/// Calls f<V>(row, col) over a whole shape: for vectors first, then for what is left at the end of each row, or at the
/// end of all rows where they need not be told apart.
template <class S, Index cols, bool flat, class F>
__attribute__((always_inline)) inline void each_element(Index rows, F&& f) {
  constexpr Index whole = cols / lanes<S> * lanes<S>;
  if constexpr (flat) {
    const Index size = rows * cols, end = size / lanes<S> * lanes<S>;
    for (Index i = 0; i < end; i += lanes<S>) f.template operator()<Vec<S>>(0, i);
    if constexpr (whole < cols) {
      for (Index i = end; i < size; ++i) f.template operator()<S>(0, i);
    }
  } else {
    for (Index row = 0; row < rows; ++row) {
      for (Index col = 0; col < whole; col += lanes<S>) f.template operator()<Vec<S>>(row, col);
      if constexpr (whole < cols) {
        each_left<S, cols - whole>(whole, [&]<class V>(Index col) __attribute__((always_inline)) {
          f.template operator()<V>(row, col);
        });
      }
    }
  }
}

/// Calls f<V>(col) over a row.
template <class S, Index cols, class F>
__attribute__((always_inline)) inline void each_column(F&& f) {
  each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
    f.template operator()<V>(col);
  });
}

/// Sums f<V>(col) over a row.
template <class S, Index cols, class F>
__attribute__((always_inline)) inline S sum_columns(F&& f) {
  Vec<S> vectors{};
  S singles = 0;
  each_column<S, cols>([&]<class V>(Index col) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<V, S>) {
      singles += f.template operator()<V>(col);
    } else {
      vectors += counted<V>(f.template operator()<V>(col));
    }
  });
  return sum(vectors) + singles;
}

/// A number for each column of a row, in registers where they are few.
template <class S, Index cols>
class ColumnValues {
 public:
  explicit ColumnValues(S value) {
    for (Vec<S>& v : vectors_) v = splat<Vec<S>>(value);
    for (S& single : singles_) single = value;
  }
  /// Calls f<V>(col, numbers from col on) over the row.
  template <class F>
  __attribute__((always_inline)) void each(F&& f) {
    each_column<S, cols>([&]<class V>(Index col) __attribute__((always_inline)) {
      if constexpr (std::is_same_v<V, Vec<S>> || PartOfVector<V>) {
        f.template operator()<V>(col, vectors_[col / lanes<S>]);
      } else {
        f.template operator()<V>(col, singles_[col - whole]);
      }
    });
  }

 private:
  static constexpr Index whole = cols / lanes<S> * lanes<S>;
  Vec<S> vectors_[whole / lanes<S> + 1];  // the last one for a part
  S singles_[lanes<S>];
};

}  // namespace cpu
}  // namespace simplx

// ---- simplx/core/layers.hpp

/// \file simplx/core/layers.hpp
/// Evaluating a model, the layers of its stacks and the parts of its functions; what stacks are made with, and what is
/// wrong with their blocks.

namespace simplx::inline SIMPLX_TARGET::detail {

/// Wraps a result: a copy that fusion turns into "the last op writes there".
constexpr Node* output_of(Node* value, const char* name) {
  if (value->kind == Kind::error) return value;
  Node* node = new_node();
  node->kind = Kind::map;
  node->op = "output";
  node->name = name;
  node->shape = value->shape;
  node->where = value->where;
  node->result = true;
  node->passes = 1;
  use(node, value);
  return node;
}

constexpr void add_output(Node* root, Node* value, const char* name) {
  Node* output = output_of(value, name);
  if (output->kind == Kind::error && root->kind != Kind::error) {
    root->kind = Kind::error;
    root->rule = output->rule;
    root->left = output->left;
    root->right = output->right;
    root->where = output->where;
  }
  use(root, output);
}

/// A model's expressions, alive until the end of this object.
struct Evaluated {
  Node* root;  ///< Kind::outputs, or Kind::error
  constexpr ~Evaluated() { release(root); }
};

/// The rule of a model about which something was said already: nothing more is.
inline constexpr Tag said_already{"said already"};

template <class Model>
constexpr Evaluated evaluate(const Model& model) {
  Node* root = new_node();
  root->kind = Kind::outputs;
  constexpr bool called = requires { model(); };
  static_assert(called, "simplx: a model is called without arguments: what it depends on are members of it, or "
                        "captured (behind an error within the model this one says nothing new)");
  if constexpr (called) {
    using Result = decltype(model());
    static_assert(!std::is_void_v<Result>, "simplx: a model returns an Expr, or an aggregate of up to four of them; "
                                           "this one returns nothing: write `return` before its result");
    if constexpr (!std::is_void_v<Result>) {
      constexpr bool known = Results<Result>;
      static_assert(known, "simplx: a model returns an Expr, or an aggregate of up to four of them");
      if constexpr (known) {
        each_result(model(), [&](Expr value, const char* name) { add_output(root, value.node, name); });
      }
    }
  }
  return {root->argument_count > 0 ? root : broken(root, said_already, 0, 0)};
}

/// What a stack is made with.
struct StackSettings {
  int layers = 1;
  bool recomputed = false;  ///< a module that is evaluated again in backward: its name is the scope of what it made
  bool shared = false;      ///< its layers share one set of parameters and constants, whose names bear no number

  constexpr int sets() const { return shared ? 1 : layers; }
};
constexpr Attributes attributes_of(const StackSettings& stack) {
  return {.integers = {stack.layers, stack.recomputed, stack.shared}};
}
constexpr StackSettings stack_settings(Attributes stack) {
  return {static_cast<int>(stack.integers[0]), stack.integers[1] != 0, stack.integers[2] != 0};
}
constexpr bool is_recomputed(const Node& node) { return node.block && stack_settings(node.attributes).recomputed; }
constexpr bool is_shared(const Node& node) { return node.block && stack_settings(node.attributes).shared; }

/// The carry of a stack's block: the value that goes from layer to layer.
constexpr Node* new_carry(Shape shape, Where where) {
  Node* carry = leaf(Kind::input, shape, where);
  carry->name = "carry";
  carry->wanted = carry->carry = true;
  return carry;
}

/// The expressions of one layer of a stack, until they are freed.
struct LayerNodes {
  Node* root = nullptr;
  Node* carry = nullptr;

  constexpr void free() const {
    // carry may be unconnected to the root when the block ignores it
    Node* hub = new_node();
    use(hub, root);
    use(hub, carry);
    release(hub);
  }
};

constexpr LayerNodes make_layer(const Node* stack, int layer) {
  Node* carry = new_carry(stack->shape, stack->where);
  Node* root = new_node();
  root->kind = Kind::outputs;
  Node* value = stack->block->make(stack->block, layer, carry);
  if (value->kind != Kind::error && !(value->shape == stack->shape)) {
    Node* wrong = new_node();
    wrong->where = stack->where;
    use(wrong, value);
    value = broken(wrong, "block width", value->shape.cols, stack->shape.cols);
  }
  if (stack->frozen) {
    each_made(Expr{value}, freeze, Expr{carry});
  }
  add_output(root, value, "output");
  return {root, carry};
}

/// A rule that an evaluation breaks by itself, and the line where; of a stack's block, where the stack is.
struct BlockFault {
  Tag rule{};
  Index line = 0;
  Where stack{};
};

/// The mark of nodes that are older than what is inspected.
inline constexpr int outside = 0;

/// What is wrong with what was evaluated twice: `forbidden` names the rule that a node of it breaks, if any, and the
/// two evaluations share no node.
template <class Forbidden>
constexpr BlockFault fault_of(Node* first, Node* second, Forbidden forbidden) {
  BlockFault fault;
  const auto complain = [&](Tag rule, const Node& node) {
    if (fault.rule.empty()) fault = {rule, node.where.line};
  };
  int number = 0;
  postorder(first, [&](Node* node) {
    node->index = ++number;
    if (const Tag rule = forbidden(*node); !rule.empty()) complain(rule, *node);
  });
  // A node of the second evaluation that is already marked was not made by it.
  if (second->index != unvisited) complain("captured", *second);
  constexpr int of_second = 1'000'000;  // numbers that no node of the first has
  int fresh = 0;
  postorder(second, [&](Node* node) {
    node->index = of_second + ++fresh;
    for (int i = 0; i < node->argument_count; ++i) {
      if (node->arguments[i]->index < of_second) complain("captured", *node->arguments[i]);
    }
  });
  for (Node* made : {second, first}) {
    if (made->index > outside) clear_marks(made, outside);
  }
  return fault;
}

constexpr BlockFault fault_of_block(Node* stack);

/// What is wrong with the block of a stack among the nodes of root, or with one inside of such a block. All are
/// looked at: what a block captures, and nothing else uses, is connected, so that it is freed, when the block is made.
constexpr BlockFault fault_of_blocks(Node* root) {
  Node* stacks = nullptr;
  postorder(root, [&](Node* node) {
    node->index = outside;
    if (node->block) node->link = stacks, stacks = node;
  });
  BlockFault fault;
  for (; stacks; stacks = stacks->link) {
    const BlockFault found = fault_of_block(stacks);
    if (fault.rule.empty()) fault = found;
  }
  clear_marks(root);
  return fault;
}

constexpr BlockFault fault_of_block(Node* stack) {
  const auto forbidden = [forgets = is_recomputed(*stack)](const Node& node) -> Tag {
    if ((node.kind == Kind::input || node.kind == Kind::indices) && !node.carry) return "input in a block";
    return forgets && node.observed ? Tag("probe in recompute") : Tag();
  };
  Node* values[2];
  Node* hub = new_node();
  for (Node*& value : values) {
    Node* carry = new_carry(stack->shape, stack->where);
    value = stack->block->make(stack->block, 0, carry);
    use(hub, carry), use(hub, value);
  }
  BlockFault fault = fault_of(values[0], values[1], forbidden);
  fault.stack = stack->where;
  if (fault.rule.empty()) {
    fault = fault_of_blocks(values[0]);
    if (!fault.rule.empty()) fault_of_blocks(values[1]);
  }
  if (fault.rule.empty()) {
    release(hub);
  } else {
    use(stack, hub);  // what was made outside cannot be told from what the rest of the model uses
  }
  return fault;
}

/// One layer, alive until the end of this object.
struct Layer : LayerNodes {
  constexpr ~Layer() { free(); }
};
constexpr Layer layer_of(const Node* stack, int layer) { return {make_layer(stack, layer)}; }

/// A part of a function with its own pull-back, on inputs of its own; alive until the end of this object.
struct RulePart {
  Node* root;
  Node* hub;
  constexpr ~RulePart() { release(hub); }
};

/// What the operands of a function with its own pull-back are called in its graphs.
inline constexpr const char* operand_names[max_arguments] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};

constexpr RulePart rule_part(const Node* node, int part) {
  Node* inputs[max_arguments + 2]{};
  Node* results[max_arguments]{};
  const int operands = node->argument_count, first = part == 0 ? 0 : 2;
  const auto give = [&](int i, const Shape& shape, const char* name) {
    inputs[i] = leaf(Kind::input, shape, node->where);
    inputs[i]->name = name;
    inputs[i]->wanted = false;
  };
  if (part == 1) give(0, node->shape, "gradient"), give(1, node->shape, "result");
  for (int i = 0; i < operands; ++i) give(first + i, node->arguments[i]->shape, operand_names[i]);
  node->rules->make(node->rules, part, inputs, results);
  int given = 0;
  while (given < max_arguments && results[given]) ++given;
  if (part == 1 && given != operands) {
    Node* wrong = new_node();
    wrong->where = node->where;
    for (int i = 0; i < given; ++i) use(wrong, results[i]);
    for (int i = 0; i < operands; ++i) results[i] = wrong;
    broken(wrong, "pull-back count", given, operands);
  }
  Node* root = new_node();
  root->kind = Kind::outputs;
  for (int i = 0; i < (part == 0 ? 1 : operands); ++i) {
    const Shape& expected = part == 0 ? node->shape : node->arguments[i]->shape;
    if (results[i]->kind != Kind::error && !(results[i]->shape == expected)) {
      Node* wrong = new_node();
      wrong->where = node->where;
      use(wrong, results[i]);
      results[i] = broken(wrong, "pull-back shape", results[i]->shape.columns(), expected.columns());
    }
    add_output(root, results[i], part == 0 ? "result" : operand_names[i]);
  }
  Node* hub = new_node();
  use(hub, root);
  Node* last = hub;  // inputs that a part ignores are freed with the rest
  for (int i = 0; i < first + operands; ++i) {
    if (last->argument_count == max_arguments) {
      Node* more = new_node();
      use(more, last);
      last = more;
    }
    use(last, inputs[i]);
  }
  return {root, hub};
}

}  // namespace simplx::detail

// ---- simplx/core/info.hpp

/// \file simplx/core/info.hpp
/// The numbered graph: what remains of a model once the compiler has evaluated it.
///
/// Node i of a graph of N nodes only refers to nodes below i; node N - 1 is the root, whose arguments are the
/// outputs. `Info` is what the planner reads (fuse.hpp, plan.hpp), `Label` what kernels and people read.

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

// ---- simplx/core/context.hpp

/// \file simplx/core/context.hpp
/// What a kernel is handed at run time: a handful of pointers and counts, trivially copyable, by value.

namespace simplx::inline SIMPLX_TARGET {

/// The label that carries no loss.
inline constexpr std::int32_t ignored_label = -100;

/// From what dropout draws: masks depend on nothing else, so that threads, micro-batches and recomputation agree.
struct Randomness {
  bool training = false;      ///< otherwise nothing is dropped
  std::uint64_t key = 0;      ///< of the seed and the step
  std::uint64_t scope = 0;    ///< of the names of the stacks and layers around (detail::extended)
  Index first_sequence = 0;   ///< number of the first sequence (or row) among those of the whole step
};

/// By which kernels a CPU computes.
///
/// fast: vector kernels for static shapes, Eigen for products of computed values whose width is no multiple of the
/// vector; products of floats with parameters are the matrix unit's where there is one (cpu/gemm_pieces.hpp).
/// vectors: as fast, without a matrix unit.
/// reference: products, attention and the values of norms and cross-entropy by Eigen, for every width; what tests
/// compare with.
/// bfloat16: as fast, but products with parameters round both operands to bfloat16 and add up in float. Parameters,
/// gradients, moments and everything else stay float, as do products whose widths are no multiple of a vector. Faster
/// where the CPU multiplies pairs (AVX-512 BF16 of AMD, AMX of Intel).
enum class Path : int { fast, reference, bfloat16, vectors };

class Gpu;   // cuda/gpu.cuh
namespace detail {
class Turn;  // core/turn.hpp
}

/// Memory of one evaluation. Offsets are constants of the graph: address = base[axis] + columns * stride[axis].
template <class S>
struct Context {
  const S* parameters = nullptr;
  const S* packed = nullptr;     ///< what kernels prepared from the parameters for forward
  const S* turned = nullptr;     ///< and for backward: as much, in the same places
  const S* constants = nullptr;
  S* gradients = nullptr;        ///< of the parameters; backward adds to them
  S* further_gradients = nullptr;  ///< what further uses of a parameter add to; null: `gradients`, too
  detail::Turn* turn = nullptr;  ///< among the threads that share these gradients; null: alone
  S* kept[axis_count]{};
  S* temporary[axis_count]{};
  S* scratch = nullptr;          ///< of the op that runs, nothing survives in it

  Index rows[axis_count]{};
  Index stride[axis_count]{};    ///< rows rounded up, so that every buffer is aligned; 1 on the fixed axis
  Segments segments{};           ///< where the sequences of Axis::tokens begin
  Index longest = 0;             ///< tokens of the longest sequence
  Index past = 0;                ///< tokens of a stream before these; 0 on a GPU, whose kernels read gpu->past()
  Randomness random{};
  bool results_after_backward = false;  ///< it follows, and nobody reads them before: forward may leave them to it
  Gpu* gpu = nullptr;            ///< of a backend whose memory all this is

  const void* inputs[max_inputs]{};
  S* input_gradients[max_inputs]{};
  S* outputs[max_outputs]{};
  S* output_gradients[max_outputs]{};  ///< seeded by the caller; backward may overwrite them

  Index rows_of(const Shape& shape) const {
    return shape.is_fixed() ? shape.rows : rows[static_cast<int>(shape.axis)];
  }
};

/// Row counts as they are seen by kernels; axes of length 0 take no memory.
template <class S>
void set_rows(Context<S>& context, const Rows& rows) {
  for (int i = 0; i < axis_count; ++i) {
    const Axis axis = static_cast<Axis>(i);
    context.rows[i] = rows.count(axis);
    context.stride[i] = axis == Axis::fixed ? 1 : round_up(context.rows[i], alignment);
  }
}

/// Elements of a region of that many columns.
constexpr Index elements(const Columns& columns, const Rows& rows) {
  Index total = 0;
  for (int i = 0; i < axis_count; ++i) {
    const Axis axis = static_cast<Axis>(i);
    total += columns.on[i] * (axis == Axis::fixed ? 1 : round_up(rows.count(axis), alignment));
  }
  return total;
}

}  // namespace simplx

// ---- simplx/core/equal_layers.hpp

/// \file simplx/core/equal_layers.hpp
/// Telling equal layers from different ones.
///
/// A stack keeps its block, not its layers. Layers whose graphs are equal, adjacent or not, share one
/// instantiation, so that compile time depends on the number of *distinct* layers and not on depth. Initial
/// values are no part of the comparison: a layer may begin elsewhere without being another program.

namespace simplx::inline SIMPLX_TARGET::detail {

/// The nodes of a graph in the order of the walk, linked and numbered.
struct Chain {
  Node* head = nullptr;
  int count = 0;
  std::uint64_t hash = 14695981039346656037ull;
};

constexpr Chain chain_of(Node* root) {
  Chain chain;
  Node* last = nullptr;
  postorder(root, [&](Node* node) {
    node->index = chain.count++;
    node->link = nullptr;
    (last ? last->link : chain.head) = node;
    last = node;
    const auto mix = [&](std::uint64_t value) { chain.hash = (chain.hash ^ value) * 1099511628211ull; };
    mix(static_cast<std::uint64_t>(node->shape.rows));
    mix(static_cast<std::uint64_t>(node->shape.cols));
    mix(static_cast<std::uint64_t>(node->attributes.integers[0]));
    mix(std::bit_cast<std::uint64_t>(node->attributes.reals[0]));
    mix(node->op.hash());
    for (int i = 0; i < node->argument_count; ++i) mix(static_cast<std::uint64_t>(node->arguments[i]->index));
  });
  return chain;
}

constexpr void unnumber(const Chain& chain) {
  for (Node* node = chain.head; node; node = node->link) node->index = unvisited;
}

constexpr bool same_graph(Node* a, Node* b);

/// Equal but for initial values and source lines.
constexpr bool same_node(const Node& a, const Node& b) {
  if (a.kind != b.kind || !(a.shape == b.shape) || a.argument_count != b.argument_count || !(a.op == b.op) ||
      !(a.attributes == b.attributes) || !(a.name == b.name) || a.rank != b.rank || a.decays != b.decays ||
      a.wanted != b.wanted || a.frozen != b.frozen || a.stops != b.stops || a.observed != b.observed ||
      !a.block != !b.block) {
    return false;
  }
  for (int i = 0; i < a.argument_count; ++i) {
    if (a.arguments[i]->index != b.arguments[i]->index) return false;
  }
  if (!a.rules != !b.rules) return false;
  for (int part = 0; a.rules && part < 2; ++part) {
    const RulePart x = rule_part(&a, part), y = rule_part(&b, part);
    if (!same_graph(x.root, y.root)) return false;
  }
  if (!a.block) return true;
  const int layers = a.block->layered || b.block->layered ? stack_settings(a.attributes).layers : 1;
  for (int layer = 0; layer < layers; ++layer) {
    const Layer x = layer_of(&a, layer), y = layer_of(&b, layer);
    if (!same_graph(x.root, y.root)) return false;
  }
  return true;
}

/// The number of the first node that differs, or -1.
constexpr int first_difference(const Chain& a, const Chain& b) {
  int index = 0;
  Node *x = a.head, *y = b.head;
  for (; x && y; x = x->link, y = y->link, ++index) {
    if (!same_node(*x, *y)) return index;
  }
  return x || y ? index : -1;
}

constexpr bool same_chain(const Chain& a, const Chain& b) {
  return a.count == b.count && a.hash == b.hash && first_difference(a, b) < 0;
}

constexpr bool same_graph(Node* a, Node* b) {
  const Chain x = chain_of(a), y = chain_of(b);
  const bool same = same_chain(x, y);
  unnumber(x), unnumber(y);
  return same;
}

// ------------------------------------------------------------------------------------- grouping equal layers

/// which[l]: the distinct graph of layer l; representative[k]: the first layer with graph k.
template <int layers>
struct Grouping {
  int which[layers]{};
  int representative[layers]{};
  int distinct = 0;
};

/// Evaluations are limited in length, so a long stack is grouped in several, each continuing the one before.
inline constexpr int layers_per_evaluation = 24;

template <int layers>
constexpr Grouping<layers> group_layers(const Node* stack, Grouping<layers> groups, int begin, int end) {
  if (!stack->block->layered) {
    groups.distinct = 1;
    return groups;
  }
  struct Kept {
    LayerNodes nodes;
    bool sound;
    Chain chain;
  };
  Kept* kept = new Kept[layers + 1]{};
  const auto build = [&](int slot, int layer) {
    kept[slot].nodes = make_layer(stack, layer);
    kept[slot].sound = fault_of_blocks(kept[slot].nodes.root).rule.empty();
    kept[slot].chain = chain_of(kept[slot].nodes.root);
  };
  for (int k = 0; k < groups.distinct; ++k) build(k, groups.representative[k]);
  for (int layer = begin; layer < end; ++layer) {
    const int candidate = groups.distinct;
    build(candidate, layer);
    const auto matches = [&](int k) {  // comparing evaluates blocks inside: what is unsound is left to its Gate
      return kept[k].sound && kept[candidate].sound && same_chain(kept[k].chain, kept[candidate].chain);
    };
    int same = candidate - 1;
    while (same >= 0 && !matches(same)) --same;
    if (same < 0) {
      same = candidate;
      groups.representative[groups.distinct++] = layer;
    } else {
      kept[candidate].nodes.free();
    }
    groups.which[layer] = same;
  }
  for (int k = 0; k < groups.distinct; ++k) kept[k].nodes.free();
  delete[] kept;
  return groups;
}

}  // namespace simplx::detail

// ---- simplx/core/fuse.hpp

/// \file simplx/core/fuse.hpp
/// First half of the plan: which gradients are wanted, which maps become one loop, in which order all runs.
///
/// A *group* is a set of maps of one shape evaluated together, element by element: its root is stored (a
/// reduction as root: summed), its members are locals. A map joins the group of its users when all of them are in one
/// group of its shape; so a group is convex and every value is computed once. A matrix product that only one group uses
/// becomes that group's first operand: the group is its epilogue, applied to the accumulators in registers.
///
/// Cost    linear in nodes and arguments

namespace simplx::inline SIMPLX_TARGET {

/// Members of a group at most: its values live in registers and on the stack.
inline constexpr int max_group = 64;

/// Which gradients are wanted, which nodes are one group, and the order of the steps.
template <int capacity>
struct Fusion {
  bool wanted[capacity]{};       ///< a gradient flows through this node
  int group[capacity]{};         ///< of a map or reduction: the root of its group; otherwise -1
  int epilogue_of[capacity]{};   ///< of a group's root: the product it finishes, or -1
  int finished_by[capacity]{};   ///< of a product: the root of its epilogue, or -1
  int order[capacity]{};         ///< nodes that run, first to last
  int steps = 0;
  int step_of[capacity]{};       ///< when a node is computed; -1 for leaves

  // Per root: members (ascending, the root last) and leaves (operands from outside), in pools.
  int member_begin[capacity]{}, member_end[capacity]{};
  int leaf_begin[capacity]{}, leaf_end[capacity]{};
  int members[capacity]{};
  int leaves[capacity * 3]{};
};

namespace detail {

/// A gradient flows through a node that something wants it of, unless it stops there, and that leads to a result.
template <int capacity>
constexpr void mark_wanted(const Info* info, int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    const Info& node = info[i];
    const bool trains = node.parameters > 0 && !node.frozen;  // a parameter, or a stack's layers
    fusion.wanted[i] = trains || (node.kind == Kind::input && node.wanted_input);
    for (int a = 0; a < node.argument_count; ++a) fusion.wanted[i] |= fusion.wanted[node.arguments[a]];
    if (node.kind == Kind::indices || node.stops) fusion.wanted[i] = false;
  }
  bool reached[capacity]{};  // a gradient comes from a result
  for (int i = count - 1; i >= 0; --i) {
    const Info& node = info[i];
    reached[i] |= node.result || node.kind == Kind::outputs;
    if (node.executes()) fusion.wanted[i] &= reached[i];
    for (int a = 0; a < node.argument_count; ++a) reached[node.arguments[a]] |= fusion.wanted[i];
  }
}

/// The group that all users of a node are in, or who they are instead.
template <int capacity>
struct Users {
  static constexpr int nobody = -1, several = -2;
  int group[capacity]{};
};

template <int capacity>
constexpr Users<capacity> join_groups(const Info* info, int count, Fusion<capacity>& fusion) {
  Users<capacity> users;
  for (int& group : users.group) group = users.nobody;
  int size[capacity]{};
  for (int i = count - 1; i >= 0; --i) {  // users first: they have higher numbers
    const Info& node = info[i];
    fusion.group[i] = -1;
    if (node.looped()) {
      const int root = users.group[i];
      const bool joins = root >= 0 && node.kind == Kind::map && !node.observed && !node.result &&
                         loop_shape(info, root) == node.shape && size[root] < max_group;
      fusion.group[i] = joins ? root : i;
      ++size[fusion.group[i]];
    }
    for (int a = 0; a < node.argument_count; ++a) {
      int& seen = users.group[node.arguments[a]];
      const int mine = node.looped() ? fusion.group[i] : users.several;
      seen = seen == users.nobody || seen == mine ? mine : users.several;
    }
  }
  return users;
}

/// Members by groups, in ascending order: counts, then places (a counting sort by root).
template <int capacity>
constexpr void list_members(int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) ++fusion.member_end[fusion.group[i]];
  }
  for (int i = 0, next = 0; i < count; ++i) {
    if (fusion.group[i] != i) continue;
    const int size = fusion.member_end[i];
    fusion.member_begin[i] = fusion.member_end[i] = next;
    next += size;
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.members[fusion.member_end[fusion.group[i]]++] = i;
  }
}

/// Leaves of each group, once each: a map has at most 3 arguments, hence three places a node.
template <int capacity>
constexpr void list_leaves(const Info* info, int count, Fusion<capacity>& fusion) {
  int stamp[capacity]{}, next = 0;
  for (int root = 0; root < count; ++root) {
    if (fusion.group[root] != root) continue;
    fusion.leaf_begin[root] = next;
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const Info& node = info[fusion.members[m]];
      for (int a = 0; a < node.argument_count; ++a) {
        const int argument = node.arguments[a];
        if (fusion.group[argument] == root || stamp[argument] == root + 1) continue;
        stamp[argument] = root + 1;
        fusion.leaves[next++] = argument;
      }
    }
    fusion.leaf_end[root] = next;
  }
}

/// A group finishes the last of the products that it alone uses; a product is stored before it is summed.
template <int capacity>
constexpr void take_epilogues(const Info* info, int count, const Users<capacity>& users, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) fusion.epilogue_of[i] = fusion.finished_by[i] = -1;
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] != i || info[i].kind == Kind::reduction) continue;
    int& product = fusion.epilogue_of[i];
    for (int l = fusion.leaf_begin[i]; l < fusion.leaf_end[i]; ++l) {
      const int leaf = fusion.leaves[l];
      const bool alone = info[leaf].kind == Kind::product && users.group[leaf] == i;
      if (alone && info[leaf].shape == info[i].shape && leaf > product) product = leaf;
    }
    if (product >= 0) fusion.finished_by[product] = i;
  }
}

/// What runs, in the order of the nodes: kernels, roots of groups, and products that no group finishes.
template <int capacity>
constexpr void order_steps(const Info* info, int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    fusion.step_of[i] = -1;
    if (!info[i].executes() || (fusion.group[i] >= 0 && fusion.group[i] != i) || fusion.finished_by[i] >= 0) continue;
    fusion.order[fusion.steps] = i;
    fusion.step_of[i] = fusion.steps++;
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.group[i]];
    if (fusion.finished_by[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.finished_by[i]];
  }
}

}  // namespace detail

template <int capacity>
constexpr Fusion<capacity> fuse(const Info* info, int count) {
  Fusion<capacity> fusion;
  detail::mark_wanted<capacity>(info, count, fusion);
  const detail::Users<capacity> users = detail::join_groups<capacity>(info, count, fusion);
  detail::list_members<capacity>(count, fusion);
  detail::list_leaves<capacity>(info, count, fusion);
  detail::take_epilogues<capacity>(info, count, users, fusion);
  detail::order_steps<capacity>(info, count, fusion);
  return fusion;
}

}  // namespace simplx

// ---- simplx/core/plan.hpp

/// \file simplx/core/plan.hpp
/// Second half of the plan: what backward reads, who writes a gradient first, which gradients share memory.
///
/// Three static facts remove most of the memory traffic of reverse mode. A value is kept only if a pull-back
/// reads it. The first writer of a gradient stores and later ones accumulate: only a gradient that its first writer
/// adds to in parts, such as sums over rows, is set to zero before (`leaf_cleared`, `argument_cleared`).
/// A gradient that flows unchanged through a sum *is* the incoming one, and an elementwise pull-back may
/// overwrite what it reads, as long as nobody else still needs that memory: the incoming gradient, or, where an op
/// says so, the value of its operand (the gradient of logits lies where the logits were).
///
/// A parameter that several steps use, such as a table that is both embedding and head, has a sum for each of them:
/// only so can the sums over sequences have one order while threads work on several (core/turn.hpp).
///
/// Times of the backward pass: the step of node e is `2 * (steps - 1 - step_of[e])`, for a product that the
/// step's group finishes one later. Everything here is an ordinary loop, near-linear in the number of nodes,
/// and also runs at run time, where tests plan random graphs by the million.

namespace simplx::inline SIMPLX_TARGET {

/// What backward reads, who writes a gradient first, and which gradients share memory; by node.
template <int capacity>
struct Plan {
  // What backward reads.
  bool kept[capacity]{};            ///< the value survives until backward
  bool recomputed[capacity]{};      ///< a group's member that backward evaluates again
  bool leaf_read[capacity * 3]{};   ///< beside Fusion::leaves: backward reads this operand

  // Who writes gradients.
  Write leaf_write[capacity * 3]{};                ///< beside Fusion::leaves
  bool leaf_cleared[capacity * 3]{};               ///< its gradient is set to zero before the step
  Write argument_write[capacity][max_arguments]{}; ///< of products and kernels
  bool argument_cleared[capacity][max_arguments]{};
  bool adds[capacity]{};            ///< the step adds to the gradient of a parameter
  int uses[capacity]{};             ///< of a parameter: the steps that do
  int leaf_use[capacity * 3]{}, argument_use[capacity][max_arguments]{};  ///< of these, the number of this one
  int shares[capacity]{};           ///< the node in whose gradient buffer this one's gradient lies
  bool over_value[capacity]{};      ///< of such a node: that buffer is its value's
  bool idle[capacity]{};            ///< of a group's root: its pull-back writes nothing
  bool in_place = false;            ///< of a block: the carry's gradient ends where the output's was

  // When gradients live (times of the backward pass).
  int first_write[capacity]{}, second_write[capacity]{}, last_write[capacity]{}, read_time[capacity]{};
  int value_read[capacity]{};  ///< when the last pull-back reads the value
};

inline constexpr int never = 1 << 30;

namespace detail {

template <int capacity>
constexpr int backward_time(const Info* info, const Fusion<capacity>& fusion, int node) {
  if (info[node].observed) return never;         // stays readable
  if (fusion.step_of[node] < 0) return never;    // inputs, parameters: read by the caller
  const int time = 2 * (fusion.steps - 1 - fusion.step_of[node]);
  return fusion.finished_by[node] >= 0 ? time + 1 : time;
}

/// Marks what the pull-backs of a step read: kept values, and members of groups to be evaluated again. The loop of a
/// sum stores nothing else, so there a costly member is kept in passing.
template <int capacity>
constexpr void plan_reads(const Info* info, const Fusion<capacity>& fusion, int step_node, int time,
                          Plan<capacity>& plan) {
  const auto reads_of = [&](int node, auto mark_argument, auto mark_result) {
    for (int a = 0; a < info[node].argument_count; ++a) {
      const bool trains = info[node].stack;  // layers read what they are given for their parameters, too
      if (!fusion.wanted[info[node].arguments[a]] && !trains) continue;
      for (int b = 0; b < info[node].argument_count; ++b) {
        if (info[node].reads[a] >> b & 1) mark_argument(info[node].arguments[b]);
      }
      if (info[node].reads_output >> a & 1) mark_result(node);
    }
  };
  const auto keep = [&](int node) { plan.kept[node] = true, plan.value_read[node] = time; };
  if (!info[step_node].looped()) {
    reads_of(step_node, keep, keep);
    return;
  }
  const int root = step_node;
  const auto mark = [&](int node) {
    if (fusion.group[node] == root && !(info[node].costly && info[root].kind == Kind::reduction)) {
      plan.recomputed[node] = true;
    } else {
      keep(node);
    }
  };
  for (int m = fusion.member_end[root] - 1; m >= fusion.member_begin[root]; --m) {
    const int member = fusion.members[m];
    reads_of(member, mark, [&](int node) { node == root ? keep(node) : mark(node); });
    if (!plan.recomputed[member]) continue;
    for (int a = 0; a < info[member].argument_count; ++a) mark(info[member].arguments[a]);
  }
  for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root] && !plan.leaf_read[l]; ++m) {
      const Info& member = info[fusion.members[m]];
      for (int b = 0; b < member.argument_count; ++b) {
        if (member.arguments[b] != fusion.leaves[l]) continue;
        bool read = plan.recomputed[fusion.members[m]];
        for (int a = 0; a < member.argument_count; ++a) {
          read |= fusion.wanted[member.arguments[a]] && (member.reads[a] >> b & 1);
        }
        plan.leaf_read[l] |= read;
      }
    }
  }
  if (fusion.epilogue_of[root] >= 0) reads_of(fusion.epilogue_of[root], keep, keep);
}

/// Notes a step's write to a node's gradient; true for the first.
template <int capacity>
constexpr bool note_write(int node, int time, Plan<capacity>& plan) {
  const bool first = plan.first_write[node] == never;
  if (first) {
    plan.first_write[node] = time;
  } else if (plan.second_write[node] == never) {
    plan.second_write[node] = time;
  }
  plan.last_write[node] = time;
  ++plan.uses[node];
  return first;
}

template <int capacity>
constexpr void plan_arguments(const Info* info, const Fusion<capacity>& fusion, int node, int time,
                              Plan<capacity>& plan) {
  const Info& op = info[node];
  for (int a = 0; a < op.argument_count; ++a) {
    const int argument = op.arguments[a];
    if (!fusion.wanted[argument]) continue;
    bool repeated = false, seen = false;
    for (int b = 0; b < op.argument_count; ++b) repeated |= b != a && op.arguments[b] == argument;
    for (int b = 0; b < a; ++b) seen |= op.arguments[b] == argument;
    const bool first = !seen && note_write(argument, time, plan);
    const bool stores = first && !repeated && !info[argument].shape.is_fixed();
    plan.argument_use[node][a] = plan.uses[argument] - 1;
    plan.adds[node] |= info[argument].kind == Kind::parameter;
    plan.argument_write[node][a] = stores ? Write::store : Write::accumulate;
    plan.argument_cleared[node][a] = first && !stores && info[argument].kind != Kind::parameter;
  }
  if (op.stack) note_write(node, time, plan);  // layers use the incoming gradient as their own memory
}

template <int capacity>
constexpr void plan_leaves(const Info* info, const Fusion<capacity>& fusion, int root, int time,
                           Plan<capacity>& plan) {
  const Shape shape = loop_shape(info, root);
  for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
    const int leaf = fusion.leaves[l];
    if (!fusion.wanted[leaf]) continue;
    const bool first = note_write(leaf, time, plan) && info[leaf].kind != Kind::parameter;
    const bool reduced = info[leaf].shape.is_fixed() && !(info[leaf].shape == shape);
    plan.leaf_use[l] = plan.uses[leaf] - 1;
    plan.adds[root] |= info[leaf].kind == Kind::parameter;
    plan.leaf_write[l] = first && !reduced ? Write::store : Write::accumulate;
    plan.leaf_cleared[l] = first && reduced;
  }
}

/// Whether the incoming gradient reaches the leaf unchanged, along a single path of sums.
template <int capacity>
constexpr bool passes_unchanged(const Info* info, const Fusion<capacity>& fusion, int root, int leaf) {
  for (int node = leaf; node != root;) {
    int user = -1, slot = 0, uses = 0;
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const Info& member = info[fusion.members[m]];
      for (int a = 0; a < member.argument_count; ++a) {
        if (member.arguments[a] == node) user = fusion.members[m], slot = a, ++uses;
      }
    }
    if (uses != 1 || !(info[user].passes >> slot & 1)) return false;
    node = user;
  }
  return true;
}

/// Lets leaves of a step use the memory of the incoming gradient, where nobody else still needs it.
template <int capacity>
constexpr void plan_sharing(const Info* info, const Fusion<capacity>& fusion, int root, int now,
                            int (&next_sharer)[capacity], int (&sharers)[capacity], Plan<capacity>& plan) {
  const int home = plan.shares[root];
  const auto forget_the_past = [&] {
    int* link = &sharers[home];
    while (*link >= 0) {
      if (plan.read_time[*link] <= now) {
        *link = next_sharer[*link];
      } else {
        link = &next_sharer[*link];
      }
    }
  };
  const auto may_join = [&](int leaf) {
    for (int other = sharers[home]; other >= 0; other = next_sharer[other]) {
      const bool other_changes = plan.last_write[other] > now && plan.second_write[other] != never;
      const int change = std::max(plan.second_write[other], now);
      if (other_changes && plan.read_time[leaf] >= change) return false;
      if (plan.second_write[leaf] != never && plan.read_time[other] >= plan.second_write[leaf]) return false;
    }
    return true;
  };
  forget_the_past();
  bool all_unchanged = true, overwritten = false;
  for (int pass = 0; pass < 2; ++pass) {  // unchanged gradients first: any number of them may share
    for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
      const int leaf = fusion.leaves[l];
      const Info& node = info[leaf];
      if (!fusion.wanted[leaf]) continue;
      const bool unchanged = passes_unchanged(info, fusion, root, leaf);
      if (unchanged != (pass == 0)) continue;
      const bool owns_gradient = node.executes() || (node.carry && info[home].result);
      const bool candidate = owns_gradient && !node.observed && node.shape == info[root].shape &&
                             plan.first_write[leaf] == now && plan.shares[leaf] == leaf;
      const bool joins = candidate && (unchanged ? may_join(leaf) : sharers[home] < 0 && !overwritten);
      if (joins) {
        plan.shares[leaf] = home;
        next_sharer[leaf] = sharers[home];
        sharers[home] = leaf;
        if (unchanged) {
          plan.leaf_write[l] = Write::skip;
        } else {
          overwritten = true;
        }
      }
      all_unchanged &= joins && unchanged;
    }
  }
  plan.idle[root] = all_unchanged;
}

/// Lets the gradient of a kernel's operand take the place of the value, where the op allows it and reads it last.
template <int capacity>
constexpr void plan_over_values(const Info* info, const Fusion<capacity>& fusion, int node, int time,
                                Plan<capacity>& plan) {
  const Info& op = info[node];
  for (int a = 0; a < op.argument_count; ++a) {
    const int argument = op.arguments[a];
    const Info& value = info[argument];
    const bool in_arena = value.executes() && !value.observed && !value.result;
    const bool stores = fusion.wanted[argument] && plan.argument_write[node][a] == Write::store;
    if ((op.overwrites >> a & 1) && in_arena && stores && plan.kept[argument] && plan.value_read[argument] == time) {
      plan.over_value[argument] = true;
    }
  }
}

}  // namespace detail

template <int capacity>
constexpr Plan<capacity> make_plan(const Info* info, int count, const Fusion<capacity>& fusion) {
  Plan<capacity> plan;
  int next_sharer[capacity]{}, sharers[capacity]{};
  for (int i = 0; i < count; ++i) {
    plan.shares[i] = i;
    plan.first_write[i] = plan.second_write[i] = never;
    plan.last_write[i] = -1;
    plan.read_time[i] = detail::backward_time(info, fusion, i);
    sharers[i] = next_sharer[i] = -1;
    plan.kept[i] = info[i].observed;
    if (info[i].result) plan.first_write[i] = -1;  // the caller seeds it
  }
  for (int s = fusion.steps - 1; s >= 0; --s) {
    const int node = fusion.order[s];
    if (!fusion.wanted[node]) continue;
    const int time = 2 * (fusion.steps - 1 - s);
    detail::plan_reads(info, fusion, node, time, plan);
    if (info[node].looped()) {
      detail::plan_leaves(info, fusion, node, time, plan);
      const int product = fusion.epilogue_of[node];
      if (product >= 0 && fusion.wanted[product]) detail::plan_arguments(info, fusion, product, time + 1, plan);
    } else {
      detail::plan_arguments(info, fusion, node, time, plan);
    }
  }
  for (int s = fusion.steps - 1; s >= 0; --s) {
    const int node = fusion.order[s];
    const int time = 2 * (fusion.steps - 1 - s);
    if (!fusion.wanted[node]) continue;
    if (info[node].kind == Kind::map) {
      const int home = plan.shares[node];
      if (info[node].observed) sharers[home] = node;  // its gradient has to stay as it is
      detail::plan_sharing(info, fusion, node, time, next_sharer, sharers, plan);
    } else if (!info[node].looped()) {
      detail::plan_over_values(info, fusion, node, time, plan);
    }
  }
  for (int i = 0; i < count; ++i) {
    if (info[i].carry) plan.in_place = plan.shares[i] != i;
  }
  return plan;
}

}  // namespace simplx

// ---- simplx/core/layout.hpp

/// \file simplx/core/layout.hpp
/// Where everything lies: offsets in columns, so that the layout does not depend on the number of rows.
///
/// An activation of width C takes C columns on its axis; its address is base + columns * stride(axis). There are
/// two regions for each axis: *kept*, what backward reads, and *temporary*, placed first-fit over the time a
/// value or gradient is alive. Forward and backward use the temporary region one after the other.

namespace simplx::inline SIMPLX_TARGET {

/// Where values, gradients and parameters of each node lie, and how much each region needs.
template <int capacity>
struct Layout {
  Index value[capacity]{};               ///< columns; in the kept region if the plan keeps the value
  Index gradient[capacity]{};            ///< columns; kept region for probes and where the plan says `over_value`
  Columns saved[capacity]{};             ///< kept columns that forward leaves for backward
  Columns forward_workspace[capacity]{}; ///< temporary columns of a stack
  Columns backward_workspace[capacity]{};
  Index parameter[capacity]{}, constant[capacity]{}, packed[capacity]{};  ///< elements
  Index further[capacity]{};             ///< elements; gradients of a parameter's uses after the first
  int input[capacity]{}, output[capacity]{};                             ///< numbers, in order

  Columns kept{}, temporary{};
  Index parameters = 0, trained = 0, constants = 0, packed_elements = 0, further_elements = 0;
  int inputs = 0, outputs = 0;
};

namespace detail {

/// First-fit allocation of intervals; the list of holes stays short and sorted.
template <int capacity>
struct Holes {
  Index begin[capacity + 1]{}, end[capacity + 1]{};
  int count = 0;
  Index top = 0;

  constexpr void erase(int hole) {
    --count;
    for (int i = hole; i < count; ++i) begin[i] = begin[i + 1], end[i] = end[i + 1];
  }
  constexpr Index take(Index size) {
    for (int i = 0; i < count; ++i) {
      const bool last = end[i] == top;
      if (end[i] - begin[i] < size && !last) continue;
      const Index at = begin[i];
      begin[i] += size;
      if (begin[i] >= end[i]) {
        top = std::max(top, at + size);
        erase(i);
      }
      return at;
    }
    top += size;
    return top - size;
  }
  constexpr void give_back(Index at, Index size) {
    int i = 0;
    while (i < count && begin[i] < at) ++i;
    const bool joins_left = i > 0 && end[i - 1] == at, joins_right = i < count && begin[i] == at + size;
    if (joins_left && joins_right) {
      end[i - 1] = end[i];
      erase(i);
    } else if (joins_left) {
      end[i - 1] = at + size;
    } else if (joins_right) {
      begin[i] = at;
    } else {
      for (int k = count++; k > i; --k) begin[k] = begin[k - 1], end[k] = end[k - 1];
      begin[i] = at, end[i] = at + size;
    }
  }
};

/// Places what is alive from a time to a time, given in the order of the starts.
template <int capacity>
struct Placer {
  static constexpr int times = 2 * capacity + 4, slots = 3 * capacity;
  struct Tenant {
    Axis axis;
    Index at, size;
    int next;
  };
  Holes<slots> holes[axis_count]{};
  Tenant tenants[slots]{};
  int first_leaving[times]{};
  int count = 0, now = 0;

  constexpr Placer() {
    for (int& first : first_leaving) first = -1;
  }
  constexpr void advance(int time) {
    for (; now < time; ++now) {  // what was alive up to `now` leaves before the next time
      for (int t = first_leaving[now]; t >= 0; t = tenants[t].next) {
        holes[static_cast<int>(tenants[t].axis)].give_back(tenants[t].at, tenants[t].size);
      }
    }
  }
  constexpr Index place(int from, int until, Axis axis, Index size) {
    advance(from);
    const Index at = holes[static_cast<int>(axis)].take(size);
    until = std::min(std::max(until, from), times - 1);
    tenants[count] = {axis, at, size, first_leaving[until]};
    first_leaving[until] = count++;
    return at;
  }
  constexpr Columns place(int from, int until, const Columns& sizes) {
    Columns at;
    for (int i = 0; i < axis_count; ++i) {
      if (sizes.on[i]) at.on[i] = place(from, until, static_cast<Axis>(i), sizes.on[i]);
    }
    return at;
  }
  constexpr Columns top() const {
    Columns sizes;
    for (int i = 0; i < axis_count; ++i) sizes.on[i] = holes[i].top;
    return sizes;
  }
};

}  // namespace detail

/// Whether a node has a buffer of its own for its value, in the arena.
template <int capacity>
constexpr bool stores_value(const Info* info, const Fusion<capacity>& fusion, const Plan<capacity>& plan, int node) {
  if (!info[node].executes() || info[node].result) return false;
  if (fusion.group[node] >= 0) return fusion.group[node] == node || plan.kept[node];
  return fusion.finished_by[node] < 0 || plan.kept[node];
}

/// The same for its gradient, which the plan may also have put over the value.
template <int capacity>
constexpr bool stores_gradient(const Info* info, const Fusion<capacity>& fusion, const Plan<capacity>& plan,
                               int node) {
  if (!fusion.wanted[node] || !info[node].executes() || info[node].result) return false;
  if (fusion.group[node] >= 0 && fusion.group[node] != node) return false;
  return plan.shares[node] == node && !plan.over_value[node];
}
/// Whether the gradient of a node, or of those that share it, lies in the kept region.
template <int capacity>
constexpr bool keeps_gradient(const Info* info, const Plan<capacity>& plan, int home) {
  return info[home].observed || plan.over_value[home];
}

/// Columns of a value of that shape, or of its gradient: of the fixed axis elements, whole units of `alignment`.
constexpr Index room_of(const Shape& shape) {
  return shape.is_fixed() ? round_up(shape.columns(), alignment) : shape.cols;
}

/// Columns that the value of each node takes, and its gradient.
template <int capacity>
struct Rooms {
  Index value[capacity]{}, gradient[capacity]{};
};

/// Where all are numbers of one type.
template <int capacity>
constexpr Rooms<capacity> whole_rooms(const Info* info, int count) {
  Rooms<capacity> rooms;
  for (int i = 0; i < count; ++i) rooms.value[i] = rooms.gradient[i] = room_of(info[i].shape);
  return rooms;
}

namespace detail {

/// Numbers the inputs and outputs, and places in order what lies in flat buffers and in the kept region.
template <int capacity>
constexpr void number_and_keep(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                               const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  for (int i = 0; i < count; ++i) {
    const Info& node = info[i];
    layout.parameter[i] = layout.parameters;
    layout.constant[i] = layout.constants;
    layout.packed[i] = layout.packed_elements;
    layout.further[i] = layout.further_elements;
    layout.parameters += node.parameters;
    layout.trained += node.trained;
    layout.constants += node.constants;
    layout.packed_elements += node.packed;
    const bool used_again = node.kind == Kind::parameter && plan.uses[i] > 1;
    layout.further_elements += used_again ? (plan.uses[i] - 1) * node.parameters : node.further;
    layout.input[i] = layout.inputs;
    layout.inputs += node.kind == Kind::input || node.kind == Kind::indices;
    layout.output[i] = layout.outputs;
    layout.outputs += node.result;

    layout.saved[i] = layout.kept;
    layout.kept += node.saved;
    const Axis axis = node.shape.axis;
    if (stores_value<capacity>(info, fusion, plan, i) && plan.kept[i]) {
      layout.value[i] = layout.kept[axis];
      layout.kept[axis] += rooms.value[i];
      if (plan.over_value[i]) layout.gradient[i] = layout.value[i];
    }
    if (node.observed && fusion.wanted[i]) {
      layout.gradient[i] = layout.kept[axis];
      layout.kept[axis] += rooms.gradient[i];
    }
  }
}

/// Forward: a value lives from its step to the last step that reads it.
template <int capacity>
constexpr void place_values(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                            const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  int last_read[capacity]{};
  for (int i = 0; i < count; ++i) last_read[i] = fusion.step_of[i];
  for (int i = 0; i < count; ++i) {
    for (int a = 0; a < info[i].argument_count; ++a) {
      int& last = last_read[info[i].arguments[a]];
      last = std::max(last, fusion.step_of[i]);
    }
  }
  Placer<capacity> forward;
  for (int s = 0; s < fusion.steps; ++s) {
    const int node = fusion.order[s];
    layout.forward_workspace[node] = forward.place(s, s, info[node].workspace);
    if (plan.kept[node] || !stores_value<capacity>(info, fusion, plan, node)) continue;
    layout.value[node] = forward.place(s, last_read[node], info[node].shape.axis, rooms.value[node]);
  }
  layout.temporary = forward.top();
}

/// Backward: a gradient lives from its first write until all that share it have been read.
template <int capacity>
constexpr void place_gradients(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                               const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  int last_use[capacity]{};
  for (int i = 0; i < count; ++i) {
    int& last = last_use[plan.shares[i]];
    if (plan.read_time[i] != never) last = std::max(last, plan.read_time[i]);
  }
  int first_written_at[2 * capacity + 2]{}, next_written[capacity]{};
  for (int& first : first_written_at) first = -1;
  for (int i = count - 1; i >= 0; --i) {
    if (!stores_gradient<capacity>(info, fusion, plan, i) || info[i].observed) continue;
    int& first = first_written_at[plan.first_write[i]];
    next_written[i] = first;
    first = i;
  }
  Placer<capacity> backward;
  for (int time = 0; time < 2 * fusion.steps; ++time) {
    const int node = fusion.order[fusion.steps - 1 - time / 2];
    if (time % 2 == 0) layout.backward_workspace[node] = backward.place(time, time, info[node].workspace);
    for (int i = first_written_at[time]; i >= 0; i = next_written[i]) {
      layout.gradient[i] = backward.place(time, last_use[i], info[i].shape.axis, rooms.gradient[i]);
    }
  }
  layout.temporary.raise_to(backward.top());
}

}  // namespace detail

template <int capacity>
constexpr Layout<capacity> lay_out(const Info* info, int count, const Fusion<capacity>& fusion,
                                   const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  Layout<capacity> layout;
  detail::number_and_keep(layout, info, count, fusion, plan, rooms);
  detail::place_values(layout, info, count, fusion, plan, rooms);
  detail::place_gradients(layout, info, count, fusion, plan, rooms);
  return layout;
}

}  // namespace simplx

// ---- simplx/core/unroll.hpp

/// \file simplx/core/unroll.hpp
/// A loop over constants: the body is instantiated for each of them.

namespace simplx::inline SIMPLX_TARGET::detail {
SIMPLX_HD_BEGIN

/// Calls f(constant<begin>) ... f(constant<end - 1>), eight at a time: folds over many elements are refused, and
/// would spell all numbers in a symbol.
template <int begin, int end, class F>
SIMPLX_HD __attribute__((always_inline)) constexpr void unroll(F&& f) {
  if constexpr (begin < end) f(std::integral_constant<int, begin>{});
  if constexpr (begin + 1 < end) f(std::integral_constant<int, begin + 1>{});
  if constexpr (begin + 2 < end) f(std::integral_constant<int, begin + 2>{});
  if constexpr (begin + 3 < end) f(std::integral_constant<int, begin + 3>{});
  if constexpr (begin + 4 < end) f(std::integral_constant<int, begin + 4>{});
  if constexpr (begin + 5 < end) f(std::integral_constant<int, begin + 5>{});
  if constexpr (begin + 6 < end) f(std::integral_constant<int, begin + 6>{});
  if constexpr (begin + 7 < end) f(std::integral_constant<int, begin + 7>{});
  if constexpr (begin + 8 < end) unroll<begin + 8, end>(f);
}

SIMPLX_HD_END
}  // namespace simplx::detail

// ---- simplx/core/graph.hpp

/// \file simplx/core/graph.hpp
/// Graph<Source>: a model evaluated by the compiler, planned, and addressed by node number from here on.
///
/// A *source* is a type whose `with(f)` evaluates a model and calls f with its root: `Root<model>` for a model,
/// `LayerSource` for a layer of one of its stacks. Nothing of an evaluation is kept but numbers, so each of them is
/// evaluated a few times. A constant is initialised by `with` itself, not by a function or lambda around it: g++ would
/// evaluate that three times, since it does not remember what happened on the heap. What hands `f` on captures it by
/// value: by reference g++ first tries it as a constant, and evaluates the model once in vain. The source's `Lowering`
/// says what a backend changes of it: nothing, or what its kernels do better otherwise (cuda/graph_on.cuh).

namespace simplx::inline SIMPLX_TARGET {

/// A model is evaluated as it is written, and all values and gradients are numbers of one type.
struct AsWritten {
  static constexpr void rewrite(Node*) {}
  template <class Planned, int capacity = Planned::count>
  static constexpr Rooms<capacity> rooms() {
    return whole_rooms<capacity>(Planned::table.info, Planned::count);
  }
};

/// The expressions of a model: a constexpr object whose operator() returns an Expr, or an aggregate of them.
template <auto const& model>
struct Root {
  using Lowering = AsWritten;
  template <class F>
  static constexpr auto with(F f) {
    const detail::Evaluated evaluated = detail::evaluate(model);
    return f(evaluated.root);
  }
};

/// The function, or the pull-back, of a node with a rule of its user's own.
template <class Parent, int node, int part>
struct RuleSource {
  using Lowering = typename Parent::Lowering;
  template <class F>
  static constexpr auto with(F f) {
    return Parent::with([f](Node* root) {
      const detail::RulePart built = detail::rule_part(detail::node_at(root, node), part);
      return f(built.root);
    });
  }
};

/// The expressions of one layer of a stack of another source.
template <class Parent, int stack_node, int layer>
struct LayerSource {
  using Lowering = typename Parent::Lowering;
  template <class F>
  static constexpr auto with(F f) {
    return Parent::with([f](Node* root) {
      const detail::Layer built = detail::layer_of(detail::node_at(root, stack_node), layer);
      Lowering::rewrite(built.root);
      return f(built.root);
    });
  }
};

namespace detail {

/// The summary of all that can be wrong: in the model's own nodes, and in the blocks of its stacks. Those are made
/// in any case, so that what they capture is freed.
constexpr Summary inspect(Node* root) {
  Summary summary = summarise(root);
  const BlockFault fault = fault_of_blocks(root);
  if (summary.rule.empty() && !fault.rule.empty()) {
    summary.rule = fault.rule;
    summary.left = fault.line;
    summary.right = fault.stack.line;
    summary.where = fault.stack;
  }
  return summary;
}

/// Of a model whose rule is broken, evaluated a second time.
template <class Source>
inline constexpr Summary broken_summary = Source::with(inspect);

/// How many nodes a model has: 0 if a rule is broken, -1 if it cannot be evaluated.
constexpr int sound_nodes(Node* root) {
  const Summary summary = inspect(root);
  return summary.rule.empty() ? summary.count : 0;
}
template <class Source, int count = Source::with(sound_nodes)>
constexpr int nodes_of(int) {
  return count;
}
template <class Source>
constexpr int nodes_of(...) {
  return -1;
}

/// Reports a broken rule: the sentence, both numbers and the user's line, before anything else goes wrong.
template <class Source>
struct Gate {
  static constexpr int count = nodes_of<Source>(0);
  static constexpr bool check() {
    if constexpr (count > 0) {
      return true;
    } else if constexpr (count < 0) {
      static_assert(count >= 0,
                    "simplx: the compiler cannot evaluate this model, for the reason that it gives below: operator() "
                    "of the model or of a module is not constexpr, the model itself is not, or an expression is made "
                    "and never used");
      static_assert((Source::with(inspect), true));  // which says the reason
      return false;
    } else if constexpr (broken_summary<Source>.rule == said_already) {
      return false;
    } else {
      constexpr const Summary& summary = broken_summary<Source>;
      constexpr ShortPath path = short_path(summary.where.file);
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        using In = File<path.chars[i]...>;
        if constexpr (summary.rule == Tag("one name")) {
          constexpr Name name = Source::with([](Node* root) {
            fault_of_blocks(root);  // frees what blocks capture, as above
            return name_given_twice(root, broken_summary<Source>);
          });
          return [&]<std::size_t... n>(std::index_sequence<n...>) {
            using Of = Called<name.chars[n]...>;
            return at_line<summary.rule, summary.left, summary.right, summary.where.line, In, Of>();
          }(std::make_index_sequence<name.size()>{});
        } else {
          return at_line<summary.rule, summary.left, summary.right, summary.where.line, In>();
        }
      }(std::make_index_sequence<path.size>{}) && false;
    }
  }
  static constexpr bool sound = check();
};

template <class Source, int stack_node, int layers, int chunk>
struct GroupedLayers {
  static constexpr int begin = (chunk - 1) * layers_per_evaluation;
  static constexpr int end = std::min(layers, begin + layers_per_evaluation);
  static constexpr Grouping<layers> value = Source::with([](Node* root) {
    return group_layers<layers>(node_at(root, stack_node), GroupedLayers<Source, stack_node, layers, chunk - 1>::value,
                                begin, end);
  });
};
template <class Source, int stack_node, int layers>
struct GroupedLayers<Source, stack_node, layers, 0> {
  static constexpr Grouping<layers> value{};
};

}  // namespace detail

template <class Source>
struct Graph;

/// The layers of a stack: which graph each has, and where its share of every buffer begins. Layers that share their
/// parameters have one place there, and one of constants and of what is prepared; their graphs may differ in what
/// backward evaluates again.
template <class Source, int node, int count, bool shared>
struct LayersOf {
  static constexpr int layers = count;
  static constexpr int sets = shared ? 1 : layers;  ///< of parameters and constants
  static constexpr int chunks = (layers + detail::layers_per_evaluation - 1) / detail::layers_per_evaluation;
  static constexpr detail::Grouping<layers> grouping =
      detail::GroupedLayers<Source, node, layers, chunks>::value;
  static constexpr int distinct = grouping.distinct;

  template <int k>
  using child = Graph<LayerSource<Source, node, grouping.representative[k]>>;

  template <class Child>
  static constexpr bool sees_the_carry_alone() {
    static_assert(!Child::sound || Child::layout.inputs == 1,
                  "simplx: one of the later layers of a stack makes an input; make inputs outside of the stack");
    return true;
  }

  struct Offsets {
    Index parameter[layers + 1]{}, constant[layers + 1]{}, packed[layers + 1]{};
    /// Right before that of a shared layer after the first lies its sum of the gradient of all parameters.
    Index further[layers + 1]{};
    Columns kept[layers + 1]{};
    Columns temporary{}, largest_kept{};  ///< the largest over the distinct graphs
    Index trained = 0;
    bool in_place = true, uses_up_values = false;
  };
  static constexpr Offsets offsets = []<int... k>(std::integer_sequence<int, k...>) {
    Offsets at;
    for (int layer = 0; layer < layers; ++layer) {
      const auto add = [&](int index, const auto& layout, bool in_place, bool uses_up_values) {
        if (grouping.which[layer] != index) return;
        const Index own = layer < layers - sets ? 0 : 1;  // what is shared counts once, with the last
        at.parameter[layer + 1] = at.parameter[layer] + own * layout.parameters;
        at.constant[layer + 1] = at.constant[layer] + own * layout.constants;
        at.packed[layer + 1] = at.packed[layer] + own * layout.packed_elements;
        at.further[layer + 1] = at.further[layer] + layout.further_elements + (1 - own) * layout.parameters;
        at.kept[layer + 1] = at.kept[layer];
        at.kept[layer + 1] += layout.kept;
        at.temporary.raise_to(layout.temporary);
        at.largest_kept.raise_to(layout.kept);
        at.trained += own * layout.trained;
        at.in_place &= in_place;
        at.uses_up_values |= uses_up_values;
      };
      (add(k, child<k>::layout, child<k>::plan.in_place, child<k>::uses_up_values), ...);
      static_assert((sees_the_carry_alone<child<k>>() && ...));
    }
    return at;
  }(std::make_integer_sequence<int, distinct>{});

  /// Calls f with the graph of that layer: a switch over the distinct graphs, each instantiated once.
  template <class F>
  static constexpr void with_graph(int layer, F&& f) {
    [&]<int... k>(std::integer_sequence<int, k...>) {
      (void)((grouping.which[layer] == k ? (f(std::type_identity<child<k>>{}), true) : false) || ...);
    }(std::make_integer_sequence<int, distinct>{});
  }
};

/// A planned model, all of it static: nodes, fusion, plan, and the graphs of its layers.
template <class Source_>
struct PlannedGraph {
  using Source = Source_;
  using Planned = PlannedGraph;
  static constexpr bool sound = detail::Gate<Source>::sound;
  static constexpr int count = sound ? detail::Gate<Source>::count : 1;

  static constexpr Flat<count> flat = sound ? Source::with(detail::flatten<count>) : Flat<count>{};

  template <int node>
  static constexpr detail::StackSettings stack = detail::stack_settings(flat.label[node].attributes);
  template <int node>
  using layers_of = LayersOf<Source, node, stack<node>.layers, stack<node>.shared>;

  /// The layers of this stack are evaluated again in backward.
  template <int node>
  static constexpr bool recomputes = stack<node>.recomputed;
  template <int node, int part>
  using rule_of = Graph<RuleSource<Source, node, part>>;

  struct Table {
    Info info[count]{};
    int stack[count]{};  ///< numbers of the nodes with graphs of their own
    int stacks = 0;
  };
  static constexpr Table plain = [] {
    Table result;
    for (int i = 0; i < count; ++i) {
      result.info[i] = flat.info[i];
      if (flat.info[i].stack || flat.info[i].own_rule) result.stack[result.stacks++] = i;
    }
    return result;
  }();
  /// What the layers of a stack need.
  template <int node>
  static constexpr void count_layers(Info& info) {
    using Layers = layers_of<node>;
    constexpr int last = Layers::layers;
    const Index carry = room_of(info.shape);
    info.parameters = Layers::offsets.parameter[last];
    info.trained = Layers::offsets.trained;
    info.constants = Layers::offsets.constant[last];
    info.packed = Layers::offsets.packed[last];
    info.further = Layers::offsets.further[last];
    info.workspace = Layers::offsets.temporary;
    if constexpr (recomputes<node>) {
      info.workspace += Layers::offsets.largest_kept;
      info.workspace[info.shape.axis] += carry;  // a result that nobody reads again
    } else {
      info.saved = Layers::offsets.kept[last];
    }
    info.saved[info.shape.axis] += (last - 1) * carry;  // what goes from layer to layer
    info.workspace[info.shape.axis] += carry;           // a second gradient of the carry
  }
  /// What a function with its own pull-back needs: each part in turn, and the gradients that the pull-back gives.
  template <int node>
  static constexpr void count_rule(Info& info) {
    const auto room_in = [](const auto& layout) {
      Columns columns = layout.kept;
      columns += layout.temporary;
      return columns;
    };
    Columns pull = room_in(rule_of<node, 1>::layout);
    for (int i = 0; i < info.argument_count; ++i) {
      const Shape& shape = plain.info[info.arguments[i]].shape;
      pull[shape.axis] += room_of(shape);
    }
    info.workspace = room_in(rule_of<node, 0>::layout);
    info.workspace.raise_to(pull);
  }
  /// The numbers of the planner, with what the layers of each stack need.
  static constexpr Table table = [] {
    Table result = plain;
    detail::unroll<0, plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = plain.stack[s];
      if constexpr (plain.info[node].stack) {
        count_layers<node>(result.info[node]);
      } else {
        count_rule<node>(result.info[node]);
      }
    });
    return result;
  }();

  static constexpr Fusion<count> fusion = fuse<count>(table.info, count);
  static constexpr Plan<count> plan = make_plan<count>(table.info, count, fusion);
  /// Whether backward writes over values that it has read: a second one then asks for another forward.
  static constexpr bool uses_up_values = [] {
    bool any = false;
    for (int i = 0; i < count; ++i) any |= plan.over_value[i];
    detail::unroll<0, plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = plain.stack[s];
      if constexpr (plain.info[node].stack && !recomputes<node>) any |= layers_of<node>::offsets.uses_up_values;
    });
    return any;
  }();

  /// Whether it has ops that are not elementwise.
  static constexpr bool has_kernels() {
    for (int i = 0; i < count; ++i) {
      if (table.info[i].kind == Kind::product || table.info[i].kind == Kind::kernel) return true;
    }
    return false;
  }
};

/// A model where everything has its place.
template <class Source>
struct Graph : PlannedGraph<Source> {
  using typename PlannedGraph<Source>::Planned;
  using Planned::count, Planned::flat, Planned::table, Planned::fusion, Planned::plan;

  static constexpr Layout<count> layout =
      lay_out<count>(table.info, count, fusion, plan, Source::Lowering::template rooms<Planned>());
  static_assert(layout.inputs <= max_inputs,
                "simplx: a model has at most eight inputs; put some beside each other in one");
  static_assert(layout.outputs <= max_outputs);  // results.hpp and most_operands of custom.hpp see to it

  /// The number of the input of that name, or -1.
  static constexpr int input_number(std::string_view name) {
    for (int i = 0; i < count; ++i) {
      const Kind kind = table.info[i].kind;
      if ((kind == Kind::input || kind == Kind::indices) && flat.label[i].name.view() == name) return layout.input[i];
    }
    return -1;
  }
};

/// Calls f.operator()<Inner>() for each graph within a graph: its stacks' layers, equal ones once, and functions with
/// their pull-backs.
template <class G, class F>
constexpr void each_inner_graph(const F& f) {
  detail::unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      detail::unroll<0, Layers::distinct>([&]<int k>(std::integral_constant<int, k>) {
        f.template operator()<typename Layers::template child<k>>();
      });
    } else {
      f.template operator()<typename G::template rule_of<node, 0>>();
      f.template operator()<typename G::template rule_of<node, 1>>();
    }
  });
}

/// The graph of a model.
template <auto const& model>
using GraphOf = Graph<Root<model>>;

}  // namespace simplx

// ---- simplx/core/stores.hpp

/// \file simplx/core/stores.hpp
/// Keeps g++ from dropping calls of kernels.

namespace simplx::inline SIMPLX_TARGET::detail {

/// Said by a function that stores: an instruction of no length that may write any memory, which g++ cannot overlook.
///
/// It overlooks stores whose address a loop computes from another pointer, as y + 8 (i - x) of rows of one vector in y,
/// that go with numbers in x: g++ 12 takes the address for null from -O1 on. Its pass "local-pure-const" then finds a
/// function without effects, and calls of it go: sum(x, Over::columns) had a gradient of zero. Its pass "modref" finds
/// one that writes nothing, and its callers go on with what they stored there before it.
__attribute__((always_inline)) inline void stores() { asm volatile("" ::: "memory"); }

}  // namespace simplx::detail

// ---- simplx/core/turn.hpp

/// \file simplx/core/turn.hpp
/// Turns: threads that share one gradient, each sequence adding to it after the one before; where several are evaluated
/// at once (train/micro_batches.hpp), they are one sequence here.
///
/// Backward is the same straight-line code for every sequence, so its additions to the gradients of parameters can be
/// counted. A sequence makes its k-th addition once the sequence before it has made that one: every sum has the order
/// of the sequences for any number of threads, and threads follow each other through the layers an addition apart.
///
///     detail::Turns turns(batch);                  // once
///     turns.start();                               // before each pass, then on every thread:
///     for (Index n = turns.deal(); n < sequences; n = turns.deal()) {
///       detail::Turn turn(turns, n);
///       context.turn = &turn;                      // backward waits where it has to
///     }

namespace simplx::inline SIMPLX_TARGET::detail {

/// Waits until a number is no longer `old`, and returns it: spins for a while, since that is usually soon, then sleeps.
/// Who changes the number has to notify.
inline int wait_for_change(std::atomic<int>& value, int old) {
  for (int spin = 0; spin < 4000; ++spin) {
    const int now = value.load(std::memory_order_acquire);
    if (now != old) return now;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

/// The additions that each sequence of a pass has made so far.
class Turns {
 public:
  /// Room for so many sequences.
  explicit Turns(Index sequences) : made_(static_cast<std::size_t>(sequences)) {}
  /// Between passes.
  Turns(Turns&& other) noexcept : made_(std::move(other.made_)) {}
  Turns& operator=(Turns&& other) noexcept {
    made_ = std::move(other.made_);
    return *this;
  }

  /// Room for more, if need be; no thread may be in a pass.
  void make_room(Index sequences) {
    if (std::ssize(made_) < sequences) made_ = std::vector<Made>(static_cast<std::size_t>(sequences));
  }
  /// Before a pass; no thread may be in one.
  void start() {
    dealt_.store(0, std::memory_order_relaxed);
    for (Made& made : made_) made.additions.store(0, std::memory_order_relaxed);
  }
  /// The next sequence that no thread has been given. A thread must see through what it was dealt.
  Index deal() { return dealt_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class Turn;
  struct alignas(64) Made {  // a cache line each: the next sequence keeps looking at it
    std::atomic<int> additions{0};
  };
  std::vector<Made> made_;
  std::atomic<Index> dealt_{0};
};

/// One sequence's part in a pass; its end, also by an exception, waits for that of the sequence before.
class Turn {
 public:
  Turn(Turns& turns, Index sequence)
      : own_(turns.made_[static_cast<std::size_t>(sequence)].additions),
        before_(sequence > 0 ? &turns.made_[static_cast<std::size_t>(sequence - 1)].additions : nullptr) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    wait_for(all);
    tell(all);
  }

  /// Waits until the next addition is this sequence's to make, and says that it is made.
  void begin() { wait_for(made_ + 1); }
  void end() { tell(++made_); }

 private:
  static constexpr int all = std::numeric_limits<int>::max();

  void wait_for(int additions) {
    if (!before_) return;
    for (int seen = before_->load(std::memory_order_acquire); seen < additions;) seen = wait_for_change(*before_, seen);
  }
  void tell(int additions) {
    own_.store(additions, std::memory_order_release);
    own_.notify_one();
  }

  std::atomic<int>& own_;
  std::atomic<int>* before_;
  int made_ = 0;
};

/// One addition, for as long as this object lives; nothing without a turn.
class Addition {
 public:
  explicit Addition(Turn* turn) : turn_(turn) {
    if (turn_) turn_->begin();
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;
  ~Addition() {
    if (turn_) turn_->end();
  }

 private:
  Turn* turn_;
};

}  // namespace simplx::detail

// ---- simplx/core/frame.hpp

/// \file simplx/core/frame.hpp
/// Frame: what an op's author sees of the node whose kernel it is. Shapes and numbers are constants.

namespace simplx::inline SIMPLX_TARGET {

/// A literal of the model's code, where a kernel can read it.
template <class G, int i, class S>
inline constexpr S literal_in_memory = static_cast<S>(G::flat.label[i].attributes.reals[0]);

/// Addresses of values and gradients; every offset is a constant of the graph.
template <class G>
struct Address {
  template <int i, class S>
  static const S* value(const Context<S>& context) {
    constexpr Info info = G::table.info[i];
    constexpr int axis = static_cast<int>(info.shape.axis);
    if constexpr (info.kind == Kind::number) {
      return &literal_in_memory<G, i, S>;
    } else if constexpr (info.kind == Kind::parameter) {
      return context.parameters + G::layout.parameter[i];
    } else if constexpr (info.kind == Kind::constant) {
      return context.constants + G::layout.constant[i];
    } else if constexpr (info.kind == Kind::input) {
      return static_cast<const S*>(context.inputs[G::layout.input[i]]);
    } else if constexpr (info.result) {
      return context.outputs[G::layout.output[i]];
    } else if constexpr (G::plan.kept[i]) {
      return context.kept[axis] + G::layout.value[i] * context.stride[axis];
    } else {
      return context.temporary[axis] + G::layout.value[i] * context.stride[axis];
    }
  }

  /// Of a parameter, the sum of its use number `use`: each step that adds to a parameter has a sum of its own
  /// (core/plan.hpp).
  template <int i, int use = 0, class S>
  static S* gradient(const Context<S>& context) {
    constexpr int home = G::plan.shares[i];
    constexpr Info info = G::table.info[home];
    constexpr int axis = static_cast<int>(info.shape.axis);
    if constexpr (info.kind == Kind::parameter) {
      if constexpr (use > 0) {
        S* const further = context.further_gradients;
        if (further) return further + G::layout.further[home] + (use - 1) * info.parameters;
      }
      return context.gradients + G::layout.parameter[home];
    } else if constexpr (info.kind == Kind::input) {
      return context.input_gradients[G::layout.input[home]];
    } else if constexpr (info.result) {
      return context.output_gradients[G::layout.output[home]];
    } else if constexpr (keeps_gradient(G::table.info, G::plan, home)) {
      return context.kept[axis] + G::layout.gradient[home] * context.stride[axis];
    } else {
      return context.temporary[axis] + G::layout.gradient[home] * context.stride[axis];
    }
  }
};

/// The view of one node.
template <class G, int node, class S>
struct Frame {
  using Graph = G;
  using Scalar = S;
  static constexpr int index = node;
  static constexpr Info info = G::table.info[node];
  static constexpr Attributes attributes = G::flat.label[node].attributes;
  static constexpr Name name = G::flat.label[node].name;
  static constexpr Shape out_shape = info.shape;
  template <int k>
  static constexpr int argument = info.arguments[k];
  template <int k>
  static constexpr Shape shape = G::table.info[argument<k>].shape;
  /// What backward does with the gradient of argument k.
  template <int k>
  static constexpr Write write = G::fusion.wanted[argument<k>] ? G::plan.argument_write[node][k] : Write::skip;

  const Context<S>& context;

  /// Rows of the result, and of argument k.
  Index rows() const { return context.rows_of(out_shape); }
  template <int k>
  Index rows_in() const {
    return context.rows_of(shape<k>);
  }
  template <int k>
  const S* in() const {
    return Address<G>::template value<argument<k>>(context);
  }
  /// Argument k as whole numbers: tokens, labels.
  template <int k>
  const std::int32_t* indices() const {
    return static_cast<const std::int32_t*>(context.inputs[G::layout.input[argument<k>]]);
  }
  S* out() const {
    detail::stores();
    return const_cast<S*>(Address<G>::template value<node>(context));
  }
  const S* out_grad() const { return Address<G>::template gradient<node>(context); }
  template <int k>
  S* grad() const {
    if constexpr (write<k> == Write::skip) {
      return nullptr;
    } else {
      detail::stores();
      return Address<G>::template gradient<argument<k>, G::plan.argument_use[node][k]>(context);
    }
  }
  /// The turn in which backward adds to the gradient of argument k; none unless that is a parameter (core/turn.hpp).
  template <int k>
  detail::Turn* turn() const {
    return G::table.info[argument<k>].kind == Kind::parameter ? context.turn : nullptr;
  }
  /// The columns that forward saved for backward.
  S* saved() const {
    constexpr int axis = static_cast<int>(out_shape.axis);
    return context.kept[axis] + G::layout.saved[node].on[axis] * context.stride[axis];
  }
  const S* packed() const { return context.packed + G::layout.packed[node]; }
  const S* turned() const { return context.turned + G::layout.packed[node]; }
  S* scratch() const { return context.scratch; }
};

}  // namespace simplx

// ---- simplx/core/execute.hpp

/// \file simplx/core/execute.hpp
/// Running a planned graph: straight-line code, one call for each step, for any backend.
///
/// A backend supplies its `Scalar`, `map_forward`, `map_backward`, the elements of `map_scratch` that these need,
/// `clear`, `copy` and `add`; ops supply `forward(backend, frame)` and `backward(backend, frame)`, products an epilogue
/// in addition. A backend with kernels of its own specialises `kernels`; one whose memory is not the host's says
/// `on_device`.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Asked by what simplx/cuda specialises for its backends.
template <class Backend>
constexpr bool runs_on_host() {
  static_assert(!requires { Backend::on_device; },
                "simplx: Trainer, Learner, Inference, Stream, Evaluation and Function on a GPU are those of "
                "simplx/cuda/trainer.cuh, learner.cuh, inference.cuh, stream.cuh, evaluation.cuh and function.cuh: "
                "include the one that is used, in a source of nvcc");
  return true;
}

}  // namespace detail

/// The definition of the op of a node.
template <class G, int node>
using op_of = op<G::flat.label[node].op>;

/// What runs an op on a backend: the op itself, unless the backend knows better (simplx/cuda).
template <class Backend, Tag name>
struct kernels : op<name> {};

template <class Backend, class G, int node>
using kernels_of = kernels<Backend, G::flat.label[node].op>;

/// The steps of a graph on a backend: prepare, forward, backward.
template <class G, class Backend>
struct Execute {
  using S = typename Backend::Scalar;
  template <int node>
  using FrameOf = Frame<G, node, S>;

  /// Kernels bring parameters into the form they read fastest, once for each step: `packed` for forward, `turned` for
  /// backward, unless that is null. Part `part` of `parts`.
  __attribute__((noinline)) static void prepare(const S* parameters, S* packed, S* turned, int part = 0,
                                                int parts = 1) {
    constexpr int nodes = G::layout.packed_elements > 0 ? G::count : 0;
    detail::unroll<0, nodes>([&]<int i>(std::integral_constant<int, i>) {
      [[maybe_unused]] constexpr Index place = G::layout.packed[i];
      if constexpr (G::table.info[i].stack) {
        op_of<G, i>::template prepare<G, i>(Backend{}, parameters, packed + place, turned ? turned + place : turned,
                                            part, parts);
      } else if constexpr (G::table.info[i].packed > 0) {
        if (i % parts != part) return;
        op_of<G, i>::template prepare<G, i>(Backend{}, parameters, packed + place, turned ? turned + place : turned);
      }
    });
  }

  __attribute__((noinline)) static void forward(const Context<S>& context) {
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[s];
      if constexpr (G::table.info[node].looped()) {
        Backend::template map_forward<G, node>(context);
      } else {
        kernels_of<Backend, G, node>::forward(Backend{}, FrameOf<node>{context});
      }
    });
  }

  __attribute__((noinline)) static void backward(const Context<S>& context) {
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[G::fusion.steps - 1 - s];
      if constexpr (G::fusion.wanted[node]) {
        if constexpr (G::table.info[node].looped()) {
          clear_leaves<node>(context);
          if constexpr (!G::plan.idle[node]) {
            const detail::Addition addition(G::plan.adds[node] ? context.turn : nullptr);
            Backend::template map_backward<G, node>(context);
          }
          constexpr int product = G::fusion.epilogue_of[node];
          if constexpr (product >= 0) {
            if constexpr (G::fusion.wanted[product]) op_backward<product>(context);
          }
        } else {
          op_backward<node>(context);
        }
      }
    });
    // An input that nothing depends on differentiably has a gradient of zero.
    detail::unroll<0, unreached_inputs() ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (G::table.info[i].kind == Kind::input && G::fusion.wanted[i] &&
                    G::plan.first_write[i] == never) {
        clear<i>(context);
      }
    });
  }

 private:
  static constexpr bool unreached_inputs() {
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].kind == Kind::input && G::fusion.wanted[i] && G::plan.first_write[i] == never) return true;
    }
    return false;
  }
  template <int node>
  static void clear(const Context<S>& context) {
    constexpr Shape shape = G::table.info[node].shape;
    Backend::clear(context, Address<G>::template gradient<node>(context), context.rows_of(shape) * shape.cols);
  }
  template <int node>
  static void op_backward(const Context<S>& context) {
    constexpr Info info = G::table.info[node];
    detail::unroll<0, info.argument_count>([&]<int a>(std::integral_constant<int, a>) {
      if constexpr (G::plan.argument_cleared[node][a]) clear<info.arguments[a]>(context);
    });
    const detail::Addition addition(G::plan.adds[node] && !op_of<G, node>::adds_by_itself ? context.turn : nullptr);
    kernels_of<Backend, G, node>::backward(Backend{}, FrameOf<node>{context});
  }
  template <int root>
  static void clear_leaves(const Context<S>& context) {
    detail::unroll<G::fusion.leaf_begin[root], G::fusion.leaf_end[root]>(
        [&]<int l>(std::integral_constant<int, l>) {
          if constexpr (G::plan.leaf_cleared[l]) clear<G::fusion.leaves[l]>(context);
        });
  }
};

}  // namespace simplx

// ---- simplx/cpu/group.hpp

/// \file simplx/cpu/group.hpp
/// A fused elementwise group: its members and leaves as constants of the graph, its values at one place, all of them in
/// registers, and the reverse sweep over them. Where its leaves are in memory a backend's loops say (map.hpp and
/// map_backward.hpp; on a GPU map_places.cuh).

namespace simplx::inline SIMPLX_TARGET::detail {

SIMPLX_HD_BEGIN

template <class G, int root>
struct Group {
  static constexpr int members = G::fusion.member_end[root] - G::fusion.member_begin[root];
  static constexpr int leaves = G::fusion.leaf_end[root] - G::fusion.leaf_begin[root];
  static constexpr Shape shape = loop_shape(G::table.info, root);
  static constexpr bool reduces = G::table.info[root].kind == Kind::reduction;
  static constexpr int product = G::fusion.epilogue_of[root];

  SIMPLX_HD static constexpr int member(int m) { return G::fusion.members[G::fusion.member_begin[root] + m]; }
  SIMPLX_HD static constexpr int leaf(int l) { return G::fusion.leaves[G::fusion.leaf_begin[root] + l]; }
  SIMPLX_HD static constexpr int arguments(int m) { return G::table.info[member(m)].argument_count; }
  /// A value on the way that backward reads from memory.
  SIMPLX_HD static constexpr bool kept(int m) { return G::plan.kept[member(m)] && member(m) != root; }
  SIMPLX_HD static constexpr int slot(int l) { return G::fusion.leaf_begin[root] + l; }
  /// Whether one evaluation takes so long that the next need not begin beside it.
  SIMPLX_HD static constexpr bool costly() {
    for (int m = 0; m < members; ++m) {
      if (G::table.info[member(m)].costly) return true;
    }
    return false;
  }

  struct Tables {
    int operand[members + 1][3]{};  ///< a member's position (>= 0), or a leaf's position l as -1 - l
    bool first[members + 1][3]{};   ///< the first contribution to that operand's adjoint, in the order of the sweep
  };
  static constexpr Tables tables = [] {
    Tables t;
    bool begun_member[members + 1]{}, begun_leaf[leaves + 1]{};
    for (int m = members - 1; m >= 0; --m) {
      const Info& info = G::table.info[member(m)];
      for (int a = 0; a < info.argument_count; ++a) {
        const int node = info.arguments[a];
        int position = 0;
        if (G::fusion.group[node] == root) {
          while (member(position) != node) ++position;
          t.operand[m][a] = position;
        } else {
          while (leaf(position) != node) ++position;
          t.operand[m][a] = -1 - position;
        }
        bool& begun = t.operand[m][a] >= 0 ? begun_member[position] : begun_leaf[position];
        t.first[m][a] = !begun;
        begun |= G::fusion.wanted[node];
      }
    }
    return t;
  }();

  /// How a leaf is spread over the group's shape.
  enum class Spread : signed char { full, row, column, one };
  SIMPLX_HD static constexpr Spread spread(int l) {
    const Shape s = G::table.info[leaf(l)].shape;
    if (G::table.info[leaf(l)].kind == Kind::number) return Spread::one;  // a literal is nowhere in memory
    if (s == shape) return Spread::full;
    if (s.is_fixed() && s.rows * s.cols == 1) return Spread::one;
    return s.is_fixed() && s.rows == 1 ? Spread::row : Spread::column;
  }
  SIMPLX_HD static constexpr bool wanted(int l) { return G::fusion.wanted[leaf(l)]; }
  /// The pull-back of member m to its argument a is of use.
  SIMPLX_HD static constexpr bool pulls(int m, int a) {
    return a < arguments(m) && G::fusion.wanted[G::table.info[member(m)].arguments[a]];
  }
  SIMPLX_HD static constexpr bool writes(int l) { return wanted(l) && G::plan.leaf_write[slot(l)] != Write::skip; }
  /// Where the elements of a reduction go, and where their gradient comes from.
  SIMPLX_HD static constexpr Spread target() {
    if constexpr (!reduces) {
      return Spread::full;
    } else {
      switch (over_of(G::flat.label[root].attributes)) {
        case Over::rows: return Spread::row;
        case Over::columns: return Spread::column;
        default: return Spread::one;
      }
    }
  }
  /// Rows and columns need not be told apart.
  SIMPLX_HD static constexpr bool flat() {
    if (target() == Spread::row || target() == Spread::column) return false;
    for (int l = 0; l < leaves; ++l) {
      if (spread(l) == Spread::row || spread(l) == Spread::column) return false;
    }
    return true;
  }
};

/// The values of a group at one place.
template <class G, int root, class V>
struct GroupValues {
  using Grp = Group<G, root>;
  V leaf[Grp::leaves + 1];
  V member[Grp::members];

  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V operand() const {
    constexpr int where = Grp::tables.operand[m][a];
    if constexpr (where >= 0) {
      return member[where];
    } else {
      return leaf[-1 - where];
    }
  }
  template <int m>
  SIMPLX_HD __attribute__((always_inline)) void evaluate() {
    using Op = op_of<G, Grp::member(m)>;
    if constexpr (Grp::arguments(m) == 1) {
      member[m] = Op::f(operand<m, 0>());
    } else if constexpr (Grp::arguments(m) == 2) {
      member[m] = Op::f(operand<m, 0>(), operand<m, 1>());
    } else {
      member[m] = Op::f(operand<m, 0>(), operand<m, 1>(), operand<m, 2>());
    }
  }
};

/// The reverse sweep over a group at one place. A backend gives the values that pull-backs read and the adjoint of the
/// last member, and then calls pull<m>() from the last to the first.
template <class G, int root, class V>
struct Sweep {
  using Grp = Group<G, root>;
  static constexpr int last = Grp::members - 1;
  GroupValues<G, root, V> at;
  V adjoint[Grp::members];
  V leaf_adjoint[Grp::leaves + 1];

  /// Adds what member m passes on to its operands.
  template <int m>
  SIMPLX_HD __attribute__((always_inline)) void pull() {
    static_assert(Grp::arguments(m) <= 3, "simplx: an elementwise op has at most three operands");
    if constexpr (Grp::pulls(m, 0)) add<m, 0>(pull_back<m, 0>());
    if constexpr (Grp::pulls(m, 1)) add<m, 1>(pull_back<m, 1>());
    if constexpr (Grp::pulls(m, 2)) add<m, 2>(pull_back<m, 2>());
  }

 private:
  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V pull_back() const {
    using Op = op_of<G, Grp::member(m)>;
    if constexpr (Grp::arguments(m) == 1) {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>());
    } else if constexpr (Grp::arguments(m) == 2) {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>(), operand<m, a, 1>());
    } else {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>(), operand<m, a, 1>(),
                               operand<m, a, 2>());
    }
  }
  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) void add(V part) {
    constexpr int target = Grp::tables.operand[m][a];
    V& sum = target >= 0 ? adjoint[target >= 0 ? target : 0] : leaf_adjoint[target >= 0 ? 0 : -1 - target];
    if constexpr (Grp::tables.first[m][a]) {
      sum = part;
    } else {
      sum += part;
    }
  }
  /// In place of a value that an op does not declare to read: zero would make a gradient of zero where the declaration
  /// was forgotten, NaN is seen at once. Costs nothing where it is not read.
  static constexpr double not_read = std::numeric_limits<double>::quiet_NaN();
  /// The result of member m where the pull-back to operand a reads it, and its operand b.
  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V result() const {
    if constexpr ((G::table.info[Grp::member(m)].reads_output >> a & 1) != 0) {
      return at.member[m];
    } else {
      return literal<V>(not_read);
    }
  }
  template <int m, int a, int b>
  SIMPLX_HD __attribute__((always_inline)) V operand() const {
    if constexpr ((G::table.info[Grp::member(m)].reads[a] >> b & 1) != 0) {
      return at.template operand<m, b>();
    } else {
      return literal<V>(not_read);
    }
  }
};

SIMPLX_HD_END
}  // namespace simplx::detail

// ---- simplx/cpu/map.hpp

/// \file simplx/cpu/map.hpp
/// Where the leaves of a group are in memory, its value at one place, and the forward loop: values are stored, or
/// summed where a reduction is the root.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Numbers that are added up one after the other before their sum is added to others': of more, float would round the
/// last ones away.
inline constexpr Index added_at_once = 4096;

/// Where the leaves of a group are, and the members that are kept; single numbers are loaded once.
template <class G, int root, class S>
struct Operands {
  using Grp = detail::Group<G, root>;
  const S* pointer[Grp::leaves + 1]{};
  S one[Grp::leaves + 1]{};
  S* kept[Grp::members]{};

  /// `product` stands in for the value of the product that the group finishes.
  explicit Operands(const Context<S>& context, const S* product = nullptr) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      constexpr int node = Grp::leaf(l);
      if constexpr (G::table.info[node].kind == Kind::number) {
        one[l] = static_cast<S>(G::flat.label[node].attributes.reals[0]);
      } else if constexpr (node == Grp::product) {
        pointer[l] = product;
      } else {
        pointer[l] = Address<G>::template value<node>(context);
        if constexpr (Grp::spread(l) == Grp::Spread::one) one[l] = *pointer[l];
      }
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      if constexpr (Grp::kept(m)) kept[m] = const_cast<S*>(Address<G>::template value<Grp::member(m)>(context));
    });
  }

  template <int l, class V>
  __attribute__((always_inline)) Register<V> load_leaf(Index row, Index col) const {
    constexpr auto spread = Grp::spread(l);
    if constexpr (spread == Grp::Spread::one) {
      return splat<V>(one[l]);
    } else if constexpr (spread == Grp::Spread::row) {
      return load<V>(pointer[l] + col);
    } else if constexpr (spread == Grp::Spread::column) {
      return splat<V>(pointer[l][row]);
    } else {
      return load<V>(pointer[l] + row * Grp::shape.cols + col);
    }
  }
};

/// The group's result at [row, col ...]; `product` is the accumulator of the product it finishes.
template <class G, int root, class V, class S>
__attribute__((always_inline)) inline Register<V> map_value(const Operands<G, root, S>& operands, Index row, Index col,
                                                            Register<V> product) {
  using Grp = detail::Group<G, root>;
  detail::GroupValues<G, root, Register<V>> at;
  detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
    if constexpr (Grp::leaf(l) == Grp::product) {
      at.leaf[l] = product;
    } else {
      at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    }
  });
  detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
    at.template evaluate<m>();
    if constexpr (Grp::kept(m)) store<V>(operands.kept[m] + row * Grp::shape.cols + col, at.member[m]);
  });
  return at.member[Grp::members - 1];
}

template <class G, int root, class S>
__attribute__((noinline, flatten)) void map_forward_loop(const Context<S>& context, const S* product, S* out) {
  detail::stores();
  using Grp = detail::Group<G, root>;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context, product);
  each_element<S, cols, Grp::flat()>(context.rows_of(Grp::shape), [&]<class V>(Index row, Index col)
                                                                      __attribute__((always_inline)) {
    Register<V> accumulator{};
    if constexpr (Grp::product >= 0) accumulator = load<V>(product + row * cols + col);
    store<V>(out + row * cols + col, map_value<G, root, V>(operands, row, col, accumulator));
  });
}

/// A sum in chains of vectors, which need not wait for each other.
template <class S, int chains>
struct RunningSum {
  Vec<S> chain[4]{};
  S single = S(0);

  /// Adds value<V>(i) for all i below `count`.
  template <class F>
  __attribute__((always_inline)) void add(Index count, const F& value) {
    for (Index i = add_vectors(count, value); i < count; ++i) single += value.template operator()<S>(i);
  }
  /// Adds value<V>(col) for all columns of a row.
  template <Index cols, class F>
  __attribute__((always_inline)) void add_row(const F& value) {
    constexpr Index whole = cols / lanes<S> * lanes<S>;
    add_vectors(whole, value);
    if constexpr (whole < cols) {
      each_left<S, cols - whole>(whole, [&]<class V>(Index col) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<V, S>) {
          single += value.template operator()<V>(col);
        } else {
          chain[0] += counted<V>(value.template operator()<V>(col));
        }
      });
    }
  }
  S total() const { return sum((chain[0] + chain[1]) + (chain[2] + chain[3])) + single; }

 private:
  /// Adds whole vectors; returns how many elements they were.
  template <class F>
  __attribute__((always_inline)) Index add_vectors(Index count, const F& value) {
    constexpr Index step = lanes<S>;
    Index i = 0;
    for (; chains > 1 && i + chains * step <= count; i += chains * step) {
      detail::unroll<0, chains>([&]<int k>(std::integral_constant<int, k>) __attribute__((always_inline)) {
        chain[k] += value.template operator()<Vec<S>>(i + k * step);
      });
    }
    for (; i + step <= count; i += step) chain[0] += value.template operator()<Vec<S>>(i);
    return i;
  }
};

/// Evaluates the group and sums it over rows, columns or both; a mean divides by their number.
template <class G, int root, class S>
__attribute__((noinline, flatten)) void reduce_forward_loop(const Context<S>& context, S* out) {
  detail::stores();
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context);
  const Index rows = context.rows_of(Grp::shape);
  const S scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
  const auto row_of = [&](Index row) {
    return [&operands, row]<class V>(Index col) __attribute__((always_inline)) {
      return map_value<G, root, V>(operands, row, col, Register<V>{});
    };
  };
  constexpr bool one_column = Grp::target() == Spread::row && cols == 1;
  if constexpr (Grp::target() == Spread::one || one_column) {
    constexpr Index step = std::max<Index>(1, added_at_once * lanes<S> / cols);  // rows
    std::conditional_t<std::is_same_v<S, float>, double, S> total(0);
    for (Index begin = 0; begin < rows; begin += step) {
      const Index end = std::min(rows, begin + step);
      RunningSum<S, Grp::costly() ? 1 : 4> sum;
      if constexpr (Grp::flat() || one_column) {
        sum.add((end - begin) * cols, [&]<class V>(Index i) __attribute__((always_inline)) {
          return map_value<G, root, V>(operands, 0, begin * cols + i, V{});
        });
      } else {
        for (Index row = begin; row < end; ++row) sum.template add_row<cols>(row_of(row));
      }
      total += sum.total();
    }
    *out = one_column && rows == 0 ? S(0) : scale * static_cast<S>(total);  // the mean over no rows is 0
  } else if constexpr (Grp::target() == Spread::column) {
    for (Index row = 0; row < rows; ++row) {
      RunningSum<S, Grp::costly() ? 1 : 4> sum;
      sum.template add_row<cols>(row_of(row));
      out[row] = scale * sum.total();
    }
  } else {
    std::fill_n(out, cols, S(0));
    for (Index begin = 0; begin < rows; begin += added_at_once) {
      const Index end = std::min(rows, begin + added_at_once);
      ColumnValues<S, cols> sums(S(0));
      for (Index row = begin; row < end; ++row) {
        sums.each([&]<class V>(Index col, Register<V>& sum) __attribute__((always_inline)) {
          sum += map_value<G, root, V>(operands, row, col, Register<V>{});
        });
      }
      sums.each([&]<class V>(Index col, Register<V>& sum) __attribute__((always_inline)) {
        store<V>(out + col, load<V>(out + col) + splat<V>(scale) * sum);
      });
    }
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/map_backward.hpp

/// \file simplx/cpu/map_backward.hpp
/// The backward loop of a group is reverse mode in miniature: it evaluates again what the pull-backs read, then sweeps
/// the members of the group from the root to the leaves.

namespace simplx::inline SIMPLX_TARGET::cpu {

template <class G, int root, class S>
struct MapBackward {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  static constexpr Index cols = Grp::shape.cols;
  static constexpr bool reads_value = G::plan.kept[root] && !Grp::reduces;

  /// Sums over all elements, or over the current row: of vectors, of the elements that are left, and of both before.
  struct Sums {
    Vec<S> vectors[Grp::leaves + 1]{};
    S singles[Grp::leaves + 1]{};
    std::conditional_t<std::is_same_v<S, float>, double, S> totals[Grp::leaves + 1]{};

    template <int l, class V>
    void add(Register<V> term) {
      if constexpr (std::is_same_v<Register<V>, Vec<S>>) {
        vectors[l] += counted<V>(term);
      } else {
        singles[l] += term;
      }
    }
    void fold(int l) {
      totals[l] += sum(vectors[l]) + singles[l];
      vectors[l] = Vec<S>{};
      singles[l] = S(0);
    }
    S take(int l) {
      fold(l);
      return static_cast<S>(std::exchange(totals[l], 0));
    }
  };

  const Operands<G, root, S> operands;
  const S* value = nullptr;  ///< of the group, where a pull-back reads it
  const S* out_gradient;
  S scale = S(1);  ///< of a mean
  S* gradient[Grp::leaves + 1]{};
  Sums sums;

  explicit MapBackward(const Context<S>& context)
      : operands(context, product_value(context)), out_gradient(Address<G>::template gradient<root>(context)) {
    if constexpr (reads_value) value = Address<G>::template value<root>(context);
    if constexpr (Grp::reduces) {
      const Index rows = context.rows_of(Grp::shape);
      scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
    }
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l)) {
        gradient[l] = Address<G>::template gradient<Grp::leaf(l), G::plan.leaf_use[Grp::slot(l)]>(context);
      }
    });
  }

  __attribute__((noinline, flatten)) static void run(const Context<S>& context) {
    detail::stores();
    MapBackward self(context);
    const Index rows = context.rows_of(Grp::shape);
    constexpr Index step = Grp::flat() ? std::max<Index>(1, added_at_once * lanes<S> / cols) : added_at_once;
    for (Index begin = 0; begin < rows; begin += step) {
      const Index end = std::min(rows, begin + step);
      if constexpr (Grp::flat()) {
        each_element<S, cols, true>(end - begin, [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
          Register<V> down[Grp::leaves + 1]{};  // unused: there are no rows
          self.template at<V>(begin + row, col, down);
        });
      } else if constexpr (down_columns()) {
        each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
          Register<V> down[Grp::leaves + 1]{};
          for (Index row = begin; row < end; ++row) self.template at<V>(row, col, down);
          self.template add_down<V>(down, col);
        });
      } else {
        for (Index row = begin; row < end; ++row) {
          each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
            Register<V> down[Grp::leaves + 1]{};
            self.template at<V>(row, col, down);
            self.template add_down<V>(down, col);
          });
          self.template finish<Spread::column>(row);
        }
      }
      if constexpr (writes(Spread::one)) self.template fold<Spread::one>();
    }
    self.template finish<Spread::one>(0);
  }

 private:
  static constexpr bool writes(Spread spread) {
    for (int l = 0; l < Grp::leaves; ++l) {
      if (Grp::writes(l) && Grp::spread(l) == spread) return true;
    }
    return false;
  }
  /// Columns of a few vectors are run down one after the other, so that the gradients of rows stay in registers.
  static constexpr bool down_columns() {
    return cols <= 4 * lanes<S> && writes(Spread::row) && !writes(Spread::column);
  }
  static const S* product_value(const Context<S>& context) {
    if constexpr (Grp::product >= 0) {
      if constexpr (G::plan.kept[Grp::product]) return Address<G>::template value<Grp::product>(context);
    }
    return nullptr;
  }

  template <class V>
  __attribute__((always_inline)) void at(Index row, Index col, Register<V>* down) {
    detail::Sweep<G, root, Register<V>> sweep;
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      constexpr bool read = G::plan.leaf_read[Grp::slot(l)];
      if constexpr (read) sweep.at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      constexpr bool again = m != sweep.last && G::plan.recomputed[Grp::member(m)];
      if constexpr (Grp::kept(m)) {
        sweep.at.member[m] = load<V>(operands.kept[m] + row * cols + col);
      } else if constexpr (again) {
        sweep.at.template evaluate<m>();
      }
    });
    if constexpr (reads_value) sweep.at.member[sweep.last] = load<V>(value + row * cols + col);
    sweep.adjoint[sweep.last] = incoming<V>(row, col);
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      sweep.template pull<Grp::members - 1 - m>();
    });
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      write<l, V>(sweep.leaf_adjoint[l], row, col, down);
    });
  }

  template <class V>
  __attribute__((always_inline)) Register<V> incoming(Index row, Index col) const {
    constexpr Spread target = Grp::target();
    if constexpr (target == Spread::one) {
      return splat<V>(scale * *out_gradient);
    } else if constexpr (target == Spread::column) {
      return splat<V>(scale * out_gradient[row]);
    } else if constexpr (target == Spread::row) {
      return splat<V>(scale) * load<V>(out_gradient + col);
    } else {
      return load<V>(out_gradient + row * cols + col);
    }
  }

  template <int l, class V>
  __attribute__((always_inline)) void write(Register<V> adjoint, Index row, Index col, Register<V>* down) {
    if constexpr (!Grp::writes(l)) {
      return;
    } else if constexpr (Grp::spread(l) == Spread::one || Grp::spread(l) == Spread::column) {
      sums.template add<l, V>(adjoint);
    } else if constexpr (Grp::spread(l) == Spread::row) {
      down[l] += adjoint;
    } else {
      S* place = gradient[l] + row * cols + col;
      if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::accumulate) adjoint += load<V>(place);
      store<V>(place, adjoint);
    }
  }
  /// Adds sums down the rows to the gradients of leaves that are rows, which never store: they are cleared before.
  template <class V>
  __attribute__((always_inline)) void add_down(const Register<V>* down, Index col) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == Spread::row) {
        store<V>(gradient[l] + col, load<V>(gradient[l] + col) + down[l]);
      }
    });
  }
  template <Spread kind>
  void fold() {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == kind) sums.fold(l);
    });
  }
  template <Spread kind>
  void finish(Index row) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == kind) {
        if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::store) {
          gradient[l][row] = sums.take(l);
        } else {
          gradient[l][row] += sums.take(l);
        }
      }
    });
  }
};

}  // namespace simplx::cpu

// ---- simplx/cpu/bfloat16.hpp

/// \file simplx/cpu/bfloat16.hpp
/// Pairs of bfloat16, the upper halves of floats, and the sum of their products: half the bytes of float and, where the
/// CPU multiplies pairs (AVX-512 BF16), twice the speed on AMD's; Intel's have a matrix unit for them (amx.hpp).
///
/// A word of 32 bits holds two neighbours of the inner dimension of a product, the first one in its lower half. Other
/// CPUs compute the same from words that are taken apart, at the speed of float.

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A word with two bfloat16: neighbours in the inner dimension of a product.
using Twin = std::int32_t;

/// Rounds to the nearest bfloat16, ties to even; it is left in the upper half. NaN stays NaN.
inline Vec<std::uint32_t> rounded(Vec<float> x) {
  using Bits = Vec<std::uint32_t>;
  Bits bits = load<Bits>(&x);
  const auto is_nan = x != x;
  bits += 0x7fff + ((bits >> 16) & 1);
  return (is_nan ? Bits{} + 0x7fc00000u : bits) & 0xffff0000u;
}

/// (first[i], second[i]) for each lane.
__attribute__((always_inline)) inline Vec<Twin> pairs_of(Vec<float> first, Vec<float> second) {
#if defined(__AVX512BF16__)
  typedef std::uint16_t Halves __attribute__((vector_size(32)));
  const auto words = [](Vec<float> x) {
    return __builtin_convertvector((Halves)_mm512_cvtneps_pbh((__m512)x), Vec<std::uint32_t>);
  };
  return (Vec<Twin>)(words(first) | words(second) << 16);
#else
  return (Vec<Twin>)(rounded(first) >> 16 | rounded(second));
#endif
}

/// (x[0], x[1]), (x[2], x[3]), ... of two vectors, one after the other.
__attribute__((always_inline)) inline Vec<Twin> pairs_along(Vec<float> front, Vec<float> back) {
#if defined(__AVX512BF16__)
  return (Vec<Twin>)_mm512_cvtne2ps_pbh((__m512)back, (__m512)front);
#else
  constexpr int L = lanes<float>;
  float numbers[2 * L], even[L], odd[L];
  store(numbers, front), store(numbers + L, back);
  for (int i = 0; i < L; ++i) even[i] = numbers[2 * i], odd[i] = numbers[2 * i + 1];
  return pairs_of(load<Vec<float>>(even), load<Vec<float>>(odd));
#endif
}

/// sum + left * right: of one number in each lane, or of two, whose products are added to the same sum.
template <class V>
__attribute__((always_inline)) inline V multiply_add(V sum, V left, V right) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && defined(__FMA__)
  // Left alone, g++ moves sums between registers and, where 16 are all that there is, to the stack and back.
  if constexpr (vector_bytes == 32 && std::is_same_v<V, Vec<float>>) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(left), "x"(right));
    return sum;
  } else if constexpr (vector_bytes == 32 && std::is_same_v<V, Vec<double>>) {
    asm("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(left), "x"(right));
    return sum;
  }
#endif
  return sum + left * right;
}
__attribute__((always_inline)) inline Vec<float> multiply_add(Vec<float> sum, Vec<Twin> left, Vec<Twin> right) {
#if defined(__AVX512BF16__)
  return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
#else
  using Bits = Vec<std::uint32_t>;
  const auto first = [](Vec<Twin> pairs) { return (Vec<float>)((Bits)pairs << 16); };
  const auto second = [](Vec<Twin> pairs) { return (Vec<float>)((Bits)pairs & 0xffff0000u); };
  sum += first(left) * first(right);
  return sum + second(left) * second(right);
#endif
}

/// Pairs neighbours of a row: `count` even numbers become count / 2 pairs.
inline void pair_columns(Index count, const float* row, Twin* pairs) {
  constexpr Index step = 2 * lanes<float>;
  Index i = 0;
  for (; i + step <= count; i += step) {
    store(pairs + i / 2, pairs_along(load<Vec<float>>(row + i), load<Vec<float>>(row + i + lanes<float>)));
  }
  if (i == count) return;
  float rest[step]{};
  Twin words[step / 2];
  std::memcpy(rest, row + i, static_cast<std::size_t>(count - i) * sizeof(float));
  store(words, pairs_along(load<Vec<float>>(rest), load<Vec<float>>(rest + lanes<float>)));
  std::memcpy(pairs + i / 2, words, static_cast<std::size_t>(count - i) / 2 * sizeof(Twin));
}

/// Pairs each number of a row with the one below it; `second` is nullptr after the last row, which pairs with zeros.
inline void pair_rows(Index count, const float* first, const float* second, Twin* pairs) {
  for (Index i = 0; i < count; i += lanes<float>) {
    const Vec<float> below = second ? load<Vec<float>>(second + i) : Vec<float>{};
    store(pairs + i, pairs_of(load<Vec<float>>(first + i), below));
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/pieces.hpp

/// \file simplx/cpu/pieces.hpp
/// A float as the sum of three bfloat16, from whose products a matrix unit (amx.hpp) makes those of floats:
///
///     a = a0 + a1 + a2, 8 bits each
///     a b = a0 b0 + (a0 b1 + a1 b0) + (a0 b2 + a1 b1 + a2 b0)
///
/// up to an error of at most 2^-21 of a b, 2^-24 on average: the three smallest products are left out. Each of the six
/// takes a sixteenth of the time of a product of floats. The unit rounds a sum half as often as multiply-adds do, so
/// that its results are nearer to the exact ones. It takes numbers below 2^-126 for zeros and cannot split infinities:
/// where operands might lead there (Extent), floats are multiplied as they are. A sum that products are added to counts
/// as zero below 2^-126.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Pieces of a float.
inline constexpr int float_pieces = 3;
/// Products of pieces that make one of floats.
inline constexpr int piece_products = 6;

/// Whether this is compiled for CPUs whose matrix unit multiplies floats in pieces.
#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__x86_64__) && defined(__linux__)
inline constexpr bool floats_in_pieces = true;
#else
inline constexpr bool floats_in_pieces = false;
#endif

/// a0, a1 and a2: each the upper half of what is left.
struct Pieces {
  Vec<float> of[float_pieces];

  __attribute__((always_inline)) explicit Pieces(Vec<float> rest) {
    using Bits = Vec<std::uint32_t>;
    SIMPLX_UNROLL
    for (int i = 0; i + 1 < float_pieces; ++i) {
      of[i] = (Vec<float>)((Bits)rest & 0xffff0000u);
      rest -= of[i];
    }
    of[float_pieces - 1] = rest;
  }
};

/// (first[i], second[i]) for each lane, of numbers that are bfloat16.
__attribute__((always_inline)) inline Vec<Twin> join_pairs(Vec<float> first, Vec<float> second) {
  using Bits = Vec<std::uint32_t>;
  return (Vec<Twin>)((Bits)first >> 16 | (Bits)second);
}

/// How small and how large numbers are.
struct Extent {
  int smallest;  ///< the exponent of the smallest one but zeros
  bool splits;   ///< none is infinite, no number, or without room for its pieces
};

/// Whether products of the pieces of such numbers, and their sums, are exact or rounded as those of floats are: all of
/// them are whole multiples of 2^-126.
constexpr bool fit(Extent a, Extent b) { return a.splits && b.splits && a.smallest + b.smallest >= 30 - 126; }

/// Finds the Extent of numbers that pass by.
class Measure {
 public:
  __attribute__((always_inline)) void operator()(Vec<float> x) {
    const Bits size = (Bits)x & 0x7fffffffu;
    largest_ = max(size, largest_);
    smallest_ = min(size - 1, smallest_);  // zero becomes the largest
  }
  Extent extent() const {
    std::uint32_t smallest = ~0u, largest = 0;
    for (int i = 0; i < lanes<float>; ++i) {
      smallest = std::min<std::uint32_t>(smallest, smallest_[i]);
      largest = std::max<std::uint32_t>(largest, largest_[i]);
    }
    constexpr std::uint32_t infinity = 0x7f800000, least = std::uint32_t(127 - 126 + 23) << 23;
    const bool none = largest == 0;
    return {none ? 0 : static_cast<int>((smallest + 1) >> 23) - 127,
            none || (largest < infinity && smallest + 1 >= least)};
  }

 private:
  using Bits = Vec<std::uint32_t>;
  Bits smallest_ = splat<Bits>(~0u), largest_{};  // an operator here, of vectors this wide, and nvcc 13 crashes
};

/// Of K numbers, whole vectors of them.
template <Index K>
Extent extent_of(const float* numbers) {
  Measure measure;
  for (Index k = 0; k < K; k += lanes<float>) measure(load<Vec<float>>(numbers + k));
  return measure.extent();
}

}  // namespace simplx::cpu

// ---- simplx/cpu/cpu.hpp

/// \file simplx/cpu/cpu.hpp
/// The CPU backend: scalar type and path of the kernels. It owns nothing; kernels are templates.

namespace simplx::inline SIMPLX_TARGET {

namespace cpu {
template <class S>
using MatrixMap = Eigen::Map<Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class S>
using ConstMatrixMap = Eigen::Map<const Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
}  // namespace cpu

/// This processor, with numbers of type S, float or double; `path` chooses among kernels.
template <class S, Path path = Path::fast>
struct Cpu {
  static_assert(path != Path::bfloat16 || std::is_same_v<S, float>,
                "simplx: Path::bfloat16 rounds the operands of products in float: use Cpu<float, Path::bfloat16>");
  using Scalar = S;
  /// Whether kernels on vectors run, and whether rows of that width are whole vectors for them.
  static constexpr bool by_vectors = path != Path::reference && std::is_arithmetic_v<S>;
  static constexpr bool vectorises(Index width) { return by_vectors && width % lanes<S> == 0; }

  /// Of products with parameters: whether their operands are rounded, or in pieces.
  static constexpr bool rounds = path == Path::bfloat16;
  static constexpr bool splits = path == Path::fast && cpu::floats_in_pieces && std::is_same_v<S, float>;

  static void clear(const Context<S>&, S* data, Index size) { std::fill_n(data, size, S(0)); }
  static void copy(const Context<S>&, const S* from, Index size, S* to) { std::copy_n(from, size, to); }
  /// to += from
  static void add(const Context<S>&, const S* from, Index size, S* to) {
    for (Index i = 0; i < size; ++i) to[i] += from[i];
  }

  /// Evaluates a group; a product that it finishes runs first, or hands over its accumulators.
  template <class G, int root>
  static void map_forward(const Context<S>& context) {
    constexpr int product = G::fusion.epilogue_of[root];
    S* out = const_cast<S*>(Address<G>::template value<root>(context));
    if constexpr (detail::Group<G, root>::reduces) {
      cpu::reduce_forward_loop<G, root, S>(context, out);
    } else if constexpr (product < 0) {
      cpu::map_forward_loop<G, root, S>(context, nullptr, out);
    } else {
      using Op = op_of<G, product>;
      const Frame<G, product, S> frame{context};
      if constexpr (Op::template takes_epilogue<Cpu, Frame<G, product, S>>) {
        Op::forward(Cpu{}, frame, out, Epilogue<G, root>(context));
      } else {
        S* value = out;
        if constexpr (G::plan.kept[product]) value = frame.out();
        Op::forward(Cpu{}, frame, value);
        cpu::map_forward_loop<G, root, S>(context, value, out);
      }
    }
  }

  template <class G, int root>
  static void map_backward(const Context<S>& context) {
    cpu::MapBackward<G, root, S>::run(context);
  }

 private:
  /// What a product calls for each vector of accumulators.
  template <class G, int root>
  struct Epilogue {
    static constexpr int product = G::fusion.epilogue_of[root];
    cpu::Operands<G, root, S> operands;
    S* product_value = nullptr;

    explicit Epilogue(const Context<S>& context) : operands(context) {
      if constexpr (G::plan.kept[product]) {
        product_value = const_cast<S*>(Address<G>::template value<product>(context));
      }
    }
    template <class V>
    __attribute__((always_inline)) cpu::Register<V> at(cpu::Register<V> accumulator, Index row, Index col) const {
      if constexpr (G::plan.kept[product]) {
        store<V>(product_value + row * detail::Group<G, root>::shape.cols + col, accumulator);
      }
      return cpu::map_value<G, root, V>(operands, row, col, accumulator);
    }
  };
};

}  // namespace simplx

// ---- simplx/cpu/dual.hpp

/// \file simplx/cpu/dual.hpp
/// Dual numbers: a value and its derivative along one direction, x + x' e with e^2 = 0.
///
///     f(x + x' e) = f(x) + f'(x) x' e
///
/// Any kernel run on them is its own forward mode: a forward pass gives a Jacobian-vector product, a forward and a
/// backward pass give a Hessian-vector product, and Dual<Dual<double>> the next order. Comparisons look at values.

namespace simplx::inline SIMPLX_TARGET {

template <class T>
struct Dual {
  T value = T(0), tangent = T(0);

  constexpr Dual() = default;
  constexpr Dual(const T& v, const T& t) : value(v), tangent(t) {}
  template <class Number>
    requires std::is_arithmetic_v<Number> || std::same_as<Number, T>
  constexpr Dual(const Number& number) : value(static_cast<T>(number)) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr explicit operator Number() const { return static_cast<Number>(value); }

  friend constexpr Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.tangent + b.tangent}; }
  friend constexpr Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.tangent - b.tangent}; }
  friend constexpr Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  friend constexpr Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.tangent - quotient * b.tangent) / b.value};
  }
  friend constexpr Dual operator-(const Dual& a) { return {-a.value, -a.tangent}; }
  friend constexpr Dual& operator+=(Dual& a, const Dual& b) { return a = a + b; }
  friend constexpr Dual& operator-=(Dual& a, const Dual& b) { return a = a - b; }
  friend constexpr Dual& operator*=(Dual& a, const Dual& b) { return a = a * b; }
  friend constexpr Dual& operator/=(Dual& a, const Dual& b) { return a = a / b; }
  friend constexpr bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend constexpr auto operator<=>(const Dual& a, const Dual& b) { return a.value <=> b.value; }

  friend Dual exp(const Dual& x) {
    const T y = exp(x.value);
    return {y, y * x.tangent};
  }
  friend Dual log(const Dual& x) { return {log(x.value), x.tangent / x.value}; }
  friend Dual log1p(const Dual& x) { return {log1p(x.value), x.tangent / (T(1) + x.value)}; }
  friend Dual sin(const Dual& x) { return {sin(x.value), cos(x.value) * x.tangent}; }
  friend Dual cos(const Dual& x) { return {cos(x.value), -sin(x.value) * x.tangent}; }
  friend Dual tanh(const Dual& x) {
    const T y = tanh(x.value);
    return {y, (T(1) - y * y) * x.tangent};
  }
  friend Dual sigmoid(const Dual& x) {
    const T y = sigmoid(x.value);
    return {y, y * (T(1) - y) * x.tangent};
  }
  friend Dual erf(const Dual& x) {
    constexpr double slope = 1.1283791670955126;  // 2 / sqrt(pi)
    return {erf(x.value), T(slope) * exp(-x.value * x.value) * x.tangent};
  }
  friend Dual sqrt(const Dual& x) {
    const T y = sqrt(x.value);
    if (y == T(0) && x.tangent == T(0)) return {y, T(0)};  // the norm of a row of zeros that stays one
    return {y, x.tangent / (T(2) * y)};
  }
  friend Dual pow(const Dual& x, const Dual& p) {
    const T y = pow(x.value, p.value);
    const bool base_stays = p.value == T(0) || (x.value == T(0) && x.tangent == T(0));
    const T by_base = base_stays ? T(0) : p.value * pow(x.value, p.value - T(1)) * x.tangent;
    if (p.tangent == T(0) || !(x.value > T(0))) return {y, by_base};  // 0^p does not depend on p > 0
    return {y, by_base + y * log(x.value) * p.tangent};
  }
  // Kinks as in ops/functions.hpp: 0 for abs, one half each for max and min of equal numbers.
  friend Dual abs(const Dual& x) { return x.value < T(0) ? -x : x.value > T(0) ? x : Dual(abs(x.value)); }
  friend Dual max(const Dual& a, const Dual& b) {
    return a.value == b.value ? Dual(a.value, (a.tangent + b.tangent) / T(2)) : a.value > b.value ? a : b;
  }
  friend Dual min(const Dual& a, const Dual& b) {
    return a.value == b.value ? Dual(a.value, (a.tangent + b.tangent) / T(2)) : a.value < b.value ? a : b;
  }
  friend const Dual& sum(const Dual& x) { return x; }  // as of a vector of one lane
  friend const Dual& largest(const Dual& x) { return x; }
};

}  // namespace simplx

namespace Eigen {
template <class T>
struct NumTraits<simplx::Dual<T>> : NumTraits<T> {
  using Real = simplx::Dual<T>;
  using NonInteger = simplx::Dual<T>;
  using Nested = simplx::Dual<T>;
  using Literal = simplx::Dual<T>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 2,
    AddCost = 2,
    MulCost = 4
  };
};
}  // namespace Eigen

// ---- simplx/cpu/dual_product.hpp

/// \file simplx/cpu/dual_product.hpp
/// Matrix products by Eigen, of dual numbers as products of their parts:
///
///     (A + A' e) (B + B' e) = A B + (A' B + A B') e
///
/// Eigen multiplies plain numbers on vectors and dual ones one by one, at a twelfth of the speed. A part A' or B' that
/// is zero, as of data and of weights along which the function does not move, is left out.

namespace simplx::inline SIMPLX_TARGET::cpu {

template <class S>
inline constexpr bool is_dual = false;
template <class T>
inline constexpr bool is_dual<Dual<T>> = true;

/// Whether a number is zero in all its parts, where == looks at values only.
template <class S>
constexpr bool is_zero(const S& x) {
  if constexpr (is_dual<S>) {
    return is_zero(x.value) && is_zero(x.tangent);
  } else {
    return x == S(0);
  }
}

/// The order of a matrix in memory, so that its parts are read off it in that order.
template <class Matrix>
inline constexpr int order_of = std::remove_cvref_t<Matrix>::IsRowMajor ? Eigen::RowMajor : Eigen::ColMajor;

/// Whether a product has so much work that taking its numbers apart, and together again, is little beside it.
inline bool is_worth_parts(Eigen::Index rows, Eigen::Index inner, Eigen::Index cols) {
  return std::min({rows, inner, cols}) >= 4 && rows * inner * cols >= 512;
}

/// target += a b
///
/// by_parts  false where it is known that the matrices are too narrow for that
/// Shapes  a (rows, inner), b (inner, cols), target (rows, cols)
/// Cost    of dual numbers two products of plain ones, or three, and memory for the parts of all matrices
template <bool by_parts = true, class Target, class A, class B>
void add_product(Target&& target, const A& a, const B& b) {
  using S = typename std::remove_cvref_t<Target>::Scalar;
  if constexpr (is_dual<S> && by_parts) {
    using T = decltype(S::value);
    if (!is_worth_parts(a.rows(), a.cols(), b.cols())) return void(target.noalias() += a * b);
    using PartOfA = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order_of<A>>;
    using PartOfB = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order_of<B>>;
    using Part = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto value = [](const S& x) { return x.value; };
    const auto tangent = [](const S& x) { return x.tangent; };
    const auto moves = [](const auto& x) {
      return x.unaryExpr([](const S& number) { return !is_zero(number.tangent); }).any();
    };
    const PartOfA a_value = a.unaryExpr(value);
    const PartOfB b_value = b.unaryExpr(value);
    Part values = Part::Zero(target.rows(), target.cols()), tangents = values;
    add_product(values, a_value, b_value);
    if (moves(a)) add_product(tangents, PartOfA(a.unaryExpr(tangent)), b_value);
    if (moves(b)) add_product(tangents, a_value, PartOfB(b.unaryExpr(tangent)));
    target += values.binaryExpr(tangents, [](const T& v, const T& t) { return S(v, t); });
  } else {
    target.noalias() += a * b;
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/transpose.hpp

/// \file simplx/cpu/transpose.hpp
/// Transposing a group of rows, so that each row becomes a lane: square blocks of vectors, in log2(lanes) rounds.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The lanes of a and b alternately, from lane `begin` on.
template <int begin, class V, int... lane>
__attribute__((always_inline)) inline V interleave(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int count = sizeof...(lane);
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)  // nvcc garbles the pack
  return __builtin_shufflevector(a, b, (begin + lane / 2 + lane % 2 * count)...);
#else
  V result{};
  for (int i = 0; i < count; ++i) result[i] = i % 2 ? b[begin + i / 2] : a[begin + i / 2];
  return result;
#endif
}

/// Transposes lanes<S> vectors: each round interleaves the first half of them with the second.
template <class S>
__attribute__((always_inline)) inline void transpose_vectors(Vec<S>* rows) {
  constexpr int count = lanes<S>;
  constexpr auto sequence = std::make_integer_sequence<int, count>();
  SIMPLX_UNROLL
  for (int round = 1; round < count; round *= 2) {
    Vec<S> mixed[count];
    SIMPLX_UNROLL
    for (int i = 0; i < count / 2; ++i) {
      mixed[2 * i] = interleave<0>(rows[i], rows[i + count / 2], sequence);
      mixed[2 * i + 1] = interleave<count / 2>(rows[i], rows[i + count / 2], sequence);
    }
    SIMPLX_UNROLL
    for (int i = 0; i < count; ++i) rows[i] = mixed[i];
  }
}

/// target(e, i) = factor * source(i, e).
///
/// Shapes  source (rows, width), rows <= group -> target (width, group), zero in the columns beyond `rows`
/// Errors  needs a width and a group that are multiples of lanes<S>
template <int width, int group, class S, class RowStride>
void transpose_group(Index rows, S factor, const S* source, RowStride stride, S* target) {
  static_assert(width % lanes<S> == 0 && group % lanes<S> == 0,
                "simplx: rows are transposed in whole vectors: width and group must be multiples of lanes<S>");
  using V = Vec<S>;
  constexpr int count = lanes<S>;
  for (int lane = 0; lane < group; lane += count) {
    for (int begin = 0; begin < width; begin += count) {
      V block[count];
      SIMPLX_UNROLL
      for (int i = 0; i < count; ++i) {
        block[i] = lane + i < rows ? V(load<V>(source + (lane + i) * stride + begin) * factor) : V{};
      }
      transpose_vectors<S>(block);
      SIMPLX_UNROLL
      for (int i = 0; i < count; ++i) store(target + (begin + i) * group + lane, block[i]);
    }
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/panels.hpp

/// \file simplx/cpu/panels.hpp
/// Matrices in the order in which products read them: panel after panel, each as wide as a tile of accumulators.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A stride or size that the compiler knows.
template <Index value>
using Static = std::integral_constant<Index, value>;

// 6 x 4 vectors fill 24 of the 32 registers of AVX-512; 6 x 2 fit the 16 of AVX2 and SSE.
inline constexpr int tile_rows = 6;
inline constexpr int tile_vectors = vector_bytes == 64 ? 4 : 2;

template <class S>
inline constexpr Index panel_width = tile_vectors * lanes<S>;

/// Elements of a packed (K, N) matrix.
template <Index K, Index N, class S>
inline constexpr Index packed_size = K * round_up(N, lanes<S>);

/// The columns of N that are in whole vectors.
template <Index N, class S>
inline constexpr Index whole_vectors = N / lanes<S> * lanes<S>;

/// Calls f(Static<width>, col) for every panel of N columns: wide ones, and narrow ones at the end.
template <Index N, class S, class F>
__attribute__((always_inline)) inline void each_panel(const F& f) {
  static_assert(N % lanes<S> == 0, "simplx: the width of a packed matrix must be a multiple of the vector, lanes<S>");
  constexpr Index wide = panel_width<S>, whole = N / wide * wide;
  for (Index col = 0; col < whole; col += wide) f(Static<wide>{}, col);
  for (Index col = whole; col < N; col += lanes<S>) f(Static<lanes<S>>{}, col);
}

/// How numbers are written: into the caches, or past them.
struct Storing {
  template <class V, class S>
  __attribute__((always_inline)) void operator()(S* place, V value) const {
    store(place, value);
  }
};
struct Streaming {
  template <class V, class S>
  __attribute__((always_inline)) void operator()(S* place, V value) const {
    stream(place, value);
  }
};

/// Calls f(how) with the way to write a packed matrix of so many numbers: one that fills the second level of the cache
/// is gone from there before it is read.
template <Index size, class S, class F>
void written(const S* packed, const F& f) {
  if constexpr (size * sizeof(S) >= Index(1) << 20) {
    if (reinterpret_cast<std::uintptr_t>(packed) % vector_bytes == 0) {
      f(Streaming{});
      return end_stream();
    }
  }
  f(Storing{});
}

// Panels of any depth K share these loops: compilers would unroll each depth for itself.

/// `count` panels side by side, row by row of the matrix, which is how memory is read fastest.
template <Index width, class S, class Writing>
__attribute__((noinline)) void pack_panels(Index K, Index count, const S* matrix, Index stride, S* packed,
                                           Writing write) {
  for (Index p = 0; p < K; ++p) {
    for (Index panel = 0; panel < count; ++panel) {
      SIMPLX_UNROLL
      for (Index j = 0; j < width; j += lanes<S>) {  // memcpy takes half a vector at a time
        write(packed + (panel * K + p) * width + j, load<Vec<S>>(matrix + p * stride + panel * width + j));
      }
    }
  }
}
template <Index width, class S>
void pack_panel(Index K, const S* matrix, Index stride, S* packed) {
  pack_panels<width>(K, 1, matrix, stride, packed, Storing{});
}
/// Fewer columns than a vector has lanes, and zeros after them.
template <Index width, class S>
__attribute__((noinline)) void pack_last_panel(Index K, const S* matrix, Index stride, S* packed) {
  for (Index p = 0; p < K; ++p) {
    S row[lanes<S>]{};
    std::memcpy(row, matrix + p * stride, width * sizeof(S));
    std::memcpy(packed + p * lanes<S>, row, sizeof row);
  }
}
/// The transpose of `width` rows of K words in squares of vectors; words(row, p) are a vector of words from word p of a
/// row on. Returns how many words of the rows that are: what is left of K are less than a vector.
template <Index width, class W, class Words, class Writing>
__attribute__((always_inline)) inline Index transpose_squares(Index K, const Words& words, W* packed, Writing write) {
  constexpr Index L = lanes<W>;
  const Index whole = K / L * L;
  for (Index p = 0; p < whole; p += L) {
    for (Index q = 0; q < width; q += L) {
      Vec<W> square[L];
      SIMPLX_UNROLL
      for (int i = 0; i < L; ++i) square[i] = words(q + i, p);
      transpose_vectors<W>(square);
      SIMPLX_UNROLL
      for (int i = 0; i < L; ++i) write(packed + (p + i) * width + q, square[i]);
    }
  }
  return whole;
}
/// How far ahead of what is transposed numbers are fetched: rows are too many for the hardware to do it.
template <class S>
inline constexpr Index transposed_ahead = 256 / sizeof(S);

template <Index width, class S, class Writing>
__attribute__((noinline)) void pack_transposed_panel(Index K, const S* matrix, S* packed, Writing write) {
  const auto words = [&](Index row, Index p) __attribute__((always_inline)) {
    const S* place = matrix + row * K + p;
    __builtin_prefetch(place + transposed_ahead<S>, 0, 2);
    return load<Vec<S>>(place);
  };
  for (Index p = transpose_squares<width>(K, words, packed, write); p < K; ++p) {
    for (Index q = 0; q < width; ++q) packed[p * width + q] = matrix[q * K + p];
  }
}

/// Packs a (K, N) matrix into panels: panel after panel, each (K, panel_width); narrow panels at the end, the last one
/// with zeros where N is no multiple of the vector. `read_next`: for the product that follows, so that the caches get
/// it whatever its size.
///
/// Cost    one pass
template <Index K, Index N, bool read_next = false, class S>
void pack(const S* matrix, S* packed) {
  constexpr Index wide = panel_width<S>, wide_ones = N / wide, whole = whole_vectors<N, S>;
  written<read_next ? 0 : K * N>(packed, [&](auto write) {
    pack_panels<wide>(K, wide_ones, matrix, N, packed, write);
  });
  for (Index col = wide_ones * wide; col < whole; col += lanes<S>) {
    pack_panel<lanes<S>>(K, matrix + col, N, packed + col * K);
  }
  if constexpr (whole < N) pack_last_panel<N - whole>(K, matrix + whole, N, packed + whole * K);
}

/// Packs the transpose (K, N) of an (N, K) matrix.
///
/// Cost    one pass
template <Index K, Index N, bool read_next = false, class S>
void pack_transposed(const S* matrix, S* packed) {
  constexpr Index whole = whole_vectors<N, S>;
  written<read_next ? 0 : K * N>(packed, [&](auto write) {
    each_panel<whole, S>([&]<Index width>(Static<width>, Index col) {
      pack_transposed_panel<width>(K, matrix + col * K, packed + col * K, write);
    });
  });
  if constexpr (whole < N) {
    constexpr Index left = N - whole;
    for (Index p = 0; p < K; ++p) {
      S* const row = packed + whole * K + p * lanes<S>;
      for (Index q = 0; q < lanes<S>; ++q) row[q] = q < left ? matrix[(whole + q) * K + p] : S(0);
    }
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/gemm.hpp

/// \file simplx/cpu/gemm.hpp
/// Matrix products on one core: one register-tiled kernel with strides known at compile time.
///
/// A tile of `tile_rows` x `tile_vectors` accumulators stays in registers over the whole inner dimension;
/// weights are packed into panels as wide as the tile, so that the kernel reads them in order. The epilogue is
/// applied to the accumulators before they are stored. Static strides are what makes it reach the peak: with
/// run-time strides the same code runs at half of it.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The epilogue that changes nothing. at<V> is what an epilogue makes of accumulators, of which a part may count.
struct NoEpilogue {
  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index, Index) const {
    return accumulator;
  }
};

/// What a product fetches while it multiplies: nothing.
struct NoFetch {
  template <Index steps>
  constexpr void operator()(Static<steps>) const {}
};

/// One place of memory at each turn of the inner loop, however many steps it has, into the second-level cache.
template <class S, class Step>
struct FetchAhead {
  const S* place;
  Step step;

  template <Index steps>
  __attribute__((always_inline)) void operator()(Static<steps>) {
    __builtin_prefetch(place, 0, 2);
    place += step;
  }
};
template <class S, class Step>
FetchAhead(const S*, Step) -> FetchAhead<S, Step>;

/// One place for each step.
template <class S, class Step>
struct FetchEachStep {
  const S* place;
  Step step;

  template <Index steps>
  __attribute__((always_inline)) void operator()(Static<steps>) {
    SIMPLX_UNROLL
    for (Index i = 0; i < steps; ++i) __builtin_prefetch(place + i * step, 0, 2);
    place += steps * step;
  }
};
template <class S, class Step>
FetchEachStep(const S*, Step) -> FetchEachStep<S, Step>;

// Steps of the inner dimension in one turn of the loop. With AVX2 the 12 multiply-adds of a step take 6 cycles. Its 20
// instructions, and 5 more that count, fetch and jump, exceed the 3 a cycle that remain where another thread has half
// of the core; four steps in a turn share those 5. With AVX-512 Intel's cores gain 5 %; tiles of few sums gain nothing
// and would only compile longer.
inline constexpr int tile_steps = vector_bytes >= 32 ? 4 : 1;
inline constexpr int few_sums = vector_bytes == 64 ? 16 : 0;

/// One tile: c[i, j] (=|+=) epilogue(sum_p a[i, p] b[p, j]), rows x vectors. In line, since strides that are constants
/// where it is called are part of its instructions.
template <int rows, int vectors, Write mode, class W, class S, class Epilogue, class Fetch = NoFetch>
__attribute__((always_inline)) inline void tile(Index inner, const W* a, Index a_row, Index a_col, const W* b,
                                                Index b_row, S* c, Index c_row, const Epilogue& epilogue, Index row,
                                                Index col, Fetch fetch = {}) {
  using V = Vec<S>;
  using Words = Vec<W>;
  constexpr int L = lanes<S>;
  V sums[rows][vectors];
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) sums[i][j] = V{};
  }
  const auto step = [&](auto ahead) __attribute__((always_inline)) {
    Words right[vectors];
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) right[j] = load<Words>(b + ahead * b_row + j * L);
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Words left = splat<Words>(load<W>(a + i * a_row + ahead * a_col));
      SIMPLX_UNROLL
      for (int j = 0; j < vectors; ++j) sums[i][j] = multiply_add(sums[i][j], left, right[j]);
    }
  };
  const auto turn = [&]<int... ahead>(std::integer_sequence<int, ahead...>) __attribute__((always_inline)) {
    constexpr Index steps = sizeof...(ahead);
    fetch(Static<steps>{});
    (step(Static<ahead>{}), ...);
    a += steps * a_col;
    b += steps * b_row;
  };
  // The next tile of c is fetched meanwhile: with AVX-512 a line in each turn, since all at once would keep b waiting.
  Index line = 0;
  const auto fetch_line = [&] {
    if (vector_bytes == 64 && line < rows * vectors) {
      __builtin_prefetch(c + (rows + line / vectors) * c_row + line % vectors * L, 1);
      ++line;
    }
  };
  if constexpr (vector_bytes < 64 && mode == Write::accumulate) {
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) __builtin_prefetch(c + (rows + i) * c_row, 1);
  }
  Index p = 0;
  constexpr int steps = rows * vectors < few_sums ? 1 : tile_steps;
  if constexpr (steps > 1) {
    SIMPLX_ROLLED
    for (; p + steps <= inner; p += steps) {
      fetch_line();
      turn(std::make_integer_sequence<int, steps>{});
    }
  }
  SIMPLX_ROLLED
  for (; p < inner; ++p) turn(std::integer_sequence<int, 0>{});
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) {
      V value = epilogue.template at<V>(sums[i][j], row + i, col + j * L);
      S* place = c + i * c_row + j * L;
      if constexpr (mode == Write::accumulate) value += load<V>(place);
      store(place, value);
    }
  }
}

/// What is left below the last full tile, by halves: 4, 2, 1 rows.
template <int rows, int vectors, Write mode, class W, class S>
__attribute__((always_inline)) inline void row_tail(Index left, Index inner, const W* a, Index a_row, Index a_col,
                                                    const W* b, Index b_row, S* c, Index c_row) {
  if constexpr (rows > 0) {
    if (left & rows) {
      tile<rows, vectors, mode>(inner, a, a_row, a_col, b, b_row, c, c_row, NoEpilogue{}, 0, 0);
      a += rows * a_row;
      c += rows * c_row;
    }
    row_tail<rows / 2, vectors, mode>(left, inner, a, a_row, a_col, b, b_row, c, c_row);
  }
}

/// Sums without their epilogue, so that one function does for products of all sizes and epilogues: each of them would
/// have to compile all these tiles again.
template <int rows, int vectors, Write mode, class W, class S>
__attribute__((noinline)) void rows_left(Index left, Index inner, const W* a, Index a_row, Index a_col, const W* b,
                                         Index b_row, S* c, Index c_row) {
  row_tail<rows, vectors, mode>(left, inner, a, a_row, a_col, b, b_row, c, c_row);
}

constexpr int half_below(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows > 2 ? 2 : 1; }

/// All rows of one panel of columns: c (rows, vectors * lanes) at `col`; fetch(i) is what the tile of row i fetches.
template <int rows_per_tile, int vectors, Write mode, class W, class S, class Epilogue, class FetchOf>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, Index a_row, Index a_col,
                                                 const W* b, Index b_row, S* c, Index c_row, const Epilogue& epilogue,
                                                 Index col, const FetchOf& fetch) {
  Index i = 0;
  SIMPLX_ROLLED
  for (; i + rows_per_tile <= rows; i += rows_per_tile) {
    tile<rows_per_tile, vectors, mode>(inner, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, epilogue, i,
                                       col, fetch(i));
  }
  if (i == rows) return;
  constexpr int half = half_below(rows_per_tile);
  if constexpr (std::is_same_v<Epilogue, NoEpilogue>) {
    rows_left<half, vectors, mode>(rows - i, inner, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row);
  } else {
    static_assert(mode == Write::store);
    constexpr Index width = vectors * lanes<S>;
    alignas(64) S sums[(rows_per_tile - 1) * width];
    const int left = static_cast<int>(rows - i);  // of an Index g++ may warn, wrongly, that rows beyond 2^59 overflow
    rows_left<half, vectors, mode>(left, inner, a + i * a_row, a_row, a_col, b, b_row, sums, width);
    const S* sum = sums;
    SIMPLX_ROLLED
    for (int k = 0; k < left; ++k, ++i) {
      for (Index j = 0; j < width; j += lanes<S>, sum += lanes<S>) {
        store(c + i * c_row + j, epilogue.template at<Vec<S>>(load<Vec<S>>(sum), i, col + j));
      }
    }
  }
}
template <int rows_per_tile, int vectors, Write mode, class W, class S, class Epilogue>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, Index a_row, Index a_col,
                                                 const W* b, Index b_row, S* c, Index c_row, const Epilogue& epilogue,
                                                 Index col) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, epilogue, col,
                                      [](Index) { return NoFetch{}; });
}

/// c (rows, width) (=|+=) epilogue(a * b), `width` less than a vector: b is padded to one, and what the tiles give
/// beyond is not stored.
template <Index width, Write mode, class W, class S, class ARow, class ACol, class CRow, class Epilogue>
void last_panel(Index rows, Index inner, const W* a, ARow a_row, ACol a_col, const W* b, S* c, CRow c_row,
                const Epilogue& epilogue, Index col) {
  constexpr Index L = lanes<S>, together = 8;
  for (Index begin = 0; begin < rows; begin += together) {
    const Index count = std::min(together, rows - begin);
    S block[together * L];
    panel<together, 1, Write::store>(count, inner, a + begin * a_row, a_row, a_col, b, Static<L>{}, block, Static<L>{},
                                     NoEpilogue{}, 0);
    for (Index i = 0; i < count; ++i) {
      each_left<S, width>(0, [&]<class V>(Index j) __attribute__((always_inline)) {
        Register<V> value = epilogue.template at<V>(load<V>(block + i * L + j), begin + i, col + j);
        S* place = c + (begin + i) * c_row + j;
        if constexpr (mode == Write::accumulate) value += load<V>(place);
        store<V>(place, value);
      });
    }
  }
}

/// The epilogue of the last of several sums: after it, what c (., N) holds already is part of the accumulator.
template <Index N, class S, class Epilogue>
struct Completing {
  const S* c;
  const Epilogue& epilogue;

  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return epilogue.template at<V>(accumulator + load<V>(c + row * N + col), row, col);
  }
};

/// What the `inner` numbers of the inner dimension from `from` on give of a product (gemm).
template <Index K, Index N, Write mode, class Inner, class W, class S, class Epilogue>
__attribute__((noinline)) void gemm_block(Index rows, Index from, Inner inner, const W* a, const W* packed, S* c,
                                          const Epilogue& epilogue) {
  constexpr Index wide = panel_width<S>, whole = N / wide * wide, vectors = whole_vectors<N, S>;
  const auto panel_at = [&](Index col, Index width) { return packed + col * K + from * width; };
  a += from;
  // Of the next panel, for each turn of this one.
  const Index share = wide * tile_rows * tile_steps / std::max<Index>(rows, 1) + 1;
  for (Index col = 0; col < whole; col += wide) {
    const W* next = panel_at(col + wide, wide);
    panel<tile_rows, tile_vectors, mode>(
        rows, inner, a, Static<K>{}, Static<1>{}, panel_at(col, wide), Static<wide>{}, c + col, Static<N>{}, epilogue,
        col, [&](Index i) { return FetchAhead{next + i / tile_rows * (inner / tile_steps) * share, share}; });
  }
  if constexpr (whole < vectors) {
    for (Index col = whole; col < vectors; col += lanes<S>) {
      panel<8, 1, mode>(rows, inner, a, Static<K>{}, Static<1>{}, panel_at(col, lanes<S>), Static<lanes<S>>{}, c + col,
                        Static<N>{}, epilogue, col);
    }
  }
  if constexpr (vectors < N) {
    last_panel<N - vectors, mode>(rows, inner, a, Static<K>{}, Static<1>{}, panel_at(vectors, lanes<S>), c + vectors,
                                  Static<N>{}, epilogue, vectors);
  }
}

/// Bytes of a panel that are multiplied at once: tile after tile reads all of them and the rows of a beside them, which
/// must stay in the second level of the cache.
inline constexpr Index panel_bytes = 256 << 10;

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b packed by pack<K, N> or pack_transposed<K, N>. The words of a and
/// b are numbers of c's type, or pairs (bfloat16.hpp). Where c is added to there is no epilogue.
///
/// Cost    2 rows K N FLOPs; c is read and written once more for every panel_bytes of a panel but the first
template <Index K, Index N, Write mode, class W, class S, class Epilogue>
void gemm(Index rows, const W* a, const W* packed, S* c, const Epilogue& epilogue) {
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  constexpr Index together = panel_bytes / (panel_width<S> * sizeof(W)), blocks = (K + together - 1) / together;
  const auto block = [&]<Write block_mode>(std::integral_constant<Write, block_mode>, Index i, const auto& last) {
    const Index from = K * i / blocks, to = K * (i + 1) / blocks;
    gemm_block<K, N, block_mode>(rows, from, to - from, a, packed, c, last);
  };
  if constexpr (blocks == 1) {
    gemm_block<K, N, mode>(rows, 0, Static<K>{}, a, packed, c, epilogue);
  } else {
    constexpr std::integral_constant<Write, Write::store> store{};
    constexpr std::integral_constant<Write, Write::accumulate> accumulate{};
    constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
    block(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
    for (Index i = 1; i < blocks - completed; ++i) block(accumulate, i, NoEpilogue{});
    if constexpr (completed) block(store, blocks - 1, Completing<N, S, Epilogue>{c, epilogue});
  }
}

/// A function of its own: amid others g++ runs out of registers for the tile.
template <int rows_per_tile, int vectors, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
__attribute__((noinline)) void strided_panel(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b,
                                             BRow b_row, S* c, CRow c_row) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, NoEpilogue{}, 0);
}

/// c (rows, N) (=|+=) a (rows, inner) * b (inner, N) with any strides; rows and inner are known at run time.
template <Index N, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
void gemm_strided(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b, BRow b_row, S* c,
                  CRow c_row) {
  static_assert(N % lanes<S> == 0, "simplx: the fast product needs a width that is a multiple of the vector, lanes<S>");
  constexpr int L = lanes<S>;
  constexpr Index pairs = N / (2 * L) * (2 * L);
  constexpr int rows_of_two = vector_bytes == 64 ? 8 : 6;  // 8 x 2 accumulators spill the 16 registers of AVX2
  for (Index col = 0; col < pairs; col += 2 * L) {
    strided_panel<rows_of_two, 2, mode>(rows, inner, a, a_row, a_col, b + col, b_row, c + col, c_row);
  }
  if constexpr (pairs < N) {
    strided_panel<8, 1, mode>(rows, inner, a, a_row, a_col, b + pairs, b_row, c + pairs, c_row);
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/amx.hpp

/// \file simplx/cpu/amx.hpp
/// The matrix unit of Intel's CPUs (AMX), which multiplies tiles of pairs of bfloat16 and adds up in float: 16 times
/// the multiply-adds of a vector of AVX-512 in a cycle.
///
/// A tile is 16 rows of 16 words. Whether a program may use the unit is known when it runs, so that this belongs to the
/// instruction set of pairs (avx512_bf16) and asks for no flags of its own. Floats are multiplied by it where it is
/// named to the compiler (amx_bf16, pieces.hpp): weights take more room there.

#if defined(__AVX512BF16__) && defined(__x86_64__) && defined(__linux__) && !defined(__CUDACC__)
#define SIMPLX_AMX __attribute__((target("amx-tile,amx-bf16")))
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows of a tile, words in a row of it, and words of a tile.
inline constexpr Index tile_side = 16, tile_words = tile_side * tile_side;

/// What a product fetches into the second level of the cache while it multiplies: rows of two lines, `at_once` of them
/// between products of tiles. All at once would keep the tiles of the next step waiting.
struct FetchRows {
  const void* place = nullptr;
  Index row_bytes = 0, rows = 0, at_once = 0;

  __attribute__((always_inline)) void operator()() {
    for (Index i = 0; i < at_once && rows > 0; ++i, --rows) {
      __builtin_prefetch(place, 0, 2);
      __builtin_prefetch(static_cast<const char*>(place) + 64, 0, 2);
      place = static_cast<const char*>(place) + row_bytes;
    }
  }
};

#if defined(SIMPLX_AMX)

/// The unit, ready for whole tiles for as long as this object lives.
///
/// Cost    some 100 cycles
class Amx {
 public:
  static constexpr bool compiled = true;

  /// Whether this CPU has the unit and the system lets the process use it; asks for that.
  static bool available() {
    static const bool permitted = [] {
      unsigned a, b, c, d;
      constexpr unsigned tiles_of_bfloat16 = 1u << 22 | 1u << 24;
      if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles_of_bfloat16) != tiles_of_bfloat16) return false;
      constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of Linux
      return syscall(SYS_arch_prctl, request, tile_data) == 0;
    }();
    return permitted;
  }

  SIMPLX_AMX Amx() {
    alignas(64) static constexpr Configuration whole = [] {
      Configuration tiles;
      for (int i = 0; i < 8; ++i) tiles.bytes[i] = 64, tiles.rows[i] = tile_side;
      return tiles;
    }();
    _tile_loadconfig(&whole);
  }
  SIMPLX_AMX ~Amx() { _tile_release(); }
  Amx(const Amx&) = delete;
  Amx& operator=(const Amx&) = delete;

  /// c (=|+=) left * right, of rows x cols tiles, 1 or 2 of each. `left` holds its first row of tiles step after step,
  /// then its second one; of `right` and c rows are that many numbers apart. Each number of the operands is the sum of
  /// so many bfloat16 (pieces.hpp); a step holds the tiles of the first ones, then those of the second ones, and so on.
  ///
  /// Cost    16 cycles for each product of tiles, if tiles come from the first level of the cache
  template <int pieces, int rows, int cols, Write mode>
  SIMPLX_AMX __attribute__((noinline)) void multiply(Index steps, const Twin* left, const Twin* right, Index right_row,
                                                     float* c, Index c_row, FetchRows fetch = {}) const {
    asm volatile("" ::: "memory");  // g++ does not know that tiles are loaded from memory
    constexpr bool below = rows == 2, beside = cols == 2, adds = mode == Write::accumulate;
    const Index c_bytes = c_row * Index(sizeof(float));
    const Twin* const left_below = left + steps * pieces * tile_words;
    float* const c_below = c + tile_side * c_row;
    if constexpr (adds) {
      _tile_loadd(0, c, c_bytes);
      if constexpr (beside) _tile_loadd(1, c + tile_side, c_bytes);
      if constexpr (below) _tile_loadd(2, c_below, c_bytes);
      if constexpr (below && beside) _tile_loadd(3, c_below + tile_side, c_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (Index step = 0; step < steps; ++step) {
      const Index at = step * pieces * tile_words;
      const Twin* const words = right + step * pieces * tile_side * right_row;
      if constexpr (pieces == 1) {
        load_right<cols>(words, right_row);
        load_left<rows>(left + at, left_below + at);
        add_products<rows, cols>();
      } else {  // what is smallest first; each line differs in one operand from the one before
        const auto left_piece = [&](int i) { return at + i * tile_words; };
        const auto right_piece = [&](int i) { return words + i * tile_side * right_row; };
        load_right<cols>(right_piece(0), right_row);
        load_left<rows>(left + left_piece(2), left_below + left_piece(2));
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(1), left_below + left_piece(1));
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(0), left_below + left_piece(0));
        fetch();
        add_products<rows, cols>();
        load_right<cols>(right_piece(2), right_row);
        fetch();
        add_products<rows, cols>();
        load_right<cols>(right_piece(1), right_row);
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(1), left_below + left_piece(1));
        fetch();
        add_products<rows, cols>();
      }
    }
    _tile_stored(0, c, c_bytes);
    if constexpr (beside) _tile_stored(1, c + tile_side, c_bytes);
    if constexpr (below) _tile_stored(2, c_below, c_bytes);
    if constexpr (below && beside) _tile_stored(3, c_below + tile_side, c_bytes);
  }

 private:
  template <int rows>
  SIMPLX_AMX __attribute__((always_inline)) static void load_left(const Twin* tile, const Twin* below) {
    _tile_loadd(4, tile, tile_side * Index(sizeof(Twin)));
    if constexpr (rows == 2) _tile_loadd(5, below, tile_side * Index(sizeof(Twin)));
  }
  template <int cols>
  SIMPLX_AMX __attribute__((always_inline)) static void load_right(const Twin* tile, Index row) {
    _tile_loadd(6, tile, row * Index(sizeof(Twin)));
    if constexpr (cols == 2) _tile_loadd(7, tile + tile_side, row * Index(sizeof(Twin)));
  }
  template <int rows, int cols>
  SIMPLX_AMX __attribute__((always_inline)) static void add_products() {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (rows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (cols == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (rows == 2 && cols == 2) _tile_dpbf16ps(3, 5, 7);
  }

  struct Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14]{};
    std::uint16_t bytes[16]{};
    std::uint8_t rows[16]{};
  };
};

#else

/// There is none for what this is compiled for.
class Amx {
 public:
  static constexpr bool compiled = false;
  static constexpr bool available() { return false; }
};

#endif

}  // namespace simplx::cpu

// ---- simplx/cpu/gemm_gradient.hpp

/// \file simplx/cpu/gemm_gradient.hpp
/// The gradient of a matrix that a product multiplied by, dw += x^T dy, by the tiles of gemm.hpp.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows that a gradient takes at once: with more of them a panel of dy (AVX-512) or a tile of x falls out of the cache
/// before the next tile needs it.
inline constexpr Index gradient_rows = vector_bytes == 64 ? 128 : 256;
/// Columns of x (rows, K) that a gradient (K, N) copies at once, in the order of its tiles; 0: it reads them where they
/// are, a line for each row, all of them in a few sets of the cache where K is a multiple of a power of two. The tiles
/// of AVX-512 are so wide that a narrow gradient would not pay for the copy. With AVX2 copy and panel take no more room
/// than the scratch of attention with heads of 16.
template <class S>
constexpr Index gradient_columns(Index N) {
  if (vector_bytes < 64) return 29 * tile_rows;
  return N < 8 * panel_width<S> ? 0 : 64 * tile_rows;
}

/// Rows of a gradient that it adds to in one turn.
inline constexpr Index rows_in_turn = 24 * 29 * tile_rows;

/// Words of scratch that gemm_gradient needs for dw (any, N) of type S.
template <class S>
constexpr Index gradient_scratch(Index rows, Index N) {
  return std::min(rows, gradient_rows) * (panel_width<S> + gradient_columns<S>(N));
}

/// The first columns of x (rows, K), tile after tile, each (rows, tile_rows).
template <Index K, class W>
__attribute__((noinline)) void copy_tiles(Index rows, Index columns, const W* x, W* tiles) {
  constexpr Index together = 8;  // of a row, which is a page of its own where K is large
  // Eight floats are one instruction where six are two: the next row's come over what is too much.
  constexpr Index taken = std::max<Index>(tile_rows, 32 / sizeof(W));
  constexpr Index line = 64 / sizeof(W), step = together * tile_rows;
  const auto copy = [&](Index p, Index i, auto words) __attribute__((always_inline)) {
    std::memcpy(tiles + i * rows + p * tile_rows, x + p * K + i, words * sizeof(W));
  };
  for (Index begin = 0; begin < columns; begin += step) {
    const Index end = std::min(begin + step, columns);
    for (Index p = 0; p < rows - 1; ++p) {
      SIMPLX_UNROLL
      for (Index ahead = 0; ahead < step; ahead += line) {
        __builtin_prefetch(x + p * K + begin + step + ahead, 0, 2);  // the next ones, too far apart for the hardware
      }
      for (Index i = begin; i < end; i += tile_rows) copy(p, i, Static<taken>{});
    }
    for (Index i = begin; i < end; i += tile_rows) copy(rows - 1, i, Static<tile_rows>{});
  }
}

/// Rows [from, from + span) of dw, as in gemm_gradient.
template <Index K, Index N, class W, class S>
__attribute__((noinline)) void add_gradient_rows(Index rows, const W* x, const W* dy, S* dw, W* scratch, Index from,
                                                 Index span) {
  constexpr Index wide = panel_width<S>, whole = N / wide * wide, vectors = whole_vectors<N, S>;
  constexpr Index line = 64 / sizeof(W);
  const Index blocks = (rows + gradient_rows - 1) / gradient_rows;
  dw += from * N;
  for (Index block = 0; block < blocks; ++block) {
    const Index begin = rows * block / blocks, count = rows * (block + 1) / blocks - begin;
    const W* left = x + begin * K + from;
    const W* right = dy + begin * N;
    const auto copy_panel = [&](Index col) { pack_panel<wide>(count, right + col, N, scratch); };
    constexpr Index copied = gradient_columns<S>(N);
    if constexpr (copied == 0) {
      // Of x a tile reads a few columns, a line for each row: too far apart for the hardware to fetch the next ones.
      const auto next_line = [&](Index i) { return FetchEachStep{left + i + line, Static<K>{}}; };
      for (Index col = 0; col < whole; col += wide) {
        copy_panel(col);
        panel<tile_rows, tile_vectors, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, scratch,
                                                          Static<wide>{}, dw + col, Static<N>{}, NoEpilogue{}, col,
                                                          next_line);
      }
    } else if constexpr (whole > 0) {
      W* const tiles = scratch + count * wide;
      // With AVX2 the first tiles fetch the next panel, a row in each turn.
      const auto next_panel = [&](Index col, Index i) {
        if constexpr (vector_bytes == 64) {
          return NoFetch{};
        } else {
          const Index turns = count / tile_steps, row = std::min(i / tile_rows * turns, count - turns);
          return FetchAhead{right + row * N + col + wide, Static<N>{}};
        }
      };
      for (Index first = 0; first < span; first += copied) {
        const Index columns = std::min(span - first, copied), tiled = columns - columns % tile_rows;
        copy_tiles<K>(count, tiled, left + first, tiles);
        for (Index col = 0; col < whole; col += wide) {
          copy_panel(col);
          S* const to = dw + first * N + col;
          for (Index i = 0; i < tiled; i += tile_rows) {
            tile<tile_rows, tile_vectors, Write::accumulate>(count, tiles + i * count, Static<1>{}, Static<tile_rows>{},
                                                             scratch, Static<wide>{}, to + i * N, Static<N>{},
                                                             NoEpilogue{}, i, col, next_panel(col, i));
          }
          rows_left<half_below(tile_rows), tile_vectors, Write::accumulate>(
              columns - tiled, count, left + first + tiled, Static<1>{}, Static<K>{}, scratch, Static<wide>{},
              to + tiled * N, Static<N>{});
        }
      }
    }
    if constexpr (whole < vectors) {
      for (Index col = whole; col < vectors; col += lanes<S>) {
        panel<8, 1, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, right + col, Static<N>{}, dw + col,
                                       Static<N>{}, NoEpilogue{}, col);
      }
    }
    if constexpr (vectors < N) {
      pack_last_panel<N - vectors>(count, right + vectors, N, scratch);
      last_panel<N - vectors, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, scratch, dw + vectors,
                                                 Static<N>{}, NoEpilogue{}, vectors);
    }
  }
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N); scratch holds gradient_scratch<S>(rows, N) words. Takes a turn for
/// every rows_in_turn rows of dw, so that who comes next need not wait for all of a large one.
///
/// Cost    2 rows K N FLOPs, and one pass over x and dy, over dy one for each gradient_columns of x; dw is read and
///         written once for every gradient_rows
template <Index K, Index N, class W, class S>
void gemm_gradient(Index rows, const W* x, const W* dy, S* dw, W* scratch, detail::Turn* turn = nullptr) {
  for (Index from = 0; from < K; from += rows_in_turn) {
    const detail::Addition addition(turn);
    add_gradient_rows<K, N>(rows, x, dy, dw, scratch, from, std::min(K - from, rows_in_turn));
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/gemm_tiles.hpp

/// \file simplx/cpu/gemm_tiles.hpp
/// Products of pairs of bfloat16 on a matrix unit (amx.hpp), in blocks of 32 x 32 sums: two tiles of each operand give
/// four products of tiles.
///
/// The unit takes the right operand as pack_pairs leaves it. The left one is copied tile after tile, each 16 rows of
/// 16 pairs, so that a row of tiles is read from front to end.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows and columns of a block of sums.
inline constexpr Index block_side = 2 * tile_side;

/// Whether a matrix unit takes operands of that width: whole tiles of pairs.
constexpr bool fits_tiles(Index K) { return K % (2 * tile_side) == 0; }

/// The words of a left operand of that many rows, which is filled up with zeros.
constexpr Index left_tiles(Index rows, Index K) { return round_up(rows, tile_side) * K / 2; }

/// a (rows, K) rounded, tile after tile of 16 rows.
///
/// Cost    one pass
template <Index K>
void pack_left_tiles(Index rows, const float* a, Twin* tiles) {
  static_assert(fits_tiles(K));
  constexpr Index L = lanes<float>, steps = K / (2 * tile_side);
  for (Index row = 0; row < round_up(rows, tile_side); ++row) {
    Twin* to = tiles + row / tile_side * steps * tile_words + row % tile_side * tile_side;
    for (Index step = 0; step < steps; ++step, to += tile_words) {
      for (Index i = 0; i < tile_side; i += L) {
        const float* from = a + row * K + 2 * (step * tile_side + i);
        store(to + i, row < rows ? pairs_along(load<Vec<float>>(from), load<Vec<float>>(from + L)) : Vec<Twin>{});
      }
    }
  }
}

/// The transpose (K, rows) of x (rows, K) rounded, tile after tile of 16 columns of x, filled up with zeros to a
/// multiple of 32 rows.
///
/// Cost    one pass
template <Index K>
void pack_transposed_left_tiles(Index rows, const float* x, Twin* tiles) {
  static_assert(K % tile_side == 0);
  const Index steps = (rows + 2 * tile_side - 1) / (2 * tile_side);
  const auto numbers = [&](Index row, Index col) __attribute__((always_inline)) {
    return row < rows ? load<Vec<float>>(x + row * K + col) : Vec<float>{};
  };
  for (Index step = 0; step < steps; ++step) {
    for (Index first = 0; first < K; first += tile_side) {
      const auto pairs = [&](Index pair, Index col) __attribute__((always_inline)) {
        const Index row = 2 * (step * tile_side + pair);
        return pairs_of(numbers(row, first + col), numbers(row + 1, first + col));
      };
      Twin* const to = tiles + (first / tile_side * steps + step) * tile_words;
      transpose_squares<tile_side>(tile_side, pairs, to, Storing{});
    }
  }
}

/// dy (rows, N) rounded, in the panels of pack_pairs, filled up with zeros to a multiple of 32 rows.
///
/// Cost    one pass
template <Index N>
void pack_right_tiles(Index rows, const float* dy, Twin* packed) {
  const Index pairs = round_up(rows, 2 * tile_side) / 2;
  for (Index pair = 0; pair < pairs; ++pair, dy += 2 * N) {
    each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
      Twin* const to = packed + col * pairs + pair * width;
      if (2 * pair < rows) {
        pair_rows(width, dy + col, 2 * pair + 1 < rows ? dy + N + col : nullptr, to);
      } else {
        std::fill_n(to, width, Twin(0));
      }
    });
  }
}

/// Unit::multiply of one or two tiles.
template <int pieces, Write mode, class Unit>
__attribute__((noinline)) void multiply_tiles(const Unit& unit, bool below, bool beside, Index steps, const Twin* left,
                                              const Twin* right, Index right_row, float* c, Index c_row,
                                              FetchRows fetch) {
  const auto multiply = [&]<int rows, int cols>(std::integer_sequence<int, rows, cols>) {
    unit.template multiply<pieces, rows, cols, mode>(steps, left, right, right_row, c, c_row, fetch);
  };
  if (below && beside) return multiply(std::integer_sequence<int, 2, 2>{});
  if (below) return multiply(std::integer_sequence<int, 2, 1>{});
  if (beside) return multiply(std::integer_sequence<int, 1, 2>{});
  multiply(std::integer_sequence<int, 1, 1>{});
}

/// One block of c, `count` rows of it: its sums after the epilogue.
template <int pieces, Index N, Write mode, class Unit, class Epilogue>
__attribute__((noinline)) void tile_block(const Unit& unit, Index count, Index width, Index steps, const Twin* left,
                                          const Twin* right, Index right_row, float* c, const Epilogue& epilogue,
                                          Index row, Index col, FetchRows fetch = {}) {
  using V = Vec<float>;
  const bool below = count > tile_side, beside = width > tile_side;
  c += row * N + col;
  if (std::is_same_v<Epilogue, NoEpilogue> && count % tile_side == 0) {
    return multiply_tiles<pieces, mode>(unit, below, beside, steps, left, right, right_row, c, N, fetch);
  }
  alignas(64) float sums[block_side * block_side];
  multiply_tiles<pieces, Write::store>(unit, below, beside, steps, left, right, right_row, sums, block_side,
                                       fetch);
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < width; j += lanes<float>) {
      V value = epilogue.template at<V>(load<V>(sums + i * block_side + j), row + i, col + j);
      if constexpr (mode == Write::accumulate) value += load<V>(c + i * N + j);
      store(c + i * N + j, value);
    }
  }
}

/// c (rows, N) (=|+=) epilogue(left (rows, K) * b), left by pack_left_tiles, b packed by pack_pairs<K, N>. Where c is
/// added to there is no epilogue.
///
/// Cost    2 rows K N FLOPs; b is read once, left once for every panel of b
template <Index K, Index N, Write mode, class Unit, class Epilogue>
void gemm_tiles(const Unit& unit, Index rows, const Twin* left, const Twin* packed, float* c,
                const Epilogue& epilogue) {
  static_assert(fits_tiles(K) && N % tile_side == 0);
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  constexpr Index steps = K / (2 * tile_side);
  each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
    const Twin* right = packed + col * (K / 2);
    for (Index row = 0; row < rows; row += block_side) {
      const Index count = std::min(rows - row, block_side);
      for (Index i = 0; i < width; i += block_side) {
        tile_block<1, N, mode>(unit, count, std::min(width - i, block_side), steps, left + row * (K / 2), right + i,
                               width, c, epilogue, row, col + i);
      }
    }
  });
}

/// dw (K, N) += left (K, rows) * right (rows, N), left by pack_transposed_left_tiles, right by pack_right_tiles; of
/// dw the `span` rows from `from` on, both multiples of 16.
///
/// Cost    2 rows K N FLOPs; dw is read and written once
template <Index K, Index N, class Unit>
void gemm_gradient_tiles(const Unit& unit, Index rows, const Twin* left, const Twin* right, float* dw, Index from,
                         Index span) {
  static_assert(K % tile_side == 0 && N % tile_side == 0);
  const Index steps = (rows + 2 * tile_side - 1) / (2 * tile_side), pairs = steps * tile_side;
  for (Index row = from; row < from + span; row += block_side) {
    const Index count = std::min(from + span - row, block_side);
    each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
      for (Index i = 0; i < width; i += block_side) {
        tile_block<1, N, Write::accumulate>(unit, count, std::min(width - i, block_side), steps, left + row * pairs,
                                            right + col * pairs + i, width, dw, NoEpilogue{}, row, col + i);
      }
    });
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/gemm_bfloat16.hpp

/// \file simplx/cpu/gemm_bfloat16.hpp
/// The products of gemm.hpp with operands rounded to bfloat16 and sums in float, on the matrix unit where there is one.
/// Elsewhere the tiles are those of float; a word of theirs is a pair of numbers, so that the inner dimension is half
/// as long.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Packs a (K, N) matrix of floats for gemm<K / 2, N> of pairs.
///
/// Cost    one pass
template <Index K, Index N>
void pack_pairs(const float* matrix, Twin* packed) {
  static_assert(K % 2 == 0 && N % lanes<float> == 0);
  each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
    for (Index p = 0; p < K; p += 2, packed += width) {
      pair_rows(width, matrix + p * N + col, matrix + (p + 1) * N + col, packed);
    }
  });
}

template <Index width>
__attribute__((noinline)) void pack_transposed_pairs_panel(Index K, const float* matrix, Twin* packed) {
  constexpr Index L = lanes<float>;
  const auto words = [&](Index row, Index p) __attribute__((always_inline)) {
    const float* place = matrix + row * K + 2 * p;
    __builtin_prefetch(place + transposed_ahead<float>, 0, 2);
    __builtin_prefetch(place + transposed_ahead<float> + L, 0, 2);
    return pairs_along(load<Vec<float>>(place), load<Vec<float>>(place + L));
  };
  const Index whole = transpose_squares<width>(K / 2, words, packed, Storing{});
  for (Index q = 0; q < width; ++q) {
    Twin pairs[L];
    pair_columns(K - 2 * whole, matrix + q * K + 2 * whole, pairs);
    for (Index p = whole; p < K / 2; ++p) packed[p * width + q] = pairs[p - whole];
  }
}

/// Packs the transpose (K, N) of an (N, K) matrix.
///
/// Cost    one pass
template <Index K, Index N>
void pack_transposed_pairs(const float* matrix, Twin* packed) {
  static_assert(K % 2 == 0 && N % lanes<float> == 0);
  each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
    pack_transposed_pairs_panel<width>(K, matrix + col * K, packed + col * (K / 2));
  });
}

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b packed by pack_pairs<K, N> or pack_transposed_pairs<K, N>;
/// scratch holds gradient_pairs(rows, K, N). The matrix unit takes denormal numbers for zeros.
///
/// Cost    2 rows K N FLOPs, and one pass over a
template <Index K, Index N, Write mode, class Epilogue>
void gemm_bfloat16(Index rows, const float* a, const Twin* packed, float* c, const Epilogue& epilogue, Twin* scratch) {
  if constexpr (Amx::compiled && fits_tiles(K)) {
    if (rows > tile_rows && Amx::available()) {  // a few rows would leave most of a tile empty
      pack_left_tiles<K>(rows, a, scratch);
      return gemm_tiles<K, N, mode>(Amx{}, rows, scratch, packed, c, epilogue);
    }
  }
  pair_columns(rows * K, a, scratch);  // K is even: no pair reaches into the next row
  gemm<K / 2, N, mode>(rows, scratch, packed, c, epilogue);
}

/// Pairs of scratch that the products of x (rows, K) and dy (rows, N) need.
constexpr Index gradient_pairs(Index rows, Index K, Index N) {
  const Index pairs = (rows + 1) / 2, by_tiles = round_up(pairs, tile_side) * (K + N);
  const Index by_vectors = pairs * (K + N) + gradient_scratch<float>(pairs, N);
  return Amx::compiled ? std::max(by_tiles, by_vectors) : by_vectors;
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N), both rounded. Turns as in gemm_gradient.
///
/// Cost    2 rows K N FLOPs, and one pass over x and dy
template <Index K, Index N>
void gemm_gradient_bfloat16(Index rows, const float* x, const float* dy, float* dw, Twin* scratch,
                            detail::Turn* turn = nullptr) {
  static_assert(K % lanes<float> == 0 && N % lanes<float> == 0);
  const Index pairs = (rows + 1) / 2;
  if constexpr (Amx::compiled) {
    if (Amx::available()) {
      Twin* const right = scratch + round_up(pairs, tile_side) * K;
      pack_transposed_left_tiles<K>(rows, x, scratch);
      pack_right_tiles<N>(rows, dy, right);
      const Amx unit;
      for (Index from = 0; from < K; from += rows_in_turn) {
        const detail::Addition addition(turn);
        gemm_gradient_tiles<K, N>(unit, rows, scratch, right, dw, from, std::min(K - from, rows_in_turn));
      }
      return;
    }
  }
  const auto pair_up = [&]<Index width>(Static<width>, const float* matrix, Twin* to) {
    for (Index row = 0; row < rows; row += 2, matrix += 2 * width, to += width) {
      pair_rows(width, matrix, row + 1 < rows ? matrix + width : nullptr, to);
    }
  };
  Twin *left = scratch, *right = left + pairs * K;
  pair_up(Static<K>{}, x, left);
  pair_up(Static<N>{}, dy, right);
  gemm_gradient<K, N>(pairs, left, right, dw, right + pairs * N, turn);
}

}  // namespace simplx::cpu

// ---- simplx/cpu/matrix_vector.hpp

/// \file simplx/cpu/matrix_vector.hpp
/// Products of a matrix and a vector, A (rows, K) row after row in memory:
///
///     y = A w          as many rows at a time as a vector has lanes, whose partial sums are added up together
///     w += A^T g       four vectors of columns at a time, which stay in registers
///
/// Backward is the second of them after the first, over an A that may be larger than a cache: it begins with the last
/// rows, those that are still there.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Lane i of the result is the sum of vector i, of lanes<S> vectors, which are used up.
template <class S>
__attribute__((always_inline)) inline Vec<S> lane_sums(Vec<S>* vectors) {
  constexpr int count = lanes<S>;
  constexpr auto sequence = std::make_integer_sequence<int, count>();
  SIMPLX_UNROLL
  for (int half = count / 2; half > 0; half /= 2) {
    SIMPLX_UNROLL
    for (int i = 0; i < half; ++i) {
      const Vec<S> a = vectors[i], b = vectors[i + half];
      vectors[i] = interleave<0>(a, b, sequence) + interleave<count / 2>(a, b, sequence);
    }
  }
  return vectors[0];
}

/// The product of a row and a vector: its whole vectors lane by lane, and the elements that are left.
template <Index K, class S>
struct RowProduct {
  Vec<S> vectors{};
  S rest = S(0);

  __attribute__((always_inline)) RowProduct(const S* row, const S* w) {
    constexpr Index whole = K / lanes<S> * lanes<S>;
    for (Index k = 0; k < whole; k += lanes<S>) vectors += load<Vec<S>>(row + k) * load<Vec<S>>(w + k);
    for (Index k = whole; k < K; ++k) rest += row[k] * w[k];
  }
};

/// w[0 .. vectors * lanes) += A^T g for those columns of A.
template <Index K, int vectors, class S>
__attribute__((always_inline)) inline void add_columns(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = lanes<S>;
  Vec<S> sums[2][vectors]{};  // of even and odd rows, which need not wait for each other
  const auto add = [&](Index row, Vec<S>* to) __attribute__((always_inline)) {
    const Vec<S> factor = splat<Vec<S>>(g[row]);
    SIMPLX_UNROLL
    for (int v = 0; v < vectors; ++v) to[v] += factor * load<Vec<S>>(a + row * K + v * step);
  };
  Index row = rows;
  for (; row >= 2; row -= 2) add(row - 1, sums[0]), add(row - 2, sums[1]);
  if (row > 0) add(0, sums[0]);
  SIMPLX_UNROLL
  for (int v = 0; v < vectors; ++v) store(w + v * step, Vec<S>(load<Vec<S>>(w + v * step) + (sums[0][v] + sums[1][v])));
}

/// y = A w; rows of A may be part of longer ones, `stride` elements apart.
///
/// Shapes  A (rows, K), w (K), y (rows)
/// Cost    2 rows K FLOPs, one pass over A
template <Index K, Index stride = K, class S>
__attribute__((noinline)) void matrix_vector(Index rows, const S* a, const S* w, S* y) {
  constexpr Index group = lanes<S>;
  Index row = 0;
  for (; row + group <= rows; row += group, a += group * stride) {
    Vec<S> sums[group];
    S rest[group];
    SIMPLX_UNROLL
    for (Index i = 0; i < group; ++i) {
      const RowProduct<K, S> product(a + i * stride, w);
      sums[i] = product.vectors;
      rest[i] = product.rest;
    }
    Vec<S> total = lane_sums<S>(sums);
    if constexpr (K % group != 0) total += load<Vec<S>>(rest);
    store(y + row, total);
  }
  for (row = rows - rows % group; row < rows; ++row, a += stride) {  // g++ sees that none is left where none is
    const RowProduct<K, S> product(a, w);
    y[row] = sum(product.vectors) + product.rest;
  }
}

template <Index K, class S>
void add_transposed_rows(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = lanes<S>, wide = 4 * step, whole = K / step * step, widest = K / wide * wide;
  for (Index k = 0; k < widest; k += wide) add_columns<K, 4>(rows, a + k, g, w + k);
  for (Index k = widest; k < whole; k += step) add_columns<K, 1>(rows, a + k, g, w + k);
  if constexpr (whole < K) {
    S sums[K - whole]{};
    for (Index row = 0; row < rows; ++row) {
      for (Index k = whole; k < K; ++k) sums[k - whole] += a[row * K + k] * g[row];
    }
    for (Index k = whole; k < K; ++k) w[k] += sums[k - whole];
  }
}

/// w += A^T g.
///
/// Shapes  A (rows, K), g (rows), w (K)
/// Cost    2 rows K FLOPs; reads A once, so many rows at a time that their sum is as accurate as each, and of those a
///         stripe of columns after the other, each from its end
template <Index K, class S>
__attribute__((noinline)) void add_transposed_matrix_vector(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = 4096;
  for (Index begin = 0; begin < rows; begin += step) {
    add_transposed_rows<K>(std::min(step, rows - begin), a + begin * K, g + begin, w);
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/piece_tiles.hpp

/// \file simplx/cpu/piece_tiles.hpp
/// Operands of a matrix unit, in pieces (pieces.hpp). A step is 32 numbers of the inner dimension, 16 words of pairs:
/// the tiles of their first pieces, then those of the second and of the third ones.
///
///     left   rows of tiles, step after step; a tile is 16 rows of 16 words
///     right  strips of 32 columns, step after step; of each piece 16 words, one below the other, in 32 columns
///
/// What is missing to whole steps and tiles of rows is zero.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Numbers of the inner dimension in a step, columns of a strip.
inline constexpr Index step_depth = 2 * tile_side, strip_columns = 2 * tile_side;

/// Words of so many numbers in pieces.
constexpr Index words_in_pieces(Index numbers) { return numbers / 2 * float_pieces; }

/// Where a step of a strip begins whose inner dimension has that depth; of a piece it has strip_words.
inline constexpr Index strip_words = tile_side * strip_columns;
constexpr Index strip_place(Index col, Index depth, Index step) {
  return words_in_pieces(col * depth) + step * float_pieces * strip_words;
}

/// A square of words, piece by piece: numbers(i, front, back) gives the two numbers of each word of row i, and
/// write(piece, i, words) takes column i of the square.
template <class Numbers, class Pairing, class Writing>
__attribute__((always_inline)) inline void transpose_pieces(const Numbers& numbers, const Pairing& paired,
                                                            const Writing& write) {
  constexpr int L = lanes<float>;
  Vec<Twin> squares[float_pieces][L];
  SIMPLX_UNROLL
  for (int i = 0; i < L; ++i) {
    Vec<float> front, back;
    numbers(i, front, back);
    const Pieces a(front), b(back);
    SIMPLX_UNROLL
    for (int piece = 0; piece < float_pieces; ++piece) squares[piece][i] = paired(a.of[piece], b.of[piece]);
  }
  SIMPLX_UNROLL
  for (int piece = 0; piece < float_pieces; ++piece) {
    transpose_vectors<Twin>(squares[piece]);
    SIMPLX_UNROLL
    for (int i = 0; i < L; ++i) write(piece, i, squares[piece][i]);
  }
}

/// a (rows, depth), rows that are `stride` numbers apart, as a left operand; a row for which taken(row, extent) is
/// false becomes zeros.
///
/// Cost    one pass
template <class Taken>
__attribute__((noinline)) void pack_left_pieces(Index rows, Index depth, const float* a, Index stride,
                                                const Taken& taken, Twin* tiles) {
  constexpr Index L = lanes<float>;
  const Index steps = depth / step_depth;
  for (Index row = 0; row < round_up(rows, tile_side); ++row) {
    Twin* const to = tiles + row / tile_side * steps * float_pieces * tile_words + row % tile_side * tile_side;
    Measure measure;
    if (row < rows) {
      const float* from = a + row * stride;
      Twin* place = to;
      for (Index step = 0; step < steps; ++step, from += step_depth, place += float_pieces * tile_words) {
        SIMPLX_UNROLL
        for (Index i = 0; i < tile_side; i += L) {
          const Vec<float> x = load<Vec<float>>(from + 2 * i), y = load<Vec<float>>(from + 2 * i + L);
          measure(x), measure(y);
          const Pieces front(x), back(y);
          SIMPLX_UNROLL
          for (int piece = 0; piece < float_pieces; ++piece) {
            store(place + piece * tile_words + i, pairs_along(front.of[piece], back.of[piece]));
          }
        }
      }
    }
    if (row < rows && taken(row, measure.extent())) continue;
    for (Index tile = 0; tile < steps * float_pieces; ++tile) std::fill_n(to + tile * tile_words, tile_side, Twin(0));
  }
}

/// The transpose (columns, rows) of x (rows, columns) as a left operand; columns are whole tiles.
///
/// Cost    one pass
inline __attribute__((noinline)) Extent pack_transposed_left_pieces(Index rows, Index columns, const float* x,
                                                                    Index stride, Twin* tiles) {
  constexpr Index L = lanes<float>;
  const Index steps = (rows + step_depth - 1) / step_depth;
  Measure measure;
  for (Index step = 0; step < steps; ++step) {
    for (Index col = 0; col < columns; col += L) {
      const Index tile = (col / tile_side * steps + step) * float_pieces;
      Twin* const to = tiles + tile * tile_words + col % tile_side * tile_side;
      for (Index word = 0; word < tile_side; word += L) {
        const Index above = step * step_depth + 2 * word;
        const auto number = [&](Index row) __attribute__((always_inline)) {
          return row < rows ? load<Vec<float>>(x + row * stride + col) : Vec<float>{};
        };
        const auto numbers = [&](int i, Vec<float>& front, Vec<float>& back) __attribute__((always_inline)) {
          front = number(above + 2 * i), back = number(above + 2 * i + 1);
          measure(front), measure(back);
        };
        transpose_pieces(numbers, join_pairs, [&](int piece, int i, Vec<Twin> words) {
          store(to + piece * tile_words + i * tile_side + word, words);
        });
      }
    }
  }
  return measure.extent();
}

/// A matrix (rows, columns), whose rows are `stride` numbers apart, as a right operand; columns are whole strips.
///
/// Cost    one pass
template <class Writing = Storing>
__attribute__((noinline)) Extent pack_right_pieces(Index rows, Index columns, const float* matrix, Index stride,
                                                   Twin* strips, Writing write = {}) {
  constexpr Index L = lanes<float>;
  const Index depth = round_up(rows, step_depth);
  Measure measure;
  for (Index row = 0; row < depth; row += 2, matrix += 2 * stride) {
    for (Index col = 0; col < columns; col += strip_columns) {
      Twin* const to =
          strips + strip_place(col, depth, row / step_depth) + row % step_depth / 2 * strip_columns;
      SIMPLX_UNROLL
      for (Index i = 0; i < strip_columns; i += L) {
        const Vec<float> above = row < rows ? load<Vec<float>>(matrix + col + i) : Vec<float>{};
        const Vec<float> below = row + 1 < rows ? load<Vec<float>>(matrix + stride + col + i) : Vec<float>{};
        measure(above), measure(below);
        const Pieces a(above), b(below);
        SIMPLX_UNROLL
        for (int piece = 0; piece < float_pieces; ++piece) {
          write(to + piece * strip_words + i, join_pairs(a.of[piece], b.of[piece]));
        }
      }
    }
  }
  return measure.extent();
}

/// The transpose (depth, columns) of a (columns, depth) matrix as a right operand; both are whole strips.
///
/// Cost    one pass
template <class Writing = Storing>
__attribute__((noinline)) Extent pack_transposed_right_pieces(Index depth, Index columns, const float* matrix,
                                                              Twin* strips, Writing write = {}) {
  constexpr Index L = lanes<float>;
  Measure measure;
  for (Index col = 0; col < columns; col += strip_columns) {
    for (Index step = 0; step < depth / step_depth; ++step) {
      Twin* const to = strips + strip_place(col, depth, step);
      for (Index word = 0; word < tile_side; word += L) {
        for (Index i = 0; i < strip_columns; i += L) {
          const float* const from = matrix + (col + i) * depth + step * step_depth + 2 * word;
          const auto numbers = [&](int q, Vec<float>& front, Vec<float>& back) __attribute__((always_inline)) {
            const float* const row = from + q * depth;
            __builtin_prefetch(row + transposed_ahead<float>, 0, 2);
            __builtin_prefetch(row + transposed_ahead<float> + L, 0, 2);
            front = load<Vec<float>>(row), back = load<Vec<float>>(row + L);
            measure(front), measure(back);
          };
          transpose_pieces(numbers, pairs_along, [&](int piece, int q, Vec<Twin> words) {
            write(to + piece * strip_words + (word + q) * strip_columns + i, words);
          });
        }
      }
    }
  }
  return measure.extent();
}

}  // namespace simplx::cpu

// ---- simplx/cpu/gemm_pieces.hpp

/// \file simplx/cpu/gemm_pieces.hpp
/// The products of gemm.hpp, floats by a matrix unit: in pieces (piece_tiles.hpp) and blocks of 32 x 32 sums.
///
/// What the unit cannot take (Extent) is multiplied by vectors, from the operands as they are: a row of a product, or a
/// block of a gradient. So what is infinite or tiny comes out as with the other kernels, and no other row knows of it.
/// So are products of few rows, which would fill a part of a tile alone.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Whether the operands of all three products of a layer are whole strips.
constexpr bool fits_pieces(Index K, Index N) { return K % strip_columns == 0 && N % strip_columns == 0; }

// What stays in the second level of the cache: rows of a left operand and numbers of the inner dimension that are
// multiplied at once, columns of a gradient's right operand.
inline constexpr Index piece_rows = 128, piece_depth = 1024, piece_columns = 512;

// The time of so few rows is that of reading the weights: 4 bytes each as they are, 6 in pieces. By vectors a token of
// a stream is 1.5 to 3 times as fast, four rows 1.2 to 2 times. Their sums are other ones, to rounding.
inline constexpr Index few_rows = 4;

/// Weights (K, N) as a right operand, and their Extent after them.
template <Index K, Index N>
struct PackedPieces {
  static constexpr Index extent_at = words_in_pieces(K * N);
  static constexpr Index words = extent_at + Index((sizeof(Extent) + sizeof(Twin) - 1) / sizeof(Twin));

  /// Of a (K, N) matrix, or of an (N, K) one if `transposed`.
  ///
  /// Cost    one pass
  template <bool transposed>
  static void pack(const float* matrix, Twin* packed) {
    written<words_in_pieces(K * N)>(packed, [&](auto write) {
      Extent extent;
      if constexpr (transposed) {
        extent = pack_transposed_right_pieces(K, N, matrix, packed, write);
      } else {
        extent = pack_right_pieces(K, N, matrix, N, packed, write);
      }
      std::memcpy(packed + extent_at, &extent, sizeof extent);
    });
  }
  static Extent extent(const Twin* packed) {
    Extent extent;
    std::memcpy(&extent, packed + extent_at, sizeof extent);
    return extent;
  }
};

/// The epilogue of rows that begin at `first`.
template <class Epilogue>
struct FromRow {
  const Epilogue& epilogue;
  Index first;

  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return epilogue.template at<V>(accumulator, first + row, col);
  }
};

/// Rows [begin, end) of a product, from the (K, N) weights, (N, K) if `transposed`.
template <Index K, Index N, bool transposed, Write mode, class Epilogue>
__attribute__((noinline)) void rows_by_vectors(Index begin, Index end, const float* a, const float* weight, float* c,
                                               const Epilogue& epilogue) {
  using V = Vec<float>;
  constexpr Index L = lanes<float>;
  if constexpr (!transposed) {
    // Eight rows of weights at a time are read along, as memory likes it; the sums wait in c.
    constexpr Index depth = 8;
    constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
    const auto part = [&]<Write part_mode>(std::integral_constant<Write, part_mode>, Index from, const auto& last) {
      for (Index col = 0; col < N; col += strip_columns) {
        panel<8, strip_columns / L, part_mode>(end - begin, Static<depth>{}, a + begin * K + from, Static<K>{},
                                               Static<1>{}, weight + from * N + col, Static<N>{}, c + begin * N + col,
                                               Static<N>{}, last, col);
      }
    };
    part(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
    for (Index from = depth; from < K - completed * depth; from += depth) {
      part(std::integral_constant<Write, Write::accumulate>{}, from, NoEpilogue{});
    }
    if constexpr (completed) {
      const FromRow<Epilogue> moved{epilogue, begin};
      part(std::integral_constant<Write, Write::store>{}, K - depth,
           Completing<N, float, FromRow<Epilogue>>{c + begin * N, moved});
    }
  } else {
    for (Index col = 0; col < N; col += L) {
      for (Index row = begin; row < end; ++row) {
        V products[L]{};
        for (Index i = 0; i < L; ++i) products[i] = RowProduct<K, float>(weight + (col + i) * K, a + row * K).vectors;
        V value = epilogue.template at<V>(lane_sums<float>(products), row, col);
        if constexpr (mode == Write::accumulate) value += load<V>(c + row * N + col);
        store(c + row * N + col, value);
      }
    }
  }
}

/// Rows from `row` on, `count` of them, and what `depth` numbers of the inner dimension from `from` on give of their
/// products.
template <Index K, Index N, Write mode, class Unit, class Epilogue>
__attribute__((noinline)) void multiply_strips(const Unit& unit, Index row, Index count, Index from, Index depth,
                                               const Twin* left, const Twin* packed, float* c,
                                               const Epilogue& epilogue) {
  constexpr Index row_bytes = strip_columns * Index(sizeof(Twin)), rows_of_step = float_pieces * tile_side;
  const Index steps = depth / step_depth, blocks = (count + block_side - 1) / block_side;
  for (Index col = 0; col < N; col += strip_columns) {
    const Twin* const right = packed + strip_place(col, K, from / step_depth);
    for (Index i = 0; i < count; i += block_side) {
      // Each block of rows fetches its share of the next strip.
      const Index share = (steps * rows_of_step + blocks - 1) / blocks;
      const Twin* const next = right + strip_place(strip_columns, K, 0) + i / block_side * share * strip_columns;
      tile_block<float_pieces, N, mode>(unit, std::min(count - i, block_side), block_side, steps,
                                  left + words_in_pieces(i * depth), right, strip_columns, c, epilogue, row + i, col,
                                  FetchRows{next, row_bytes, share, (share + 6 * steps - 1) / (6 * steps)});
    }
  }
}

/// Words of scratch that gemm_pieces needs.
constexpr Index product_pieces(Index rows, Index K) {
  return words_in_pieces(round_up(std::min(rows, piece_rows), tile_side) * std::min(K, piece_depth));
}

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b the (K, N) weights, (N, K) if `transposed`, packed by PackedPieces;
/// scratch holds product_pieces(rows, K) words. Where c is added to there is no epilogue.
///
/// Cost    6 products of pieces: 12 rows K N FLOPs of the unit, and one pass over a, two where K > piece_depth; where
///         rows <= few_rows, 2 rows K N FLOPs of vectors
template <Index K, Index N, bool transposed, Write mode, class Unit, class Epilogue>
void gemm_pieces(const Unit& unit, Index rows, const float* a, const float* weight, const Twin* packed, float* c,
                 const Epilogue& epilogue, Twin* scratch) {
  static_assert(fits_pieces(K, N));
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  if (rows <= few_rows) {
    return rows_by_vectors<K, N, transposed, mode>(0, rows, a, weight, c, epilogue);
  }
  const Extent of_weights = PackedPieces<K, N>::extent(packed);
  for (Index row = 0; row < rows; row += piece_rows) {
    const Index count = std::min(rows - row, piece_rows);
    const float* const left = a + row * K;
    bool taken[piece_rows];
    if constexpr (K > piece_depth) {  // all of a row has to be known before the first part of it is multiplied
      for (Index i = 0; i < count; ++i) taken[i] = fit(extent_of<K>(left + i * K), of_weights);
    }
    const auto take = [&](Index i, Extent extent) {
      if constexpr (K <= piece_depth) taken[i] = fit(extent, of_weights);
      return taken[i];
    };
    const auto part = [&]<Write part_mode>(std::integral_constant<Write, part_mode>, Index from, const auto& last) {
      const Index depth = std::min(K - from, piece_depth);
      pack_left_pieces(count, depth, left + from, K, take, scratch);
      multiply_strips<K, N, part_mode>(unit, row, count, from, depth, scratch, packed, c, last);
    };
    if constexpr (K <= piece_depth) {
      part(std::integral_constant<Write, mode>{}, 0, epilogue);
    } else {
      constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
      constexpr Index last = (K - 1) / piece_depth * piece_depth;
      part(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
      for (Index from = piece_depth; from < K - completed * (K - last); from += piece_depth) {
        part(std::integral_constant<Write, Write::accumulate>{}, from, NoEpilogue{});
      }
      if constexpr (completed) {
        part(std::integral_constant<Write, Write::store>{}, last, Completing<N, float, Epilogue>{c, epilogue});
      }
    }
    for (Index begin = 0; begin < count; ++begin) {
      if (taken[begin]) continue;
      Index end = begin + 1;
      while (end < count && !taken[end]) ++end;
      rows_by_vectors<K, N, transposed, mode>(row + begin, row + end, a, weight, c, epilogue);
      begin = end;
    }
  }
}

/// Words of scratch that gemm_gradient_pieces needs.
constexpr Index gradient_pieces(Index rows, Index K, Index N) {
  return words_in_pieces(round_up(std::min(rows, piece_rows), step_depth) *
                         (std::min(K, piece_depth) + std::min(N, piece_columns)));
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N); scratch holds gradient_pieces(rows, K, N) words. Turns as in
/// gemm_gradient.
///
/// Cost    6 products of pieces: 12 rows K N FLOPs of the unit, one pass over x, one over dy for every piece_depth
///         columns of x; dw is read and written once for every piece_rows
template <Index K, Index N, class Unit>
void gemm_gradient_pieces(const Unit& unit, Index rows, const float* x, const float* dy, float* dw, Twin* scratch,
                          detail::Turn* turn = nullptr) {
  static_assert(fits_pieces(K, N));
  const auto add_block = [&](Index row, Index count, Index from, Index span) {
    const Index steps = (count + step_depth - 1) / step_depth, depth = steps * step_depth;
    Twin* const right = scratch + words_in_pieces(depth * std::min(K, piece_depth));
    const float* const left_numbers = x + row * K + from;
    const Extent of_left = pack_transposed_left_pieces(count, span, left_numbers, K, scratch);
    for (Index first = 0; first < N; first += piece_columns) {
      const Index columns = std::min(N - first, piece_columns);
      const float* const right_numbers = dy + row * N + first;
      float* const to = dw + from * N + first;
      if (!fit(of_left, pack_right_pieces(count, columns, right_numbers, N, right))) {
        for (Index col = 0; col < columns; col += strip_columns) {
          gemm_strided<strip_columns, Write::accumulate>(span, count, left_numbers, Static<1>{}, Static<K>{},
                                                         right_numbers + col, Static<N>{}, to + col, Static<N>{});
        }
        continue;
      }
      for (Index i = 0; i < span; i += block_side) {
        for (Index col = 0; col < columns; col += strip_columns) {
          const FetchRows ahead{to + i * N + col + strip_columns, N * Index(sizeof(float)), block_side,
                                (block_side + 6 * steps - 1) / (6 * steps)};
          tile_block<float_pieces, N, Write::accumulate>(
              unit, std::min(span - i, block_side), block_side, steps, scratch + words_in_pieces(i * depth),
              right + words_in_pieces(col * depth), strip_columns, to, NoEpilogue{}, i, col, ahead);
        }
      }
    }
  };
  static_assert(rows_in_turn % tile_side == 0);
  for (Index from = 0; from < K; from += rows_in_turn) {
    const detail::Addition addition(turn);
    const Index end = std::min(from + rows_in_turn, K);
    for (Index row = 0; row < rows; row += piece_rows) {
      for (Index i = from; i < end; i += piece_depth) {
        add_block(row, std::min(rows - row, piece_rows), i, std::min(end - i, piece_depth));
      }
    }
  }
}

}  // namespace simplx::cpu

// ---- simplx/cpu/linear_product.hpp

/// \file simplx/cpu/linear_product.hpp
/// The products of a layer with the weights W, each by the fastest kernel for its sizes and path:
///
///     Y = X W,   dX = dY W^T,   dW += X^T dY
///
/// Weights that are parameters are packed once a step, W and W^T, so that all three run at the speed of the plain one:
/// into panels, or into pieces where the CPU has a matrix unit. Others are packed anew for each product, unless it has
/// so few rows that Eigen multiplies them, one by one, in less time than that takes.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Elements of a (rows, cols) matrix in panels, of vectors of any width, or in pieces; one column is never packed.
constexpr Index packed_matrix(Index rows, Index cols) {
  const Index panels = cols == 1 ? rows : rows * round_up(cols, alignment);
  const bool in_pieces = floats_in_pieces && fits_pieces(rows, cols);
  return round_up(in_pieces ? words_in_pieces(rows * cols) + alignment : panels, alignment);
}
/// Elements of a (rows, cols) matrix, or of its transpose, so packed.
constexpr Index packed_room(Index rows, Index cols) {
  return std::max(packed_matrix(rows, cols), packed_matrix(cols, rows));
}

/// W is (K, N) in the equations, and lies as (N, K) in memory if `transposed`; `prepared` if it is packed beforehand.
///
/// Shapes  X (rows, K), Y (rows, N)
template <class Backend, Index K, Index N, bool transposed, bool prepared>
struct LinearProduct {
  using S = typename Backend::Scalar;
  static constexpr Index outputs = N;

  /// Whether panels of that width are what a product is computed from: whole vectors, and of parameters also what fills
  /// a third of one.
  static constexpr bool by_panels(Index width) {
    const bool any_width = prepared && Backend::by_vectors;
    return Backend::vectorises(width) || (any_width && width > 1 && 3 * width >= lanes<S>);
  }
  /// Whether the operands are rounded to pairs of bfloat16.
  static constexpr bool rounds = Backend::rounds && prepared && Backend::vectorises(K) && Backend::vectorises(N);
  /// Whether the matrix unit multiplies floats in pieces, if the system lets the program use it.
  static constexpr bool splits = Amx::compiled && Backend::splits && prepared && fits_pieces(K, N);
  /// Whether products of dual numbers are those of their parts.
  static constexpr bool wide = K >= 4 && N >= 4;
  /// A matrix and a vector, which lies in memory the same way whether transposed or not.
  static constexpr bool of_vector = Backend::by_vectors && N == 1;
  static constexpr bool takes_epilogue = by_panels(N);

  /// Elements of W in panels, or of W^T.
  static constexpr Index room = packed_room(K, N);
  /// Elements of scratch that each of the products needs.
  static constexpr Index scratch(Index rows) {
    constexpr Index stored_rows = transposed ? N : K, stored_columns = transposed ? K : N;
    if (rounds) return gradient_pairs(rows, stored_rows, stored_columns);
    const bool gradient = by_panels(N) && by_panels(K);
    const Index panels =
        std::max(gradient ? gradient_scratch<S>(round_up(rows, alignment), stored_columns) : 0, prepared ? 0 : room);
    if (!splits) return panels;
    return std::max({panels, product_pieces(rows, K), product_pieces(rows, N),
                     gradient_pieces(rows, stored_rows, stored_columns)});
  }

  /// W for Y = X W.
  static void pack_forward(const S* weight, S* packed) {
    if constexpr (splits) {
      if (Amx::available()) return PackedPieces<K, N>::template pack<transposed>(weight, pairs(packed));
    }
    if constexpr (rounds) {
      if constexpr (transposed) {
        pack_transposed_pairs<K, N>(weight, pairs(packed));
      } else {
        pack_pairs<K, N>(weight, pairs(packed));
      }
    } else if constexpr (transposed) {
      pack_transposed<K, N, !prepared>(weight, packed);
    } else {
      pack<K, N, !prepared>(weight, packed);
    }
  }
  /// W^T for dX = dY W^T: the W of the product the other way.
  static void pack_backward(const S* weight, S* packed) { Turned::pack_forward(weight, packed); }
  /// Both; W^T only where there is room for it.
  static void prepare(const S* weight, S* packed, S* turned) {
    if constexpr (by_panels(N)) pack_forward(weight, packed);
    if constexpr (by_panels(K)) {
      if (turned) pack_backward(weight, turned);
    }
  }

  /// Y = epilogue(X W); needs takes_epilogue.
  template <class Epilogue>
  static void forward(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y,
                      const Epilogue& epilogue) {
    multiply<Write::store>(rows, x, weight, packed, scratch, y, epilogue);
  }
  /// Y = X W
  static void forward(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y) {
    multiply<Write::store>(rows, x, weight, packed, scratch, y, NoEpilogue{});
  }
  /// dX (=|+=) dY W^T: the product the other way, of W^T as it was packed for backward.
  template <Write mode>
  static void input_gradient(Index rows, const S* dy, const S* weight, const S* turned, S* scratch, S* dx) {
    Turned::template multiply<mode>(rows, dy, weight, turned, scratch, dx, NoEpilogue{});
  }

  /// dW += X^T dY, in the order of W in memory, (N, K) += dY^T X if transposed; takes turns as gemm_gradient does, or
  /// one.
  static void add_weight_gradient(Index rows, const S* x, const S* dy, S* dw, S* scratch, detail::Turn* turn) {
    constexpr Index A = transposed ? N : K, B = transposed ? K : N;  // dW is (A, B) in memory
    const S *const a = transposed ? dy : x, *const b = transposed ? x : dy;
    if constexpr (splits) {
      if (Amx::available()) return gemm_gradient_pieces<A, B>(Amx{}, rows, a, b, dw, pairs(scratch), turn);
    }
    if constexpr (rounds) {
      gemm_gradient_bfloat16<A, B>(rows, a, b, dw, pairs(scratch), turn);
    } else if constexpr (by_panels(N) && by_panels(K)) {
      gemm_gradient<A, B>(rows, a, b, dw, scratch, turn);
    } else if constexpr (of_vector) {
      const detail::Addition addition(turn);
      add_transposed_matrix_vector<K>(rows, x, dy, dw);
    } else {
      const detail::Addition addition(turn);
      MatrixMap<S> dws(dw, A, B);
      add_product<wide>(dws, ConstMatrixMap<S>(a, rows, A).transpose(), ConstMatrixMap<S>(b, rows, B));
    }
  }

 private:
  template <class, Index, Index, bool, bool>
  friend struct LinearProduct;
  using Turned = LinearProduct<Backend, N, K, !transposed, prepared>;

  /// Y (=|+=) epilogue(X W); with an epilogue it needs takes_epilogue.
  template <Write mode, class Epilogue>
  static void multiply(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y,
                       const Epilogue& epilogue) {
    if constexpr (splits) {
      if (Amx::available()) {
        return gemm_pieces<K, N, transposed, mode>(Amx{}, rows, x, weight, pairs(packed), y, epilogue, pairs(scratch));
      }
    }
    if constexpr (rounds) {
      gemm_bfloat16<K, N, mode>(rows, x, pairs(packed), y, epilogue, pairs(scratch));
    } else if constexpr (by_panels(N)) {
      if constexpr (!prepared) {
        if (rows <= few_rows) return multiply_few<mode>(rows, x, weight, y, epilogue);
        pack_forward(weight, scratch);
        packed = scratch;
      }
      gemm<K, N, mode>(rows, x, packed, y, epilogue);
    } else if constexpr (of_vector && mode == Write::store) {
      matrix_vector<K>(rows, x, weight, y);
    } else {
      multiply_by_eigen<mode>(rows, x, weight, y);
    }
  }
  /// The same of rows so few that packing W would take longer.
  template <Write mode, class Epilogue>
  static void multiply_few(Index rows, const S* x, const S* weight, S* y, const Epilogue& epilogue) {
    for (Index row = 0; row < rows; ++row) multiply_by_eigen<mode>(1, x + row * K, weight, y + row * N);
    if constexpr (!std::is_same_v<Epilogue, NoEpilogue>) {
      each_element<S, N, false>(rows, [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
        S* const place = y + row * N + col;
        store<V>(place, epilogue.template at<V>(load<V>(place), row, col));
      });
    }
  }
  template <Write mode>
  static void multiply_by_eigen(Index rows, const S* x, const S* weight, S* y) {
    const ConstMatrixMap<S> xs(x, rows, K), w(weight, transposed ? N : K, transposed ? K : N);
    MatrixMap<S> ys(y, rows, N);
    if constexpr (mode == Write::store) ys.setZero();
    if constexpr (transposed) {
      add_product<wide>(ys, xs, w.transpose());
    } else {
      add_product<wide>(ys, xs, w);
    }
  }
  /// Memory of floats that holds pairs of bfloat16.
  static Twin* pairs(float* memory) { return reinterpret_cast<Twin*>(memory); }
  static const Twin* pairs(const float* memory) { return reinterpret_cast<const Twin*>(memory); }
};

}  // namespace simplx::cpu

// ---- simplx/ops/kernel.hpp

/// \file simplx/ops/kernel.hpp
/// Base of ops that are not elementwise: what they keep, what they need, and how much work they are.

namespace simplx::inline SIMPLX_TARGET {

/// A kernel redefines what differs from these answers, and supplies
///
///     static constexpr Checked shape(const Attributes&, Shape...);      // the result's shape, or a broken rule
///     template <class S, Path p, class F> static void forward(Cpu<S, p>, const F& frame);
///     template <class S, Path p, class F> static void backward(Cpu<S, p>, const F& frame);
///
/// Backward writes each grad<i>() as F::write<i> says: Write::store, Write::accumulate, or Write::skip, for a gradient
/// that nobody wants and whose grad<i>() is nullptr. put<F::template write<i>, S>(place, value) does so for a number.
///
/// Rows of Axis::tokens are those of one or several sequences, which frame.context.segments tells apart.
///
/// It may also have
///
///     static constexpr bool rows_apart(Axis);            // whether a row of the result, on that axis, reads that row
///                                                        // of the operands, and rows of its own sequence, alone:
///                                                        // if not, sequences are evaluated one by one
///     static constexpr unsigned char constant_operands;  // bit i: operand i has no gradient
///     static constexpr unsigned char overwrites;         // bit i: grad<i>() may be in<i>() itself: backward writes an
///                                                        // element when it and others have read it for the last time
///     static constexpr int packs;                        // the operand that is prepared, where it is a parameter
///     template <class G, int node, class S, Path p>
///     static void prepare(Cpu<S, p>, const S* parameters, S* packed, S* turned);  // null: there is no backward
///     static constexpr bool reads(int i, int operand);   // whether grad<i>() needs that operand; by default all,
///                                                        // where needs_inputs
///     static constexpr Term derive(const Node*, int argument, const Term& gradient);  // backward as an expression
///     static constexpr int index_operand;                // that operand is indices(...), whose numbers are rows of
///     static constexpr Shape looked_up(Shape first);     // a value of this shape, that of operand 0 being given
///     static std::string settings(const Attributes&);    // what `describe` prints after the operands: "heads 4"
struct kernel_op {
  static constexpr Kind kind = Kind::kernel;
  static constexpr bool needs_inputs = false;
  static constexpr bool needs_output = false;
  static constexpr bool rows_apart(Axis) { return false; }
  /// Its indices may be -100.
  static constexpr bool takes_ignored = false;
  /// Its backward takes the frame's turns itself, to hold them no longer than it adds.
  static constexpr bool adds_by_itself = false;
  /// Columns that forward saves for backward, on the axis of the result.
  static constexpr Index saved(const Attributes&, auto...) { return 0; }
  /// Elements that `prepare` makes from the parameters once for each step, for forward and for backward each.
  static constexpr Index packed(const Attributes&, auto...) { return 0; }
  /// Elements of scratch for these rows; the largest of a model is allocated once for each thread.
  template <class Backend, class F>
  static constexpr Index scratch(const Rows&) {
    return 0;
  }
  /// Multiply-adds count 2; only matrix products count. `causal`: without what a causal mask leaves out.
  template <class F>
  static constexpr double flops(const Rows&, bool /*causal*/) {
    return 0;
  }
};

}  // namespace simplx

// ---- simplx/ops/transpose.hpp

/// \file simplx/ops/transpose.hpp
/// Transposes, and the product that sums over rows: Y = A^T B.
///
///     dA = B dY^T,   dB = A dY

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"matmul">;

/// A copy W^T of a static matrix; as an operand of a product it is read in place and costs nothing.
template <>
struct op<"transpose"> : kernel_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (!x.is_fixed()) return {"static transpose", static_cast<Index>(x.axis), 0};
    return fixed_shape(x.cols, x.rows);
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"transpose">({}, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Shape s = F::template shape<0>;
    cpu::MatrixMap<S>(frame.out(), s.cols, s.rows) =
        cpu::ConstMatrixMap<S>(frame.template in<0>(), s.rows, s.cols).transpose();
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Shape s = F::template shape<0>;
    cpu::MatrixMap<S>(frame.template grad<0>(), s.rows, s.cols) +=
        cpu::ConstMatrixMap<S>(frame.out_grad(), s.cols, s.rows).transpose();
  }
};

/// A^T B, summed over the rows that A and B share.
template <>
struct op<"contract"> : kernel_op {
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr Checked shape(const Attributes&, Shape a, Shape b) {
    if (a.is_fixed() && !b.is_fixed()) return {"matrix on the left", a.cols, a.rows};
    if (a.axis != b.axis || a.rows != b.rows) return unequal_rows(a, b);
    return fixed_shape(a.cols, b.cols);
  }
  static constexpr Term derive(const auto* node, int argument, const Term& g) {  // a template: matmul comes later
    const auto dy = detail::whole(g, node), other = detail::argument(node, 1 - argument);
    return Term(apply<"matmul">({.integers = {argument == 0}}, other, dy));  // B dY^T, A dY
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    const Shape a = F::template shape<0>;
    const double count = static_cast<double>(rows.count(a));
    return 2 * count * static_cast<double>(a.cols) * static_cast<double>(F::out_shape.cols);
  }
  template <int k, class S, class F>
  static cpu::ConstMatrixMap<S> matrix(const F& frame) {
    return {frame.template in<k>(), frame.template rows_in<k>(), F::template shape<k>.cols};
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    cpu::MatrixMap<S> y(frame.out(), F::out_shape.rows, F::out_shape.cols);
    y.setZero();
    cpu::add_product(y, matrix<0, S>(frame).transpose(), matrix<1, S>(frame));
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const cpu::ConstMatrixMap<S> g(frame.out_grad(), F::out_shape.rows, F::out_shape.cols);
    write<0>(frame, matrix<1, S>(frame), g.transpose());
    write<1>(frame, matrix<0, S>(frame), g);
  }

 private:
  template <int k, class F, class A, class B>
  static void write(const F& frame, const A& a, const B& b) {
    constexpr Write mode = F::template write<k>;
    if constexpr (mode != Write::skip) {
      cpu::MatrixMap<typename F::Scalar> target(frame.template grad<k>(), frame.template rows_in<k>(),
                                                F::template shape<k>.cols);
      if constexpr (mode == Write::store) target.setZero();
      cpu::add_product(target, a, b);
    }
  }
};

/// x^T.
///
/// Shapes  x (R, C) -> (C, R)
/// Errors  does not compile for rows along an axis, except in transpose(x) * y: rule "static transpose"
/// Cost    a copy; none where a product reads it in place: x * transpose(w), and transpose(x) * y over rows of an axis
constexpr Expr transpose(At x) { return apply<"transpose">({}, x); }

}  // namespace simplx

// ---- simplx/ops/matmul.hpp

/// \file simplx/ops/matmul.hpp
/// Matrix products: Y = X W, or Y = X W^T when the right operand is transpose(W).
///
///     dX = dY W^T,   dW += X^T dY
///
/// The elementwise group that uses Y becomes the product's epilogue (core/fuse.hpp): relu(x * W) never stores
/// what is below the ReLU. Parameters are packed once for each step (cpu/linear_product.hpp).

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"matmul"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Kind kind = Kind::product;
  static constexpr bool adds_by_itself = true;
  /// dX reads W, dW reads X.
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr bool transposed(Attributes attributes) { return detail::is_transposed(attributes); }

  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape w) {
    if (x.is_fixed() && !w.is_fixed()) return {"matrix on the left", x.rows, x.cols};
    if (!w.is_fixed()) return {"static right operand", static_cast<Index>(w.axis), 0};
    const Index inner = transposed(attributes) ? w.cols : w.rows, outer = transposed(attributes) ? w.rows : w.cols;
    if (x.cols != inner) return {"inner widths", x.cols, inner};
    return Shape{x.axis, x.rows, outer};
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const At dy = detail::whole(g, node), x = detail::argument(node, 0), w = detail::argument(node, 1);
    const bool turned = transposed(node->attributes);
    if (argument == 0) return Term(apply<"matmul">({.integers = {!turned}}, dy, w));
    return Term(turned ? apply<"contract">({}, dy, x) : apply<"contract">({}, x, dy));
  }
  static constexpr int packs = 1;
  static constexpr Index packed(const Attributes&, Shape, Shape w) {
    return cpu::packed_room(w.rows, w.cols);
  }

  /// What a product of the graph is, as constants.
  template <class F>
  struct Product {
    static constexpr bool transposed = op::transposed(F::attributes);
    static constexpr Shape weight = F::template shape<1>;
    static constexpr Index K = F::template shape<0>.cols, N = F::out_shape.cols;
    static constexpr bool prepared = F::Graph::table.info[F::template argument<1>].kind == Kind::parameter;
    template <class Backend>
    using On = cpu::LinearProduct<Backend, K, N, transposed, prepared>;
  };

  template <class Backend, class F>
  static constexpr bool takes_epilogue = Product<F>::template On<Backend>::takes_epilogue;

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    const Shape x = F::template shape<0>;
    return Product<F>::template On<Backend>::scratch(rows.count(x));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    const Shape x = F::template shape<0>;
    const double count = static_cast<double>(rows.count(x));
    return 2 * count * static_cast<double>(x.cols) * static_cast<double>(F::out_shape.cols);
  }

  template <class G, int node, class S, Path path>
  static void prepare(Cpu<S, path>, const S* parameters, S* packed, S* turned) {
    using F = Frame<G, node, S>;
    if constexpr (Product<F>::prepared) {
      using Linear = typename Product<F>::template On<Cpu<S, path>>;
      constexpr bool wants_dx = G::fusion.wanted[F::template argument<0>];
      Linear::prepare(parameters + G::layout.parameter[F::template argument<1>], packed, wants_dx ? turned : nullptr);
    }
  }

  template <class S, Path path, class F, class... Epilogue>
  static void forward(Cpu<S, path>, const F& frame, S* out, const Epilogue&... epilogue) {
    using Linear = typename Product<F>::template On<Cpu<S, path>>;
    Linear::forward(frame.rows(), frame.template in<0>(), frame.template in<1>(), frame.packed(), frame.scratch(), out,
                    epilogue...);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path> backend, const F& frame) {
    forward(backend, frame, frame.out());
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using Linear = typename Product<F>::template On<Cpu<S, path>>;
    const S* dy = frame.out_grad();
    if constexpr (F::template write<1> != Write::skip) {
      Linear::add_weight_gradient(frame.rows(), frame.template in<0>(), dy, frame.template grad<1>(), frame.scratch(),
                                  frame.template turn<1>());
    }
    if constexpr (F::template write<0> != Write::skip) {
      const detail::Addition addition(frame.template turn<0>());
      Linear::template input_gradient<F::template write<0>>(frame.rows(), dy, frame.template in<1>(), frame.turned(),
                                                            frame.scratch(), frame.template grad<0>());
    }
  }
};

/// The matrix product, whatever the shapes.
///
/// Shapes  (rows, K), (K, N) -> (rows, N)
///         transpose(a), b, of a (rows, K) and b (rows, N) -> (K, N), over static or run-time rows
/// Errors  does not compile unless widths and rows agree: rules "inner widths", "equal rows" and "equal axes"; nor for
///         W and x: rule "matrix on the left"
/// Cost    2 rows K N FLOPs forward, twice that backward; keeps both
constexpr Expr matmul(At a, At b) {
  if (a.node->op == Tag("transpose") && !b.shape().is_fixed()) {
    return apply<"contract">({}, At(Expr{a.node->arguments[0]}), b);
  }
  if (b.node->op == Tag("transpose")) {
    return apply<"matmul">({.integers = {1}}, a, At(Expr{b.node->arguments[0]}));
  }
  return apply<"matmul">({}, a, b);
}

/// matmul(a, b) where b is transposed or a matrix (several static rows, of one column too), or a is transposed and of
/// run-time rows; multiply(a, b), elementwise, otherwise and where a is a number. Code for any rows says which.
///
/// Shapes  (rows, K) * (K, N) -> (rows, N);  (rows, N) * (1, N) or (1, 1) -> (rows, N)
///         (rows, N) * (rows, 1) -> (rows, N) over run-time rows alone: static (3, 3) * (3, 1) is the product, (3, 1)
/// Errors  as matmul, and rule "equal widths"
constexpr Expr operator*(At a, At b) {
  if (a.node->op == Tag("transpose") && !b.shape().is_fixed()) return matmul(a, b);
  const bool number = a.shape() == fixed_shape(1, 1);
  if (b.node->op == Tag("transpose") && !number) return matmul(a, b);
  const bool matrix = (b.shape().is_fixed() ? b : a).shape().rows > 1;  // W * x is refused in words of its own
  // By apply at once: a further call for each product of 18 layers costs g++ a megabyte.
  return matrix && !number ? apply<"matmul">({}, a, b) : apply<"multiply">({}, a, b);
}
constexpr Expr& operator*=(Expr& x, At y) { return x = x * y; }

}  // namespace simplx

// ---- simplx/ops/columns.hpp

/// \file simplx/ops/columns.hpp
/// Taking columns apart and putting them together.
///
///     slice_columns(x, b, n)    y = x[:, b : b + n]      dx[:, b : b + n] += dy
///     concatenate(a, b, ...)    y = [a b ...]            da = its columns of dy, and so on

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("slice", left <= right,
            "a slice must end inside x: begin + count (left number) may be at most the columns, of slice_rows the "
            "rows, of x (right number)")
SIMPLX_RULE("slice begin", left >= 0 && right >= 1,
            "a slice begins at 0 or later (left number) and takes at least 1 column or row (right number)")
SIMPLX_RULE("halves", left % 2 == 0, "split_columns(x) makes two equal halves: x needs an even width (left number)")

namespace detail {

/// Columns or rows that are taken.
struct Slice {
  Index begin, count;
  constexpr Index end() const { return begin + count; }
};
constexpr Attributes attributes_of(const Slice& slice) { return {.integers = {slice.begin, slice.count}}; }
constexpr Slice slice_in(Attributes attributes) { return {attributes.integers[0], attributes.integers[1]}; }
/// "2 to 5": the first and the last.
inline std::string range_text(const Slice& slice) {
  return std::to_string(slice.begin) + " to " + std::to_string(slice.end() - 1);
}

/// The columns of a matrix from `begin` on; a matrix without rows may be nowhere.
template <class S>
struct ColumnsFrom {
  S* matrix;
  Index width, begin = 0;
  S* row(Index i) const { return matrix + i * width + begin; }
};

/// Copies or adds a block of columns between matrices of different widths.
template <Write mode, class S>
void move_columns(Index rows, Index cols, ColumnsFrom<const S> source, ColumnsFrom<S> target) {
  for (Index i = 0; i < rows; ++i) {
    const S* const from = source.row(i);
    S* const to = target.row(i);
    for (Index c = 0; c < cols; ++c) put<mode, S>(to + c, from[c]);
  }
}

}  // namespace detail

template <>
struct op<"concatenate">;

template <>
struct op<"slice_columns"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [begin, count] = detail::slice_in(attributes);
    if (begin < 0 || count < 1) return {"slice begin", begin, count};
    if (begin + count > x.cols) return {"slice", begin + count, x.cols};
    return Shape{x.axis, x.rows, count};
  }
  static std::string settings(const Attributes& attributes) {
    return "columns " + detail::range_text(detail::slice_in(attributes));
  }
  /// The gradient between columns of zeros.
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: concatenate comes later
    const auto x = detail::argument(node, 0), dy = detail::whole(g, node);
    const Index begin = detail::slice_in(node->attributes).begin, end = detail::slice_in(node->attributes).end();
    const Index width = x.shape().cols;
    const auto zeros_like = [&](Index first, Index count) {
      return At(spread(0.0, At(apply<"slice_columns">(detail::attributes_of(detail::Slice{first, count}), x))));
    };
    if (begin == 0 && end == width) return Term(Expr{dy.node});
    if (begin == 0) return Term(apply<"concatenate">({}, dy, zeros_like(end, width - end)));
    if (end == width) return Term(apply<"concatenate">({}, zeros_like(0, begin), dy));
    return Term(apply<"concatenate">({}, zeros_like(0, begin), dy, zeros_like(end, width - end)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index begin = detail::slice_in(F::attributes).begin, count = F::out_shape.cols;
    constexpr Index width = F::template shape<0>.cols;
    detail::move_columns<Write::store, S>(frame.rows(), count, {frame.template in<0>(), width, begin},
                                          {frame.out(), count});
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index begin = detail::slice_in(F::attributes).begin, count = F::out_shape.cols;
    constexpr Index width = F::template shape<0>.cols;
    S* dx = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dx, frame.rows() * width, S(0));
    detail::move_columns<Write::accumulate, S>(frame.rows(), count, {frame.out_grad(), count}, {dx, width, begin});
  }
};

template <>
struct op<"concatenate"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  template <class... Shapes>
  static constexpr Checked shape(const Attributes&, Shape first, Shapes... others) {
    Shape result = first;
    for (const Shape& s : {first, Shape(others)...}) {
      if (s.axis != first.axis || s.rows != first.rows) return unequal_rows(s, first);
    }
    result.cols = (first.cols + ... + others.cols);
    return result;
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    Index begin = 0;
    for (int i = 0; i < argument; ++i) begin += node->arguments[i]->shape.cols;
    const Index count = node->arguments[argument]->shape.cols;
    return Term(apply<"slice_columns">(detail::attributes_of(detail::Slice{begin, count}), detail::whole(g, node)));
  }
  /// Calls f<k>(first column of operand k).
  template <class F, class Visit>
  static void each(Visit visit) {
    Index begin = 0;
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k> index) {
      visit(index, begin);
      begin += F::template shape<k>.cols;
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      detail::move_columns<Write::store, S>(frame.rows(), cols, {frame.template in<k>(), cols},
                                            {frame.out(), F::out_shape.cols, begin});
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      if constexpr (F::template write<k> != Write::skip) {
        detail::move_columns<F::template write<k>, S>(frame.rows(), cols, {frame.out_grad(), F::out_shape.cols, begin},
                                                      {frame.template grad<k>(), cols});
      }
    });
  }
};

/// `count` columns of x from `begin` on.
///
/// Shapes  x (rows, C) -> (rows, count)
/// Errors  does not compile if the slice leaves x: rules "slice" and "slice begin"
constexpr Expr slice_columns(At x, Index begin, Index count) {
  return apply<"slice_columns">(detail::attributes_of(detail::Slice{begin, count}), x);
}

/// The two halves of the columns of x.
struct Halves {
  Expr first, second;
};
constexpr Halves split_columns(At x) {
  const Index half = x.shape().cols / 2;
  if (x.shape().cols % 2) return {refuse("halves", x, x.shape().cols), refuse("halves", x, x.shape().cols)};
  return {slice_columns(x, 0, half), slice_columns(x, half, half)};
}

/// Columns beside each other: (rows, A), (rows, B), ... -> (rows, A + B + ...), two to eight operands.
template <class... More>
constexpr Expr concatenate(At first, At second, const More&... more) {
  return apply<"concatenate">({}, first, second, At(more)...);
}

}  // namespace simplx

// ---- simplx/ops/repeat.hpp

/// \file simplx/ops/repeat.hpp
/// Each column several times, or each block of columns: one number for each head, spread over the head's columns; one
/// key for a group of queries.
///
///     repeat_columns(x, n)       y[:, n c + k] = x[:, c]              dx[:, c] = sum over k < n of dy[:, n c + k]
///     repeat_columns(x, n, w)    the same of blocks of w columns, c and n c + k being blocks

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("repetitions", left >= 1, "repeat_columns(x, times) takes every column at least once (left number: times)")
SIMPLX_RULE("repeated blocks", left >= 1 && right % left == 0,
            "repeat_columns(x, times, width) takes blocks of `width` columns (left number), which has to divide the "
            "columns of x (right number)")
SIMPLX_RULE("sums of repeated", left >= 1 && right % left == 0,
            "sum_of_repeated(x, times, width) adds up groups of times * width columns (left number), which have to "
            "divide the columns of x (right number)")

namespace detail {

/// Of each block of `width` columns.
struct Copies {
  Index times, width;
};
constexpr Attributes attributes_of(const Copies& copies) { return {.integers = {copies.times, copies.width}}; }
constexpr Copies copies_in(Attributes attributes) { return {attributes.integers[0], attributes.integers[1]}; }

struct repeating_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static std::string settings(const Attributes& attributes) {
    const auto [times, width] = copies_in(attributes);
    return (width == 1 ? "each" : std::to_string(width) + " columns") + " " + std::to_string(times) + " times";
  }
  /// to, (blocks, times, width), gets each block of from, (blocks, width), `times` times; rows of `from` have `cols`.
  template <Write mode, class F, class S>
  static void spread_copies(const F& frame, Index cols, const S* from, S* to) {
    constexpr Index times = copies_in(F::attributes).times, width = copies_in(F::attributes).width;
    for (Index block = 0; block < frame.rows() * (cols / width); ++block, from += width) {
      for (Index k = 0; k < times; ++k, to += width) {
        for (Index c = 0; c < width; ++c) put<mode, S>(to + c, from[c]);
      }
    }
  }
  /// The transpose of that: to, (blocks, width), gets the sum over the copies.
  template <Write mode, class F, class S>
  static void sum_copies(const F& frame, Index cols, const S* from, S* to) {
    constexpr Index times = copies_in(F::attributes).times, width = copies_in(F::attributes).width;
    for (Index block = 0; block < frame.rows() * (cols / width); ++block, from += times * width, to += width) {
      for (Index c = 0; c < width; ++c) {
        S total = 0;
        for (Index k = 0; k < times; ++k) total += from[k * width + c];
        put<mode, S>(to + c, total);
      }
    }
  }
};

}  // namespace detail

template <>
struct op<"sum_of_repeated">;

template <>
struct op<"repeat_columns"> : detail::repeating_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [times, width] = detail::copies_in(attributes);
    if (times < 1) return {"repetitions", times, 1};
    if (width < 1 || x.cols % width != 0) return {"repeated blocks", width, x.cols};
    return Shape{x.axis, x.rows, times * x.cols};
  }
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: sum_of_repeated comes later
    return Term(apply<"sum_of_repeated">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    spread_copies<Write::store>(frame, F::template shape<0>.cols, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    sum_copies<F::template write<0>>(frame, F::template shape<0>.cols, frame.out_grad(), frame.template grad<0>());
  }
};

/// Either is the pull-back of the other.
template <>
struct op<"sum_of_repeated"> : detail::repeating_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [times, width] = detail::copies_in(attributes);
    if (times < 1) return {"repetitions", times, 1};
    if (width < 1 || x.cols % (times * width) != 0) return {"sums of repeated", times * width, x.cols};
    return Shape{x.axis, x.rows, x.cols / times};
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"repeat_columns">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    sum_copies<Write::store>(frame, F::out_shape.cols, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    spread_copies<F::template write<0>>(frame, F::out_shape.cols, frame.out_grad(), frame.template grad<0>());
  }
};

/// Each column of x `times` times, or each block of `width` columns, the copies beside each other.
///
/// Shapes  x (rows, C) -> (rows, C * times)
/// Errors  does not compile for less than one time, or blocks that do not divide C: rules "repetitions" and "repeated
///         blocks"
constexpr Expr repeat_columns(At x, Index times, Index width = 1) {
  return apply<"repeat_columns">(detail::attributes_of(detail::Copies{times, width}), x);
}

/// The sum of `times` columns beside each other, or blocks of `width` columns, where repeat_columns has copies.
///
/// Shapes  x (rows, C * times) -> (rows, C)
/// Errors  does not compile unless times * width divide the columns: rules "repetitions" and "sums of repeated"
constexpr Expr sum_of_repeated(At x, Index times, Index width = 1) {
  return apply<"sum_of_repeated">(detail::attributes_of(detail::Copies{times, width}), x);
}

}  // namespace simplx

// ---- simplx/nn/head_norm.hpp

/// \file simplx/nn/head_norm.hpp
/// A norm within each head, as of queries and keys: QK-norm.

namespace simplx::inline SIMPLX_TARGET {

/// gain * x_h / sqrt(mean x_h^2 + epsilon) for each column block x_h of x; all heads have one gain, a number for each
/// of their columns.
///
/// Shapes  x (rows, heads * d_k) -> the same; parameter gain (1, d_k)
/// Errors  does not compile if heads do not divide the columns: rule "heads"
/// Source  Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", Sec. 2; with RMSNorm: Qwen3
struct HeadNorm {
  int heads = 1;
  double epsilon = 1e-6;

  constexpr Expr operator()(Expr x) const {
    const Index columns = width(x);
    if (heads < 1 || columns % heads != 0) return refuse("heads", x, heads, columns);
    const Index own = columns / heads;
    const Expr mean_square = sum_of_repeated(square(x), own) / static_cast<double>(own);  // (rows, heads)
    const Expr scale = rsqrt(mean_square + hyper("epsilon", epsilon));
    return x * repeat_columns(scale, own) * repeat_columns(vector("gain", own), heads, own);
  }
};

}  // namespace simplx

// ---- simplx/nn/gain.hpp

/// \file simplx/nn/gain.hpp
/// Gain: a number in front of a term of an equation, which may be absent together with its term.

namespace simplx::inline SIMPLX_TARGET {

/// A number in front of a term: one: no factor; zero: the term is removed; fixed: a literal; trainable: a parameter.
struct Gain {
  enum class Kind : signed char { one, zero, fixed, trainable };
  Kind kind = Kind::one;
  double value = 1;  ///< the literal, or the initial value

  constexpr bool is_zero() const { return kind == Kind::zero; }
  constexpr bool operator==(const Gain&) const = default;
};

/// A gain that is not trained; of 0 and 1 nothing is left but the term's absence or presence.
constexpr Gain fixed_at(double value) {
  return {value == 0 ? Gain::Kind::zero : value == 1 ? Gain::Kind::one : Gain::Kind::fixed, value};
}
constexpr Gain trainable(double initial) { return {Gain::Kind::trainable, initial}; }
inline constexpr Gain no_skip = fixed_at(0);

/// gain * x, where the gain is not zero.
constexpr Expr scaled(const Gain& gain, const char* name, Expr x) {
  switch (gain.kind) {
    case Gain::Kind::trainable: return scalar(name, constant(gain.value)) * x;
    case Gain::Kind::fixed: return gain.value * x;
    default: return x;
  }
}

}  // namespace simplx

// ---- simplx/nn/linear.hpp

/// \file simplx/nn/linear.hpp
/// Linear: y = x W (+ b), and the reparameterised form of Eq. (6): y = alpha x W0 + beta x D.

namespace simplx::inline SIMPLX_TARGET {

/// y = x: what stands where a matrix, an activation or a norm is left out.
struct Identity {
  constexpr Expr operator()(Expr x) const { return x; }
};

/// y = x W, W (width(x), out); with a bias b (1, out) if asked for.
struct Linear {
  Index out = 0;  ///< as wide as x by default
  bool bias = false;
  Init init = normal(0.02);

  constexpr Expr operator()(Expr x) const {
    const Index columns = out ? out : width(x);
    Expr y = x * weight("weight", width(x), columns, init);
    return bias ? y + vector("bias", columns, zeros) : y;
  }
};

/// y = x (alpha W0 + beta D): W0 stays as it is drawn, D = 0 at first is trained.
///
/// Without a beta there is no D: with alpha one and the identity as W0, y is x itself.
///
/// Shapes  x (rows, d); W0 is `base` (d, d), D is `delta` (d, d) -> (rows, d)
/// Errors  does not compile where nothing but zeros could come out, at first or for ever, or for another law of W0
/// Source  He & Hofmann 2024, Eq. (6); alpha = beta = 1 are those of the first value matrix (App. D.1)
struct Reparameterised {
  Init base = identity;  ///< of W0: the identity (never stored), orthogonal, or normal
  Gain alpha = trainable(1), beta = trainable(1);
  constexpr bool operator==(const Reparameterised&) const = default;

  /// The first rule that this breaks; an empty name if there is none.
  constexpr Tag broken_rule() const {
    if (alpha.is_zero()) return "base removed";
    if (beta == trainable(0)) return "dead delta";
    using enum Init::Law;
    const bool is_matrix = base.law == identity || base.law == orthogonal || base.law == normal ||
                           base.law == normal_by_rows;
    if (!is_matrix) return "law of the base";
    return {};
  }

  constexpr Expr operator()(Expr x) const {
    if (const Tag rule = broken_rule(); !rule.empty()) return refuse(rule, x);
    const Index d = width(x);
    auto y = scaled(alpha, "alpha", base == identity ? x : x * fixed("base", d, d, base));
    return beta.is_zero() ? y : y + scaled(beta, "beta", x * weight("delta", d, d, zeros));
  }
};

SIMPLX_RULE("base removed", (possible<left, right>),
            "alpha W0 + beta D without alpha W0 is zero at first: use Linear (Projection::dense) instead")
SIMPLX_RULE("dead delta", (possible<left, right>),
            "alpha W0 + beta D with a trained beta of 0 never learns, since D is 0 at first too: give beta another "
            "initial value, or remove the term with fixed_at(0)")
SIMPLX_RULE("law of the base", (possible<left, right>),
            "W0 of alpha W0 + beta D is the identity, orthogonal, or normal (normal_by_rows: N(0, 1/d))")

}  // namespace simplx

// ---- simplx/core/random.hpp

/// \file simplx/core/random.hpp
/// Random numbers without state: a number is a function of a key and a counter.
///
/// A key is made of a seed and a name, so that every tensor has numbers of its own: adding a parameter changes
/// no other, and numbers can be drawn in any order, by any thread, on any device. The laws are drawn by
/// our own code, since standard libraries differ in theirs.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// The finaliser of splitmix64: every bit of the result depends on every bit of the argument.
SIMPLX_HD constexpr std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
}  // namespace detail

/// The key of a name under a seed.
constexpr std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return detail::scramble(hash + detail::scramble(seed + 0x9e3779b97f4a7c15ull));
}

namespace detail {
/// A number for a name; that of "ab" is extended(extended(0, "a"), "b").
constexpr std::uint64_t extended(std::uint64_t number, std::string_view name) {
  for (const char c : name) number = number * 0x100000001b3ull + static_cast<unsigned char>(c);
  return number;
}
}  // namespace detail

/// 64 random bits.
SIMPLX_HD constexpr std::uint64_t bits(std::uint64_t key, std::uint64_t counter) {
  return detail::scramble(key + (counter + 1) * 0x9e3779b97f4a7c15ull);
}

namespace detail {

/// What dropout draws from in the step of a training that comes after `steps` others.
constexpr std::uint64_t dropout_key(std::uint64_t seed, long steps) {
  return bits(key_of(seed, "dropout"), static_cast<std::uint64_t>(steps));
}
/// What the masks of all nodes are drawn from in a step.
struct Draw {
  std::uint64_t key = 0;
  Index first_sequence = 0;  ///< number of the first sequence among those of the whole step
};
/// The key of the masks of a node in a step.
SIMPLX_HD constexpr std::uint64_t mask_key(std::uint64_t step, std::uint64_t node) { return scramble(step ^ node); }

/// Random words for the columns of a row: of 32 bits, since vectors and GPUs multiply such at once.
struct RowKey {
  std::uint32_t first = 0, second = 0;
};
/// Every bit of the result depends on every bit of the argument: the best mixer of two rounds that a search found.
/// [Wellons 2018, "Prospecting for hash functions"] The second key goes between the rounds: rows whose first keys are
/// a few columns apart would otherwise have the same words, moved.
template <class Word>
SIMPLX_HD __attribute__((always_inline)) constexpr Word scramble_word(Word word, Word second) {
  word = (word ^ (word >> 16)) * 0x21f0aaadu;
  word = (word ^ (word >> 15) ^ second) * 0xd35a2d97u;
  return word ^ (word >> 15);
}
SIMPLX_HD constexpr RowKey row_key(std::uint64_t key, std::uint32_t row) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t first = scramble_word(low + row * 0x9e3779b9u, high);
  return {first, scramble_word(first + 0x9e3779b9u, high)};
}
/// The word of a column; for one, or by vectors.
template <class Word>
SIMPLX_HD __attribute__((always_inline)) constexpr Word row_word(Word first, Word second, Word column) {
  return scramble_word(Word(first + column * 0x9e3779b9u), second);
}

}  // namespace detail

/// Uniform in (0, 1), never 0 or 1.
SIMPLX_HD constexpr double uniform(std::uint64_t key, std::uint64_t counter) {
  return (static_cast<double>(bits(key, counter) >> 12) + 0.5) * 0x1p-52;
}

}  // namespace simplx

// ---- simplx/cpu/attention_size.hpp

/// \file simplx/cpu/attention_size.hpp
/// What one attention is: its sizes, how a head mixes values and what it sees, and the addresses of its operands.
///
/// | mixing    | O = M V with M =             |   | mask   | query i sees       |
/// |-----------|------------------------------|---|--------|--------------------|
/// | softmax   | A                            |   | causal | keys j <= i        |
/// | skip_init | alpha I + beta A             |   | full   | the whole sequence |
/// | shaped    | alpha I + beta A - gamma C   |
///
/// A = softmax(Q K^T / sqrt(key_width) + mask + bias) and C = A at Q = 0. The bias is zero, or -m |i - j| with the
/// slope m of the head: ALiBi (He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Press et al. 2022).
///
/// With dropout A is A * R, element by element: R_ij is 0 with probability p, else 1 / (1 - p). It is never
/// stored: backward draws it anew. Neither I nor C is dropped.

namespace simplx::inline SIMPLX_TARGET {

/// How a head mixes its values: by A, by alpha I + beta A, or by alpha I + beta A - gamma C.
enum class AttentionMatrix : signed char { softmax, skip_init, shaped };

/// What a query sees of its sequence: itself and what comes before, or all of it.
enum class Mask : signed char { causal, full };

/// Heads and widths of one attention and how its heads attend; any width of at least 1.
struct AttentionSize {
  int heads = 1;
  int key_width = 1;
  int value_width = 1;
  AttentionMatrix matrix = AttentionMatrix::softmax;
  Mask mask = Mask::causal;
  bool alibi = false;
  bool drops = false;  ///< weights, as the operands say
};

/// From what the dropped weights of an attention are drawn.
struct AttentionDraw {
  double rate = 0;                     ///< the probability p; below 0 it counts as 0, above 1 as 1
  const detail::Draw* step = nullptr;  ///< what is drawn from in this step
  std::uint64_t node = 0;              ///< the key of the node: detail::node_key
};

/// R of a head in a sequence.
template <class S>
struct DroppedWeights {
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::min();
  static constexpr std::int32_t all = std::numeric_limits<std::int32_t>::max();
  std::uint64_t key = 0;
  std::int32_t limit = none;  ///< words below it, signed, drop
  S kept{1.0};                ///< the factor of what is not dropped

  DroppedWeights() = default;
  /// By the number of the sequence among those of this call.
  SIMPLX_HD DroppedWeights(const AttentionDraw& draw, Index sequence, int head) {
    const double rate = draw.rate > 0 ? draw.rate : 0;
    const auto number = static_cast<std::uint64_t>(draw.step->first_sequence + sequence);
    key = bits(bits(detail::mask_key(draw.step->key, draw.node), number), static_cast<std::uint64_t>(head));
    const bool some = rate < 1;
    limit = some ? static_cast<std::int32_t>(rate * 0x1p32 - 0x1p31) : all;
    kept = S(some ? 1 / (1 - rate) : 0);
  }
  SIMPLX_HD detail::RowKey row(Index query) const {
    return detail::row_key(key, static_cast<std::uint32_t>(query));
  }
  SIMPLX_HD bool drops(detail::RowKey row, Index other) const {
    const auto word = detail::row_word(row.first, row.second, static_cast<std::uint32_t>(other));
    return static_cast<std::int32_t>(word) < limit;
  }
};

/// What an attention is given. Shapes: query, key (rows, heads * key_width); value (rows, heads * value_width);
/// alpha, beta, gamma, slopes (heads), nullptr where mixing and bias do without. The first three may be one buffer.
template <class S>
struct AttentionOperands {
  const S *query = nullptr, *key = nullptr, *value = nullptr;
  const S *alpha = nullptr, *beta = nullptr, *gamma = nullptr, *slopes = nullptr;
  AttentionDraw draw{};
};

/// Where gradients go; shapes as the operands. Those of query, key and value are skipped, stored or accumulated as
/// their modes say, and may be one buffer if all accumulate; the others accumulate, and nullptr is skipped.
template <class S, class Query = S, class Key = S, class Value = S>
struct AttentionGradients {
  Query* query = nullptr;
  Key* key = nullptr;
  Value* value = nullptr;
  S *alpha = nullptr, *beta = nullptr, *gamma = nullptr;
};

}  // namespace simplx

// ---- simplx/cpu/attention_head.hpp

/// \file simplx/cpu/attention_head.hpp
/// Attention of one head on vectors, in memory linear in the context: O = M V with
///
///   softmax     M = A                              A = softmax(Q K^T / sqrt(key_width) + mask + bias)
///   skip_init   M = alpha I + beta A               (He & Hofmann 2024, Eq. (4))
///   shaped      M = alpha I + beta A - gamma C     (Eqs. (5) and (13)),  C = A at Q = 0 = softmax(mask + bias)
///
/// The weights are kept transposed: one row per key, one lane per query. Maximum, sum and the correction of
/// the softmax then run down the lanes without a horizontal step, key and value rows are never transposed,
/// and what a causal mask forbids is skipped except in the 16 x 16 blocks on the diagonal.
///
/// C is never formed, for its weights decay by lambda = exp(-m), which is 1 without bias, from row to row:
///
///   (C V)_i = (P_i + N_i) / Z_i      P_i = lambda P_{i-1} + v_i,  N_i = lambda (N_{i+1} + v_{i+1}) or 0 if causal
///
/// Z_i is the same sum over ones, and C^T dO the same sums over dO_i / Z_i with the directions exchanged.
///
/// Dropped weights are drawn by vectors of queries, each of which is a row of random words (core/random.hpp).

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Queries that share a row of weights, and queries whose weights the backward pass holds at once.
inline constexpr int query_group = 16;
inline constexpr int query_block = 64;
/// A power of two would send the rows of one group to few cache sets.
inline constexpr int block_stride = query_block + query_group;

/// One sequence, one head; the pointers are at its first element. Columns of key and value beyond key_used and
/// value_used are zero.
template <AttentionSize size, class S, int key_used = size.key_width, int value_used = size.value_width>
struct AttentionHead {
  using V = Vec<S>;
  static constexpr int heads = size.heads, key_width = size.key_width, value_width = size.value_width;
  static constexpr int vectors = value_width / lanes<S>;
  static constexpr bool full = size.mask == Mask::full;
  static constexpr bool gains = size.matrix != AttentionMatrix::softmax;
  static constexpr bool centred = size.matrix == AttentionMatrix::shaped;
  static constexpr Static<heads * key_width> key_stride{};
  static constexpr Static<heads * value_width> value_stride{};
  static constexpr Static<key_width> near_key{};  ///< the strides of rows that are gathered
  static constexpr Static<value_width> near_value{};
  static constexpr Static<query_group> group{};
  static constexpr Static<block_stride> block{};
  static constexpr Static<1> one{};

  Index rows;
  const S *q, *k, *v;
  S alpha = 0, beta = 1, gamma = 0, slope = 0;
  S scale = 1 / std::sqrt(S(key_used));
  S shrink = 0;  ///< 1 - lambda: exact where lambda, near one, has lost the slope's last digits
  DroppedWeights<S> dropped;

  AttentionHead(const AttentionOperands<S>& in, Index first, Index count, int h,
                const DroppedWeights<S>& weights = {})
      : rows(count), q(in.query + key_at(first, h)), k(in.key + key_at(first, h)), v(in.value + value_at(first, h)),
        dropped(weights) {
    if constexpr (gains) alpha = in.alpha[h], beta = in.beta[h];
    if constexpr (centred) gamma = in.gamma[h];
    if constexpr (size.alibi) slope = in.slopes[h], shrink = -std::expm1(-slope);
  }

  static constexpr Index key_at(Index row, int h) { return (row * heads + h) * key_width; }
  static constexpr Index value_at(Index row, int h) { return (row * heads + h) * value_width; }

  /// Applies step(key, biased, seen) to the keys of the group of queries that begins at `first`; `biased` adds the
  /// bias to a vector of scores, `seen` replaces by `hidden` the lanes whose query may not look at the key.
  template <class Step>
  __attribute__((always_inline)) void for_each_key(Index first, Index keys, int lane, S hidden, Step step) const {
    const V query = lane_numbers<Vec<S>>() + S(lane);
    const V otherwise = splat<V>(hidden);
    const auto visit = [&](Index key, auto seen) {
      step(key, [&](V score) { return biased(score, S(key - first) - query); }, seen);
    };
    const Index unmasked = full ? keys : first;
    for (Index key = 0; key < unmasked; ++key) visit(key, [](V x) { return x; });
    for (Index key = unmasked; key < keys; ++key) {
      visit(key, [&](V x) { return query >= S(key - first) ? x : otherwise; });
    }
  }

  /// The score of a key that is so far ahead of its queries.
  __attribute__((always_inline)) V biased(V score, V ahead) const {
    if constexpr (size.alibi) score += slope * (full ? min(ahead, V(-ahead)) : ahead);
    return score;
  }

  /// The keys of the queries from `first` on.
  using Words = typename detail::VectorOf<std::uint32_t, 4 * lanes<S>>::type;
  struct LaneKeys {
    Words first, second;
  };
  LaneKeys lane_keys(Index first) const {
    LaneKeys keys{};
    for (int lane = 0; size.drops && lane < lanes<S>; ++lane) {
      const detail::RowKey row = dropped.row(first + lane);
      keys.first[lane] = row.first, keys.second[lane] = row.second;
    }
    return keys;
  }
  /// x, a number of each query and that key, but 0 where its weight is dropped; without the factor of the others.
  __attribute__((always_inline)) V kept(const LaneKeys& queries, Index key, V x) const {
    if constexpr (!size.drops) return x;
    typedef std::int32_t Signed __attribute__((vector_size(4 * lanes<S>)));
    const Words column = Words{} + static_cast<std::uint32_t>(key);
    const Words words = detail::row_word(queries.first, queries.second, column);
    const Signed drops = (Signed)words < dropped.limit;
    return select(__builtin_convertvector(drops, decltype(x < x)), V{}, x);
  }

  /// The head's part of `count` rows, one after the other: apart by the width of all heads, most often a power of two,
  /// they would share a few sets of the cache.
  template <int width>
  static const S* gather(const S* source, Index count, S* target) {
    if constexpr (heads == 1) return source;
    for (Index i = 0; i < count; ++i) {
      std::memcpy(target + i * width, source + i * heads * width, width * sizeof(S));
    }
    return target;
  }

  /// Scores (keys, query_group) become exp(score - maximum), in place, or 0 if dropped; for each query the logarithm of
  /// the sum of exp(score), and the factor that makes the numbers here weights, times beta.
  void exponentiate(Index first, Index keys, S* scores, S* log_sum_exp, S* normalise) const {
    for (int lane = 0; lane < query_group; lane += lanes<S>) {
      S* column = scores + lane;
      const LaneKeys queries = lane_keys(first + lane);
      constexpr S unseen = -std::numeric_limits<S>::infinity();  // no weights where all scores are so: NaN
      V largest = splat<V>(unseen);
      for_each_key(first, keys, lane, unseen, [&](Index key, auto biased, auto seen) {
        largest = max(largest, seen(biased(load<V>(column + key * query_group))));
      });
      V sum_of_lane{};
      for_each_key(first, keys, lane, S(0), [&](Index key, auto biased, auto seen) {
        const V weight = seen(exp(V(biased(load<V>(column + key * query_group)) - largest)));
        store(column + key * query_group, kept(queries, key, weight));
        sum_of_lane += weight;
      });
      store(log_sum_exp + lane, V(largest + log(sum_of_lane)));
      store(normalise + lane, V(beta * dropped.kept / sum_of_lane));
    }
  }

  /// Scores become beta * A, as dropped, and dA = dO V^T becomes the gradient of the scores, both (keys, query_group)
  /// of row stride block_stride; returns the sum of A * dA, which is the gradient of beta.
  S softmax_backward(Index first, Index keys, const S* log_sum_exp, S* weights, S* gradient) const {
    V total{};
    for (int lane = 0; lane < query_group; lane += lanes<S>) {
      S *p = weights + lane, *g = gradient + lane;
      const V log_sum = load<V>(log_sum_exp + lane);
      const LaneKeys queries = lane_keys(first + lane);
      V correction{}, sum_of_lane{};
      for_each_key(first, keys, lane, S(0), [&](Index key, auto biased, auto seen) {
        const V weight = seen(exp(V(biased(load<V>(p + key * block_stride)) - log_sum)));
        store(p + key * block_stride, weight);
        V d = load<V>(g + key * block_stride);
        if constexpr (size.drops) store(g + key * block_stride, d = kept(queries, key, V(d * dropped.kept)));
        correction += weight * d;
        sum_of_lane += weight;
      });
      correction = correction / sum_of_lane;  // one, but for the ulp of a large log_sum: it must cancel where A is one
      for (Index key = 0; key < keys; ++key) {
        V weight = load<V>(p + key * block_stride);
        if constexpr (gains) weight *= beta;
        if constexpr (size.drops) {
          store(p + key * block_stride, kept(queries, key, V(weight * dropped.kept)));
        } else if constexpr (gains) {
          store(p + key * block_stride, weight);
        }
        store(g + key * block_stride, V(weight * scale * (load<V>(g + key * block_stride) - correction)));
      }
      total += correction;
    }
    return sum(total);
  }

  /// Adds weights * source over one block of queries, first .. last, to target: weights (keys, query_block), source
  /// (last - first, width), target (rows, width). The first block to meet a key writes in the mode that is asked for.
  template <int width, Write mode>
  void scatter_block(Index first, Index last, const S* weights, const S* source, S* target) const {
    constexpr Static<width> near{};
    constexpr Static<heads * width> stride{};
    if constexpr (full) {
      const auto write = [&]<Write how>(std::integral_constant<Write, how>) {
        gemm_strided<width, how>(rows, last - first, weights, block, one, source, near, target, stride);
      };
      if (first == 0) {
        write(std::integral_constant<Write, mode>{});
      } else {
        write(std::integral_constant<Write, Write::accumulate>{});
      }
    } else {
      gemm_strided<width, Write::accumulate>(first, last - first, weights, block, one, source, near, target, stride);
      for (Index key = first; key < last; key += query_group) {
        gemm_strided<width, mode>(std::min<Index>(query_group, last - key), last - key,
                                  weights + key * block_stride + (key - first), block, one,
                                  source + (key - first) * near, near, target + key * stride, stride);
      }
    }
  }

  /// Z_i for every row, where a bias makes it more than a count.
  void fill_row_sums(S* sums) const {
    if constexpr (size.alibi) {
      S sum = 0;
      for (Index i = 0; i < rows; ++i) sums[i] = sum = shrunk(sum) + 1;
      if constexpr (full) {
        for (Index i = 0, j = rows - 1; i <= j; ++i, --j) sums[i] = sums[j] = sums[i] + sums[j] - 1;
      }
    }
  }
  S row_sum(const S* sums, Index row) const { return size.alibi ? sums[row] : S(full ? rows : row + 1); }

  /// lambda * x.
  template <class X>
  X shrunk(X x) const {
    return size.alibi ? x - x * shrink : x;
  }

  /// Runs through the rows from `row` in steps of `step`: use(row, at, sum) gets the place of each vector and the sum
  /// of term(row, at) so far, its own row included or not, older rows shrunk once more with every step.
  template <bool own, class Term, class Use>
  __attribute__((always_inline)) void decaying_sums(Index row, Index step, Term term, Use use) const {
    V sums[vectors]{};
    for (Index i = 0; i < rows; ++i, row += step) {
      for (int n = 0; n < vectors; ++n) {
        const Index at = row * value_stride + n * lanes<S>;
        if constexpr (!own) use(row, at, sums[n]);
        sums[n] += term(row, at);
        if constexpr (own) use(row, at, sums[n]);
        sums[n] = shrunk(sums[n]);
      }
    }
  }

  void forward(S* out, S* log_sum_exp, S* scratch) const {
    S* query = scratch;                                          // (key_width, query_group)
    S* weights = scratch + key_width * query_group;              // (keys, query_group)
    S* z = weights + round_up(rows, query_group) * query_group;  // (rows)
    S* room = z + round_up(rows, query_group);
    const S* key = gather<key_width>(k, rows, room);
    const S* value = gather<value_width>(v, rows, room + rows * key_width);
    V before[vectors]{};
    if constexpr (centred) fill_row_sums(z);
    for (Index first = 0; first < rows; first += query_group) {
      const Index queries = std::min<Index>(query_group, rows - first), keys = full ? rows : first + queries;
      S log_sum[query_group], normalise[query_group];
      transpose_group<key_width, query_group>(queries, scale, q + first * key_stride, key_stride, query);
      gemm_strided<query_group, Write::store>(keys, key_used, key, near_key, one, query, group, weights, group);
      exponentiate(first, keys, weights, log_sum, normalise);
      gemm_strided<value_width, Write::store>(queries, keys, weights, one, group, value, near_value,
                                              out + first * value_stride, value_stride);
      for (Index i = 0; i < queries; ++i) {
        const Index row = first + i;
        log_sum_exp[row * heads] = log_sum[i];
        const S mean = centred ? gamma / row_sum(z, row) : 0;
        for (int n = 0; n < vectors; ++n) {
          const Index at = row * value_stride + n * lanes<S>;
          const V own = load<V>(value + row * near_value + n * lanes<S>);
          V result = load<V>(out + at) * normalise[i];
          if constexpr (gains) result += alpha * own;
          if constexpr (centred) {
            before[n] = shrunk(before[n]) + own;
            result -= mean * before[n];
          }
          store(out + at, result);
        }
      }
    }
    if constexpr (centred && full) {
      const auto own = [&](Index, Index at) { return load<V>(v + at); };
      decaying_sums<false>(rows - 1, -1, own, [&](Index row, Index at, V after) {
        store(out + at, V(load<V>(out + at) - gamma / row_sum(z, row) * after));
      });
    }
  }

  /// Gradients of query, key, value and beta through beta A.
  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void matrix_backward(const S* log_sum_exp, const S* dout, S* dq, S* dk, S* dv, S* dbeta, S* scratch) const {
    S* query = scratch;                                                  // (key_width, query_group)
    S* d_output = query + key_width * query_group;                       // (value_width, query_group)
    S* weights = d_output + value_width * query_group;                   // (keys, query_block)
    S* d_scores = weights + round_up(rows, query_group) * block_stride;  // (keys, query_block)
    S* room = d_scores + round_up(rows, query_group) * block_stride;
    const S* key = gather<key_width>(k, rows, room);
    const S* value = gather<value_width>(v, rows, room + rows * key_width);
    S* rest = room + rows * (key_width + value_width);
    S beta_sum = 0;
    for (Index begin = 0; begin < rows; begin += query_block) {
      const Index end = std::min<Index>(rows, begin + query_block), count = end - begin;
      const S* q_block = gather<key_width>(q + begin * key_stride, count, rest);
      const S* d_block = gather<value_width>(dout + begin * value_stride, count, rest + count * key_width);
      for (Index first = begin; first < end; first += query_group) {
        const Index queries = std::min<Index>(query_group, end - first), keys = full ? rows : first + queries;
        const Index in_block = first - begin;
        S *p = weights + in_block, *g = d_scores + in_block;
        S log_sum[query_group]{};
        for (Index i = 0; i < queries; ++i) log_sum[i] = log_sum_exp[(first + i) * heads];
        transpose_group<key_width, query_group>(queries, scale, q_block + in_block * near_key, near_key, query);
        transpose_group<value_width, query_group>(queries, S(1), d_block + in_block * near_value, near_value, d_output);
        gemm_strided<query_group, Write::store>(keys, key_used, key, near_key, one, query, group, p, block);
        gemm_strided<query_group, Write::store>(keys, value_used, value, near_value, one, d_output, group, g, block);
        beta_sum += softmax_backward(first, keys, log_sum, p, g);
        if constexpr (dq_mode != Write::skip) {
          gemm_strided<key_width, dq_mode>(queries, keys, g, one, block, key, near_key, dq + first * key_stride,
                                           key_stride);
        }
      }
      if constexpr (dk_mode != Write::skip) {
        scatter_block<key_width, dk_mode>(begin, end, d_scores, q_block, dk);
      }
      if constexpr (dv_mode != Write::skip) {
        scatter_block<value_width, dv_mode>(begin, end, weights, d_block, dv);
      }
    }
    if (dbeta) *dbeta += beta_sum;
  }

  /// dV += alpha dO - gamma C^T dO, and the gradients of alpha and gamma.
  template <Write dv_mode>
  void mixing_backward(const S* dout, S* dv, S* dalpha, S* dgamma, S* z) const {
    V alpha_sum{}, gamma_sum{};
    const auto d_mean = [&](Index row, Index at) {
      return centred ? V(load<V>(dout + at) * (1 / row_sum(z, row))) : V{};
    };
    const auto add = [&](Index at, V gradient) {
      if constexpr (dv_mode != Write::skip) store(dv + at, V(load<V>(dv + at) + gradient));
    };
    if constexpr (centred) fill_row_sums(z);
    decaying_sums<true>(rows - 1, -1, d_mean, [&](Index, Index at, V sum) {
      const V d = load<V>(dout + at), value = load<V>(v + at);
      alpha_sum += d * value;
      gamma_sum -= value * sum;
      add(at, alpha * d - gamma * sum);
    });
    if constexpr (centred && full) {
      decaying_sums<false>(0, 1, d_mean, [&](Index, Index at, V sum) {
        gamma_sum -= load<V>(v + at) * sum;
        add(at, -gamma * sum);
      });
    }
    if (dalpha) *dalpha += sum(alpha_sum);
    if (dgamma) *dgamma += sum(gamma_sum);
  }

  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void backward(const S* log_sum_exp, const S* dout, const AttentionGradients<S>& to, S* scratch) const {
    matrix_backward<dq_mode, dk_mode, dv_mode>(log_sum_exp, dout, to.query, to.key, to.value, to.beta, scratch);
    if constexpr (gains) mixing_backward<dv_mode>(dout, to.value, to.alpha, to.gamma, scratch);
  }
};

}  // namespace simplx::cpu

// ---- simplx/cpu/attention.hpp

/// \file simplx/cpu/attention.hpp
/// Multi-head attention: every head of every sequence by attention_head.hpp, which has the equations. Heads whose
/// widths are whole vectors are read and written where they lie, others by way of rows that end in zeros.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A head whose widths are no whole vectors, as one whose rows end in zeros, which add nothing to a product or a sum:
/// operands are copied into such rows, results out of them.
template <AttentionSize size, class S>
struct PaddedHead {
  static constexpr int key_width = static_cast<int>(round_up(size.key_width, lanes<S>));
  static constexpr int value_width = static_cast<int>(round_up(size.value_width, lanes<S>));
  static constexpr Index key_stride = size.heads * size.key_width, value_stride = size.heads * size.value_width;
  static constexpr AttentionSize padded{1, key_width, value_width, size.matrix, size.mask, size.alibi, size.drops};
  using Head = AttentionHead<padded, S, size.key_width, size.value_width>;

  AttentionOperands<S> in;
  Index first, rows;
  int h;
  DroppedWeights<S> dropped;
  S *query, *key, *dq, *dk;       ///< (rows, key_width)
  S *value, *out_or_dout, *dv;    ///< (rows, value_width)
  S* log_sum_exp;                 ///< (rows)
  S* scratch;                     ///< of the head

  /// Elements of all of them but the scratch.
  static constexpr Index elements(Index rows) { return rows * (4 * key_width + 3 * value_width + 1); }

  PaddedHead(const AttentionOperands<S>& operands, Index first_row, Index count, int number,
             const DroppedWeights<S>& weights, S* room)
      : in(operands), first(first_row), rows(count), h(number), dropped(weights) {
    for (S** matrix : {&query, &key, &dq, &dk}) *matrix = std::exchange(room, room + rows * key_width);
    for (S** matrix : {&value, &out_or_dout, &dv}) *matrix = std::exchange(room, room + rows * value_width);
    log_sum_exp = std::exchange(room, room + rows);
    scratch = room;
    widen<size.key_width, key_width>(in.query + key_at(), query);
    widen<size.key_width, key_width>(in.key + key_at(), key);
    widen<size.value_width, value_width>(in.value + value_at(), value);
    in.query = query, in.key = key, in.value = value;
    for (const S** numbers : {&in.alpha, &in.beta, &in.gamma, &in.slopes}) *numbers = of_head(*numbers);
  }
  Index key_at() const { return first * key_stride + h * size.key_width; }
  Index value_at() const { return first * value_stride + h * size.value_width; }
  template <class T>
  T* of_head(T* numbers) const {
    return numbers ? numbers + h : nullptr;
  }

  template <int width, int padded>
  void widen(const S* from, S* to) const {
    for (Index i = 0; i < rows; ++i, from += size.heads * width, to += padded) {
      std::copy_n(from, width, to);
      std::fill_n(to + width, padded - width, S(0));
    }
  }
  template <int width, int padded, Write mode>
  void narrow(const S* from, S* to, Index at) const {
    if constexpr (mode != Write::skip) {
      to += at;
      for (Index i = 0; i < rows; ++i, from += padded, to += size.heads * width) {
        for (int c = 0; c < width; ++c) to[c] = mode == Write::store ? from[c] : to[c] + from[c];
      }
    }
  }

  void forward(S* result, S* log_sums) const {
    Head(in, 0, rows, 0, dropped).forward(out_or_dout, log_sum_exp, scratch);
    narrow<size.value_width, value_width, Write::store>(out_or_dout, result, value_at());
    for (Index i = 0; i < rows; ++i) log_sums[(first + i) * size.heads + h] = log_sum_exp[i];
  }
  template <Write dq_mode, Write dk_mode, Write dv_mode>
  void backward(const S* log_sums, const S* dout, const AttentionGradients<S>& to) const {
    constexpr auto stored = [](Write mode) { return mode == Write::skip ? mode : Write::store; };
    widen<size.value_width, value_width>(dout + value_at(), out_or_dout);
    for (Index i = 0; i < rows; ++i) log_sum_exp[i] = log_sums[(first + i) * size.heads + h];
    Head(in, 0, rows, 0, dropped).template backward<stored(dq_mode), stored(dk_mode), stored(dv_mode)>(
        log_sum_exp, out_or_dout, {dq, dk, dv, of_head(to.alpha), of_head(to.beta), of_head(to.gamma)}, scratch);
    narrow<size.key_width, key_width, dq_mode>(dq, to.query, key_at());
    narrow<size.key_width, key_width, dk_mode>(dk, to.key, key_at());
    narrow<size.value_width, value_width, dv_mode>(dv, to.value, value_at());
  }
};

template <AttentionSize size, class S>
inline constexpr bool pads_heads = size.key_width % lanes<S> != 0 || size.value_width % lanes<S> != 0;

/// Calls each(first row, rows, head, dropped weights) for the heads of each sequence.
template <AttentionSize size, class S, class Each>
void for_each_head(Segments sequences, const AttentionDraw& draw, Each each) {
  for (Index s = 0; s < sequences.count; ++s) {
    const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
    for (int h = 0; h < size.heads; ++h) {
      each(first, rows, h, size.drops ? DroppedWeights<S>(draw, s, h) : DroppedWeights<S>());
    }
  }
}

/// Scratch elements for sequences of at most `longest` tokens; serves forward and backward.
template <AttentionSize size, class S>
constexpr Index attention_scratch(Index longest) {
  using Padded = PaddedHead<size, S>;
  const Index rows = round_up(longest, query_group), block = std::min<Index>(rows, query_block);
  // Keys and values of one head, its queries and gradients of a block, and of a group, transposed; weights and scores.
  return (Padded::key_width + Padded::value_width) * (rows + block + query_group) +
         2 * block_stride * rows + (pads_heads<size, S> ? Padded::elements(rows) : 0);
}

/// Forward pass of multi-head attention; fills `out` and `log_sum_exp`.
/// Shapes  out as value; log_sum_exp (rows, heads), kept for the backward.
/// Cost    T^2 (key_width + value_width) multiply-adds and T^2 exponentials per head, causal (T + 15) / 2 for each T,
///   widths being those of whole vectors; no heap; `scratch` holds attention_scratch<size, S>(longest) elements.
/// Source: He & Hofmann 2024, Eqs. (2), (4), (5) and (13).
template <AttentionSize size, class S>
void attention_forward(Segments sequences, const AttentionOperands<S>& in, S* out, S* log_sum_exp, S* scratch) {
  for_each_head<size, S>(sequences, in.draw, [&](Index first, Index rows, int h, const DroppedWeights<S>& dropped) {
    if constexpr (pads_heads<size, S>) {
      PaddedHead<size, S>(in, first, rows, h, dropped, scratch).forward(out, log_sum_exp);
    } else {
      using Head = AttentionHead<size, S>;
      Head(in, first, rows, h, dropped)
          .forward(out + Head::value_at(first, h), log_sum_exp + first * size.heads + h, scratch);
    }
  });
}

/// Backward pass: recomputes the weights from `log_sum_exp`, a block of queries at a time. With dA = R * dO V^T
/// and correction = rowsum(A * dA):
///   dbeta = sum(correction);  dalpha = sum(dO * V);  dgamma = -sum(V * C^T dO)
///   dS = beta A * (dA - correction) / sqrt(key_width);  dQ = dS K;  dK = dS^T Q
///   dV = alpha dO + beta (A * R)^T dO - gamma C^T dO
/// Shapes  log_sum_exp and dout as the forward's log_sum_exp and out.
/// Cost    2.5 times the products of the forward; no heap; the same scratch.
template <AttentionSize size, Write dq_mode, Write dk_mode, Write dv_mode, class S>
void attention_backward(Segments sequences, const AttentionOperands<S>& in, const S* log_sum_exp, const S* dout,
                        const AttentionGradients<S>& to, S* scratch) {
  for_each_head<size, S>(sequences, in.draw, [&](Index first, Index rows, int h, const DroppedWeights<S>& dropped) {
    if constexpr (pads_heads<size, S>) {
      PaddedHead<size, S>(in, first, rows, h, dropped, scratch)
          .template backward<dq_mode, dk_mode, dv_mode>(log_sum_exp, dout, to);
    } else {
      using Head = AttentionHead<size, S>;
      const auto at = [](S* begin, Index offset) { return begin ? begin + offset : nullptr; };
      const Index key = Head::key_at(first, h), value = Head::value_at(first, h);
      Head(in, first, rows, h, dropped).template backward<dq_mode, dk_mode, dv_mode>(
          log_sum_exp + first * size.heads + h, dout + value,
          {at(to.query, key), at(to.key, key), at(to.value, value), at(to.alpha, h), at(to.beta, h), at(to.gamma, h)},
          scratch);
    }
  });
}

}  // namespace simplx::cpu

// ---- simplx/cpu/attention_reference.hpp

/// \file simplx/cpu/attention_reference.hpp
/// Multi-head attention as dense Eigen equations: the test of attention.hpp, and what other scalars take.
///
///   O = M V,   M = alpha I + beta A - gamma C       (He & Hofmann 2024, Eqs. (5) and (13))
///   A = softmax(Q K^T / sqrt(key_width) + mask + bias),   C = softmax(mask + bias)
///
/// per head. Softmax attention is alpha = 0, beta = 1, gamma = 0 and Eq. (4) is gamma = 0, so one set of equations
/// serves all. The scalar may be any type that behaves like a number and that Eigen knows (NumTraits): sqrt, exp
/// and log are found by its namespace.
/// Nothing allocates: the T x T matrices are maps onto the caller's scratch, and every product is a lazy one.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Elements of scratch for sequences of at most `longest` tokens: three T x T matrices.
constexpr Index attention_reference_scratch(Index longest) { return 3 * longest * longest; }

template <class S>
using DenseMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Rows of one sequence, columns of one head.
template <class S>
using HeadMap = Eigen::Map<S, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class S>
HeadMap<const DenseMatrix<S>> head_of(const S* data, Index first_row, Index rows, int head, int heads, int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

template <class S>
HeadMap<DenseMatrix<S>> head_of(S* data, Index first_row, Index rows, int head, int heads, int width) {
  const Index stride = Index(heads) * width;
  return {data + first_row * stride + Index(head) * width, rows, width, Eigen::OuterStride<>(stride)};
}

/// softmax(scores + mask + bias), row by row and in place; calls each(i, log_sum_exp of row i).
template <class S, class Each>
void masked_softmax(const AttentionSize& size, S slope, Eigen::Map<DenseMatrix<S>>& scores, Each each) {
  using std::log;
  for (Index i = 0; i < scores.rows(); ++i) {
    auto seen = scores.row(i).head(size.mask == Mask::causal ? i + 1 : scores.cols());
    if (size.alibi) {
      for (Index j = 0; j < seen.size(); ++j) seen(j) -= slope * S(static_cast<double>(j < i ? i - j : j - i));
    }
    const S largest = seen.maxCoeff();
    seen = (seen.array() - largest).exp().matrix();
    const S sum = seen.sum();
    seen /= sum;
    scores.row(i).tail(scores.cols() - seen.size()).setZero();
    each(i, largest + log(sum));
  }
}

/// One sequence and one head of the reference: its operands, and A, C and M in the caller's scratch.
template <class S>
struct DenseHead {
  using Matrix = Eigen::Map<DenseMatrix<S>>;
  AttentionSize size;
  HeadMap<const DenseMatrix<S>> query, key, value;
  S scale, alpha{0.0}, beta{1.0}, gamma{0.0};
  Matrix weights, mixed;  ///< A; C, until mix() makes it M
  DroppedWeights<S> dropped{};

  template <class Each>
  DenseHead(const AttentionSize& s, const AttentionOperands<S>& in, Segments sequences, Index sequence, int h,
            S* scratch, Each each)
      : DenseHead(s, in, sequences.offsets[sequence], sequences.offsets[sequence + 1] - sequences.offsets[sequence], h,
                  scratch, each) {
    if (s.drops) dropped = {in.draw, sequence, h};
  }

  /// M = alpha I + beta A * R - gamma C, in the place of C.
  void mix() {
    mixed *= -gamma;
    for (Index i = 0; i < mixed.rows(); ++i) {
      for (Index j = 0; j < mixed.cols(); ++j) mixed(i, j) += beta * kept(i, j, weights(i, j));
    }
    mixed.diagonal().array() += alpha;
  }

  /// x R_ij.
  S kept(Index i, Index j, const S& x) const {
    if (!size.drops) return x;
    return dropped.drops(dropped.row(i), j) ? S(0.0) : S(x * dropped.kept);
  }

 private:
  template <class Each>
  DenseHead(const AttentionSize& s, const AttentionOperands<S>& in, Index first, Index rows, int h, S* scratch,
            Each each)
      : size(s),
        query(head_of(in.query, first, rows, h, s.heads, s.key_width)),
        key(head_of(in.key, first, rows, h, s.heads, s.key_width)),
        value(head_of(in.value, first, rows, h, s.heads, s.value_width)),
        scale(inverse_root(s.key_width)),
        weights(scratch, rows, rows),
        mixed(scratch + rows * rows, rows, rows) {
    if (s.matrix != AttentionMatrix::softmax) alpha = in.alpha[h], beta = in.beta[h];
    if (s.matrix == AttentionMatrix::shaped) gamma = in.gamma[h];
    const S slope = s.alibi ? in.slopes[h] : S(0.0);
    weights.noalias() = query.lazyProduct(key.transpose());
    weights *= scale;
    masked_softmax(size, slope, weights, each);
    mixed.setZero();
    if (s.matrix == AttentionMatrix::shaped) masked_softmax(size, slope, mixed, [](Index, const S&) {});
  }

  static S inverse_root(int width) {
    using std::sqrt;
    return S(1.0) / sqrt(S(static_cast<double>(width)));
  }
};

/// target = value or target += value, as the mode says.
template <class Target, class Value>
void write_reference(Write mode, Target target, const Value& value) {
  if (mode == Write::store) target.noalias() = value;
  if (mode == Write::accumulate) target.noalias() += value;
}

/// The forward pass; fills `out` and `log_sum_exp`.
/// Shapes  out as value; log_sum_exp (rows, heads).
/// Cost    T^2 (key_width + value_width) multiply-adds per head; no heap;
///   `scratch` holds attention_reference_scratch(longest sequence) elements.
/// Source: He & Hofmann 2024, Eqs. (2), (4), (5) and (13).
template <class S>
void attention_reference_forward(const AttentionSize& size, Segments sequences, const AttentionOperands<S>& in, S* out,
                                 S* log_sum_exp, S* scratch) {
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      DenseHead<S> head(size, in, sequences, s, h, scratch,
                        [&](Index i, const S& sum) { log_sum_exp[(first + i) * size.heads + h] = sum; });
      head.mix();
      head_of(out, first, rows, h, size.heads, size.value_width).noalias() = head.mixed.lazyProduct(head.value);
    }
}

/// The backward pass: with dM = dO V^T, and R of one where nothing is dropped,
///   dV = M^T dO;  dalpha = sum(I * dM), dbeta = sum(A * R * dM), dgamma = -sum(C * dM)
///   dS = A * (beta R * dM - rowsum(beta R * dM * A));  dQ = dS K / sqrt(key_width), dK = dS^T Q / sqrt(key_width)
/// Shapes  dout as value.
/// Cost    about 2.5 times the forward; no heap; the same scratch. A is computed anew.
template <class S>
void attention_reference_backward(const AttentionSize& size, Write dq_mode, Write dk_mode, Write dv_mode,
                                  Segments sequences, const AttentionOperands<S>& in, const S* dout,
                                  const AttentionGradients<S>& to, S* scratch) {
  for (Index s = 0; s < sequences.count; ++s)
    for (int h = 0; h < size.heads; ++h) {
      const Index first = sequences.offsets[s], rows = sequences.offsets[s + 1] - first;
      DenseHead<S> head(size, in, sequences, s, h, scratch, [](Index, const S&) {});
      const auto d_output = head_of(dout, first, rows, h, size.heads, size.value_width);
      Eigen::Map<DenseMatrix<S>> d_mixed(scratch + 2 * rows * rows, rows, rows);
      d_mixed.noalias() = d_output.lazyProduct(head.value.transpose());
      if (to.alpha) to.alpha[h] += d_mixed.diagonal().sum();
      if (to.gamma) to.gamma[h] -= head.mixed.cwiseProduct(d_mixed).sum();
      for (Index i = 0; i < rows && size.drops; ++i) {
        for (Index j = 0; j < rows; ++j) d_mixed(i, j) = head.kept(i, j, d_mixed(i, j));
      }
      if (to.beta) to.beta[h] += head.weights.cwiseProduct(d_mixed).sum();

      head.mix();
      if (dv_mode != Write::skip)
        write_reference(dv_mode, head_of(to.value, first, rows, h, size.heads, size.value_width),
                        head.mixed.transpose().lazyProduct(d_output));
      auto& d_scores = d_mixed;
      for (Index i = 0; i < rows; ++i) {
        const S correction = head.weights.row(i).cwiseProduct(d_mixed.row(i)).sum();
        d_scores.row(i) =
            (head.weights.row(i).array() * (d_mixed.row(i).array() - correction) * (head.beta * head.scale)).matrix();
      }
      if (dq_mode != Write::skip)
        write_reference(dq_mode, head_of(to.query, first, rows, h, size.heads, size.key_width),
                        d_scores.lazyProduct(head.key));
      if (dk_mode != Write::skip)
        write_reference(dk_mode, head_of(to.key, first, rows, h, size.heads, size.key_width),
                        d_scores.transpose().lazyProduct(head.query));
    }
}

}  // namespace simplx::cpu

// ---- simplx/ops/dropout.hpp

/// \file simplx/ops/dropout.hpp
/// Dropout: in training y = x m / (1 - rate), where m is 0 with probability `rate` and 1 otherwise; else y = x.
///
/// The mask is a function of seed, step, name with all scopes and layers, sequence and element. It is never stored, and
/// comes out the same for any number of threads, any split into micro-batches, and when a forward pass is repeated. The
/// mask of a fixed shape, such as a weight's, is one for all sequences of a step.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What the keys of this node's masks have of its name: that of "blocks.3.attention.mask".
template <class F>
std::uint64_t node_key(const F& frame) {
  return scramble(extended(frame.context.random.scope, F::name.view()));
}

/// The node, known by that name as one that draws masks. With an error for no name, and for a rate that is known to be
/// no probability.
constexpr Expr drawing(const char* name, Expr result, At rate) {
  result.node->name = name;
  if (result.node->kind != Kind::error && result.node->name.empty()) {
    broken(result.node, "a name", result.node->where.line, 0);
  }
  const Node& given = *rate.node;
  const bool is_literal = given.kind == Kind::number;
  const bool is_known = is_literal || (given.kind == Kind::constant && given.init.law == Init::Law::constant);
  const double value = is_literal ? given.attributes.reals[0] : given.init.value;
  if (result.node->kind != Kind::error && is_known && !(value >= 0 && value <= 1)) {
    const double thousandths = value == value ? std::clamp(1000 * value, -1e9, 1e9) : -1;
    broken(result.node, "dropout rate", static_cast<Index>(thousandths), 1000);
  }
  return result;
}

}  // namespace detail

template <>
struct op<"dropout"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b10;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape rate) {
    if (!(rate == fixed_shape(1, 1))) return {"one number", rate.columns(), 1};
    if (x.axis == Axis::labelled) return {"dropout rows", static_cast<Index>(x.axis), 0};
    return x;
  }
  /// Calls f(element, factor) for all elements.
  template <class F, class Visit>
  static void each(const F& frame, Visit visit) {
    using S = typename F::Scalar;
    constexpr Index cols = F::out_shape.cols;
    const Randomness& random = frame.context.random;
    const double rate = static_cast<double>(*frame.template in<1>());
    if (!random.training || !(rate > 0)) {
      for (Index i = 0; i < frame.rows() * cols; ++i) visit(i, S(1));
      return;
    }
    const S kept = S(rate < 1 ? 1 / (1 - rate) : 0);
    const std::uint64_t of_node = detail::mask_key(random.key, detail::node_key(frame));
    const auto sequence = [&](Index number, Index first, Index count) {
      const std::uint64_t mine = bits(of_node, static_cast<std::uint64_t>(random.first_sequence + number));
      for (Index i = 0; i < count * cols; ++i) {
        visit(first * cols + i, uniform(mine, static_cast<std::uint64_t>(i)) < rate ? S(0) : kept);
      }
    };
    if constexpr (F::out_shape.axis == Axis::tokens) {
      frame.context.segments.each(sequence);
    } else if constexpr (F::out_shape.is_fixed()) {
      sequence(-random.first_sequence, 0, frame.rows());  // one mask for all sequences of a step
    } else {
      for (Index row = 0; row < frame.rows(); ++row) sequence(row, row, 1);
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* x = frame.template in<0>();
    S* y = frame.out();
    each(frame, [&](Index i, S factor) { y[i] = x[i] * factor; });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const S* g = frame.out_grad();
    S* dx = frame.template grad<0>();
    each(frame, [&](Index i, S factor) {
      if constexpr (F::template write<0> == Write::store) {
        dx[i] = g[i] * factor;
      } else {
        dx[i] += g[i] * factor;
      }
    });
  }
};

/// Drops elements in training; the name tells the masks of a model apart.
///
/// Shapes  x any; rate (1, 1), a number or hyper("rate", 0.1); set at run time below 0 it counts as 0, above 1 as 1
/// Errors  does not compile for a number that is not from 0 to 1
/// Cost    one random number for each element, forward and backward; keeps nothing
constexpr Expr dropout(const char* name, At x, At rate) {
  return detail::drawing(name, apply<"dropout">({}, x, rate), rate);
}

}  // namespace simplx

// ---- simplx/ops/attention.hpp

/// \file simplx/ops/attention.hpp
/// Multi-head attention, one node: O_h = M_h V_h for each head h, with the mixing matrix
///
///     softmax      M_h = A_h                                          [He & Hofmann 2024, Eq. (2)]
///     skip_init    M_h = alpha_h I + beta_h A_h                       [Eq. (4)]
///     shaped       M_h = alpha_h I + beta_h A_h - gamma_h C_h         [Eq. (5), (13)]
///
///     A_h = softmax(Q_h K_h^T / sqrt(d_k) + mask - m_h |i - j|),  C_h = A_h at zero queries
///
/// | symbol  | shape                | meaning                                                          |
/// |---------|----------------------|------------------------------------------------------------------|
/// | Q, K    | (tokens, H * d_k)    | query and key, head h in column block h                          |
/// | V, O    | (tokens, H * d_v)    | value and result                                                 |
/// | A, C    | (T, T) per sequence  | never stored: C V is a running mean of V, from both sides if full |
/// | m       | (1, H)               | slopes of ALiBi [Press et al. 2022]; zero without                |
///
/// In training a weight of A_h is 0 with probability p, the dropout of the heads, and else A_ij / (1 - p) [Vaswani et
/// al. 2017, in their code]. Masks depend on what those of ops/dropout.hpp do.
/// Where queries are zero, A equals C, and shaped attention with alpha = beta = gamma = 1 is the identity.
/// Sequences are packed, so no mask is ever stored: a token sees none but tokens of its own sequence.

namespace simplx::inline SIMPLX_TARGET {

/// How heads attend: `{.count = 4}`, `{.count = 8, .mask = Mask::full}`, `{.count = 8, .alibi = true}`,
/// `{.count = 8, .dropout = 0.1}`.
struct Heads {
  int count = 1;
  Mask mask = Mask::causal;
  bool alibi = false;  ///< scores fall with distance, by a slope of each head's own: a named constant, "slopes"
  double dropout = 0;  ///< in training, of the weights: the rate is a hyper(...), "dropout.rate"; 0 leaves no trace
};

namespace detail {

constexpr Attributes attributes_of(const Heads& heads) {
  return {.integers = {heads.count, static_cast<Index>(heads.mask), heads.alibi, heads.dropout != 0}};
}
constexpr Heads heads_in(Attributes attributes) {
  return {static_cast<int>(attributes.integers[0]), static_cast<Mask>(attributes.integers[1]),
          attributes.integers[2] != 0};
}

constexpr bool drops_weights(Attributes attributes) { return attributes.integers[3] != 0; }

/// Operands: query, key, value; the gains of the mixing; slopes if there is a bias; the rate if weights are dropped.
template <AttentionMatrix matrix>
struct attention_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr int gains = matrix == AttentionMatrix::softmax ? 0 : matrix == AttentionMatrix::skip_init ? 2 : 3;
  static constexpr bool reads(int, int) { return true; }

  template <class... PerHead>
  static constexpr Checked shape(const Attributes& attributes, Shape query, Shape key, Shape value,
                                 PerHead... per_head) {
    const Index heads = heads_in(attributes).count;
    for (const Shape& operand : {query, key, value}) {
      if (operand.axis != Axis::tokens) return {"token rows", static_cast<Index>(operand.axis), 1};
    }
    if (query.cols != key.cols) return {"query and key", query.cols, key.cols};
    if (heads < 1 || query.cols % heads != 0) return {"heads", heads, query.cols};
    if (value.cols % heads != 0) return {"heads", heads, value.cols};
    const bool drops = drops_weights(attributes);
    auto left = static_cast<int>(sizeof...(per_head));
    for (const Shape& row : {fixed_shape(1, heads), Shape(per_head)...}) {
      const bool is_rate = drops && left-- == 0;
      if (!is_rate && !(row == fixed_shape(1, heads))) return {"gains per head", row.columns(), heads};
    }
    return value;
  }
  static constexpr Index saved(const Attributes& attributes, auto...) { return heads_in(attributes).count; }
  static std::string settings(const Attributes& attributes) {
    const Heads heads = heads_in(attributes);
    return "heads " + std::to_string(heads.count) + (heads.mask == Mask::causal ? ", causal" : ", full");
  }

  template <class F, bool drops = drops_weights(F::attributes)>
  static constexpr AttentionSize size{
      .heads = heads_in(F::attributes).count,
      .key_width = static_cast<int>(F::template shape<0>.cols) / heads_in(F::attributes).count,
      .value_width = static_cast<int>(F::template shape<2>.cols) / heads_in(F::attributes).count,
      .matrix = matrix,
      .mask = heads_in(F::attributes).mask,
      .alibi = heads_in(F::attributes).alibi,
      .drops = drops};

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    if constexpr (Backend::by_vectors) {
      return cpu::attention_scratch<size<F>, typename Backend::Scalar>(rows.longest());
    } else {
      return cpu::attention_reference_scratch(rows.longest());
    }
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    const double length = static_cast<double>(rows.tokens) / static_cast<double>(rows.sequences);
    const double pairs = causal && size<F>.mask == Mask::causal ? (length + 1) / 2 : length;
    return 2 * static_cast<double>(rows.tokens) * pairs *
           static_cast<double>(F::template shape<0>.cols + F::template shape<2>.cols);
  }

  template <class F>
  static auto operands(const F& f) {
    AttentionOperands<typename F::Scalar> in{f.template in<0>(), f.template in<1>(), f.template in<2>()};
    if constexpr (gains > 0) in.alpha = f.template in<3>(), in.beta = f.template in<4>();
    if constexpr (gains > 2) in.gamma = f.template in<5>();
    if constexpr (size<F>.alibi) in.slopes = f.template in<3 + gains>();
    return in;
  }
  template <class F>
  static const typename F::Scalar* dropout_rate(const F& f) {
    return f.template in<3 + gains + size<F>.alibi>();
  }
  template <class F>
  static auto gradients(const F& f) {
    AttentionGradients<typename F::Scalar> to{f.template grad<0>(), f.template grad<1>(), f.template grad<2>()};
    if constexpr (gains > 0) to.alpha = f.template grad<3>(), to.beta = f.template grad<4>();
    if constexpr (gains > 2) to.gamma = f.template grad<5>();
    return to;
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& f) {
    with_draw(f, [&](auto drops, const AttentionOperands<S>& in) {
      constexpr AttentionSize of = size<F, drops>;
      if constexpr (Cpu<S, path>::by_vectors) {
        cpu::attention_forward<of>(f.context.segments, in, f.out(), f.saved(), f.scratch());
      } else {
        cpu::attention_reference_forward(of, f.context.segments, in, f.out(), f.saved(), f.scratch());
      }
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& f) {
    with_draw(f, [&](auto drops, const AttentionOperands<S>& in) {
      constexpr AttentionSize of = size<F, drops>;
      constexpr Write dq = F::template write<0>, dk = F::template write<1>, dv = F::template write<2>;
      if constexpr (Cpu<S, path>::by_vectors) {
        cpu::attention_backward<of, dq, dk, dv>(f.context.segments, in, f.saved(), f.out_grad(), gradients(f),
                                                f.scratch());
      } else {
        cpu::attention_reference_backward(of, dq, dk, dv, f.context.segments, in, f.out_grad(), gradients(f),
                                          f.scratch());
      }
    });
  }

 private:
  /// Calls run(drops, operands): whether weights are dropped now, as a constant.
  template <class F, class Run>
  static void with_draw(const F& f, Run run) {
    auto in = operands(f);
    if constexpr (size<F>.drops) {
      const Randomness& random = f.context.random;
      const Draw step{random.key, random.first_sequence};
      in.draw = {static_cast<double>(*dropout_rate(f)), &step, node_key(f)};
      if (random.training && in.draw.rate > 0) return run(std::true_type(), in);
    }
    run(std::false_type(), in);
  }
};

/// The node; slopes and rate follow the other operands.
template <Tag name, class... Operands>
constexpr Expr attend(const Heads& heads, const At& query, const Operands&... others) {
  if (heads.count < 1) return refuse("heads", query, heads.count, query.shape().cols);  // before slopes of no heads
  const Where where = query.where;
  const auto with = [&](const auto&... last) { return apply<name>(attributes_of(heads), query, others..., last...); };
  const auto with_slopes = [&](const auto&... last) {
    return heads.alibi ? with(At(fixed("slopes", 1, heads.count, alibi_slopes, where), where), last...) : with(last...);
  };
  if (heads.dropout == 0) return with_slopes();
  const At rate(hyper("dropout.rate", heads.dropout, where), where);
  return drawing("dropout.mask", with_slopes(rate), rate);
}

}  // namespace detail

template <>
struct op<"softmax_attention"> : detail::attention_op<AttentionMatrix::softmax> {};
template <>
struct op<"skip_init_attention"> : detail::attention_op<AttentionMatrix::skip_init> {};
template <>
struct op<"shaped_attention"> : detail::attention_op<AttentionMatrix::shaped> {};

/// Concat_h(A_h V_h) within each sequence.
///
/// Shapes  query, key (tokens, H * d_k); value (tokens, H * d_v) -> (tokens, H * d_v)
/// Errors  does not compile along another axis, for unequal widths of query and key, heads that do not divide the
///         widths, or a dropout that is no probability: rules "token rows", "query and key", "heads", "dropout rate"
/// Cost    2 (d_k + d_v) H FLOPs for each pair of tokens; keeps its operands and H numbers for each token
/// Source  He & Hofmann 2024, Eq. (2)
constexpr Expr softmax_attention(At query, At key, At value, Heads heads) {
  return detail::attend<"softmax_attention">(heads, query, key, value);
}

/// Concat_h((alpha_h I + beta_h A_h) V_h) within each sequence.
///
/// Shapes  as softmax_attention; alpha, beta (1, H)
/// Errors  as softmax_attention, and for gains of another width: rule "gains per head"
/// Cost    as softmax_attention
/// Source  He & Hofmann 2024, Eq. (4)
constexpr Expr skip_init_attention(At query, At key, At value, At alpha, At beta, Heads heads) {
  return detail::attend<"skip_init_attention">(heads, query, key, value, alpha, beta);
}

/// Concat_h((alpha_h I + beta_h A_h - gamma_h C_h) V_h) within each sequence.
///
/// Shapes  as softmax_attention; alpha, beta, gamma (1, H)
/// Errors  as skip_init_attention
/// Cost    as softmax_attention; C costs one pass over V, two where tokens see the whole sequence
/// Source  He & Hofmann 2024, Eq. (5) and (13)
constexpr Expr shaped_attention(At query, At key, At value, At alpha, At beta, At gamma, Heads heads) {
  return detail::attend<"shaped_attention">(heads, query, key, value, alpha, beta, gamma);
}

}  // namespace simplx

// ---- simplx/ops/embedding.hpp

/// \file simplx/ops/embedding.hpp
/// Looking rows of a table up: by token, and by position in the sequence.
///
///     embedding   y_r = table[index_r]            dtable[index_r] += dy_r
///     positions   y_r = table[r - start of its sequence]
///
/// Indices are in [0, rows of the table), sequences no longer than the positions: who takes them from a caller checks
/// that (core/inputs.hpp), kernels do not.

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"embedding"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr int index_operand = 1;
  static constexpr Shape looked_up(Shape table) { return table; }
  static constexpr Checked shape(const Attributes&, Shape table, Shape index) {
    return rows_of(index.axis, table.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const std::int32_t* index = frame.template indices<1>();
    for (Index row = 0; row < frame.rows(); ++row) {
      std::memcpy(frame.out() + row * d, frame.template in<0>() + index[row] * d, sizeof(S) * d);
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const std::int32_t* index = frame.template indices<1>();
    const S* dy = frame.out_grad();
    if constexpr (F::template write<0> == Write::store) {  // a table that was computed for these rows
      std::fill_n(frame.template grad<0>(), frame.template rows_in<0>() * d, S(0));
    }
    for (Index row = 0; row < frame.rows(); ++row, dy += d) {
      S* place = frame.template grad<0>() + index[row] * d;
      for (Index c = 0; c < d; ++c) place[c] += dy[c];
    }
  }
};

template <>
struct op<"positions"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape table) {
    if (!table.is_fixed()) return {"static positions", static_cast<Index>(table.axis), 0};
    return rows_of(Axis::tokens, table.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    frame.context.segments.each([&](Index, Index first, Index rows) {
      std::memcpy(frame.out() + first * d, frame.template in<0>() + frame.context.past * d,
                  sizeof(S) * static_cast<std::size_t>(rows * d));
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    frame.context.segments.each([&](Index, Index first, Index rows) {
      const S* dy = frame.out_grad() + first * d;
      S* place = frame.template grad<0>();
      for (Index i = 0; i < rows * d; ++i) place[i] += dy[i];
    });
  }
};

/// The row of the table for each index.
///
/// Shapes  table (V, d), V static or an axis; index (rows) -> (rows, d)
/// Errors  does not compile unless the second operand is indices(...): rule "indices"
constexpr Expr embedding(At table, At index) {
  Expr result = apply<"embedding">({}, table, index);
  if (result.node->kind != Kind::error && index.node->kind != Kind::indices) {
    detail::broken(result.node, "indices", 0, 1);
  }
  return result;
}

/// The row of the table for each token's position in its sequence.
///
/// Shapes  table (context, d), static -> (tokens, d); sequences are at most `context` long
/// Errors  does not compile for a table of run-time rows: rule "static positions"
constexpr Expr positions(At table) { return apply<"positions">({}, table); }

}  // namespace simplx

// ---- simplx/ops/rows.hpp

/// \file simplx/ops/rows.hpp
/// Moving and gathering rows. On the axis of tokens all but `gather` stay within each sequence.
///
///     gather(x, index)        y_r = x[index_r]                      dx[index_r] += dy_r
///     slice_rows(x, b, n)     y = x[b : b + n], static rows         dx[b : b + n] += dy
///     shift(x, n)             y_t = x_{t - n}, zero before          dx_t = dy_{t + n}
///     cumulative_sum(x)       y_t = x_0 + ... + x_t                 dx_t = dy_t + dy_{t + 1} + ...
///     first_of_sequence(x)    y_s = the first row of sequence s     (tokens, C) -> (sequences, C)

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("static slice", left == right,
            "slice_rows(x, begin, count) needs a static number of rows (a weight, or computed from weights); of run-"
            "time rows, gather(x, indices(...)) takes those that are named")

namespace detail {

/// Calls f(first row, rows) for each sequence; for all rows together where the axis has none.
template <class F, class Visit>
void each_sequence(const F& frame, Visit visit) {
  if constexpr (F::out_shape.axis == Axis::tokens) {
    frame.context.segments.each([&](Index, Index first, Index rows) { visit(first, rows); });
  } else {
    visit(Index(0), frame.rows());
  }
}

struct same_shape_op : kernel_op {
  static constexpr bool rows_apart(Axis axis) { return axis == Axis::tokens; }
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
};

}  // namespace detail

template <>
struct op<"slice_rows"> : kernel_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [begin, count] = detail::slice_in(attributes);
    if (!x.is_fixed()) return {"static slice", static_cast<Index>(x.axis), 0};
    if (begin < 0 || count < 1) return {"slice begin", begin, count};
    if (begin + count > x.rows) return {"slice", begin + count, x.rows};
    return fixed_shape(count, x.cols);
  }
  static std::string settings(const Attributes& attributes) {
    return "rows " + detail::range_text(detail::slice_in(attributes));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* const rows = frame.template in<0>() + detail::slice_in(F::attributes).begin * cols;
    std::copy_n(rows, F::out_shape.rows * cols, frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    S* const rows = frame.template grad<0>() + detail::slice_in(F::attributes).begin * cols;
    detail::move_columns<Write::accumulate, S>(F::out_shape.rows, cols, {frame.out_grad(), cols}, {rows, cols});
  }
};

template <>
struct op<"shift"> : detail::same_shape_op {
  static constexpr Index by(Attributes attributes) { return attributes.integers[0]; }
  static std::string settings(const Attributes& attributes) { return "by " + std::to_string(by(attributes)); }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"shift">({.integers = {-by(node->attributes)}}, detail::whole(g, node)));
  }
  /// Of each sequence calls zero(at, count) for what nothing moves into, and move(to, from, count) for the rows that
  /// have one `by` before them, all in elements.
  template <class F, class Zero, class Move>
  static void each(const F& frame, Index by, Zero zero, Move move) {
    constexpr Index cols = F::out_shape.cols;
    detail::each_sequence(frame, [&](Index first, Index rows) {
      const Index gone = std::min(rows, by < 0 ? -by : by), left = rows - gone;
      zero((first + (by > 0 ? 0 : left)) * cols, gone * cols);
      move((first + (by > 0 ? gone : 0)) * cols, (first + (by > 0 ? 0 : gone)) * cols, left * cols);
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* x = frame.template in<0>();
    S* y = frame.out();
    each(frame, by(F::attributes), [&](Index at, Index count) { std::fill_n(y + at, count, S(0)); },
         [&](Index to, Index from, Index count) { std::copy_n(x + from, count, y + to); });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr bool stores = F::template write<0> == Write::store;
    const S* g = frame.out_grad();
    S* dx = frame.template grad<0>();
    each(frame, -by(F::attributes),
         [&](Index at, Index count) {
           if constexpr (stores) std::fill_n(dx + at, count, S(0));
         },
         [&](Index to, Index from, Index count) {
           for (Index i = 0; i < count; ++i) dx[to + i] = (stores ? S(0) : dx[to + i]) + g[from + i];
         });
  }
};

/// Sums from the first row on, or from the last row back: each is the pull-back of the other.
template <>
struct op<"cumulative_sum"> : detail::same_shape_op {
  static constexpr bool from_last(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) {
    return from_last(attributes) ? "from the last row" : "";
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"cumulative_sum">({.integers = {!from_last(node->attributes)}}, detail::whole(g, node)));
  }
  /// to = running sums of from, or added to it.
  template <bool backwards, bool accumulates, class F, class S>
  static void run(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    detail::each_sequence(frame, [&](Index first, Index rows) {
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        cpu::Register<V> total{};
        for (Index k = 0; k < rows; ++k) {
          const Index at = (first + (backwards ? rows - 1 - k : k)) * cols + c;
          total += load<V>(from + at);
          put<accumulates ? Write::accumulate : Write::store, V>(to + at, total);
        }
      });
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    run<from_last(F::attributes), false>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    run<!from_last(F::attributes), F::template write<0> == Write::accumulate>(frame, frame.out_grad(),
                                                                                  frame.template grad<0>());
  }
};

template <>
struct op<"first_of_sequence"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    return rows_of(Axis::sequences, x.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index first, Index rows) {
      S* y = frame.out() + s * cols;
      if (rows == 0) return void(std::fill_n(y, cols, S(0)));
      std::copy_n(frame.template in<0>() + first * cols, cols, y);
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    S* dx = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dx, frame.template rows_in<0>() * cols, S(0));
    frame.context.segments.each([&](Index s, Index first, Index rows) {
      if (rows == 0) return;
      const S* g = frame.out_grad() + s * cols;
      for (Index c = 0; c < cols; ++c) dx[first * cols + c] += g[c];
    });
  }
};

/// The rows of x that are named, one for each index: of a weight, or of any value.
///
/// Shapes  x (V, d), V static or an axis; index (rows) -> (rows, d)
/// Errors  does not compile unless the second operand is indices(...)
constexpr Expr gather(At x, At index) { return embedding(x, index); }

/// `count` rows of a value, from `begin` on.
///
/// Shapes  x (R, C), R static -> (count, C)
/// Errors  does not compile for run-time rows, or rows that x does not have: rules "static slice", "slice begin" and
///         "slice"
constexpr Expr slice_rows(At x, Index begin, Index count) {
  return apply<"slice_rows">(detail::attributes_of(detail::Slice{begin, count}), x);
}

/// Each row moved `by` rows down (up if negative), within its sequence; zeros move in.
///
/// Shapes  any, and the same
constexpr Expr shift(At x, Index by) { return apply<"shift">({.integers = {by}}, x); }

/// Running sums down the rows, anew in each sequence.
///
/// Shapes  any, and the same
constexpr Expr cumulative_sum(At x) { return apply<"cumulative_sum">({}, x); }

/// The first token of each sequence: what a classifier reads. Zeros of an empty one.
///
/// Shapes  x (tokens, C) -> (sequences, C)
/// Errors  does not compile along another axis: rule "token rows"
constexpr Expr first_of_sequence(At x) { return apply<"first_of_sequence">({}, x); }

}  // namespace simplx

// ---- simplx/ops/rotary.hpp

/// \file simplx/ops/rotary.hpp
/// Rotary positions (Su et al. 2021, "RoFormer", Eq. (34)): in each head the pair of columns (2i, 2i + 1) is turned by
/// the angle t / base^(2i / d_k), t the position in the sequence.
///
///     (a, b) -> (a cos - b sin, a sin + b cos);   the pull-back turns back
///
/// The product of a turned query and a turned key depends on the distance of their positions alone.

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("rotary heads", left > 0 && right % (2 * left) == 0,
            "rotary positions turn pairs of columns in each head: the width (right number) must be a multiple of twice "
            "the number of heads (left number)")

namespace detail {
template <class V, int... lane>
__attribute__((always_inline)) inline V with_swapped_pairs(V x, std::integer_sequence<int, lane...>) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)  // nvcc garbles the pack
  return __builtin_shufflevector(x, x, (lane ^ 1)...);
#else
  return V{x[lane ^ 1]...};
#endif
}
/// The lanes of x, of which each even one changes places with the one after it.
template <class V>
__attribute__((always_inline)) inline V with_swapped_pairs(V x) {
  return with_swapped_pairs(x, std::make_integer_sequence<int, static_cast<int>(sizeof(V) / sizeof(Lane<V>))>());
}
}  // namespace detail

template <>
struct op<"rotary"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b10;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  static constexpr Index heads_in(Attributes attributes) { return attributes.integers[0]; }
  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape base) {
    const Index heads = heads_in(attributes);
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    if (heads < 1 || x.cols % (2 * heads) != 0) return {"rotary heads", heads, x.cols};
    if (!(base == fixed_shape(1, 1))) return {"one number", base.columns(), 1};
    return x;
  }
  static std::string settings(const Attributes& attributes) {
    return "heads " + std::to_string(heads_in(attributes));
  }
  /// to = x turned by `direction` times the angle: one vector of pairs after the other, whose sines and cosines all
  /// heads of a row share.
  template <bool accumulates, class F, class S>
  static void turn(const F& frame, double direction, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols, heads = heads_in(F::attributes), width = cols / heads;
    constexpr Index pairs = lanes<double>, columns = 2 * pairs;  // of a vector of angles
    const double base = static_cast<double>(*frame.template in<1>());
    for (Index begin = 0; begin < width; begin += columns) {
      double frequency[pairs];
      for (Index i = 0; i < pairs; ++i) {
        frequency[i] = std::pow(base, -static_cast<double>(begin + 2 * i) / static_cast<double>(width));
      }
      S cosine[columns], sine[columns];  // u = a cosine + b sine of either column, b the other one of its pair
      detail::each_sequence(frame, [&](Index first, Index rows) {
        for (Index row = 0; row < rows; ++row) {
          const Vec<double> angle = static_cast<double>(frame.context.past + row) * load<Vec<double>>(frequency);
          const Vec<double> c = cos(angle), s = direction * sin(angle);
          for (Index i = 0; i < pairs; ++i) {
            cosine[2 * i] = cosine[2 * i + 1] = S(c[i]);
            sine[2 * i] = S(-s[i]), sine[2 * i + 1] = S(s[i]);
          }
          for (Index head = 0; head < heads; ++head) {
            const Index at = (first + row) * cols + head * width + begin;
            if (begin + columns <= width) {
              turn_columns<accumulates, columns>(cosine, sine, from + at, to + at);
            } else {
              turn_columns<accumulates, width % columns>(cosine, sine, from + at, to + at);
            }
          }
        }
      });
    }
  }
  template <bool accumulates, Index count, class S>
  static void turn_columns(const S* cosine, const S* sine, const S* from, S* to) {
    if constexpr (lanes<S> > 1) {
      using V = Vec<S>;
      constexpr Index rest = count % lanes<S>;
      const auto turned = [&](V x, Index i) __attribute__((always_inline)) {
        return V(x * load<V>(cosine + i) + detail::with_swapped_pairs(x) * load<V>(sine + i));
      };
      for (Index i = 0; i < count - rest; i += lanes<S>) {
        const V y = turned(load<V>(from + i), i);
        store(to + i, accumulates ? V(load<V>(to + i) + y) : y);
      }
      if constexpr (rest > 0) {
        V x{}, y{};
        std::memcpy(&x, from + count - rest, rest * sizeof(S));
        if constexpr (accumulates) std::memcpy(&y, to + count - rest, rest * sizeof(S));
        y += turned(x, count - rest);
        std::memcpy(to + count - rest, &y, rest * sizeof(S));
      }
    } else {
      for (Index i = 0; i < count; i += 2) {
        const S a = from[i], b = from[i + 1];
        const S u = a * cosine[i] + b * sine[i], v = b * cosine[i + 1] + a * sine[i + 1];
        to[i] = accumulates ? S(to[i] + u) : u;
        to[i + 1] = accumulates ? S(to[i + 1] + v) : v;
      }
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    turn<false>(frame, 1, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    turn<F::template write<0> == Write::accumulate>(frame, -1, frame.out_grad(), frame.template grad<0>());
  }
};

/// Queries or keys, turned by their positions.
///
/// Shapes  x (tokens, heads * d_k), d_k even; base (1, 1), not trained, usually hyper("base", 10000) -> as x
/// Errors  does not compile unless the heads have even widths: rule "rotary heads"
/// Cost    d_k / 2 sines and cosines for each token
constexpr Expr rotary(At x, int heads, At base) { return apply<"rotary">({.integers = {heads}}, x, base); }

}  // namespace simplx

// ---- simplx/nn/attention.hpp

/// \file simplx/nn/attention.hpp
/// Self-attention sub-blocks. In each head h a matrix M_h mixes the values of the tokens:
///
///     Attention(x) = Concat_h(M_h V_h) W^P,   V = x W^V
///
///     softmax     M_h = A_h                                        Eq. (2), (3)
///     skip_init   M_h = alpha_h I + beta_h A_h                     Eq. (4)
///     shaped      M_h = alpha_h I + beta_h A_h - gamma_h C         Eq. (5), (13)
///
/// | symbol  | shape        | meaning                                                                            |
/// |---------|--------------|------------------------------------------------------------------------------------|
/// | Q, K, V | (tokens, d)  | x W^Q, x W^K, x W^V; Q_h, K_h, V_h are their column blocks h, d_k = d / H wide     |
/// | A_h     | (T, T)       | softmax(Q_h K_h^T / sqrt(d_k) + mask), row by row                                  |
/// | mask    | (T, T)       | causal: 0 for j <= i, minus infinity elsewhere; with ALiBi - m_h |i - j|  |
/// | C       | (T, T)       | A_h at zero scores Q_h K_h^T: C_ij = 1 / i for j <= i, i from 1, without ALiBi     |
///
/// With `key_heads` heads of keys and values, G of them, W^K and W^V are (d, G d_k), and the queries of H / G heads
/// that follow one another share K_h and V_h. [Ainslie et al. 2023]
///
/// NormFormer adds one number eta_h (its gamma_h) for each head, before W^P, Concat_h(eta_h A_h V_h) W^P, or after it,
/// and norms of the result, or of queries, keys and values. [Shleifer et al. 2021]
///
/// QK-norm divides each row of Q_h and of K_h by its size (nn/head_norm.hpp); rotary positions turn it by the place of
/// its token. [Dehghani et al. 2023; Su et al. 2021]
///
/// Where W^Q = 0, A = C; with alpha = beta = gamma = 1 shaped attention then is the identity. [He & Hofmann 2024]

namespace simplx::inline SIMPLX_TARGET {

/// Concat_h(M_h V_h) from queries, keys and values; makes alpha, beta and gamma, one number for each head.
constexpr Expr mix(AttentionMatrix matrix, Expr query, Expr key, Expr value, const Heads& heads) {
  const bool gains = matrix != AttentionMatrix::softmax && heads.count > 0;  // softmax_attention refuses no heads
  if (!gains) return softmax_attention(query, key, value, heads);
  const bool centred = matrix == AttentionMatrix::shaped;
  auto alpha = vector("alpha", heads.count, ones), beta = vector("beta", heads.count, centred ? ones : zeros);
  if (!centred) return skip_init_attention(query, key, value, alpha, beta, heads);
  return shaped_attention(query, key, value, alpha, beta, vector("gamma", heads.count, ones), heads);
}

SIMPLX_RULE("key heads", left >= 1 && right % left == 0,
            "the heads of keys (left number) must divide the heads of queries (right number), which share them in "
            "groups")

SIMPLX_RULE("norm of zero queries", (possible<left, right>),
            "skip_init and shaped attention start with queries of zero, which no norm can scale: leave out "
            ".query_key_value_norm or .head_norm, or set .matrix = AttentionMatrix::softmax")

/// Where the columns of each head are multiplied by one number: nowhere, before W^P or after it.
enum class HeadScale : signed char { none, before_projection, after_projection };

namespace detail {

/// Column block h of x times eta_h, for each of the heads.
constexpr Expr scale_heads(Expr x, int heads) {
  if (x.node->kind == Kind::error) return x;
  return x * repeat_columns(vector("head_scale", heads, ones), width(x) / heads);
}

}  // namespace detail

/// Self-attention with any way to make its values and to project its result.
///
/// Matrices that mix with an identity start it as one: their queries are zero at first.
/// Shapes  x (tokens, d) -> (tokens, d)
/// Errors  does not compile if heads do not divide d
/// Source  He & Hofmann 2024, Eq. (2) to (5), initial values App. D.1; scales and norms: Shleifer et al. 2021, Sec. 2.1
template <AttentionMatrix matrix, class Value = Identity, class Output = Identity, class Norm = Identity,
          class InnerNorm = Identity>
struct SelfAttention {
  int heads = 1;
  int key_heads = 0;  ///< grouped queries: heads of keys, and of values with a matrix; as many as `heads` by default
  bool query_key_bias = false;
  bool alibi = false;  ///< scores fall with the distance of tokens; the model needs no positions then
  double rotary = 0;   ///< base of rotary positions, such as 10000; the model needs no others then; 0: none
  bool head_norm = false;  ///< QK-norm: RMSNorm of each head's queries and keys, of softmax attention
  double dropout = 0;  ///< of the weights A_h, in training; a hyper(...), "dropout.rate"
  Mask mask = Mask::causal;
  Value value{};
  Output projection{};
  HeadScale head_scale = HeadScale::none;
  Norm norm{};             ///< of the result
  InnerNorm inner_norm{};  ///< of queries, keys and values over all heads, one each

  /// The sub-block of one layer, where the value differs by layer.
  constexpr SelfAttention at(int layer) const {
    SelfAttention attention = *this;
    attention.value = at_layer(value, layer);
    return attention;
  }

  constexpr Expr operator()(Expr x) const {
    if (key_heads != 0 && (key_heads < 0 || heads % key_heads != 0)) return refuse("key heads", x, key_heads, heads);
    if (head_norm && matrix != AttentionMatrix::softmax) return refuse("norm of zero queries", x);
    const Init query_init = matrix == AttentionMatrix::softmax ? normal(0.02) : zeros;
    auto q = named("query", Linear{.bias = query_key_bias, .init = query_init})(x);  // (tokens, d)
    auto k = named("key", grouped(Linear{.bias = query_key_bias}, width(x)))(x);
    auto v = named("value", grouped(value, width(x)))(x);
    q = named("query_norm", inner_norm)(q), k = named("key_norm", inner_norm)(k);
    v = named("value_norm", inner_norm)(v);
    if (head_norm) {
      const int of_keys = shares(width(x)) ? key_heads : heads;
      q = named("query_head_norm", HeadNorm{heads})(q), k = named("key_head_norm", HeadNorm{of_keys})(k);
    }
    if (rotary != 0) {
      const Expr base = hyper("rotary_base", rotary);
      q = simplx::rotary(q, heads, base), k = simplx::rotary(k, shares(width(x)) ? key_heads : heads, base);
    }
    if (shares(width(x))) k = for_all_queries(k), v = has_matrix<Value> ? for_all_queries(v) : v;
    auto y = mix(matrix, q, k, v, {heads, mask, alibi, dropout});
    if (head_scale == HeadScale::before_projection) y = detail::scale_heads(y, heads);
    y = named("projection", projection)(y);
    if (head_scale == HeadScale::after_projection) y = detail::scale_heads(y, heads);
    return named("norm", norm)(y);
  }

 private:
  template <class Module>
  static constexpr bool has_matrix = requires(Module module) { module.out; };

  /// Whether groups of heads share keys and values; attention refuses heads that do not divide d.
  constexpr bool shares(Index d) const { return key_heads > 0 && key_heads < heads && d % heads == 0; }
  /// A matrix of keys or values with the columns of its heads.
  template <class Module>
  constexpr Module grouped(Module module, Index d) const {
    if constexpr (has_matrix<Module>) {
      if (shares(d) && module.out == 0) module.out = d / heads * key_heads;
    }
    return module;
  }
  /// Each head of keys or values for all queries of its group.
  constexpr Expr for_all_queries(Expr x) const {
    return x.node->kind == Kind::error ? x : repeat_columns(x, heads / key_heads, width(x) / key_heads);
  }
};

/// MHA(x) = Concat_h(A_h V_h) W^P with V = x W^V.
///
/// Source  He & Hofmann 2024, Eq. (2) and (3)
using MultiHeadAttention = SelfAttention<AttentionMatrix::softmax, Linear, Linear>;

/// Concat_h((alpha_h I + beta_h A_h - gamma_h C) V_h) with V = x, in the first layer V = x (alpha_V I + beta_V D).
///
/// Errors  does not compile unless told its layer by at(layer): rule "first layer"
/// Source  He & Hofmann 2024, Eq. (12) and (13); the first layer's value matrix: App. C (Fig. 24) and D.1
using ShapedAttention = SelfAttention<AttentionMatrix::shaped, FirstLayer<Reparameterised>>;

}  // namespace simplx

// ---- simplx/nn/residual_scale.hpp

/// \file simplx/nn/residual_scale.hpp
/// ResScale: lambda o x in the place of x on a skip, lambda one number or one for each column.

namespace simplx::inline SIMPLX_TARGET {

/// Whether a skip has a lambda: none, one number, or one for each column.
enum class ResidualScale : signed char { none, number, vector };

/// lambda o x; lambda starts at one.
///
/// Source  Shleifer et al. 2021, Sec. 2.2 (vector) and 4.2 (number)
constexpr Expr residual_scaled(ResidualScale kind, const char* name, Expr x) {
  switch (kind) {
    case ResidualScale::number: return multiply(scalar(name, ones), x);
    case ResidualScale::vector: return multiply(vector(name, width(x), ones), x);
    default: return x;
  }
}

}  // namespace simplx

// ---- simplx/blocks/config.hpp

/// \file simplx/blocks/config.hpp
/// BlockConfig: a transformer block as one structural value, a token for sweeps and checkpoints.
///
/// It has a switch for every block of "Simplifying Transformer Blocks" (He & Hofmann 2024) and of "NormFormer"
/// (Shleifer et al. 2021), all of which are named in tokens.hpp. The switches are orthogonal; a combination that makes
/// no sense is refused with a sentence when the block is used. Each token has its equation in a header of this folder,
/// and tests hold that both are one graph.

namespace simplx::inline SIMPLX_TARGET {

/// Attention and MLP one after the other, or both of the same x.
enum class Branches : signed char { sequential, parallel };
/// Which norm a block has.
enum class Norm : signed char { none, layer_norm, rms_norm /* x / (r + epsilon) */, rms_norm_inside };
/// Norms of what a branch is given, or of the sum after it.
enum class NormPosition : signed char { before, after };
/// The activation of an MLP; with a gate, that of the gate.
enum class Activation : signed char { relu, leaky_relu, gelu, gelu_tanh, relu_squared };

/// How values are made of x, and the result of the heads: by x itself, x W, or x (alpha W0 + beta D).
struct Projection {
  enum class Kind : signed char { none, dense, reparameterised /* Eq. (6) */ };
  Kind kind = Kind::dense;
  Init init = normal(0.02);    ///< of W
  Reparameterised weights{};   ///< W0, alpha and beta
  constexpr bool operator==(const Projection&) const = default;
};
inline constexpr Projection no_projection{.kind = Projection::Kind::none};
constexpr Projection dense(Init init = normal(0.02)) { return {Projection::Kind::dense, init, {}}; }
constexpr Projection reparameterised(Init base, Gain alpha, Gain beta) {
  return {Projection::Kind::reparameterised, {}, {base, alpha, beta}};
}

/// A block as a value: every block of the papers is one (tokens.hpp), and others lie between them. What makes no sense
/// is refused with a sentence when the block is used.
struct BlockConfig {
  Branches branches = Branches::sequential;
  Norm norm = Norm::rms_norm;
  NormPosition norm_position = NormPosition::before;  ///< of the branches, or after their sums with the skips
  double norm_epsilon = 1e-8;
  bool first_norm = false;  ///< of blocks without norms: layer 0 keeps a LayerNorm of its input

  AttentionMatrix matrix = AttentionMatrix::softmax;
  bool alibi = false;  ///< scores fall with the distance of tokens, and the model has no positions
  Projection value{};
  Projection projection{};
  bool query_key_bias = false;
  bool value_projection_bias = false;
  bool query_key_value_norm = false;  ///< "+3 LN" of NormFormer: one norm each, over all heads
  HeadScale head_scale = HeadScale::none;
  bool attention_norm = false;  ///< post-attention norm of NormFormer: of the projected result

  Gain attention_skip{};  ///< alpha_SA
  Gain attention_gain{};  ///< beta_SA
  Gain mlp_skip{};        ///< alpha_FF; of parallel branches the one skip, alpha_comb
  Gain mlp_gain{};        ///< beta_FF
  ResidualScale attention_residual_scale = ResidualScale::none;  ///< lambda of the skips: ResScale of NormFormer
  ResidualScale mlp_residual_scale = ResidualScale::none;

  Activation activation = Activation::relu;
  double slope = 0.2;  ///< of leaky_relu
  bool gated = false;  ///< GLU: the first matrix makes [value, gate], the second has half as many rows
  bool mlp_bias = false;
  bool mlp_norm = false;  ///< FFN norm of NormFormer: after the activation

  bool first_value = false;  ///< layer 0 has a value matrix alpha I + beta D, the others have none

  constexpr bool operator==(const BlockConfig&) const = default;

  /// The configuration of one layer of a stack.
  constexpr BlockConfig at(int layer) const {
    BlockConfig config = *this;
    if (first_value && layer == 0) config.value = reparameterised(identity, trainable(1), trainable(1));
    config.first_norm = first_norm && layer == 0;
    config.first_value = false;
    return config;
  }

  /// The first rule that this configuration breaks; an empty name if there is none.
  constexpr Tag broken_rule() const {
    if (branches == Branches::parallel) {
      if (!attention_skip.is_zero()) return "parallel skip";
      if (mlp_skip.kind == Gain::Kind::trainable) return "parallel skip gain";
      if (norm_position == NormPosition::after) return "parallel post-norm";
    }
    if (attention_gain.is_zero() || mlp_gain.is_zero()) return "empty branch";
    if (first_value && value.kind != Projection::Kind::none) return "first value";
    if (first_norm && norm != Norm::none) return "first norm";
    if (norm == Norm::none) {
      if (norm_position == NormPosition::after) return "post-norm of nothing";
      if (attention_norm || mlp_norm || query_key_value_norm) return "inner norm";
    }
    if (query_key_value_norm && matrix != AttentionMatrix::softmax) return "norm of zero queries";
    if (query_key_value_norm && value.kind == Projection::Kind::none) return "norm of identity";
    const auto scales_no_skip = [&](ResidualScale scale, const Gain& skip) {
      return scale != ResidualScale::none && (skip.kind != Gain::Kind::one || branches == Branches::parallel);
    };
    if (scales_no_skip(attention_residual_scale, attention_skip)) return "residual scale";
    if (scales_no_skip(mlp_residual_scale, mlp_skip)) return "residual scale";
    if (!(slope >= 0 && slope <= 1)) return "leaky slope";
    for (const Projection& p : {value, projection}) {
      if (value_projection_bias && p.kind != Projection::Kind::dense) return "bias of identity";
      if (p.kind != Projection::Kind::reparameterised) continue;
      if (const Tag rule = p.weights.broken_rule(); !rule.empty()) return rule;
    }
    return {};
  }
};

SIMPLX_RULE("parallel skip", (possible<left, right>),
            "parallel branches have one skip, mlp_skip (alpha_comb): set .attention_skip = no_skip")
SIMPLX_RULE("parallel skip gain", (possible<left, right>),
            "the skip of parallel branches, mlp_skip (alpha_comb), is not trained: set it to no_skip or fixed_at(...)")
SIMPLX_RULE("parallel post-norm", (possible<left, right>),
            "parallel branches share one norm in front of them: set .norm_position = NormPosition::before")
SIMPLX_RULE("empty branch", (possible<left, right>),
            "a block without its attention or MLP branch is no block of the papers: a gain of a branch cannot be "
            "zero; leave it out, or set it to trainable(...) or fixed_at(...) of another number")
SIMPLX_RULE("first value", (possible<left, right>),
            "first_value gives layer 0 the value matrix that the others lack: set .value = no_projection, or drop it")
SIMPLX_RULE("first norm", (possible<left, right>),
            "first_norm gives layer 0 the norm that the others lack: set .norm = Norm::none, or drop it")
SIMPLX_RULE("leaky slope", (possible<left, right>),
            "the slope of leaky_relu lies between 0 and 1: set .slope, for example to 0.2")
SIMPLX_RULE("bias of identity", (possible<left, right>),
            "an identity or reparameterised value or projection has no bias: set .value_projection_bias = false")
SIMPLX_RULE("post-norm of nothing", (possible<left, right>),
            "a block without norms has none after its sums: set .norm, or .norm_position = NormPosition::before")
SIMPLX_RULE("inner norm", (possible<left, right>),
            "attention_norm, mlp_norm and query_key_value_norm are norms of the block's kind, which is none: set "
            ".norm, for example to Norm::layer_norm")
SIMPLX_RULE("norm of identity", (possible<left, right>),
            "without a value matrix query_key_value_norm would normalise what the block's norm has normalised: set "
            ".value = dense(), or .query_key_value_norm = false")
SIMPLX_RULE("residual scale", (possible<left, right>),
            "a residual scale stands on the skip of sequential branches, in the place of a gain: set that skip to "
            "fixed_at(1), or the scale to ResidualScale::none")

}  // namespace simplx

// ---- simplx/blocks/tokens.hpp

/// \file simplx/blocks/tokens.hpp
/// The blocks of "Simplifying Transformer Blocks" (He & Hofmann 2024), in decoders and in encoders, and of "NormFormer"
/// (Shleifer et al. 2021) as tokens, under their names everywhere: command lines, checkpoints, reports.
///
/// Gains are those of Eq. (1): attention_skip alpha_SA, attention_gain beta_SA, mlp_skip alpha_FF, mlp_gain beta_FF.
/// Where paper and published code differ the code is followed: alpha_FF is trained, and models "without norms"
/// keep a LayerNorm in front of their first block.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// A token that differs from another: with(sas, [](BlockConfig& c) { ... }).
template <class Change>
constexpr BlockConfig with(BlockConfig config, Change change) {
  change(config);
  return config;
}
}  // namespace detail

/// Pre-LN: Eq. (1) with all gains one.
inline constexpr BlockConfig pre_ln{};

/// The parallel block, Eq. (7), with a skip of alpha_comb = 1.
inline constexpr BlockConfig parallel{.branches = Branches::parallel, .attention_skip = no_skip};

/// Value-SkipInit, Eq. (4): no attention skip, V and P orthogonal at first.
inline constexpr BlockConfig v_skip_init{
    .matrix = AttentionMatrix::skip_init,
    .value = dense(orthogonal),
    .projection = dense(orthogonal),
    .attention_skip = no_skip,
    .attention_gain = trainable(1),
    .mlp_skip = trainable(1),
    .mlp_gain = trainable(0.1),
};

/// The same with shaped attention, Eq. (5): "V-SkipInit" as the paper's figures show it (Fig. 2).
inline constexpr BlockConfig v_skip_init_shaped =
    detail::with(v_skip_init, [](BlockConfig& c) { c.matrix = AttentionMatrix::shaped; });

/// V and P reparameterised, Eq. (6), with fixed gains (Fig. 3).
inline constexpr BlockConfig shaped_reparam = detail::with(v_skip_init_shaped, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(orthogonal, fixed_at(1), fixed_at(0.2));
});

/// The same with trained gains (Fig. 21; with the identity as base Fig. 4).
inline constexpr BlockConfig shaped_reparam_trainable = detail::with(v_skip_init_shaped, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(orthogonal, trainable(1), trainable(0.2));
});

/// Pre-LN with V and P reparameterised around the identity (Fig. 22).
inline constexpr BlockConfig pre_ln_reparam_trainable = detail::with(pre_ln, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(identity, trainable(1), trainable(0.2));
});

/// Pre-LN without V and P (Fig. 23).
inline constexpr BlockConfig pre_ln_identity{.value = no_projection, .projection = no_projection};

/// SAS (Fig. 10): shaped attention without skip, projection, and values, but for the first layer's.
inline constexpr BlockConfig sas{
    .matrix = AttentionMatrix::shaped,
    .value = no_projection,
    .projection = no_projection,
    .attention_skip = no_skip,
    .attention_gain = trainable(1),
    .mlp_skip = trainable(1),
    .mlp_gain = trainable(0.1),
    .first_value = true,
};

/// SAS without the first layer's value matrix (Fig. 24).
inline constexpr BlockConfig sas_identity_first_value =
    detail::with(sas, [](BlockConfig& c) { c.first_value = false; });

/// SAS without the MLP skip, with leaky ReLU (Fig. 25).
inline constexpr BlockConfig sas_no_mlp_skip = detail::with(sas, [](BlockConfig& c) {
  c.mlp_skip = no_skip;
  c.activation = Activation::leaky_relu;
});

/// SAS-P (Fig. 11): the branches of SAS in parallel, without any skip.
inline constexpr BlockConfig sas_p = detail::with(sas, [](BlockConfig& c) {
  c.branches = Branches::parallel;
  c.mlp_skip = no_skip;
});

/// SAS-P and SAS without norms, as the authors ran them: block 0 keeps a LayerNorm of its input.
inline constexpr BlockConfig sas_p_no_norm = detail::with(sas_p, [](BlockConfig& c) {
  c.norm = Norm::none;
  c.norm_epsilon = 1e-5;
  c.first_norm = true;
});
inline constexpr BlockConfig sas_no_norm = detail::with(sas, [](BlockConfig& c) {
  c.norm = Norm::none;
  c.norm_epsilon = 1e-5;
  c.first_norm = true;
});

/// The same without a norm in any block.
inline constexpr BlockConfig sas_p_norm_free = detail::with(sas_p, [](BlockConfig& c) { c.norm = Norm::none; });
inline constexpr BlockConfig sas_norm_free = detail::with(sas, [](BlockConfig& c) { c.norm = Norm::none; });

/// SAS and SAS-P with the matrix of Value-SkipInit, Eq. (4) (Fig. 13).
inline constexpr BlockConfig sas_skip_init =
    detail::with(sas, [](BlockConfig& c) { c.matrix = AttentionMatrix::skip_init; });
inline constexpr BlockConfig sas_p_skip_init =
    detail::with(sas_p, [](BlockConfig& c) { c.matrix = AttentionMatrix::skip_init; });

/// SAS-P with V and P reparameterised around the identity in every layer (Fig. 16).
inline constexpr BlockConfig sas_p_reparam_trainable = detail::with(sas_p, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(identity, trainable(1), trainable(0.2));
  c.first_value = false;
});

/// With ALiBi in place of positions (App. C, Fig. 28).
inline constexpr BlockConfig sas_alibi = detail::with(sas, [](BlockConfig& c) { c.alibi = true; });
inline constexpr BlockConfig sas_p_alibi = detail::with(sas_p, [](BlockConfig& c) { c.alibi = true; });
inline constexpr BlockConfig pre_ln_alibi = detail::with(pre_ln, [](BlockConfig& c) { c.alibi = true; });

// -------------------------------------------------------------------------------------------------------- NormFormer

/// Its baseline: Pre-LN with LayerNorm, GELU and a bias on every matrix.
inline constexpr BlockConfig pre_ln_biased{
    .norm = Norm::layer_norm,
    .norm_epsilon = 1e-5,
    .query_key_bias = true,
    .value_projection_bias = true,
    .activation = Activation::gelu,
    .mlp_bias = true,
};

/// The same with norms after the sums (Fig. 3): "Attention Is All You Need".
inline constexpr BlockConfig post_ln =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.norm_position = NormPosition::after; });

/// NormFormer (Sec. 2.1): HeadScale, a norm of the attention's result, and one of the activated.
inline constexpr BlockConfig norm_former = detail::with(pre_ln_biased, [](BlockConfig& c) {
  c.head_scale = HeadScale::before_projection;
  c.attention_norm = c.mlp_norm = true;
});

/// With HeadScale after the projection, as the published code has it.
inline constexpr BlockConfig norm_former_after_projection =
    detail::with(norm_former, [](BlockConfig& c) { c.head_scale = HeadScale::after_projection; });

/// With ResScale on the skip around the MLP (Sec. 2.2); with one number there; with vectors on both skips (Sec. 4.2).
inline constexpr BlockConfig norm_former_resscale =
    detail::with(norm_former, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::vector; });
inline constexpr BlockConfig norm_former_resscale_scalar =
    detail::with(norm_former, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::number; });
inline constexpr BlockConfig norm_former_resscale_both =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.attention_residual_scale = ResidualScale::vector; });

/// With ResScale and without one of the three additions, or with norms of queries, keys and values (Table 4).
inline constexpr BlockConfig norm_former_resscale_no_post_attention_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.attention_norm = false; });
inline constexpr BlockConfig norm_former_resscale_no_ffn_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.mlp_norm = false; });
inline constexpr BlockConfig norm_former_resscale_no_head_scale =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.head_scale = HeadScale::none; });
inline constexpr BlockConfig norm_former_resscale_qkv_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.query_key_value_norm = true; });

/// ResScale alone (Sec. 4.2).
inline constexpr BlockConfig resscale_only =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::vector; });

/// With squared ReLU, and its baseline (Table 2).
inline constexpr BlockConfig norm_former_relu2 =
    detail::with(norm_former, [](BlockConfig& c) { c.activation = Activation::relu_squared; });
inline constexpr BlockConfig pre_ln_biased_relu2 =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.activation = Activation::relu_squared; });

// -------------------------------------------------------------------------------------------- crammed BERT, App. D.2

namespace detail {
/// A block of the decoders as it is in the encoder: LayerNorm, and a gated MLP with GELU.
constexpr BlockConfig crammed(BlockConfig config) {
  if (config.norm != Norm::none) config.norm = Norm::layer_norm;
  config.norm_epsilon = 1e-12;
  config.activation = Activation::gelu;
  config.gated = true;
  if (config.mlp_gain.kind == Gain::Kind::trainable) config.mlp_gain = trainable(0.05);
  return config;
}
}  // namespace detail

inline constexpr BlockConfig bert_pre_ln = detail::crammed(pre_ln);
inline constexpr BlockConfig bert_parallel = detail::crammed(parallel);
inline constexpr BlockConfig bert_v_skip_init_shaped = detail::crammed(v_skip_init_shaped);
inline constexpr BlockConfig bert_sas = detail::crammed(sas);
inline constexpr BlockConfig bert_sas_p = detail::crammed(sas_p);
inline constexpr BlockConfig bert_sas_p_no_norm = detail::crammed(sas_p_no_norm);

// ------------------------------------------------------------------------------------------------------------- names

/// A block and the name that programs know it by.
struct NamedBlock {
  const char* name;
  BlockConfig config;
  bool encoder = false;  ///< it belongs into an Encoder, not into a Decoder
};

/// Every token under its name.
inline constexpr NamedBlock all_blocks[] = {
    {"pre_ln", pre_ln},
    {"parallel", parallel},
    {"v_skip_init", v_skip_init},
    {"v_skip_init_shaped", v_skip_init_shaped},
    {"shaped_reparam", shaped_reparam},
    {"shaped_reparam_trainable", shaped_reparam_trainable},
    {"pre_ln_reparam_trainable", pre_ln_reparam_trainable},
    {"pre_ln_identity", pre_ln_identity},
    {"sas", sas},
    {"sas_identity_first_value", sas_identity_first_value},
    {"sas_no_mlp_skip", sas_no_mlp_skip},
    {"sas_p", sas_p},
    {"sas_p_no_norm", sas_p_no_norm},
    {"sas_no_norm", sas_no_norm},
    {"sas_p_norm_free", sas_p_norm_free},
    {"sas_norm_free", sas_norm_free},
    {"sas_skip_init", sas_skip_init},
    {"sas_p_skip_init", sas_p_skip_init},
    {"sas_p_reparam_trainable", sas_p_reparam_trainable},
    {"sas_alibi", sas_alibi},
    {"sas_p_alibi", sas_p_alibi},
    {"pre_ln_alibi", pre_ln_alibi},

    {"pre_ln_biased", pre_ln_biased},
    {"post_ln", post_ln},
    {"norm_former", norm_former},
    {"norm_former_after_projection", norm_former_after_projection},
    {"norm_former_resscale", norm_former_resscale},
    {"norm_former_resscale_scalar", norm_former_resscale_scalar},
    {"norm_former_resscale_both", norm_former_resscale_both},
    {"norm_former_resscale_no_post_attention_norm", norm_former_resscale_no_post_attention_norm},
    {"norm_former_resscale_no_ffn_norm", norm_former_resscale_no_ffn_norm},
    {"norm_former_resscale_no_head_scale", norm_former_resscale_no_head_scale},
    {"norm_former_resscale_qkv_norm", norm_former_resscale_qkv_norm},
    {"resscale_only", resscale_only},
    {"norm_former_relu2", norm_former_relu2},
    {"pre_ln_biased_relu2", pre_ln_biased_relu2},

    {"bert_pre_ln", bert_pre_ln, true},
    {"bert_parallel", bert_parallel, true},
    {"bert_v_skip_init_shaped", bert_v_skip_init_shaped, true},
    {"bert_sas", bert_sas, true},
    {"bert_sas_p", bert_sas_p, true},
    {"bert_sas_p_no_norm", bert_sas_p_no_norm, true},
};

}  // namespace simplx

// ---- simplx/nn/dropout.hpp

/// \file simplx/nn/dropout.hpp
/// Dropout as a module: its rate can be set by its name at run time.

namespace simplx::inline SIMPLX_TARGET {

/// In training each element is 0 with probability `rate`, and else x / (1 - rate); a rate of 0 leaves no trace.
struct Dropout {
  double rate = 0;

  constexpr Expr operator()(Expr x) const { return rate == 0 ? x : dropout("mask", x, hyper("rate", rate)); }
};

}  // namespace simplx

// ---- simplx/ops/activation.hpp

/// \file simplx/ops/activation.hpp
/// Activations, and gated linear units.
///
///     leaky_relu   x if x >= 0, else slope x                          (derivative 1 at 0, as in He & Hofmann's code)
///     relu_squared max(x, 0)^2                                        So et al. 2021
///     gelu         x (1 + erf(x / sqrt 2)) / 2                        Hendrycks & Gimpel 2016
///     gelu_tanh    x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2    its approximation
///     silu         x sigmoid(x)
///
/// A gated unit takes (rows, 2 F), value and gate beside each other, to (rows, F): value * activation(gate)
/// (Shazeer 2020).

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

template <>
struct op<"leaky_relu"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto slope) { return select(literal<decltype(x)>(0) > x, slope * x, x); }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x, auto slope) {
    const auto zero = literal<decltype(x)>(0);
    if constexpr (i == 0) {
      return select(zero > x, slope * g, g);
    } else {
      return select(zero > x, x * g, zero);
    }
  }
};

template <>
struct op<"gelu"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  /// The normal distribution function, and its density for the pull-back.
  SIMPLX_HD static constexpr auto cumulative(auto x) {
    using V = decltype(x);
    return literal<V>(0.5) * (literal<V>(1) + erf(literal<V>(0.7071067811865476) * x));
  }
  SIMPLX_HD static constexpr auto f(auto x) { return x * cumulative(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    using V = decltype(x);
    const V density = literal<V>(0.3989422804014327) * exp(literal<V>(-0.5) * x * x);  // 1 / sqrt(2 pi)
    return g * (cumulative(x) + x * density);
  }
};

template <>
struct op<"gelu_tanh"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  /// x^2, held where the tangent long is 1: an infinite slope times 0 were NaN.
  SIMPLX_HD static constexpr auto squared(auto x) { return min(x * x, literal<decltype(x)>(1e4)); }
  SIMPLX_HD static constexpr auto bend(auto x, auto squared) {
    using V = decltype(x);
    return tanh(literal<V>(0.7978845608028654) * x * (literal<V>(1) + literal<V>(0.044715) * squared));  // sqrt(2 / pi)
  }
  SIMPLX_HD static constexpr auto f(auto x) {
    using V = decltype(x);
    return literal<V>(0.5) * x * (literal<V>(1) + bend(x, squared(x)));
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    using V = decltype(x);
    const V square = squared(x), t = bend(x, square), one = literal<V>(1);
    const V slope = literal<V>(0.7978845608028654) * (one + literal<V>(0.134145) * square);
    return g * literal<V>(0.5) * (one + t + x * (one - t * t) * slope);
  }
};

// Products are multiply(a, b): of two matrices without a run-time axis a * b would be the matrix product.

/// max(x, 0) + slope min(x, 0); slope is one number, usually hyper("slope", 0.2).
constexpr Expr leaky_relu(At x, At slope) { return apply<"leaky_relu">({}, x, slope); }
constexpr Expr relu_squared(At x) { return square(relu(x)); }
constexpr Expr gelu(At x) { return apply<"gelu">({}, x); }
constexpr Expr gelu_tanh(At x) { return apply<"gelu_tanh">({}, x); }
constexpr Expr silu(At x) { return multiply(x, sigmoid(x)); }

namespace detail {
template <class Activation>
constexpr Expr gated(At x, Activation activation) {
  const auto [value, gate] = split_columns(x);
  return multiply(value, activation(gate));
}
}  // namespace detail

/// Gated linear units by the activation of their gate: sigmoid, ReLU, GELU, SiLU.
constexpr Expr glu(At x) {
  return detail::gated(x, [](Expr gate) { return sigmoid(gate); });
}
constexpr Expr reglu(At x) {
  return detail::gated(x, [](Expr gate) { return relu(gate); });
}
constexpr Expr geglu(At x) {
  return detail::gated(x, [](Expr gate) { return gelu(gate); });
}
constexpr Expr swiglu(At x) {
  return detail::gated(x, [](Expr gate) { return silu(gate); });
}

SIMPLX_HD_END
}  // namespace simplx

// ---- simplx/nn/mlp.hpp

/// \file simplx/nn/mlp.hpp
/// The feed-forward sub-block: MLP(x) = Norm(f(x W1 (+ b1))) W2 (+ b2), where f is ReLU and there is no norm unless
/// others are given.

namespace simplx::inline SIMPLX_TARGET {

/// max(x, 0).
struct Relu {
  constexpr Expr operator()(Expr x) const { return relu(x); }
};

/// x where it is above 0, slope x elsewhere; the slope can be set by its name at run time.
struct LeakyRelu {
  double slope = 0.2;

  constexpr Expr operator()(Expr x) const { return leaky_relu(x, hyper("slope", slope)); }
};

/// max(x, 0)^2.
struct ReluSquared {
  constexpr Expr operator()(Expr x) const { return relu_squared(x); }
};

/// x (1 + erf(x / sqrt 2)) / 2.
struct Gelu {
  constexpr Expr operator()(Expr x) const { return gelu(x); }
};
/// Its approximation by tanh.
struct GeluTanh {
  constexpr Expr operator()(Expr x) const { return gelu_tanh(x); }
};

/// x / (1 + exp(-x)); `Gated<Silu>` is the SwiGLU of LLaMA.
struct Silu {
  constexpr Expr operator()(Expr x) const { return silu(x); }
};

/// A gated linear unit: f(gate) * value of columns [value, gate], half as wide as x.
template <class Activation>
struct Gated {
  Activation activation{};

  constexpr Expr operator()(Expr x) const { return detail::gated(x, activation); }
};

/// Two products with an activation between them, and a norm of it if there is one.
///
/// Shapes  x (rows, d) -> (rows, d), through (rows, hidden); with a gate W2 has hidden / 2 rows, which LLaMA calls its
///         hidden size
template <class Activation, class Norm = Identity>
struct MlpOf {
  Index hidden = 0;  ///< columns of `up`, of which a gate leaves `down` half; four times the width of x by default
  bool bias = false;
  Activation activation{};
  Norm norm{};  ///< of what is activated

  constexpr Expr operator()(Expr x) const {
    auto h = activation(named("up", Linear{hidden ? hidden : 4 * width(x), bias})(x));  // (rows, hidden)
    return named("down", Linear{width(x), bias})(named("norm", norm)(h));
  }
};

using Mlp = MlpOf<Relu>;

}  // namespace simplx

// ---- simplx/ops/reduce.hpp

/// \file simplx/ops/reduce.hpp
/// Sums, means and maxima over rows, columns or everything; log-sum-exp is in softmax.hpp.
///
/// | over          | (rows, C) becomes |
/// |---------------|-------------------|
/// | Over::rows    | (1, C)            |
/// | Over::columns | (rows, 1)         |
/// | Over::all     | (1, 1)            |
///
/// A sum or mean ends the loop of the elementwise expression it sums: sum(square(x - y)) stores nothing between.
/// Rows are those of one evaluation, whatever the sequences.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr Shape reduced_shape(const Attributes& attributes, const Shape& x) {
  switch (over_of(attributes)) {
    case Over::rows: return fixed_shape(1, x.cols);
    case Over::columns: return Shape{x.axis, x.rows, 1};
    default: return fixed_shape(1, 1);
  }
}

/// The value of an element is what is summed, and its derivative that of the sum.
struct sum_op : identity_op {
  static constexpr Kind kind = Kind::reduction;
  static constexpr unsigned char passes = 0;
  static constexpr Checked shape(const Attributes& attributes, Shape x) { return reduced_shape(attributes, x); }
};

}  // namespace detail

template <>
struct op<"sum"> : detail::sum_op {
  static constexpr double scale(const Attributes&, Index, Index) { return 1; }
  static constexpr Term derive(const Node*, int, const Term& g) { return g; }
};
template <>
struct op<"mean"> : detail::sum_op {
  /// g / n, where run-time rows are counted by a sum of ones.
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Shape& x = node->arguments[0]->shape;
    const bool by_columns = detail::over_of(node->attributes) == Over::columns;
    if (x.is_fixed() || by_columns) return g * Term(scale(node->attributes, x.rows, x.cols));
    return g / Term(apply<"sum">(node->attributes, At(spread(1.0, detail::argument(node, 0)))));
  }
  static constexpr double scale(const Attributes& attributes, Index rows, Index cols) {
    const Over over = detail::over_of(attributes);
    return 1 / static_cast<double>((over == Over::columns ? 1 : rows) * (over == Over::rows ? 1 : cols));
  }
};

template <>
struct op<"maximum"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool needs_output = true;
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    return detail::reduced_shape(attributes, x);
  }
  /// NaN if either is.
  template <class V>
  __attribute__((always_inline)) static V larger(V a, V b) {
    return select(b > a, b, select(b == b, a, b));
  }
  /// The largest of `count` numbers, in four chains that need not wait for each other.
  template <class S>
  static S largest_of(const S* x, Index count) {
    constexpr Index step = lanes<S>;
    const S least = S(-std::numeric_limits<double>::infinity());
    if constexpr (step == 1) {  // dual numbers: of equal ones the first, whose derivative it is
      if (count == 0) return least;
      S result = x[0];
      for (Index i = 1; i < count; ++i) result = larger(result, x[i]);
      return result;
    }
    Vec<S> chain[4];
    for (Vec<S>& lane : chain) lane = splat<Vec<S>>(least);
    Index i = 0;
    for (; i + 4 * step <= count; i += 4 * step) {
      detail::unroll<0, 4>([&]<int k>(std::integral_constant<int, k>) __attribute__((always_inline)) {
        chain[k] = larger(chain[k], load<Vec<S>>(x + i + k * step));
      });
    }
    for (; i + step <= count; i += step) chain[0] = larger(chain[0], load<Vec<S>>(x + i));
    if (i < count && count >= step) {  // the last vector, some of it again
      chain[1] = larger(chain[1], load<Vec<S>>(x + count - step));
      i = count;
    }
    S result = largest_lane(larger(larger(chain[0], chain[1]), larger(chain[2], chain[3])));
    for (; i < count; ++i) result = larger(result, x[i]);
    return result;
  }
  template <class V>
  __attribute__((always_inline)) static Lane<V> largest_lane(V v) {
    return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) { return larger<H>(a, b); });
  }
  template <Index cols, class S>
  static S largest_of_row(const S* x) {
    if constexpr (cols < lanes<S> && cpu::takes_part<S, cols>) {
      using Row = cpu::Part<S, cols>;
      return largest_lane(cpu::counted<Row>(load<Row>(x), splat<Row>(S(-std::numeric_limits<S>::infinity()))));
    } else {
      return largest_of(x, cols);
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Over over = detail::over_of(F::attributes);
    constexpr Index cols = F::template shape<0>.cols;
    const Index rows = frame.template rows_in<0>();
    const S* x = frame.template in<0>();
    S* y = frame.out();
    if constexpr (over == Over::all) *y = largest_of(x, rows * cols);
    if constexpr (over == Over::columns) {
      for (Index row = 0; row < rows; ++row) y[row] = largest_of_row<cols>(x + row * cols);
    }
    if constexpr (over == Over::rows) {
      cpu::ColumnValues<S, cols> most(S(-std::numeric_limits<double>::infinity()));
      for (Index row = 0; row < rows; ++row) {
        most.each([&]<class V>(Index col, cpu::Register<V>& so_far) __attribute__((always_inline)) {
          so_far = larger(so_far, load<V>(x + row * cols + col));
        });
      }
      most.each([&]<class V>(Index col, cpu::Register<V>& largest) __attribute__((always_inline)) {
        store<V>(y + col, largest);
      });
    }
  }
  /// The first of the largest elements gets the gradient.
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const S *x = frame.template in<0>(), *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    constexpr bool stores = F::template write<0> == Write::store;
    if constexpr (stores) std::fill_n(dx, frame.template rows_in<0>() * F::template shape<0>.cols, S(0));
    constexpr Over over = detail::over_of(F::attributes);
    constexpr Index cols = F::template shape<0>.cols;
    const Index rows = frame.template rows_in<0>();
    const auto first = [&](Index begin, Index step, Index count, Index place) {
      for (Index k = 0; k < count; ++k) {
        if (x[begin + k * step] == y[place]) return void(dx[begin + k * step] += g[place]);
      }
    };
    if constexpr (over == Over::all) first(0, 1, rows * cols, 0);
    if constexpr (over == Over::columns) {
      for (Index row = 0; row < rows; ++row) first(row * cols, 1, cols, row);
    }
    if constexpr (over == Over::rows) {
      for (Index col = 0; col < cols; ++col) first(col, cols, rows, col);
    }
  }
};

/// The sum of all elements, or over rows or columns.
///
/// Shapes  x (rows, C) -> (1, 1), (1, C) over rows, (rows, 1) over columns
/// Cost    one pass; fused with the elementwise expression x
constexpr Expr sum(At x, Over over = Over::all) { return apply<"sum">(detail::attributes_of(over), x); }

/// The sum divided by the number of elements that it has; of no rows at all it is not a number, over rows 0.
///
/// Shapes  as sum
constexpr Expr mean(At x, Over over = Over::all) { return apply<"mean">(detail::attributes_of(over), x); }

/// The largest element, where max(a, b) is the larger of two values; the first of several equal ones gets the gradient.
///
/// Shapes  as sum
/// Cost    keeps x and the result
constexpr Expr max(At x, Over over = Over::all) { return apply<"maximum">(detail::attributes_of(over), x); }

/// (x - y)^2, averaged over everything.
constexpr Expr mean_squared_error(At x, At y) { return mean(square(apply<"subtract">({}, x, y))); }

}  // namespace simplx

// ---- simplx/ops/norm.hpp

/// \file simplx/ops/norm.hpp
/// RMSNorm and LayerNorm over the columns of each row.
///
///     RMSNorm    y = gain * x / (r + epsilon),            r = sqrt(mean x^2)     [He & Hofmann's code]
///                y = gain * x / r,                        r = sqrt(mean x^2 + epsilon)         [LLaMA]
///     LayerNorm  y = gain * (x - mean) * s + bias,        s = 1 / sqrt(variance + epsilon), biased variance
///
/// Pull-backs; with epsilon inside the root q = 1 / r, and for a row of zeros RMSNorm's has no second term:
///
///     RMSNorm    dx = q u - x q^2 (sum u x) / (d r),      u = gain * dy, q = 1 / (r + epsilon)
///     LayerNorm  dx = s (u - mean u - xhat mean(u xhat)), u = gain * dy, xhat = (x - mean) s

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr Term term(const Node* node, int i) { return Term(Expr{node->arguments[i]}); }

constexpr Checked norm_shape(Shape x, Shape gain, Shape bias, Shape epsilon) {
  for (const Shape& row : {gain, bias}) {
    if (!(row == fixed_shape(1, x.cols))) return {"gain width", row.cols, x.cols};
  }
  if (!(epsilon == fixed_shape(1, 1))) return {"one number", epsilon.columns(), 1};
  return x;
}

}  // namespace detail

template <>
struct op<"rms_norm"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b100;
  static constexpr bool reads(int, int) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape gain, Shape epsilon) {
    return detail::norm_shape(x, gain, gain, epsilon);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 1; }  // r
  static constexpr bool epsilon_inside(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) {
    return epsilon_inside(attributes) ? "epsilon within the root" : "";
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const Term x = detail::term(node, 0), gain = detail::term(node, 1), epsilon = detail::term(node, 2);
    const bool inside = epsilon_inside(node->attributes);
    const Term mean_square(mean(At(square(detail::argument(node, 0))), Over::columns));
    const Term is_zero = select(mean_square > Term(0), Term(0), Term(1));  // a row whose root has no derivative
    const Term r = sqrt(mean_square + (inside ? epsilon : is_zero));
    const Term q = Term(1) / (inside ? r : r - is_zero + epsilon), u = gain * g;
    const Term slope = inside ? Term(0.5) * q : Term(1);
    if (argument == 2) return Term(sum(detail::whole(-(u * x * q * q) * slope, node)));
    if (argument == 1) return Term(sum(detail::whole(g * x * q, node), Over::rows));
    const Term along(mean(detail::whole(u * x, node), Over::columns));
    return q * u - x * q * q * along / r;  // of a row of zeros along is 0
  }
  /// With epsilon inside the root r stands for that root, and the pull-back is the one of epsilon = 0.
  template <class F>
  static constexpr bool inside = epsilon_inside(F::attributes);

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>();
    const S epsilon = *frame.template in<2>();
    S *y = frame.out(), *saved = frame.saved();
    const Index rows = frame.rows();
    if constexpr (path == Path::reference) {
      const cpu::ConstMatrixMap<S> xs(x, rows, d), g(gain, 1, d);
      cpu::MatrixMap<S> ys(y, rows, d), r(saved, rows, 1);
      r = (xs.rowwise().squaredNorm().array() / S(d) + (inside<F> ? epsilon : S(0))).sqrt().matrix();
      ys = ((r.array() + (inside<F> ? S(0) : epsilon)).inverse().matrix().asDiagonal() * xs).array().rowwise() *
           g.row(0).array();
    } else {
      for (Index row = 0; row < rows; ++row, x += d, y += d) {
        const S mean_square = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> v = load<V>(x + c);
          return v * v;
        }) / S(d);
        const S r = inside<F> ? S(sqrt(S(mean_square + epsilon))) : S(sqrt(mean_square));
        const S q = S(1) / (inside<F> ? r : S(r + epsilon));
        saved[row] = r;
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          store<V>(y + c, load<V>(x + c) * splat<V>(q) * load<V>(gain + c));
        });
      }
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *dy = frame.out_grad();
    const S* saved = frame.saved();
    const S epsilon = inside<F> ? S(0) : *frame.template in<2>();
    S *dx = frame.template grad<0>(), *dgain = frame.template grad<1>();
    const Index rows = frame.rows();
    for (Index row = 0; row < rows; ++row, x += d, dy += d) {
      const S r = saved[row], q = S(1) / (r + epsilon);
      const S ux = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> xg = load<V>(x + c) * load<V>(dy + c);
        if constexpr (F::template write<1> != Write::skip) {
          store<V>(dgain + c, load<V>(dgain + c) + xg * splat<V>(q));
        }
        return xg * load<V>(gain + c);
      });
      if constexpr (F::template write<0> != Write::skip) {
        const S along = r > 0 ? q * q * ux / (S(d) * r) : S(0);
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> u = load<V>(gain + c) * load<V>(dy + c);
          put<F::template write<0>, V>(dx + c, u * splat<V>(q) - load<V>(x + c) * splat<V>(along));
        });
        dx += d;
      }
    }
  }
};

template <>
struct op<"layer_norm"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b1000;
  static constexpr bool reads(int, int operand) { return operand != 2; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape gain, Shape bias, Shape epsilon) {
    return detail::norm_shape(x, gain, bias, epsilon);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // mean and s of each row
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const Term x = detail::term(node, 0), gain = detail::term(node, 1), epsilon = detail::term(node, 3);
    const auto mean_of = [&](const Term& t) { return Term(mean(detail::whole(t, node), Over::columns)); };
    const Term centred = x - mean_of(x);
    const Term s = Term(1) / sqrt(mean_of(centred * centred) + epsilon), xhat = centred * s, u = gain * g;
    if (argument == 3) return Term(sum(detail::whole(Term(-0.5) * u * xhat * s * s, node)));
    if (argument == 2) return Term(sum(detail::whole(g, node), Over::rows));
    if (argument == 1) return Term(sum(detail::whole(g * xhat, node), Over::rows));
    return s * (u - mean_of(u) - xhat * mean_of(u * xhat));
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *bias = frame.template in<2>();
    const S epsilon = *frame.template in<3>();
    S *y = frame.out(), *saved = frame.saved();
    const Index rows = frame.rows();
    if constexpr (path == Path::reference) {
      const cpu::ConstMatrixMap<S> xs(x, rows, d), g(gain, 1, d), b(bias, 1, d);
      cpu::MatrixMap<S> ys(y, rows, d), kept(saved, rows, 2);
      kept.col(0) = xs.rowwise().mean();
      ys = xs.colwise() - kept.col(0);
      kept.col(1) = (ys.rowwise().squaredNorm().array() / S(d) + epsilon).sqrt().inverse().matrix();
      ys = ((kept.col(1).asDiagonal() * ys).array().rowwise() * g.row(0).array()).rowwise() + b.row(0).array();
      return;
    }
    for (Index row = 0; row < rows; ++row, x += d, y += d) {
      const S mean = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(x + c);
      }) / S(d);
      const S variance = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> v = load<V>(x + c) - splat<V>(mean);
        return v * v;
      }) / S(d);
      const S s = S(1) / sqrt(S(variance + epsilon));
      saved[2 * row] = mean;
      saved[2 * row + 1] = s;
      cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        store<V>(y + c, (load<V>(x + c) - splat<V>(mean)) * splat<V>(s) * load<V>(gain + c) + load<V>(bias + c));
      });
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *dy = frame.out_grad();
    const S* saved = frame.saved();
    S *dx = frame.template grad<0>(), *dgain = frame.template grad<1>(), *dbias = frame.template grad<2>();
    const Index rows = frame.rows();
    for (Index row = 0; row < rows; ++row, x += d, dy += d) {
      const S mean = saved[2 * row], s = saved[2 * row + 1];
      const auto normalised = [&]<class V>(Index c) __attribute__((always_inline)) {
        return (load<V>(x + c) - splat<V>(mean)) * splat<V>(s);
      };
      const S u_along = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> g = load<V>(dy + c), xhat = normalised.template operator()<V>(c);
        if constexpr (F::template write<1> != Write::skip) store<V>(dgain + c, load<V>(dgain + c) + g * xhat);
        if constexpr (F::template write<2> != Write::skip) store<V>(dbias + c, load<V>(dbias + c) + g);
        return g * load<V>(gain + c) * xhat;
      }) / S(d);
      const S u_mean = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(dy + c) * load<V>(gain + c);
      }) / S(d);
      if constexpr (F::template write<0> != Write::skip) {
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> u = load<V>(dy + c) * load<V>(gain + c);
          put<F::template write<0>, V>(
              dx + c, splat<V>(s) * (u - splat<V>(u_mean) - normalised.template operator()<V>(c) * splat<V>(u_along)));
        });
        dx += d;
      }
    }
  }
};

/// y = gain * x / (sqrt(mean x^2) + epsilon).
///
/// Shapes  x (rows, d); gain (1, d); epsilon (1, 1), not trained -> (rows, d)
/// Errors  does not compile for a gain or an epsilon of another shape, or an epsilon that is trained: rules "gain
///         width", "one number" and "constant operand"
/// Cost    keeps x and one number for each row
constexpr Expr rms_norm(At x, At gain, At epsilon) { return apply<"rms_norm">({}, x, gain, epsilon); }

/// The other flavour: y = gain * x / sqrt(mean x^2 + epsilon).
///
/// Shapes  as rms_norm
/// Errors  as rms_norm
/// Cost    as rms_norm
constexpr Expr rms_norm_inside(At x, At gain, At epsilon) {
  return apply<"rms_norm">({.integers = {1}}, x, gain, epsilon);
}

/// y = gain * (x - mean) / sqrt(variance + epsilon) + bias.
///
/// Shapes  x (rows, d); gain, bias (1, d); epsilon (1, 1), not trained -> (rows, d)
/// Errors  as rms_norm; the bias is held to "gain width", too
/// Cost    keeps x and two numbers for each row
constexpr Expr layer_norm(At x, At gain, At bias, At epsilon) {
  return apply<"layer_norm">({}, x, gain, bias, epsilon);
}

}  // namespace simplx

// ---- simplx/nn/norm.hpp

/// \file simplx/nn/norm.hpp
/// Norms as modules: they make their gain (and bias), and their epsilon can be set by name at run time.

namespace simplx::inline SIMPLX_TARGET {

/// gain * x / (sqrt(mean x^2) + epsilon).
///
/// Source  epsilon outside the root: He & Hofmann's code; 1e-8: He & Hofmann 2024, App. D.1
struct RmsNorm {
  double epsilon = 1e-8;

  constexpr Expr operator()(Expr x) const {
    return rms_norm(x, vector("gain", width(x), ones), hyper("epsilon", epsilon));
  }
};

/// gain * x / sqrt(mean x^2 + epsilon): the more common form.
struct RmsNormInside {
  double epsilon = 1e-8;

  constexpr Expr operator()(Expr x) const {
    return rms_norm_inside(x, vector("gain", width(x), ones), hyper("epsilon", epsilon));
  }
};

/// gain * (x - mean) / sqrt(variance + epsilon) + bias.
struct LayerNorm {
  double epsilon = 1e-5;

  constexpr Expr operator()(Expr x) const {
    return layer_norm(x, vector("gain", width(x), ones), vector("bias", width(x), zeros), hyper("epsilon", epsilon));
  }
};

}  // namespace simplx

// ---- simplx/blocks/block.hpp

/// \file simplx/blocks/block.hpp
/// A block from its token: the graph is that of the token's equation.
///
///     sequential   X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = alpha_SA X + beta_SA Attention(Norm1(X))
///     parallel     X_out = alpha_comb X + beta_FF MLP(N) + beta_SA Attention(N),   N = Norm1(X)
///     post-norm    X_out = Norm2(alpha_FF X' + beta_FF MLP(X')),   X' = Norm1(alpha_SA X + beta_SA Attention(X))
///
/// With residual scales lambda o X stands for alpha X.
///
/// Source  He & Hofmann 2024, Eq. (1) and (7); Vaswani et al. 2017; Shleifer et al. 2021

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The norm of a configuration; none where that says so.
struct ConfiguredNorm {
  Norm norm;
  double epsilon;

  constexpr Expr operator()(Expr x) const {
    switch (norm) {
      case Norm::rms_norm: return RmsNorm{epsilon}(x);
      case Norm::rms_norm_inside: return RmsNormInside{epsilon}(x);
      case Norm::layer_norm: return LayerNorm{epsilon}(x);
      default: return x;
    }
  }
  constexpr ConfiguredNorm where(bool present) const { return {present ? norm : Norm::none, epsilon}; }
};

/// skip + branch: the skip has a gain or a residual scale, and is left out where its gain is zero.
struct ConfiguredSkip {
  Gain gain;
  const char* gain_name;
  ResidualScale scale;
  const char* scale_name;

  constexpr Expr operator()(Expr x, Expr branch) const {
    if (gain.is_zero()) return branch;
    return residual_scaled(scale, scale_name, scaled(gain, gain_name, x)) + branch;
  }
};

struct ConfiguredProjection {
  Projection projection;
  bool bias;

  constexpr Expr operator()(Expr x) const {
    switch (projection.kind) {
      case Projection::Kind::dense: return Linear{.bias = bias, .init = projection.init}(x);
      case Projection::Kind::reparameterised: return projection.weights(x);
      default: return x;
    }
  }
};

struct ConfiguredAttention {
  const BlockConfig& config;  // not a copy: there is one in each evaluation of a layer
  int heads;
  double dropout;
  Mask mask;

  template <AttentionMatrix matrix>
  constexpr Expr with_matrix(Expr x) const {
    const ConfiguredNorm norm{config.norm, config.norm_epsilon};
    return SelfAttention<matrix, ConfiguredProjection, ConfiguredProjection, ConfiguredNorm, ConfiguredNorm>{
        .heads = heads,
        .query_key_bias = config.query_key_bias,
        .alibi = config.alibi,
        .dropout = dropout,
        .mask = mask,
        .value = {config.value, config.value_projection_bias},
        .projection = {config.projection, config.value_projection_bias},
        .head_scale = config.head_scale,
        .norm = norm.where(config.attention_norm),
        .inner_norm = norm.where(config.query_key_value_norm)}(x);
  }
  constexpr Expr operator()(Expr x) const {
    switch (config.matrix) {
      case AttentionMatrix::skip_init: return with_matrix<AttentionMatrix::skip_init>(x);
      case AttentionMatrix::shaped: return with_matrix<AttentionMatrix::shaped>(x);
      default: return with_matrix<AttentionMatrix::softmax>(x);
    }
  }
};

struct ConfiguredActivation {
  Activation activation;
  double slope;
  bool gated;

  constexpr Expr activate(Expr x) const {
    switch (activation) {
      case Activation::leaky_relu: return LeakyRelu{slope}(x);
      case Activation::gelu: return Gelu{}(x);
      case Activation::gelu_tanh: return GeluTanh{}(x);
      case Activation::relu_squared: return ReluSquared{}(x);
      default: return Relu{}(x);
    }
  }
  constexpr Expr operator()(Expr x) const {
    const auto f = [this](Expr y) { return activate(y); };
    return gated ? Gated<decltype(f)>{f}(x) : f(x);
  }
};

}  // namespace detail

/// The block that a configuration describes.
///
/// Shapes  x (tokens, d) -> (tokens, d)
/// Errors  does not compile for an impossible configuration, or if heads do not divide d
struct ConfiguredBlock {
  BlockConfig config;
  int heads = 1;
  Index hidden = 0;  ///< of the MLP; four times the width of x unless given
  Mask mask = Mask::causal;
  double dropout = 0;            ///< of both branches, in training: "attention_dropout.rate", "mlp_dropout.rate"
  double attention_dropout = 0;  ///< of attention's weights, in training: "attention.dropout.rate"

  constexpr Expr operator()(int layer, Expr x) const {
    if (const Tag rule = config.broken_rule(); !rule.empty()) return refuse(rule, x);
    const BlockConfig c = config.at(layer);
    const detail::ConfiguredNorm norm{c.norm, c.norm_epsilon};
    const auto norm1 = named("norm1", detail::ConfiguredNorm{c.first_norm ? Norm::layer_norm : c.norm, c.norm_epsilon});
    const auto norm2 = named("norm2", norm);
    const detail::ConfiguredActivation activation{c.activation, c.slope, c.gated};
    const auto attend = [&](Expr n) {
      const auto y = scaled(c.attention_gain, "attention_gain",
                            named("attention", detail::ConfiguredAttention{c, heads, attention_dropout, mask})(n));
      return named("attention_dropout", Dropout{dropout})(y);
    };
    const auto feed_forward = [&](Expr n) {
      using ConfiguredMlp = MlpOf<detail::ConfiguredActivation, detail::ConfiguredNorm>;
      const auto y = scaled(c.mlp_gain, "mlp_gain",
                            named("mlp", ConfiguredMlp{hidden, c.mlp_bias, activation, norm.where(c.mlp_norm)})(n));
      return named("mlp_dropout", Dropout{dropout})(y);
    };
    const detail::ConfiguredSkip attention_skip{c.attention_skip, "attention_skip", c.attention_residual_scale,
                                                "attention_residual_scale"};
    const detail::ConfiguredSkip mlp_skip{c.mlp_skip, "mlp_skip", c.mlp_residual_scale, "mlp_residual_scale"};

    if (c.branches == Branches::parallel) {
      auto n = norm1(x);
      return mlp_skip(x, attend(n)) + feed_forward(n);
    }
    if (c.norm_position == NormPosition::after) {
      auto h = norm1(attention_skip(x, attend(x)));
      return norm2(mlp_skip(h, feed_forward(h)));
    }
    auto h = attention_skip(x, attend(norm1(x)));
    return mlp_skip(h, feed_forward(norm2(h)));
  }
};

}  // namespace simplx

// ---- simplx/blocks/parallel.hpp

/// \file simplx/blocks/parallel.hpp
/// The parallel block: Eq. (7) of "Simplifying Transformer Blocks" (He & Hofmann 2024) with all gains one.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = X + MHA(N) + MLP(N),   N = Norm(X)
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct ParallelOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};

  constexpr Expr operator()(Expr x) const {
    auto n = named("norm1", norm)(x);  // used twice, computed once
    return x + named("attention", attention)(n) + named("mlp", mlp)(n);
  }
};

using Parallel = ParallelOf<MultiHeadAttention>;

}  // namespace simplx

// ---- simplx/blocks/pre_ln.hpp

/// \file simplx/blocks/pre_ln.hpp
/// The Pre-LN block: Eq. (1) of "Simplifying Transformer Blocks" (He & Hofmann 2024) with all four gains one.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct PreLnOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};  ///< the kind of both; norm1 and norm2 have parameters of their own

  constexpr Expr operator()(Expr x) const {
    auto y = x + named("attention", attention)(named("norm1", norm)(x));
    return y + named("mlp", mlp)(named("norm2", norm)(y));
  }
};

using PreLn = PreLnOf<MultiHeadAttention>;

/// Without values and projections: V = Norm1(X), W^P = I (Fig. 23).
using PreLnIdentity = PreLnOf<SelfAttention<AttentionMatrix::softmax>>;

/// With W^V = alpha_V I + beta_V D^V and W^P = alpha_P I + beta_P D^P, Eq. (6), gains trained (App. C, Fig. 22).
struct PreLnReparam {
  int heads = 1;
  Mlp mlp;
  /// The kind of both; each has its own alpha, beta and D.
  Reparameterised weights{.base = identity, .alpha = trainable(1), .beta = trainable(0.2)};

  constexpr Expr operator()(Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::softmax, Reparameterised, Reparameterised>;
    return PreLnOf<Attention>{{.heads = heads, .value = weights, .projection = weights}, mlp}(x);
  }
};

/// With LayerNorm, GELU and a bias on every matrix: the baseline of NormFormer (Shleifer et al. 2021).
struct PreLnBiased {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given

  constexpr Expr operator()(Expr x) const {
    const MultiHeadAttention attention{
        .heads = heads, .query_key_bias = true, .value = {.bias = true}, .projection = {.bias = true}};
    return PreLnOf<MultiHeadAttention, LayerNorm, MlpOf<Gelu>>{attention, {.hidden = hidden, .bias = true}}(x);
  }
};

}  // namespace simplx

// ---- simplx/blocks/sas.hpp

/// \file simplx/blocks/sas.hpp
/// The SAS block (Fig. 10 of "Simplifying Transformer Blocks", He & Hofmann 2024; Eqs. (12) and (13)): Eq. (1) without
/// the skip around attention, which is shaped, Eq. (5), and has no W^P and W^V, but for a W^V of the first layer, the
/// identity at first (App. C, Fig. 24). Layers count from 0.
///
/// Eq. (12) has no beta_SA, which App. D.1 trains; alpha_FF is trained as in the authors' code.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))
template <class Attention, class Norm1 = RmsNorm, class Norm2 = RmsNorm, class FeedForward = Mlp>
struct SasOf {
  Attention attention;
  FeedForward mlp;
  Norm1 norm1{};
  Norm2 norm2{};
  double mlp_gain = 0.1;  ///< beta_FF at first

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", at_layer(norm1, layer))(x);
    auto y = scalar("attention_gain", ones) * named("attention", attention.at(layer))(n);
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(named("norm2", norm2)(y));
  }
};

using Sas = SasOf<ShapedAttention>;

/// Values are Norm1(X) in the first layer too.
using SasIdentityFirstValue = SasOf<SelfAttention<AttentionMatrix::shaped>>;

/// With the matrix of Value-SkipInit, Eq. (4), in each head: alpha_h I + beta_h A_h (Fig. 13).
using SasSkipInit = SasOf<SelfAttention<AttentionMatrix::skip_init, FirstLayer<Reparameterised>>>;

/// Without norms in the blocks, but with a LayerNorm of the first block's input, as in the authors' code.
using SasNoNorm = SasOf<ShapedAttention, FirstLayer<LayerNorm>, Identity>;

/// Without any norm.
using SasNormFree = SasOf<ShapedAttention, Identity, Identity>;

///     X_out = beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X)),   leaky ReLU in the MLP (Fig. 25)
struct SasNoMlpSkip {
  ShapedAttention attention;
  MlpOf<LeakyRelu> mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    auto y = scalar("attention_gain", ones) * named("attention", attention.at(layer))(named("norm1", RmsNorm{})(x));
    return scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(y));
  }
};

}  // namespace simplx

// ---- simplx/blocks/sas_p.hpp

/// \file simplx/blocks/sas_p.hpp
/// The SAS-P block (Fig. 11 of "Simplifying Transformer Blocks", He & Hofmann 2024): the parallel block of Eq. (7)
/// without its skip, with shaped attention, and without values (but for the first layer's) and projections.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)
///
/// The first layer of a stack has a value matrix, the identity at first (App. C, Fig. 24).
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct SasPOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};
  double mlp_gain = 0.1;  ///< beta_FF at first

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", at_layer(norm, layer))(x);  // used twice, computed once
    return scalar("attention_gain", ones) * named("attention", attention.at(layer))(n)
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(n);
  }
};

using SasP = SasPOf<ShapedAttention>;

/// With the matrix of Value-SkipInit, Eq. (4), in each head: alpha_h I + beta_h A_h (Fig. 13).
using SasPSkipInit = SasPOf<SelfAttention<AttentionMatrix::skip_init, FirstLayer<Reparameterised>>>;

/// Without norms in the blocks (Sec. 4.4), but with a LayerNorm of the first block's input, as in the authors' code.
using SasPNoNorm = SasPOf<ShapedAttention, FirstLayer<LayerNorm>>;

/// Without any norm (Fig. 1, top right).
using SasPNormFree = SasPOf<ShapedAttention, Identity>;

/// With W^V and W^P reparameterised around the identity in every layer, alpha I + beta D with trained gains (Fig. 16).
struct SasPReparam {
  int heads = 1;
  Mlp mlp;
  Reparameterised weights{.base = identity, .alpha = trainable(1), .beta = trainable(0.2)};

  constexpr Expr operator()(int layer, Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::shaped, Reparameterised, Reparameterised>;
    return SasPOf<Attention>{{.heads = heads, .value = weights, .projection = weights}, mlp}(layer, x);
  }
};

}  // namespace simplx

// ---- simplx/blocks/v_skip_init.hpp

/// \file simplx/blocks/v_skip_init.hpp
/// Value-SkipInit (He et al. 2023) as "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 4.1) compares with
/// it: no skip around attention, whose matrix is pulled to the identity instead.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA Attention(Norm1(X))
///
/// with the matrix of Eq. (4), alpha I + beta A (AttentionMatrix::skip_init), or that of Eq. (5), alpha I + beta A -
/// gamma C (AttentionMatrix::shaped), with which Fig. 2 shows this block. W^V and W^P are trained matrices (d, d),
/// orthogonal at first.
template <AttentionMatrix matrix, class NormType = RmsNorm, class MlpType = Mlp>
struct VSkipInitOf {
  int heads = 1;
  MlpType mlp;
  Mask mask = Mask::causal;
  double mlp_gain = 0.1;  ///< initial beta_FF
  NormType norm{};

  constexpr Expr operator()(Expr x) const {
    const Linear orthogonal_map{.init = orthogonal};
    const SelfAttention<matrix, Linear, Linear> attention{
        .heads = heads, .mask = mask, .value = orthogonal_map, .projection = orthogonal_map};
    auto y = scalar("attention_gain", ones) * named("attention", attention)(named("norm1", norm)(x));
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(named("norm2", norm)(y));
  }
};
template <AttentionMatrix matrix>
using VSkipInit = VSkipInitOf<matrix>;

}  // namespace simplx

// ---- simplx/blocks/crammed_bert.hpp

/// \file simplx/blocks/crammed_bert.hpp
/// Blocks for the encoders of "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.2), which take up
/// the crammed BERT (Geiping & Goldstein 2023): the decoders' blocks, with LayerNorm and a gated MLP in the place of
/// RMSNorm and ReLU. No matrix has a bias, as in the decoders.
///
/// Two settings are the caller's: `.mask = Mask::full` for the attention, which is causal otherwise, and, in
/// BertVSkipInit, BertSas, BertSasP and BertSasPNoNorm, `.mlp_gain = 0.05`, at which beta_FF starts in the encoders
/// (App. D.2).

namespace simplx::inline SIMPLX_TARGET {

/// LayerNorm with the epsilon of BERT.
struct BertNorm {
  double epsilon = 1e-12;

  constexpr Expr operator()(Expr x) const { return LayerNorm{epsilon}(x); }
};

///     MLP(x) = (v o gelu(g)) W2,   [v g] = x W1;   W1 (d, F), W2 (F / 2, d)
using BertMlp = MlpOf<Gated<Gelu>>;

///     X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))
using BertPreLn = PreLnOf<MultiHeadAttention, BertNorm, BertMlp>;

///     X_out = X + MHA(N) + MLP(N),   N = Norm(X)
using BertParallel = ParallelOf<MultiHeadAttention, BertNorm, BertMlp>;

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X)), V and P orthogonal
using BertVSkipInit = VSkipInitOf<AttentionMatrix::shaped, BertNorm, BertMlp>;

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))
using BertSas = SasOf<ShapedAttention, BertNorm, BertNorm, BertMlp>;

///     X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)
using BertSasP = SasPOf<ShapedAttention, BertNorm, BertMlp>;

/// Without norms, except for one of the first block's input.
using BertSasPNoNorm = SasPOf<ShapedAttention, FirstLayer<BertNorm>, BertMlp>;

}  // namespace simplx

// ---- simplx/blocks/norm_former.hpp

/// \file simplx/blocks/norm_former.hpp
/// "NormFormer: Improved Transformer Pretraining with Extra Normalization" (Shleifer et al. 2021): three additions to
/// the Pre-LN block, each small, and a fourth for small models.
///
/// | addition            | parameter, at first               | where                                         |
/// |---------------------|-----------------------------------|-----------------------------------------------|
/// | HeadScale           | eta_h (gamma_h), H numbers, 1     | on the result of each head, before W^P        |
/// | post-attention norm | gain 1 and bias 0, of width d     | on the result of attention, before the sum    |
/// | FFN norm            | gain 1 and bias 0, of width F     | after the activation, before W2               |
/// | ResScale            | lambda (lambda_resid), d ones     | on the skip around the MLP                    |

namespace simplx::inline SIMPLX_TARGET {

///     X_out = lambda o X' + MLP(Norm2(X')),   X' = X + Norm(HeadScaleMHA(Norm1(X)))
///
///     HeadScaleMHA(x) = Concat_h(eta_h A_h V_h) W^P + b^P,   MLP(x) = Norm(f(x W1 + b1)) W2 + b2
///
/// Norms are LayerNorm and f is GELU unless others are given; every matrix has a bias, as in the authors' code.
/// Identity in the place of a norm leaves it out.
///
/// Source  Shleifer et al. 2021, Sec. 2.1; lambda, of ResScale: Sec. 2.2, its other forms: Sec. 4.2; norms of Q, K
///         and V, and what is left out: Sec. 5
template <class AttentionNorm = LayerNorm, class FeedForwardNorm = LayerNorm, class Activation = Gelu,
          class QueryKeyValueNorm = Identity>
struct NormFormerOf {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given
  HeadScale head_scale = HeadScale::before_projection;
  ResidualScale mlp_residual_scale = ResidualScale::none;  ///< lambda
  ResidualScale attention_residual_scale = ResidualScale::none;

  constexpr Expr operator()(Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::softmax, Linear, Linear, AttentionNorm, QueryKeyValueNorm>;
    // The attention ends with AttentionNorm, after W^P and b^P, and scales its heads; the MLP has FeedForwardNorm
    // after its activation: the sums below are then those of Pre-LN.
    const Attention attention{.heads = heads, .query_key_bias = true, .value = {.bias = true},
                              .projection = {.bias = true}, .head_scale = head_scale};
    const MlpOf<Activation, FeedForwardNorm> mlp{.hidden = hidden, .bias = true};

    auto y = residual_scaled(attention_residual_scale, "attention_residual_scale", x)
           + named("attention", attention)(named("norm1", LayerNorm{})(x));
    return residual_scaled(mlp_residual_scale, "mlp_residual_scale", y)
         + named("mlp", mlp)(named("norm2", LayerNorm{})(y));
  }
};

using NormFormer = NormFormerOf<>;

/// For the rows of Table 4, which start from NormFormer with ResScale, set mlp_residual_scale as well; its row without
/// ResScale is NormFormer itself. Squared ReLU: Sec. 2.2 and Table 2.
using NormFormerNoPostAttentionNorm = NormFormerOf<Identity>;
using NormFormerNoFfnNorm = NormFormerOf<LayerNorm, Identity>;
using NormFormerQkvNorm = NormFormerOf<LayerNorm, LayerNorm, Gelu, LayerNorm>;
using NormFormerRelu2 = NormFormerOf<LayerNorm, LayerNorm, ReluSquared>;

}  // namespace simplx

// ---- simplx/blocks/post_ln.hpp

/// \file simplx/blocks/post_ln.hpp
/// The Post-LN block of "Attention Is All You Need" (Vaswani et al. 2017), which "NormFormer" (Shleifer et al. 2021,
/// Sec. 1 and Fig. 3) compares with: a norm after each sum. That of the last block closes the stack; no other follows.

namespace simplx::inline SIMPLX_TARGET {

///     X_out = Norm2(X' + MLP(X')),   X' = Norm1(X + MHA(X))
///
/// with LayerNorm, GELU (of the second paper's Sec. 1) and a bias on every matrix.
struct PostLn {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given

  constexpr Expr operator()(Expr x) const {
    const MultiHeadAttention attention{
        .heads = heads, .query_key_bias = true, .value = {.bias = true}, .projection = {.bias = true}};
    const MlpOf<Gelu> mlp{.hidden = hidden, .bias = true};
    auto y = named("norm1", LayerNorm{})(x + named("attention", attention)(x));
    return named("norm2", LayerNorm{})(y + named("mlp", mlp)(y));
  }
};

}  // namespace simplx

// ---- simplx/blocks/shaped_reparam.hpp

/// \file simplx/blocks/shaped_reparam.hpp
/// Shaped attention without skip whose values and projections move little from where they start: Eq. (6) of
/// "Simplifying Transformer Blocks" (He & Hofmann 2024).

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA Attention(Norm1(X))
///
/// with shaped attention and Eq. (6): W^V = alpha_V W0^V + beta_V D^V, W^P = alpha_P W0^P + beta_P D^P. W0 (d, d) stays
/// as drawn, D (d, d) starts at zero. In Fig. 3 the gains are fixed and W0 is orthogonal or the identity. With trained
/// gains, {.weights = {identity, trainable(1), trainable(0.2)}} is Fig. 4, orthogonal in its place Fig. 21.
struct ShapedReparam {
  int heads = 1;
  Mlp mlp;
  /// The kind of both; each has its own alpha, beta and D.
  Reparameterised weights{.base = orthogonal, .alpha = fixed_at(1), .beta = fixed_at(0.2)};

  constexpr Expr operator()(Expr x) const {
    const SelfAttention<AttentionMatrix::shaped, Reparameterised, Reparameterised> attention{
        .heads = heads, .value = weights, .projection = weights};
    auto y = scalar("attention_gain", ones) * named("attention", attention)(named("norm1", RmsNorm{})(x));
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(y));
  }
};

}  // namespace simplx

// ---- simplx/core/counts.hpp

/// \file simplx/core/counts.hpp
/// What a model costs, before it exists: parameters, FLOPs, bytes; all are constants or functions of row counts.
///
///     static_assert(parameters<tiny> == 1'033'174);
///     static_assert(arena_bytes<tiny>(tokens{128}) < 6'000'000);

namespace simplx::inline SIMPLX_TARGET {

template <class S, Path path>
struct Cpu;

namespace detail {

template <class G>
constexpr double graph_flops(const Rows& rows, bool causal) {
  double total = 0;
  unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Kind kind = G::table.info[i].kind;
    if constexpr (kind == Kind::product || kind == Kind::kernel) {
      total += op_of<G, i>::template flops<Frame<G, i, float>>(rows, causal);
    }
  });
  return total;
}

template <class G, class Backend>
constexpr Index graph_scratch(const Rows& rows) {
  Index most = 0;
  unroll<0, G::has_kernels() ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Kind kind = G::table.info[i].kind;
    if constexpr (kind == Kind::product || kind == Kind::kernel) {
      using Scalar = typename Backend::Scalar;
      most = std::max(most, kernels_of<Backend, G, i>::template scratch<Backend, Frame<G, i, Scalar>>(rows));
    }
  });
  if constexpr (requires { Backend::template map_scratch<G>(rows); }) {
    most = std::max(most, Backend::template map_scratch<G>(rows));
  }
  return round_up(most, alignment);
}

}  // namespace detail

/// The number of trained parameters.
template <auto const& model>
inline constexpr Index parameters = GraphOf<model>::layout.trained;

/// FLOPs of the matrix products of one forward pass over these rows; a multiply-add counts 2, scores are dense.
/// Backward takes twice as many, but of attention, whose scores it computes again, 2.5 times, and of losses in tiles,
/// whose logits it computes again, three times.
template <auto const& model>
constexpr double flops(const Rows& rows) {
  return detail::graph_flops<GraphOf<model>>(rows, false);
}

/// The same without the products that the causal mask leaves out.
template <auto const& model>
constexpr double causal_flops(const Rows& rows) {
  return detail::graph_flops<GraphOf<model>>(rows, true);
}

/// Bytes that forward keeps for backward of these rows, at `bytes_per_number` each: of `arena_bytes` the part that
/// grows with depth.
template <auto const& model>
constexpr Index kept_bytes(const Rows& rows, Index bytes_per_number = 4) {
  return elements(GraphOf<model>::layout.kept, rows) * bytes_per_number;
}

/// Bytes that one evaluation (forward and backward) of these rows takes beside parameters, their packed copies
/// and their gradients.
template <auto const& model, class Backend>
constexpr Index arena_bytes_on(const Rows& rows) {
  using G = GraphOf<model>;
  return (elements(G::layout.kept, rows) + elements(G::layout.temporary, rows) +
          detail::graph_scratch<G, Backend>(rows)) *
         static_cast<Index>(sizeof(typename Backend::Scalar));
}
/// In float, by vectors, whether or not there is a matrix unit, whose operands in pieces take 1.2 MB more at the most
/// (arena_bytes_on<model, Cpu<float>>). Scratch of kernels differs a little with the width of vectors.
template <auto const& model>
constexpr Index arena_bytes(const Rows& rows) {
  return arena_bytes_on<model, Cpu<float, Path::vectors>>(rows);
}

/// Whether two models are the same graph but for initial values and source lines.
template <auto const& a, auto const& b>
constexpr bool same_graph() {
  static_assert(detail::Gate<Root<a>>::sound && detail::Gate<Root<b>>::sound);
  const detail::Evaluated x = detail::evaluate(a), y = detail::evaluate(b);
  return detail::same_graph(x.root, y.root);
}

}  // namespace simplx

// ---- simplx/core/formula.hpp

/// \file simplx/core/formula.hpp
/// A scalar made of text: running an op's rules over it prints the equation, forward and pull-back alike.

namespace simplx::inline SIMPLX_TARGET {

/// A formula and how tightly its last operator binds.
struct Formula {
  enum Binding { sum = 1, product = 2, sign = 3, name = 4 };
  std::string text = "0";
  Binding binding = name;

  Formula() = default;
  Formula(std::string t, Binding b = name) : text(std::move(t)), binding(b) {}
  /// As few digits as give the number back: 2, 0.5, 1e-08.
  Formula(double number) {
    char digits[32];
    text.assign(digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general).ptr);
  }

  std::string within(Binding outer) const { return binding < outer ? "(" + text + ")" : text; }
};

inline Formula operator+(const Formula& a, const Formula& b) {
  return {a.within(Formula::sum) + " + " + b.within(Formula::sum), Formula::sum};
}
inline Formula operator-(const Formula& a, const Formula& b) {
  return {a.within(Formula::sum) + " - " + b.within(Formula::product), Formula::sum};
}
inline Formula operator*(const Formula& a, const Formula& b) {
  return {a.within(Formula::product) + " * " + b.within(Formula::sign), Formula::product};
}
inline Formula operator/(const Formula& a, const Formula& b) {
  return {a.within(Formula::product) + " / " + b.within(Formula::name), Formula::product};
}
inline Formula operator-(const Formula& a) { return {'-' + a.within(Formula::name), Formula::sign}; }
inline Formula operator>(const Formula& a, const Formula& b) { return {a.text + " > " + b.text, Formula::sum}; }
/// name(a, b, ...).
template <class... Arguments>
Formula call(const char* name, const Formula& first, const Arguments&... others) {
  return {std::string(name) + "(" + first.text + (std::string() + ... + (", " + others.text)) + ")"};
}
inline Formula max(const Formula& a, const Formula& b) { return call("max", a, b); }
inline Formula min(const Formula& a, const Formula& b) { return call("min", a, b); }
inline Formula pow(const Formula& x, const Formula& p) { return call("pow", x, p); }
inline Formula exp(const Formula& x) { return call("exp", x); }
inline Formula log(const Formula& x) { return call("log", x); }
inline Formula log1p(const Formula& x) { return call("log1p", x); }
inline Formula sin(const Formula& x) { return call("sin", x); }
inline Formula cos(const Formula& x) { return call("cos", x); }
inline Formula tanh(const Formula& x) { return call("tanh", x); }
inline Formula sigmoid(const Formula& x) { return call("sigmoid", x); }
inline Formula erf(const Formula& x) { return call("erf", x); }
inline Formula sqrt(const Formula& x) { return call("sqrt", x); }
inline Formula abs(const Formula& x) { return call("abs", x); }
inline Formula select(const Formula& condition, const Formula& yes, const Formula& no) {
  return {"(" + condition.text + " ? " + yes.text + " : " + no.text + ")"};
}

}  // namespace simplx

// ---- simplx/core/describe.hpp

/// \file simplx/core/describe.hpp
/// describe<model>(): the forward schedule and the reverse schedule derived from it, as text.
///
/// A line is a step: one kernel. `%7` is a value, `d%7` its gradient; `=` stores, `+=` accumulates, `is` means
/// that both are the same memory. Elementwise steps are printed by running the op's own rules over formulas,
/// so what is shown is what is computed.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The rules of an op over formulas: f, and d of operands whose gradients are wanted; what it says of its attributes.
struct OpText {
  Formula (*value)(const Formula* all, const int* operands) = nullptr;
  Formula (*pull_back[max_arguments])(const Formula& dy, const Formula& y, const Formula* all, const int* operands){};
  std::string (*settings)(const Attributes&) = nullptr;
};
template <class Op, int... a>
Formula value_text(const Formula* all, const int* operands) {
  return Op::f(all[operands[a]]...);
}
template <class Op, int i, int... a>
Formula pull_back_text(const Formula& dy, const Formula& y, const Formula* all, const int* operands) {
  return Op::template d<i>(dy, y, all[operands[a]]...);
}
template <class Op>
std::string settings_text(const Attributes& attributes) {
  return Op::settings(attributes);
}
template <class G, int node>
constexpr OpText op_text() {
  constexpr Info info = G::table.info[node];
  OpText text;
  if constexpr (info.looped()) {
    using Op = op_of<G, node>;
    [&]<int... a>(std::integer_sequence<int, a...>) {
      text.value = value_text<Op, a...>;
      const auto pull_back = [&]<int i>(std::integral_constant<int, i>) {
        constexpr int operand = G::table.info[node].arguments[i];
        if constexpr (G::fusion.wanted[operand]) text.pull_back[i] = pull_back_text<Op, i, a...>;
      };
      (pull_back(std::integral_constant<int, a>{}), ...);
    }(std::make_integer_sequence<int, info.argument_count>{});
  } else if constexpr (info.kind == Kind::kernel) {
    using Op = op_of<G, node>;
    if constexpr (requires(const Attributes& attributes) { Op::settings(attributes); }) {
      text.settings = settings_text<Op>;
    }
  }
  return text;
}

/// A graph without its type, so that its text is written by one function for all.
struct Schedule {
  /// The layers of a stack: which of so many distinct schedules each has.
  struct Layers {
    int layers = 0, distinct = 0;
    bool shared = false;
    const int* which = nullptr;
    const Schedule* const* schedules = nullptr;
  };
  int steps, count;
  const Info* info;
  const Label* label;
  const OpText* op;
  const Layers* stack;  ///< of each node, empty where it is none
  const int *order, *member_begin, *member_end, *members, *leaf_begin, *leaf_end, *leaves, *epilogue_of;
  const bool *wanted, *kept;
  const Write (*argument_write)[max_arguments];
  const Write* leaf_write;
};

/// The schedule of a graph, a constant, and of the layers of its stacks.
template <class G>
struct ScheduleOf {
  template <class Stack, int... k>
  static constexpr const Schedule* of_layers[] = {&ScheduleOf<typename Stack::template child<k>>::value...};
  template <int node>
  static constexpr Schedule::Layers layers() {
    if constexpr (G::table.info[node].stack) {
      using Stack = typename G::template layers_of<node>;
      return []<int... k>(std::integer_sequence<int, k...>) {
        return Schedule::Layers{Stack::layers, Stack::distinct, Stack::sets < Stack::layers, Stack::grouping.which,
                                of_layers<Stack, k...>};
      }(std::make_integer_sequence<int, Stack::distinct>{});
    } else {
      return {};
    }
  }
  struct PerNode {
    OpText op[G::count];
    Schedule::Layers stack[G::count];
  };
  static constexpr PerNode nodes = []<int... node>(std::integer_sequence<int, node...>) {
    return PerNode{{op_text<G, node>()...}, {layers<node>()...}};
  }(std::make_integer_sequence<int, G::count>{});

  static constexpr Schedule value{
      .steps = G::fusion.steps, .count = G::count, .info = G::table.info, .label = G::flat.label, .op = nodes.op,
      .stack = nodes.stack, .order = G::fusion.order, .member_begin = G::fusion.member_begin,
      .member_end = G::fusion.member_end, .members = G::fusion.members, .leaf_begin = G::fusion.leaf_begin,
      .leaf_end = G::fusion.leaf_end, .leaves = G::fusion.leaves, .epilogue_of = G::fusion.epilogue_of,
      .wanted = G::fusion.wanted, .kept = G::plan.kept, .argument_write = G::plan.argument_write,
      .leaf_write = G::plan.leaf_write};
};

/// Writes a schedule and, indented, those of its stacks.
class Description {
 public:
  Description(const Schedule& schedule, std::string indent, std::string& text)
      : graph_(schedule), indent_(std::move(indent)), text_(text) {}

  void write() {
    line("forward");
    for (int step = 0; step < graph_.steps; ++step) forward(graph_.order[step]);
    line("backward");
    for (int step = graph_.steps - 1; step >= 0; --step) {
      if (graph_.wanted[graph_.order[step]]) backward(graph_.order[step]);
    }
  }

 private:
  void line(const std::string& content) { text_ += indent_ + content + "\n"; }

  std::string name_of(int node) const {
    const Label& label = graph_.label[node];
    if (graph_.info[node].kind == Kind::number) return Formula(label.attributes.reals[0]).text;
    if (!label.name.empty() && !graph_.info[node].executes()) return std::string(label.name.view());
    return '%' + std::to_string(node);
  }
  std::string gradient_of(int node) const {
    const std::string name = name_of(node);
    return name[0] == '%' ? "d" + name : "d(" + name + ")";
  }
  static std::string shape_of(const Shape& shape) {
    const std::string rows = shape.is_fixed() ? std::to_string(shape.rows) : simplx::name_of(shape.axis);
    return "(" + rows + ", " + std::to_string(shape.cols) + ")";
  }
  bool transposed(int product) const { return is_transposed(graph_.label[product].attributes); }
  std::string product_text(int node) const {
    const Info& info = graph_.info[node];
    return name_of(info.arguments[0]) + " * " + name_of(info.arguments[1]) + (transposed(node) ? "^T" : "");
  }
  /// "shaped_attention(%6, %8)"
  std::string call_text(int node, const std::string& settings = {}) const {
    std::string arguments;
    for (int a = 0; a < graph_.info[node].argument_count; ++a) {
      arguments += (a ? ", " : "") + name_of(graph_.info[node].arguments[a]);
    }
    return std::string(graph_.label[node].op.view()) + "(" + arguments + settings + ")";
  }
  /// "; heads 4, causal" of a kernel that has any.
  std::string settings(int node) const {
    if (!graph_.op[node].settings) return {};
    const std::string told = graph_.op[node].settings(graph_.label[node].attributes);
    return told.empty() ? told : "; " + told;
  }
  void columns(std::string left, const std::string& middle, const std::string& right) {
    left.resize(std::max<std::size_t>(left.size() + 2, 64), ' ');
    std::string rest = middle;
    if (!right.empty()) rest.resize(std::max<std::size_t>(rest.size() + 2, 16), ' ');
    line("  " + left + rest + right);
  }

  /// The values of a group's members as formulas of its leaves.
  std::vector<Formula> values(int root, bool product_by_name) const {
    std::vector<Formula> value(static_cast<std::size_t>(graph_.count));
    const auto at = [&](int node) -> Formula& { return value[static_cast<std::size_t>(node)]; };
    for (int l = graph_.leaf_begin[root]; l < graph_.leaf_end[root]; ++l) {
      at(graph_.leaves[l]) = Formula(name_of(graph_.leaves[l]));
    }
    const int product = graph_.epilogue_of[root];
    if (product >= 0 && !product_by_name) at(product) = Formula(product_text(product), Formula::product);
    for (int m = graph_.member_begin[root]; m < graph_.member_end[root]; ++m) {
      const int node = graph_.members[m];
      at(node) = graph_.op[node].value(value.data(), graph_.info[node].arguments);
    }
    return value;
  }
  std::string formula(int root) const { return values(root, false)[static_cast<std::size_t>(root)].text; }
  /// "sum of rows", "mean", ...
  std::string reduction(int node) const {
    static constexpr const char* over[] = {" of rows", " of columns", ""};
    return std::string(graph_.label[node].op.view()) + over[static_cast<int>(over_of(graph_.label[node].attributes))];
  }

  void forward(int node) {
    const Info& info = graph_.info[node];
    const std::string what = info.kind == Kind::map         ? formula(node)
                             : info.kind == Kind::reduction ? reduction(node) + "(" + formula(node) + ")"
                             : info.kind == Kind::product   ? product_text(node)
                                                            : call_text(node, settings(node));
    const char* const kept = info.result ? "result" : graph_.kept[node] ? "kept" : "";
    columns(name_of(node) + " = " + what, shape_of(info.shape), kept);
    const int product = graph_.epilogue_of[node];
    if (product >= 0 && graph_.kept[product]) {
      columns("  with " + name_of(product) + " = " + product_text(product), shape_of(info.shape), "kept");
    }
    const Schedule::Layers& stack = graph_.stack[node];
    for (int k = 0; k < stack.distinct; ++k) {
      std::string which;
      for (int layer = 0; layer < stack.layers; ++layer) {
        if (stack.which[layer] == k) which += ' ' + std::to_string(layer);
      }
      const char* const sharing = stack.shared ? ", which share their parameters:" : ":";
      line("    " + std::string(graph_.label[node].name.view()) + ", layers" + which + sharing);
      Description(*stack.schedules[k], indent_ + "      ", text_).write();
    }
  }

  static const char* sign(Write write) { return write == Write::accumulate ? " += " : " = "; }

  void backward(int node) {
    const Info& info = graph_.info[node];
    if (info.looped()) {
      map_backward(node);
      const int product = graph_.epilogue_of[node];
      if (product >= 0 && graph_.wanted[product]) product_backward(product);
    } else if (info.kind == Kind::product) {
      product_backward(node);
    } else {
      std::string targets;
      for (int a = 0; a < info.argument_count; ++a) {
        if (!graph_.wanted[info.arguments[a]]) continue;
        targets += (targets.empty() ? "" : ", ") + gradient_of(info.arguments[a]) +
                   (graph_.argument_write[node][a] == Write::accumulate ? " +=" : " =");
      }
      line("  " + targets + " pull-back of " + call_text(node) + " at " + gradient_of(node));
    }
  }

  void product_backward(int node) {
    const int *const operands = graph_.info[node].arguments;
    const std::string x = name_of(operands[0]), w = name_of(operands[1]), dy = gradient_of(node);
    if (graph_.wanted[operands[1]]) {
      line("  " + gradient_of(operands[1]) + " += " + (transposed(node) ? dy + "^T * " + x : x + "^T * " + dy));
    }
    if (graph_.wanted[operands[0]]) {
      line("  " + gradient_of(operands[0]) + sign(graph_.argument_write[node][0]) + dy + " * " + w +
           (transposed(node) ? "" : "^T"));
    }
  }

  void map_backward(int root) {
    std::vector<Formula> value = values(root, true), adjoint(value.size());
    const auto at = [](int node) { return static_cast<std::size_t>(node); };
    if (graph_.info[root].kind == Kind::map) value[at(root)] = Formula(name_of(root));
    std::vector<int> begun(value.size());  // 0 or 1
    adjoint[at(root)] = Formula(gradient_of(root));
    if (graph_.label[root].op == Tag("mean")) adjoint[at(root)] = Formula(gradient_of(root) + " / n", Formula::product);
    for (int m = graph_.member_end[root] - 1; m >= graph_.member_begin[root]; --m) {
      const int node = graph_.members[m];
      const Info& info = graph_.info[node];
      for (int a = 0; a < info.argument_count; ++a) {
        const int target = info.arguments[a];
        if (!graph_.wanted[target]) continue;
        Formula part = graph_.op[node].pull_back[a](adjoint[at(node)], value[at(node)], value.data(), info.arguments);
        adjoint[at(target)] = begun[at(target)] ? adjoint[at(target)] + part : part;
        begun[at(target)] = 1;
      }
    }
    for (int l = graph_.leaf_begin[root]; l < graph_.leaf_end[root]; ++l) {
      const int leaf = graph_.leaves[l];
      if (!graph_.wanted[leaf]) continue;
      const Shape from = loop_shape(graph_.info, root), &to = graph_.info[leaf].shape;
      const char* const over = to.columns() == 1 && to.is_fixed() ? "sum "
                               : to.cols == 1                     ? "sum of columns "
                                                                  : "sum of rows ";
      const Formula& all = adjoint[at(leaf)];
      const std::string what = from == to ? all.text : over + all.within(Formula::product);
      const char* const how = graph_.leaf_write[l] == Write::skip ? " is " : sign(graph_.leaf_write[l]);
      line("  " + gradient_of(leaf) + how + what);
    }
  }

  const Schedule& graph_;
  std::string indent_;
  std::string& text_;
};

}  // namespace detail

/// The forward and the reverse schedule of a model, one kernel a line.
template <auto const& model>
std::string describe() {
  std::string text = std::to_string(parameters<model>) + " parameters\n";
  detail::Description(detail::ScheduleOf<GraphOf<model>>::value, "", text).write();
  return text;
}

}  // namespace simplx

// ---- simplx/core/error.hpp

/// \file simplx/core/error.hpp
/// The one exception of the library: files, flags, devices and data that cannot be used.
///
/// What can be known at compile time never throws: it does not compile (see core/rules.hpp).

namespace simplx::inline SIMPLX_TARGET {

/// Says what is wrong, with which value or path, and what to do instead.
struct Error : std::runtime_error {
  explicit Error(const std::string& what, const std::string& hint = {})
      : std::runtime_error(hint.empty() ? what : what + "\n  hint: " + hint) {}
};

/// The shortest text that reads as that number: 1e-46, where std::to_string says 0.000000.
inline std::string shortest(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), number).ptr};
}

}  // namespace simplx

// ---- simplx/core/parameters.hpp

/// \file simplx/core/parameters.hpp
/// The parameters and constants of a model by name: shape, place, initial value, weight decay.
///
/// Names are those of checkpoints: scopes, then the name, layers of a stack counted from 0 unless they share their
/// parameters: "blocks.3.mlp.up.weight", "blocks.mlp.up.weight".

namespace simplx::inline SIMPLX_TARGET {

/// One tensor of a flat buffer.
struct TensorInfo {
  std::string name;
  Shape shape;
  int rank = 2;        ///< 0 a number, 1 a row, 2 a matrix: the shape that checkpoints show
  Index offset = 0;    ///< elements from the beginning of the buffer
  Init init;
  bool decays = false; ///< weight decay applies
  bool frozen = false; ///< not trained: it has no gradient

  Index size() const { return shape.columns(); }
};

/// All tensors of a model.
struct TensorList {
  std::vector<TensorInfo> parameters, constants;
};

namespace detail {

constexpr bool is_tensor(Kind kind) { return kind == Kind::parameter || kind == Kind::constant; }

/// Initial values of all tensors of a graph and of the layers of its stacks, in the order of the buffers; returns how
/// many there are.
constexpr int gather_inits(Node* root, Init* into) {
  int found = 0;
  each_node(root, [&](Node* node) {
    if (is_tensor(node->kind)) into[found++] = node->init;
    for (int layer = 0; node->block && layer < stack_settings(node->attributes).sets(); ++layer) {
      const Layer built = layer_of(node, layer);
      found += gather_inits(built.root, into + found);
    }
  });
  return found;
}

/// How many tensors a graph has, those of its stacks included.
template <class G>
constexpr int count_tensors() {
  int count = 0;
  for (const Info& info : G::plain.info) count += is_tensor(info.kind);
  unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      for (int layer = 0; layer < Layers::sets; ++layer) {
        Layers::with_graph(layer, [&]<class Child>(std::type_identity<Child>) { count += count_tensors<Child>(); });
      }
    }
  });
  return count;
}

/// Layers that share a graph may begin elsewhere: the initial values of a chunk of layers, where the block is given
/// the number of the layer.
template <class G, int stack_node, int chunk>
struct LayerInits {
  using Layers = typename G::template layers_of<stack_node>;
  static constexpr int most = []<int... k>(std::integer_sequence<int, k...>) {
    return std::max({1, count_tensors<typename Layers::template child<k>>()...});
  }(std::make_integer_sequence<int, Layers::distinct>{});
  static constexpr int begin = chunk * layers_per_evaluation;
  static constexpr int count = std::min(Layers::layers - begin, layers_per_evaluation);

  struct Table {
    bool layered = false;
    Init init[count][most]{};
  };
  static constexpr Table table = G::Source::with([](Node* root) {
    Table result;
    const Node* stack = node_at(root, stack_node);
    result.layered = stack->block->layered;
    for (int k = 0; k < count && result.layered; ++k) {
      const Layer built = layer_of(stack, begin + k);
      gather_inits(built.root, result.init[k]);
    }
    return result;
  });
};

/// Those of one layer, or null where the graph itself says them.
template <class G, int stack_node>
const Init* inits_of_layer(int layer) {
  const Init* inits = nullptr;
  unroll<0, G::template layers_of<stack_node>::chunks>([&]<int chunk>(std::integral_constant<int, chunk>) {
    constexpr const auto& values = LayerInits<G, stack_node, chunk>::table;
    if (values.layered && layer / layers_per_evaluation == chunk) inits = values.init[layer % layers_per_evaluation];
  });
  return inits;
}

/// What the names in a layer of a stack, or in a module that is evaluated again in backward, begin with.
inline std::string scope_of(const std::string& prefix, const Label& stack, int layer) {
  const StackSettings settings = stack_settings(stack.attributes);
  std::string scope = prefix;
  scope += stack.name.view();
  if (settings.recomputed) return scope;
  if (!settings.shared) scope.append(".").append(std::to_string(layer));
  return scope.append(".");
}

/// Collects tensors in the order of the buffers.
struct TensorLister {
  TensorList list;
  Index parameters = 0, constants = 0;  ///< elements so far
  std::vector<std::string> masks = {};  ///< names of dropouts
  std::vector<std::string> masks_in_functions = {};  ///< the pull-backs have these, too, here or in the graph around

  /// The leaves among some nodes of a graph. `inits` goes from tensor to tensor; null: the labels say them.
  void add(const Info* info, const Label* label, int begin, int end, const std::string& prefix, const Init*& inits) {
    for (int i = begin; i < end; ++i) {
      if (draws(info[i], label[i])) masks.push_back(prefix + std::string(label[i].name.view()));
      if (!is_tensor(info[i].kind)) continue;
      const bool learned = info[i].kind == Kind::parameter;
      Index& offset = learned ? parameters : constants;
      (learned ? list.parameters : list.constants)
          .push_back({prefix + std::string(label[i].name.view()), info[i].shape, label[i].rank, offset,
                      inits ? *inits++ : label[i].init, label[i].decays && !info[i].frozen, info[i].frozen});
      offset += round_up(info[i].shape.columns(), alignment);
    }
  }
};

template <class G>
void list_tensors(TensorLister& lister, const std::string& prefix, const Init*& inits) {
  int next = 0;
  unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      lister.add(G::flat.info, G::flat.label, next, node, prefix, inits);
      next = node + 1;
      for (int layer = 0; layer < Layers::sets; ++layer) {
        const std::string scope = scope_of(prefix, G::flat.label[node], layer);
        const Init* own = inits ? inits : inits_of_layer<G, node>(layer);
        Layers::with_graph(layer,
                           [&]<class Child>(std::type_identity<Child>) { list_tensors<Child>(lister, scope, own); });
        if (inits) inits = own;
      }
    } else {
      using Function = typename G::template rule_of<node, 0>;
      for (int i = 0; i < Function::count; ++i) {
        const Label& label = Function::flat.label[i];
        if (!draws(Function::flat.info[i], label)) continue;
        lister.masks_in_functions.push_back(prefix + std::string(label.name.view()));
      }
    }
  });
  lister.add(G::flat.info, G::flat.label, next, G::count, prefix, inits);
}

/// The compiler checks the names of one graph; the parts of recompute(...), of stacks and of functions are others.
[[gnu::cold]] inline void check_names(std::vector<std::string> names, const char* what, const char* hint) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(std::string("two ") + what + " of the model are called '" + *twice + "'", hint);
}
[[gnu::cold]] inline void check_names(const TensorLister& lister) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : lister.list.parameters) names.push_back(tensor.name);
  for (const TensorInfo& tensor : lister.list.constants) names.push_back(tensor.name);
  constexpr const char* scope = "give what makes them a scope of its own: named(\"name\", module)";
  check_names(std::move(names), "tensors", scope);
  check_names(lister.masks, "dropouts", scope);
  check_names(lister.masks_in_functions, "dropouts",
              "they would drop the same elements: give each use of the function one with a dropout of another name");
}

struct FoundShape {
  bool found = false;
  Shape shape{};
};

constexpr FoundShape find_parameter(Node* root, std::string_view name) {
  FoundShape result;
  Node* stack = nullptr;
  std::string_view rest;
  each_node(root, [&](Node* node) {
    if (node->kind == Kind::parameter && node->name.view() == name) result = {true, node->shape};
    const std::string_view scope = node->name.view();
    if (node->block && is_recomputed(*node) && name.substr(0, scope.size()) == scope && !result.found) {
      const Layer built = layer_of(node, 0);
      result = find_parameter(built.root, name.substr(scope.size()));
    } else if (node->block && name.size() > scope.size() && name.substr(0, scope.size()) == scope &&
        name[scope.size()] == '.') {
      stack = node;
      rest = name.substr(scope.size() + 1);
    }
  });
  if (!stack || result.found) return result;
  if (is_shared(*stack)) return find_parameter(layer_of(stack, 0).root, rest);
  int layer = 0;
  std::size_t i = 0;
  const int layers = stack_settings(stack->attributes).layers;
  for (; i < rest.size() && rest[i] >= '0' && rest[i] <= '9' && layer < layers; ++i) {
    layer = 10 * layer + (rest[i] - '0');
  }
  if (i == 0 || i >= rest.size() || rest[i] != '.' || layer >= layers) return result;
  const Layer built = layer_of(stack, layer);
  return find_parameter(built.root, rest.substr(i + 1));
}

}  // namespace detail

/// Names, places and initial values of all parameters and constants, in the order of the buffers.
///
/// Errors  throws Error where two have the same name, or two dropouts, which would drop the same elements
/// Cost    allocates the list; call it once
template <class G>
TensorList tensors_in() {
  detail::TensorLister lister;
  const Init* said_by_labels = nullptr;
  detail::list_tensors<G>(lister, "", said_by_labels);
  detail::check_names(lister);
  return std::move(lister.list);
}
template <auto const& model>
TensorList tensors_of() {
  return tensors_in<GraphOf<model>>();
}

/// Whether a model has a parameter of that name; works in static_assert.
template <auto const& model>
constexpr bool has_parameter(std::string_view name) {
  static_assert(detail::Gate<Root<model>>::sound);
  return Root<model>::with([name](Node* root) { return detail::find_parameter(root, name).found; });
}

/// The shape of a parameter; works in static_assert.
///
/// Errors  a name that the model does not have is no constant expression
template <auto const& model>
constexpr Shape parameter_shape(std::string_view name) {
  static_assert(detail::Gate<Root<model>>::sound);
  const detail::FoundShape found =
      Root<model>::with([name](Node* root) { return detail::find_parameter(root, name); });
  if (!found.found) throw "simplx: the model has no parameter of that name";
  return found.shape;
}

}  // namespace simplx

// ---- simplx/core/lookups.hpp

/// \file simplx/core/lookups.hpp
/// What a graph looks up in tables, by an index or by the place in a sequence: this bounds what it may be given.

namespace simplx::inline SIMPLX_TARGET {

/// Of lengths and indices that no table bounds.
inline constexpr Index no_limit = Index(1) << 30;

/// An op that takes rows of a table by the indices of an input.
struct Lookup {
  int indices = 0;       ///< the node of that input
  Shape table{};         ///< an index is one of its rows
  bool ignores = false;  ///< or -100
};

namespace detail {

/// Those of a graph. Its stacks have none: their blocks see no inputs (rule "input in a block").
template <class G>
struct LookupsOf {
  struct Nodes {
    int node[G::count]{}, indices[G::count]{};
    int count = 0;
  };
  static constexpr Nodes nodes = [] {
    Nodes found;
    for (int i = 0; i < G::count; ++i) {
      const Info& info = G::table.info[i];
      for (int a = 0; a < info.argument_count && info.kind == Kind::kernel; ++a) {
        if (G::table.info[info.arguments[a]].kind != Kind::indices) continue;
        found.node[found.count] = i;
        found.indices[found.count++] = info.arguments[a];
      }
    }
    return found;
  }();
  static constexpr std::array<Lookup, static_cast<std::size_t>(nodes.count)> all = [] {
    std::array<Lookup, static_cast<std::size_t>(nodes.count)> result{};
    unroll<0, nodes.count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int i = nodes.node[k];
      using Op = op<G::flat.label[i].op>;
      constexpr Shape first = G::table.info[G::table.info[i].arguments[0]].shape;
      result[k] = {nodes.indices[k], Op::looked_up(first), Op::takes_ignored};
    });
    return result;
  }();
};

}  // namespace detail

/// Tokens of the longest sequence that the positions of a graph allow, those of its stacks' layers included.
template <class G>
constexpr Index longest_in() {
  Index longest = no_limit;
  for (int i = 0; i < G::count; ++i) {
    if (!(G::flat.label[i].op == Tag("positions"))) continue;
    longest = std::min(longest, G::table.info[G::table.info[i].arguments[0]].shape.rows);
  }
  each_inner_graph<G>([&]<class Inner>() { longest = std::min(longest, longest_in<Inner>()); });
  return longest;
}

/// Tokens of a sequence where nobody says: the model's `context`, or as many as the positions allow; 0 if neither.
template <auto const& model>
constexpr Index usual_context(Index longest) {
  if constexpr (requires { { model.context } -> std::convertible_to<Index>; }) {
    if (model.context > 0) return std::min<Index>(model.context, longest);
  }
  return longest < no_limit ? longest : 0;
}

}  // namespace simplx

// ---- simplx/core/rows_apart.hpp

/// \file simplx/core/rows_apart.hpp
/// Which rows of a graph can be evaluated without the others.

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// The axis of the rows that a node takes by indices: any of them. Those of a table, and none, are fixed.
template <class G>
constexpr Axis looked_up_axis(int node) {
  const auto& nodes = LookupsOf<G>::nodes;
  for (int k = 0; k < nodes.count; ++k) {
    if (nodes.node[k] == node) return LookupsOf<G>::all[static_cast<std::size_t>(k)].table.axis;
  }
  return Axis::fixed;
}

/// Whether rows along these axes can be evaluated apart, tokens by whole sequences, whatever the others are: none reads
/// what was made of several rows, as sums over rows are, and no op moves rows. Stacks, functions and pull-backs in the
/// graph count. Looks at what the node `of` needs; the last one needs all.
template <class G, Axis... axes>
constexpr bool keeps_rows_apart(int of = G::count - 1) {
  bool needed[G::count]{};
  needed[of] = true;
  for (int i = of; i >= 0; --i) {
    const Info& info = G::table.info[i];
    for (int a = 0; a < info.argument_count; ++a) needed[info.arguments[a]] |= needed[i];
  }
  const auto has_rows = [](int node) { return ((G::table.info[node].shape.axis == axes) || ...); };
  bool of_rows[G::count]{};  // values without such rows that were made of some
  for (int i = 0; i < G::count; ++i) {
    const Info& info = G::table.info[i];
    if (!needed[i] || info.kind == Kind::outputs) continue;
    const bool apart = has_rows(i);
    if (apart && (!info.rows_apart || looked_up_axis<G>(i) == info.shape.axis)) return false;
    for (int a = 0; a < info.argument_count; ++a) {
      const int argument = info.arguments[a];
      if (apart && of_rows[argument]) return false;
      of_rows[i] |= !apart && (of_rows[argument] || has_rows(argument));
    }
  }
  bool apart = true;
  each_inner_graph<G>([&]<class Inner>() { apart = apart && keeps_rows_apart<Inner, axes...>(); });
  return apart;
}

}  // namespace detail
}  // namespace simplx

// ---- simplx/cpu/threads.hpp

/// \file simplx/cpu/threads.hpp
/// Team: threads that wait for work; a call runs on all of them and returns when the last is done.

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The number of this process, where there is fork().
inline long this_process() {
#if defined(__unix__) || defined(__APPLE__)
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

/// A fixed number of threads; member 0 is the caller. Calls must not overlap, and none runs while a team is moved.
///
/// Errors  throws Error in a process that fork() made: it has the team's memory, and none of its threads
/// Cost    a call wakes size - 1 threads and allocates nothing
class Team {
 public:
  /// Errors  throws Error for less than one thread, or if the system does not start them all
  explicit Team(int threads = 1) : Team(threads, [](auto work) { return std::jthread(work); }) {}
  /// The same, of threads that start(function) makes: tests let it fail.
  template <class Start>
  Team(int threads, Start start) {
    if (threads < 1) throw Error("threads is " + std::to_string(threads), "it must be at least 1");
    shared_ = std::make_unique<Shared>();
    shared_->errors.resize(static_cast<std::size_t>(threads));
    try {
      for (int member = 1; member < threads; ++member) {
        workers_.push_back(start([shared = shared_.get(), member] { shared->work(member); }));
      }
    } catch (const std::exception& error) {  // of the system, or std::bad_alloc
      release();
      throw Error("cannot start thread " + std::to_string(size() + 1) + " of " + std::to_string(threads) + ": " +
                      error.what(),
                  "use fewer threads, or raise the limits of processes and memory (ulimit -u, -v)");
    }
  }
  Team(Team&&) noexcept = default;  // what was moved from can end, or be assigned to, alone
  Team& operator=(Team&& other) noexcept {
    release();
    workers_ = std::move(other.workers_);  // the own ones end here
    shared_ = std::move(other.shared_);
    return *this;
  }
  ~Team() { release(); }

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls f(member) for each member; an exception of the first member that throws is thrown again here.
  template <class F>
  void run(F&& f) {
    using Function = std::remove_reference_t<F>;
    void* const function = const_cast<void*>(static_cast<const void*>(&f));
    if (workers_.empty()) return call<Function>(function, 0);
    Shared& shared = *shared_;
    if (shared.process != this_process()) {
      throw Error("these threads were started before fork(), which copies none of them",
                  "make what has more than one thread in the process that runs it");
    }
    shared.function = function;
    shared.call = call<Function>;
    shared.running.store(size() - 1, std::memory_order_relaxed);
    shared.round.fetch_add(1, std::memory_order_release);
    shared.round.notify_all();
    shared.guarded(0);
    for (int left = shared.running.load(std::memory_order_acquire); left; ) {
      left = detail::wait_for_change(shared.running, left);
    }
    std::exception_ptr first;
    for (std::exception_ptr& error : shared.errors) {  // all of them: the next run begins without
      if (!first) first = error;
      error = nullptr;
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  /// f(member), by the same instructions for any number of threads. Of two copies, one of them in line, g++ may fuse
  /// other products with sums, as in beta m + (1 - beta) g, where either can be: then their last bits differ.
  template <class Function>
#if defined(__GNUC__) && !defined(__clang__)
  __attribute__((noipa))
#else
  __attribute__((noinline))
#endif
  static void call(void* function, int member) {
    (*static_cast<Function*>(function))(member);
  }
  struct Shared {
    std::atomic<int> round{0}, running{0};
    void* function = nullptr;
    void (*call)(void*, int) = nullptr;
    std::vector<std::exception_ptr> errors;
    const long process = this_process();

    void guarded(int member) {
      try {
        call(function, member);
      } catch (...) {
        errors[static_cast<std::size_t>(member)] = std::current_exception();
      }
    }
    void work(int member) {
      for (int seen = 0;;) {
        seen = detail::wait_for_change(round, seen);
        if (!call) return;
        guarded(member);
        if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
      }
    }
  };

  /// Lets the workers end, which are joined with workers_.
  void release() {
    if (!shared_) return;
    shared_->call = nullptr;
    shared_->round.fetch_add(1, std::memory_order_release);
    shared_->round.notify_all();
  }

  std::unique_ptr<Shared> shared_;
  std::vector<std::jthread> workers_;  // joined before what they share ends
};

}  // namespace simplx::cpu

// ---- simplx/core/view.hpp

/// \file simplx/core/view.hpp
/// view_of<G>: the numbers of a graph without its type, for work that is the same for every model: sizing memory,
/// finding a value by its name. Such work is compiled once, not for each model.

namespace simplx::inline SIMPLX_TARGET {

/// The nodes of a graph, arguments first and the root last: points to its constants, costs nothing to copy.
struct GraphView {
  int count = 0;
  const Info* info = nullptr;
  const Label* label = nullptr;
  const bool* wanted = nullptr;                         ///< nodes whose gradient is asked for
  const int *input = nullptr, *output = nullptr;        ///< numbers of inputs and results
  Index parameters = 0, constants = 0, packed = 0;      ///< elements of these buffers
  Columns kept{}, temporary{};
  std::span<const Lookup> lookups{};
  Index longest = no_limit;                             ///< tokens of a sequence that its positions allow

  constexpr bool is_input(int node) const { return info[node].kind == Kind::input || info[node].kind == Kind::indices; }
  /// The node that is the input of that name, or -1.
  constexpr int input_node(std::string_view name) const {
    for (int i = 0; i < count; ++i) {
      if (is_input(i) && label[i].name.view() == name) return i;
    }
    return -1;
  }
  /// Indices of that input are below this: it is the least bound over all that look up by them.
  constexpr Index index_bound(int node, const Rows& rows = {}) const {
    Index bound = no_limit;
    for (const Lookup& lookup : lookups) {
      if (lookup.indices == node) bound = std::min(bound, rows.count(lookup.table));
    }
    return bound;
  }
  /// Whether these tables have a static number of rows, all of them.
  constexpr bool looks_up_static_rows(int node) const {
    bool all = true;
    for (const Lookup& lookup : lookups) all &= lookup.indices != node || lookup.table.is_fixed();
    return all;
  }
  /// The node that is result k, or -1.
  constexpr int result_node(int k) const {
    for (int i = 0; i < count; ++i) {
      if (info[i].result && output[i] == k) return i;
    }
    return -1;
  }
};

template <class G>
inline constexpr GraphView view_of{.count = G::count,
                                   .info = G::table.info,
                                   .label = G::flat.label,
                                   .wanted = G::fusion.wanted,
                                   .input = G::layout.input,
                                   .output = G::layout.output,
                                   .parameters = G::layout.parameters,
                                   .constants = G::layout.constants,
                                   .packed = G::layout.packed_elements,
                                   .kept = G::layout.kept,
                                   .temporary = G::layout.temporary,
                                   .lookups = detail::LookupsOf<G>::all,
                                   .longest = longest_in<G>()};

}  // namespace simplx

// ---- simplx/cpu/memory.hpp

/// \file simplx/cpu/memory.hpp
/// Buffer: aligned memory filled with zeros, its pages present from the beginning.

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A fixed number of elements, 64-byte aligned; large buffers ask for huge pages.
///
/// Cost    one allocation; touched once here, so that no page faults happen later
template <class S>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size) : size_(size) {
    if (size == 0) return;
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(S);
    data_ = static_cast<S*>(::operator new(bytes, alignment_of(size)));
#if defined(__linux__)
    if (bytes >= huge_from) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_) ::operator delete(data_, alignment_of(size_));
  }

  S* data() { return data_; }
  const S* data() const { return data_; }
  Index size() const { return size_; }
  S* begin() { return data_; }
  S* end() { return data_ + size_; }
  const S* begin() const { return data_; }
  const S* end() const { return data_ + size_; }
  S& operator[](Index i) { return data_[i]; }
  const S& operator[](Index i) const { return data_[i]; }
  std::span<S> span() { return {data_, static_cast<std::size_t>(size_)}; }
  std::span<const S> span() const { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  static constexpr std::size_t huge_page = std::size_t(2) << 20, huge_from = 2 * huge_page;
  static std::align_val_t alignment_of(Index size) {
    return std::align_val_t(static_cast<std::size_t>(size) * sizeof(S) >= huge_from ? huge_page : 64);
  }

  S* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace simplx::cpu

// ---- simplx/cpu/workspace.hpp

/// \file simplx/cpu/workspace.hpp
/// The arena of one evaluation: kept values, temporaries, scratch and results; made once and reused.

namespace simplx::inline SIMPLX_TARGET::detail {

/// Whether an arena has the gradients of results, which a backward begins with.
enum class Seeds : bool { none, room };

/// One allocation that holds an evaluation of at most `capacity` rows, in memory of any kind.
///
/// Cost    arena_bytes<model>(capacity), and the results; nothing is allocated afterwards
template <class S, class Memory = cpu::Buffer<S>>
class Arena {
 public:
  /// `scratch` elements are for the op that runs.
  Arena(const GraphView& graph, Index scratch, const Rows& capacity, Seeds seeds = Seeds::room)
      : copies_(seeds == Seeds::room ? 2 : 1),
        graph_(graph),
        capacity_(capacity),
        kept_(elements(graph.kept, capacity)),
        temporary_(elements(graph.temporary, capacity)),
        results_(result_elements()),
        memory_(kept_ + temporary_ + scratch + copies_ * results_) {}

  /// A context for these rows, which must fit the capacity; inputs, parameters and sequences are the caller's.
  Context<S> context(const Rows& rows, const Segments& segments, Index longest) {
    Context<S> context;
    set_rows(context, rows);
    context.segments = segments;
    context.longest = longest;
    S* place = memory_.data();
    const auto split = [&](S* (&region)[axis_count], const Columns& columns) {
      for (int i = 0; i < axis_count; ++i) {
        region[i] = place;
        place += columns.on[i] * context.stride[i];
      }
    };
    split(context.kept, graph_.kept);
    place = memory_.data() + kept_;
    split(context.temporary, graph_.temporary);
    context.scratch = memory_.data() + kept_ + temporary_;
    place = memory_.data() + memory_.size() - copies_ * results_;
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.info[i].result) continue;
      const Index size = padded_size(graph_.info[i].shape, rows);
      context.outputs[graph_.output[i]] = place;
      if (copies_ == 2) context.output_gradients[graph_.output[i]] = place + size;
      place += copies_ * size;
    }
    return context;
  }

  const Rows& capacity() const { return capacity_; }
  std::span<S> memory() { return memory_.span(); }
  Index size() const { return memory_.size(); }

 private:
  static Index padded_size(const Shape& shape, const Rows& rows) {
    return round_up(rows.count(shape) * shape.cols, alignment);
  }
  Index result_elements() const {
    Index total = 0;
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].result) total += padded_size(graph_.info[i].shape, capacity_);
    }
    return total;
  }

  Index copies_;  ///< of results: these, and their gradients
  GraphView graph_;
  Rows capacity_;
  Index kept_, temporary_, results_;
  Memory memory_;
};

/// That of a graph on a backend.
template <class G, class Backend>
class Workspace : public Arena<typename Backend::Scalar> {
 public:
  explicit Workspace(const Rows& capacity, Seeds seeds = Seeds::room)
      : Arena<typename Backend::Scalar>(view_of<G>, graph_scratch<G, Backend>(capacity), capacity, seeds) {}
};

}  // namespace simplx::detail

// ---- simplx/core/inputs.hpp

/// \file simplx/core/inputs.hpp
/// Inputs held against what a graph looks up by them: who takes them from a caller checks, kernels do not.

namespace simplx::inline SIMPLX_TARGET {

/// Errors  throws Error where `what`, a sequence or a context, is longer than the positions allow
inline void check_length(const char* what, Index tokens, Index longest) {
  if (tokens <= longest) return;
  throw Error(std::string(what) + " of " + std::to_string(tokens) + " tokens, but the model's positions end at " +
                  std::to_string(longest),
              "give fewer tokens, such as the last ones alone, or a model with a longer context");
}

/// A context of sequences.
///
/// Errors  throws Error if it is no token, or longer than the positions allow
inline Index checked_context(Index context, Index longest) {
  if (context < 1) {
    throw Error("a context of " + std::to_string(context) + " tokens",
                "give the tokens of the longest sequence, at least 1, by TrainerOptions::context or the second "
                "argument of Stream and Replay: a model with neither positions nor a member `context` says none");
  }
  check_length("a context", context, longest);
  return context;
}

/// Where sequences of these lengths begin, and the end of the last.
///
/// Errors  throws Error for a length below 0
inline std::vector<Index> offsets_of(std::span<const Index> lengths) {
  std::vector<Index> offsets{0};
  for (const Index length : lengths) {
    if (length < 0) throw Error("a sequence of " + std::to_string(length) + " tokens", "a length is at least 0");
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

/// Tokens of the longest of the sequences that begin there.
///
/// Errors  throws Error if the graph has no positions for it
inline Index longest_of(const GraphView& graph, std::span<const Index> offsets) {
  Index longest = 0;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) longest = std::max(longest, offsets[s + 1] - offsets[s]);
  check_length("a sequence", longest, graph.longest);
  return longest;
}

/// Every index must name a row of all tables that it is looked up in, every label a class or -100.
///
/// Errors  throws Error with the first that does not
inline void check_indices(const GraphView& graph, const void* const* inputs, const Rows& rows) {
  for (const Lookup& lookup : graph.lookups) {
    const auto* values = static_cast<const std::int32_t*>(inputs[graph.input[lookup.indices]]);
    const Index bound = rows.count(lookup.table);
    for (Index row = 0; row < rows.count(graph.info[lookup.indices].shape); ++row) {
      if ((values[row] >= 0 && values[row] < bound) || (lookup.ignores && values[row] == ignored_label)) continue;
      throw Error("'" + std::string(graph.label[lookup.indices].name.view()) + "' names " +
                      std::to_string(values[row]) + " in row " + std::to_string(row),
                  "it must be at least 0 and below " + std::to_string(bound));
    }
  }
}

}  // namespace simplx

// ---- simplx/differentiate/object.hpp

/// \file simplx/differentiate/object.hpp
/// How values of a function meet the user's objects: Eigen matrices and vectors, containers, spans, single numbers.

namespace simplx::inline SIMPLX_TARGET::detail {

template <class Object>
concept EigenObject = std::is_base_of_v<Eigen::EigenBase<Object>, Object>;
template <class Object>
concept Container = requires(const Object& object) {
  object.data();
  { object.size() } -> std::convertible_to<std::size_t>;
};

/// What is copied number by number, of which each becomes a T; characters are no numbers.
template <class Number, class T>
concept NumberFor = std::constructible_from<T, Number> && !std::same_as<Number, char>;
template <class Object, class T>
concept NumbersFor = EigenObject<Object> || NumberFor<Object, T> || requires(const Object& object) {
  requires Container<Object>;
  requires NumberFor<std::remove_cvref_t<decltype(*object.data())>, T>;
};

struct ObjectSize {
  Index rows, cols;
};

/// Rows and columns of an object that stands for a value of that shape; a vector may stand for a row or a column.
template <Shape shape, class Object>
constexpr ObjectSize size_of(const Object& object) {
  if constexpr (EigenObject<Object>) {
    if (object.rows() == 1 || object.cols() == 1) {
      const Index size = object.size();
      const bool fits = shape.is_fixed() ? size == shape.rows * shape.cols && (shape.rows == 1 || shape.cols == 1)
                                         : shape.cols == 1 || object.cols() == shape.cols;
      if (fits) return {size / shape.cols, shape.cols};
    }
    return {object.rows(), object.cols()};
  } else if constexpr (Container<Object>) {
    const Index size = static_cast<Index>(object.size());
    return size % shape.cols == 0 ? ObjectSize{size / shape.cols, shape.cols} : ObjectSize{1, size};
  } else {
    return {1, 1};
  }
}

/// Eigen's view of rows x shape.cols numbers, row by row.
template <Shape shape, class S>
auto object_map(S* data, Index rows) {
  // Sizes beyond a page are dynamic to Eigen, which would keep a copy of them on the stack.
  constexpr bool small = shape.columns() * static_cast<Index>(sizeof(S)) <= 4096;
  constexpr bool rows_are_fixed = shape.is_fixed() && (small || shape.rows == 1);
  constexpr int fixed_rows = rows_are_fixed ? static_cast<int>(shape.rows) : Eigen::Dynamic;
  constexpr int cols = small || shape.cols == 1 ? static_cast<int>(shape.cols) : Eigen::Dynamic;
  using Matrix = Eigen::Matrix<std::remove_const_t<S>, fixed_rows, cols, cols == 1 ? Eigen::ColMajor : Eigen::RowMajor>;
  return Eigen::Map<std::conditional_t<std::is_const_v<S>, const Matrix, Matrix>>(data, rows, shape.cols);
}

/// Whether an object's memory is what a kernel reads: its scalars row by row without gaps.
template <class Object, class S>
concept contiguous = requires(const Object& object) {
  { object.data() } -> std::convertible_to<const S*>;
} && (!EigenObject<Object> || bool(Object::IsVectorAtCompileTime) || bool(Object::IsRowMajor));

/// A Ref to constant numbers holds a copy of what it cannot refer to.
template <class Object>
inline constexpr bool may_hold_a_copy = false;
template <class Matrix, int options, class Stride>
inline constexpr bool may_hold_a_copy<Eigen::Ref<const Matrix, options, Stride>> = true;

/// Whether an object's memory ends with it, or may: views of what others own are no such objects.
template <class Object>
concept owning = (EigenObject<Object> &&
                  (std::is_base_of_v<Eigen::PlainObjectBase<Object>, Object> || may_hold_a_copy<Object>)) ||
                 (!EigenObject<Object> && !std::ranges::borrowed_range<Object>);

/// Whether an object's memory is that of a GPU, as a DeviceBuffer's is.
template <class Object>
concept on_device = requires { requires Object::on_device; };

/// Whether it lies without gaps in this very object: blocks of a larger matrix do not.
template <class Object>
bool dense(const Object& object) {
  if constexpr (EigenObject<Object>) {
    const bool one_row = Object::IsRowMajor && object.rows() == 1;
    return object.innerStride() == 1 &&
           (bool(Object::IsVectorAtCompileTime) || one_row || object.outerStride() == object.cols());
  } else {
    return true;
  }
}

/// A number of an object as a kernel reads it.
///
/// Errors  throws Error for an index that the kernels' 32 bits do not hold; does not compile for one that is no integer
template <class T, class Number>
T number_as(const Number& number) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    static_assert(std::integral<Number>,
                  "simplx: indices are whole numbers: give them as integers, such as std::int32_t, not as fractions");
    if (!std::in_range<T>(+number)) {
      throw Error("the index " + std::to_string(+number) + " does not fit into 32 bits",
                  "indices are rows of a table, or -100 for labels that carry no loss");
    }
  }
  return static_cast<T>(number);
}

/// Errors  as number_as
template <class T, class Object>
void check_numbers(const Object& object) {
  if constexpr (EigenObject<Object>) {
    const auto& matrix = object.derived().matrix().eval();
    for (Index col = 0; col < matrix.cols(); ++col) {
      for (Index row = 0; row < matrix.rows(); ++row) number_as<T>(matrix(row, col));
    }
  } else if constexpr (Container<Object>) {
    for (std::size_t i = 0; i < object.size(); ++i) number_as<T>(object.data()[i]);
  } else {
    number_as<T>(object);
  }
}

/// Copies an object to row-major memory, which it does not read.
///
/// Errors  as number_as
template <Shape shape, class Object, class T>
void assign(const Object& object, Index rows, T* to) {
  if constexpr (EigenObject<Object>) {
    const auto& matrix = object.derived().matrix();
    const auto numbers_of = [](const auto& values) {
      if constexpr (std::is_same_v<T, std::int32_t>) {
        return values.unaryExpr([](typename Object::Scalar number) { return number_as<T>(number); });
      } else {
        return values.template cast<T>();
      }
    };
    const auto copy_vector = [&] {  // a row may stand for a column, and the other way round
      using Column = Eigen::Matrix<T, Eigen::Dynamic, 1>;
      Eigen::Map<Column>(to, matrix.size()) = numbers_of(matrix.reshaped());
    };
    if constexpr (bool(Object::IsVectorAtCompileTime)) {
      copy_vector();
    } else if (matrix.rows() == rows && matrix.cols() == shape.cols) {
      object_map<shape>(to, rows) = numbers_of(matrix);
    } else {
      copy_vector();
    }
  } else if constexpr (Container<Object>) {
    const auto* from = object.data();
    for (Index i = 0; i < rows * shape.cols; ++i) to[i] = number_as<T>(from[i]);
  } else {
    *to = number_as<T>(object);
  }
}
/// The same to memory that the object may read: parameter + parameter.transpose().
template <Shape shape, class Object, class T>
void assign_anew(const Object& object, Index rows, T* to) {
  if constexpr (EigenObject<Object>) {
    assign<shape>(object.derived().matrix().eval(), rows, to);
  } else {
    assign<shape>(object, rows, to);
  }
}

}  // namespace simplx::detail

// ---- simplx/cpu/random_numbers.hpp

/// \file simplx/cpu/random_numbers.hpp
/// The laws of random numbers (core/random.hpp), as many at a time as a vector has lanes. Normal numbers are of the
/// functions of math.hpp, hence the same bits for vectors of any width, but others without FMA than with it.
///
///     uniform   u_i = (bits(key, i) / 2^12 + 1/2) / 2^52                                         in (0, 1)
///     normal    z_i = sqrt(-2 log u_2i) cos(2 pi u_2i+1)                                         (Box & Muller)

namespace simplx::inline SIMPLX_TARGET {
namespace cpu {

/// A counter in each lane.
using Counters = detail::Bits<Vec<double>>;

/// bits() of each counter: scramble in lanes, of which a GPU's compiler knows none.
__attribute__((always_inline)) inline Counters bits_of_lanes(std::uint64_t key, Counters counter) {
  Counters z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Numbers first, first + step, first + 2 step, ... of a key.
__attribute__((always_inline)) inline Vec<double> uniform_lanes(std::uint64_t key, std::uint64_t first,
                                                               std::uint64_t step) {
  Counters counter{};
  for (int i = 0; i < lanes<double>; ++i) counter[i] = first + static_cast<std::uint64_t>(i) * step;
  const Counters random = bits_of_lanes(key, counter);
  // The lowest bits of a double in [1, 2) are those of its fraction; what is left of the sum is exact.
  return (detail::value_of<Vec<double>>((random >> 12) | detail::bits_of(1.0)) - 1) + 0x1p-53;
}

/// Numbers first, first + 1, ... of a key.
__attribute__((always_inline)) inline Vec<double> normal_lanes(std::uint64_t key, std::uint64_t first) {
  constexpr double two_pi = 6.283185307179586;
  const Vec<double> radius = sqrt(-2 * log(uniform_lanes(key, 2 * first, 2)));
  return radius * cos(two_pi * uniform_lanes(key, 2 * first + 1, 2));
}

/// values[i] = lane i - k of draw(k) for a k, in one vector after the other.
template <class Draw>
void fill_by_lanes(Index count, double* values, const Draw& draw) {
  for (Index i = 0; i < count; i += lanes<double>) {
    const Vec<double> numbers = draw(static_cast<std::uint64_t>(i));
    const auto left = static_cast<std::size_t>(std::min<Index>(count - i, lanes<double>));
    std::memcpy(values + i, &numbers, left * sizeof(double));
  }
}

/// values[i] = uniform(key, first + i)
inline void fill_uniform(std::uint64_t key, std::uint64_t first, Index count, double* values) {
  fill_by_lanes(count, values, [&](std::uint64_t i) { return uniform_lanes(key, first + i, 1); });
}

/// values[i] = normal(key, first + i)
inline void fill_normal(std::uint64_t key, std::uint64_t first, Index count, double* values) {
  fill_by_lanes(count, values, [&](std::uint64_t i) { return normal_lanes(key, first + i); });
}

}  // namespace cpu

/// Standard normal.
inline double normal(std::uint64_t key, std::uint64_t counter) { return cpu::normal_lanes(key, counter)[0]; }

}  // namespace simplx

// ---- simplx/train/initialise.hpp

/// \file simplx/train/initialise.hpp
/// Initial values of parameters and constants, keyed by seed, full name (with its layer) and element.
///
/// Two models share the initial values of the tensors whose names they share, whatever else they hold, and a
/// CPU and a GPU start equal.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The inner product of two rows of numbers.
inline double inner_product(const double* x, const double* y, Index count) {
  constexpr Index step = lanes<double>;
  Vec<double> sums[4]{};
  Index i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    for (Index k = 0; k < 4; ++k) {
      sums[k] += load<Vec<double>>(x + i + k * step) * load<Vec<double>>(y + i + k * step);
    }
  }
  double rest = 0;
  for (; i < count; ++i) rest += x[i] * y[i];
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/// A uniform orthogonal matrix: normal numbers, orthogonalised by Gram and Schmidt (twice, for the last digits).
inline std::vector<double> orthogonal_matrix(Index rows, Index cols, std::uint64_t key) {
  const Index count = std::min(rows, cols), length = std::max(rows, cols);  // of the orthonormal vectors
  std::vector<double> vectors(static_cast<std::size_t>(count * length));
  cpu::fill_normal(key, 0, count * length, vectors.data());
  for (Index v = 0; v < count; ++v) {
    double* const x = vectors.data() + v * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (Index u = 0; u < v; ++u) {
        const double* const y = vectors.data() + u * length;
        const double along = inner_product(x, y, length);
        for (Index i = 0; i < length; ++i) x[i] -= along * y[i];
      }
    }
    const double norm = std::sqrt(inner_product(x, x, length));
    for (Index i = 0; i < length; ++i) x[i] /= norm;
  }
  if (rows <= cols) return vectors;
  std::vector<double> transposed(vectors.size());
  for (Index v = 0; v < count; ++v) {
    const double* const x = vectors.data() + v * length;
    for (Index i = 0; i < length; ++i) transposed[static_cast<std::size_t>(i * count + v)] = x[i];
  }
  return transposed;
}

/// The slope of one of so many heads; `head` counts from 0.
inline double alibi_slope(Index head, Index heads) {
  const auto n = static_cast<Index>(std::bit_floor(static_cast<std::size_t>(heads)));
  return head < n ? std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(n))
                  : std::exp2(-8.0 * static_cast<double>(2 * (head - n) + 1) / static_cast<double>(2 * n));
}
}  // namespace detail

/// Fills one tensor as its `Init` says.
template <class S>
void initialise(const TensorInfo& tensor, std::uint64_t seed, S* values) {
  using Law = Init::Law;
  const std::uint64_t key = key_of(seed, tensor.name);
  const Index size = tensor.size(), rows = tensor.shape.rows, cols = tensor.shape.cols;
  const Law law = tensor.init.law;
  const double value = tensor.init.value;
  if (law == Law::orthogonal) {
    const std::vector<double> matrix = detail::orthogonal_matrix(rows, cols, key);
    std::transform(matrix.begin(), matrix.end(), values, [](double x) { return static_cast<S>(x); });
    return;
  }
  if (law == Law::normal || law == Law::normal_by_rows || law == Law::uniform) {
    const double deviation = value / (law == Law::normal_by_rows ? std::sqrt(static_cast<double>(rows)) : 1);
    constexpr Index together = 256;
    double numbers[together];
    for (Index begin = 0; begin < size; begin += together) {
      const Index count = std::min(together, size - begin);
      const auto fill = law == Law::uniform ? cpu::fill_uniform : cpu::fill_normal;
      fill(key, static_cast<std::uint64_t>(begin), count, numbers);
      for (Index i = 0; i < count; ++i) {
        values[begin + i] = static_cast<S>(law == Law::uniform ? value * (2 * numbers[i] - 1) : deviation * numbers[i]);
      }
    }
    return;
  }
  for (Index i = 0; i < size; ++i) {
    const Index row = i / cols, col = i % cols;
    switch (law) {
      case Law::identity: values[i] = static_cast<S>(row == col); break;
      case Law::sinusoid: {
        const double angle =
            static_cast<double>(row) / std::pow(10000.0, static_cast<double>(col / 2 * 2) / static_cast<double>(cols));
        values[i] = static_cast<S>(col % 2 == 0 ? std::sin(angle) : std::cos(angle));
        break;
      }
      case Law::alibi_slopes: values[i] = static_cast<S>(detail::alibi_slope(col, cols)); break;
      case Law::constant: values[i] = static_cast<S>(value); break;
      case Law::normal:
      case Law::normal_by_rows:
      case Law::uniform:
      case Law::orthogonal: break;  // done above
    }
  }
}

/// Fills a flat buffer that holds these tensors.
template <class S>
void initialise(const std::vector<TensorInfo>& tensors, std::uint64_t seed, S* buffer) {
  for (const TensorInfo& tensor : tensors) initialise(tensor, seed, buffer + tensor.offset);
}

}  // namespace simplx

// ---- simplx/differentiate/function_inputs.hpp

/// \file simplx/differentiate/function_inputs.hpp
/// What a Function was given on the host, whatever evaluates it: inputs, sequences, and how many rows they make.

namespace simplx::inline SIMPLX_TARGET::detail {

/// Whose memory an input is: that of the caller may change, and may be that of a GPU.
enum class Holder : unsigned char { nobody, function, caller, device };

/// Whether an object holds what it was made with: no longer once that was moved elsewhere.
class Present {
 public:
  Present() = default;
  Present(Present&& other) noexcept : present_(std::exchange(other.present_, false)) {}
  Present& operator=(Present&& other) noexcept {
    present_ = std::exchange(other.present_, false);
    return *this;
  }
  explicit operator bool() const { return present_; }

 private:
  bool present_ = true;
};

/// Compiled once for each number type, not for each function.
template <class S>
class FunctionInputs {
 public:
  const TensorList& tensors() const { return tensors_; }
  /// What dropout draws from; see Randomness.
  Randomness& random() { return context_.random; }

 protected:
  FunctionInputs(const GraphView& graph, TensorList tensors) : graph_(graph), tensors_(std::move(tensors)) {}

  /// Errors  throws for what was moved from: its results and gradients lie in memory of another
  void check_present() const {
    if (!present_) throw Error("this function was moved from", "use the one that it was moved to, or assign one to it");
  }
  std::string name_of(int node) const { return std::string(graph_.label[node].name.view()); }

  void check_size(int node, const ObjectSize& size) const {
    check_present();
    const Shape& shape = graph_.info[node].shape;
    if (size.cols == shape.cols && (!shape.is_fixed() || size.rows == shape.rows)) return;
    const std::string cols = std::to_string(shape.cols);
    throw Error(name_of(node) + " is given " + std::to_string(size.rows) + " x " + std::to_string(size.cols) +
                    " numbers",
                shape.is_fixed() ? "the function needs " + std::to_string(shape.rows) + " x " + cols
                                 : "the function needs rows of " + cols + ", any number of them");
  }
  /// The rows of an input that is about to be given.
  Index take_rows(int node, const ObjectSize& size, Holder holder) {
    check_size(node, size);
    const Shape& shape = graph_.info[node].shape;
    const int number = graph_.input[node];
    holder_[number] = holder;
    changed_[number] = true;
    if (shape.is_fixed()) return shape.rows;
    Index& known = input_rows_[number];
    stale_ |= known != size.rows;
    return known = size.rows;
  }
  void take_lengths(std::span<const Index> lengths) {
    check_present();
    bool same = sequences_given_ && lengths.size() + 1 == offsets_.size();
    for (std::size_t s = 0; same && s < lengths.size(); ++s) same = offsets_[s + 1] - offsets_[s] == lengths[s];
    if (same) return;
    offsets_ = offsets_of(lengths);
    sequences_given_ = stale_ = true;
  }

  /// Counts the rows of everything that was given, sequences among them.
  void count_rows() {
    check_present();
    rows_ = rows_of_inputs();
    arrange_sequences(rows_);
    rows_.longest_sequence = longest_of(graph_, offsets_);
  }
  /// Makes an arena that holds these rows, and the most of each kind so far; whether it had to.
  template <class Memory>
  bool make_room(std::optional<Memory>& arena, Index (*scratch)(const Rows&)) {
    if (arena && arena->capacity().hold(rows_)) return false;
    const Rows room = arena ? arena->capacity().or_more(rows_) : rows_;
    arena.reset();  // the larger one comes in its place, not beside it
    arena.emplace(graph_, scratch(room), room);
    return true;
  }
  Index size_of(int node) const {
    const Shape& shape = graph_.info[node].shape;
    return context_.rows_of(shape) * shape.cols;
  }

  /// The context, which is that of all rows, begins at row `row` of an axis and has one of them.
  void start_at(Axis axis, Index row) {
    context_.rows[static_cast<int>(axis)] = 1;
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const Shape& shape = graph_.info[i].shape;
      if (shape.axis != axis) continue;
      const bool whole_numbers = graph_.info[i].kind == Kind::indices;
      const Index bytes = static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      const void*& place = context_.inputs[graph_.input[i]];
      place = static_cast<const char*>(place) + row * shape.cols * bytes;
    }
    context_.random.first_sequence += row;  // the masks that it has among all rows
  }

  GraphView graph_;
  TensorList tensors_;
  cpu::Buffer<S> inputs_[max_inputs];
  cpu::Buffer<std::int32_t> indices_[max_inputs];
  const void* pointers_[max_inputs]{};  ///< to what was given
  Holder holder_[max_inputs]{};
  bool changed_[max_inputs]{};  ///< given anew since whoever evaluates has looked
  Rows rows_;                   ///< of everything that was given
  std::vector<Index> offsets_{0};
  Context<S> context_;  ///< of the last evaluation, where that lies
  bool stale_ = true;   ///< rows are not those of the context

 private:
  Rows rows_of_inputs() const {
    Rows rows{};
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const int number = graph_.input[i];
      if (holder_[number] == Holder::nobody) {
        const std::string name = name_of(i);
        throw Error("the input '" + name + "' was never set", "give it by set<\"" + name + "\">(...)");
      }
      const Axis axis = graph_.info[i].shape.axis;
      Index* count = axis == Axis::tokens ? &rows.tokens : axis == Axis::sequences ? &rows.sequences
                   : axis == Axis::labelled ? &rows.labelled : axis == Axis::batch ? &rows.batch : nullptr;
      if (!count) continue;
      bool first = true;
      for (int j = 0; j < i; ++j) first &= !(graph_.is_input(j) && graph_.info[j].shape.axis == axis);
      if (!first && *count != input_rows_[number]) {
        throw Error("'" + name_of(i) + "' has " + std::to_string(input_rows_[number]) +
                        " rows, another input along its axis has " + std::to_string(*count),
                    "inputs along one axis need equal numbers of rows");
      }
      *count = input_rows_[number];
    }
    return rows;
  }

  /// One sequence of all tokens unless lengths were given; rows of Axis::sequences are these sequences. Tokens that no
  /// input has, as those of repeat_over_sequence, are those of the lengths.
  void arrange_sequences(Rows& rows) {
    const Index inputs = rows.sequences;  // the rows of an input along that axis
    bool has_tokens = false, makes_tokens = false, has_sequences = false;
    for (int i = 0; i < graph_.count; ++i) {
      makes_tokens |= graph_.info[i].shape.axis == Axis::tokens;
      has_tokens |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::tokens;
      has_sequences |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::sequences;
    }
    if (!sequences_given_) {
      offsets_.assign(1, 0);
      const Index count = has_tokens || !has_sequences ? 1 : inputs;
      for (Index s = 1; s <= count; ++s) offsets_.push_back(has_tokens ? rows.tokens : 0);
    }
    if (makes_tokens && !has_tokens && !sequences_given_) {
      throw Error("nothing that was given has tokens, and the function makes some",
                  "give the lengths of all sequences by set_sequences");
    }
    if (makes_tokens && !has_tokens) rows.tokens = offsets_.back();
    rows.sequences = static_cast<Index>(offsets_.size()) - 1;
    if (offsets_.back() != rows.tokens) {
      throw Error("the sequences have " + std::to_string(offsets_.back()) + " tokens together, not " +
                      std::to_string(rows.tokens),
                  "give the lengths of all sequences by set_sequences");
    }
    if (has_sequences && inputs != rows.sequences) {
      throw Error("an input has " + std::to_string(inputs) + " rows for " + std::to_string(rows.sequences) +
                      " sequences",
                  "give the lengths of all sequences by set_sequences");
    }
  }

  Index input_rows_[max_inputs]{};
  bool sequences_given_ = false;
  Present present_;
};

}  // namespace simplx::inline SIMPLX_TARGET::detail

// ---- simplx/differentiate/function_memory.hpp

/// \file simplx/differentiate/function_memory.hpp
/// The memory of a Function on the CPU, laid out once the rows of all inputs are known, and its evaluation there.

namespace simplx::inline SIMPLX_TARGET::detail {

/// Compiled once for each number type, not for each function.
template <class S>
class FunctionMemory : public FunctionInputs<S> {
  using Inputs = FunctionInputs<S>;

 public:
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next evaluation
  /// reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// Those of all parameters, element by element, as the last backward left them; zeros after an update.
  std::span<const S> gradients() { return gradients_.span(); }

 protected:
  using Inputs::graph_, Inputs::tensors_, Inputs::pointers_, Inputs::rows_, Inputs::offsets_, Inputs::context_;

  FunctionMemory(const GraphView& graph, TensorList tensors, Index (*scratch)(const Rows&), std::uint64_t seed)
      : Inputs(graph, std::move(tensors)),
        scratch_(scratch),
        parameters_(graph.parameters),
        gradients_(graph.parameters),
        constants_(graph.constants),
        packed_(2 * graph.packed) {
    initialise(tensors_.parameters, seed, parameters_.data());
    initialise(tensors_.constants, seed, constants_.data());
  }

  /// Whether results and gradients have memory, which the first evaluation makes.
  bool arranged() const { return arena_.has_value(); }
  /// Lays everything out for the rows of what was given; there is room for the most of each kind so far.
  void arrange() {
    Inputs::count_rows();
    Inputs::make_room(arena_, scratch_);
    const Randomness random = context_.random;
    context_ = arena_->context(rows_, {offsets_.data(), rows_.sequences}, rows_.longest_sequence);
    context_.random = random;
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.constants = constants_.data();
    context_.packed = packed_.data(), context_.turned = turned();
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].kind != Kind::input || !graph_.wanted[i]) continue;
      const int number = graph_.input[i];
      const Index size = Inputs::size_of(i);
      if (input_gradients_[number].size() < size) input_gradients_[number] = cpu::Buffer<S>(size);
      context_.input_gradients[number] = input_gradients_[number].data();
    }
    Inputs::stale_ = false;
  }
  /// Reads inputs where they are.
  ///
  /// Errors  throws Error for an index out of range
  void take_inputs() {
    check_indices(graph_, pointers_, rows_);
    std::copy_n(pointers_, max_inputs, context_.inputs);
  }

  /// Everything that was given, without memory for an evaluation of it.
  ///
  /// Errors  as take_inputs
  Context<S> given() {
    Inputs::count_rows();
    check_indices(graph_, pointers_, rows_);
    Context<S> all;
    set_rows(all, rows_);
    all.segments = {offsets_.data(), rows_.sequences};
    all.parameters = parameters_.data();
    all.gradients = gradients_.data();
    all.constants = constants_.data();
    all.packed = packed_.data(), all.turned = turned();
    all.random = context_.random;
    std::copy_n(pointers_, max_inputs, all.inputs);
    return all;
  }

  S* result(int k) const { return context_.outputs[k]; }
  S* result_gradient(int k) const { return context_.output_gradients[k]; }
  S* input_gradient(int number) const { return context_.input_gradients[number]; }

  S* turned() { return packed_.data() + graph_.packed; }

  Index (*scratch_)(const Rows&);
  cpu::Buffer<S> parameters_, gradients_, constants_, packed_;  ///< packed for forward, then for backward
  cpu::Buffer<S> input_gradients_[max_inputs];
  std::optional<Arena<S>> arena_;
};

/// What an update reads and writes.
template <class S>
struct TrainedOnHost {
  S *parameters, *gradients;
};

/// How a function is evaluated by a backend: this is the CPU.
template <auto const& f, class Backend>
class FunctionOn : public FunctionMemory<typename Backend::Scalar> {
  using Memory = FunctionMemory<typename Backend::Scalar>;
  static_assert(runs_on_host<Backend>());

 public:
  using G = GraphOf<f>;
  using Run = Execute<G, Backend>;

 protected:
  explicit FunctionOn(std::uint64_t seed) : Memory(view_of<G>, tensors_of<f>(), graph_scratch<G, Backend>, seed) {}

  void take_inputs() {
    Memory::take_inputs();
    Run::prepare(Memory::parameters_.data(), Memory::packed_.data(), Memory::turned());
  }
  /// For threads that share the evaluation.
  Context<typename Backend::Scalar> given(cpu::Team& team) {
    const auto all = Memory::given();
    team.run([&](int member) {
      Run::prepare(Memory::parameters_.data(), Memory::packed_.data(), Memory::turned(), member, team.size());
    });
    return all;
  }
  void evaluate() { Run::forward(Memory::context_); }
  /// Gradients of everything, anew.
  void differentiate() {
    std::ranges::fill(Memory::gradients_, typename Backend::Scalar(0));
    Run::backward(Memory::context_);
  }
  TrainedOnHost<typename Backend::Scalar> trained() {
    return {Memory::parameters_.data(), Memory::gradients_.data()};
  }
};

}  // namespace simplx::inline SIMPLX_TARGET::detail

// ---- simplx/train/glob.hpp

/// \file simplx/train/glob.hpp
/// Patterns of names: '*' stands for any text, dots included; every other character for itself.
///
/// Matching is an edit distance of zero, so that a pattern that matches nothing can name what it nearly matches.

namespace simplx::inline SIMPLX_TARGET {

/// How many characters must be added, removed or replaced until the text matches the pattern [Levenshtein].
///
/// Cost    pattern x text steps, one row of memory
inline Index glob_distance(std::string_view pattern, std::string_view text) {
  std::vector<Index> row(text.size() + 1);  // row[j]: of the pattern so far to the first j characters of the text
  std::iota(row.begin(), row.end(), Index(0));
  for (const char c : pattern) {
    Index diagonal = row[0];
    row[0] += c != '*';
    for (std::size_t j = 1; j <= text.size(); ++j) {
      const Index above = row[j];
      row[j] = c == '*' ? std::min(above, row[j - 1])
                        : std::min({above + 1, row[j - 1] + 1, diagonal + (c != text[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

inline bool matches_glob(std::string_view pattern, std::string_view text) { return glob_distance(pattern, text) == 0; }

/// The `count` names nearest to a pattern, separated by commas; of names that differ in their digits alone, the first.
[[gnu::cold]] inline std::string nearest_names(std::string_view pattern, const std::vector<std::string>& names,
                                               std::size_t count) {
  struct Candidate {
    Index distance;
    std::string name, letters;
  };
  std::vector<Candidate> candidates;
  for (const std::string& name : names) {
    std::string letters;
    for (const char c : name) {
      if (c < '0' || c > '9') letters += c;
    }
    const auto alike = [&](const Candidate& other) { return other.letters == letters; };
    if (std::none_of(candidates.begin(), candidates.end(), alike)) {
      candidates.push_back({glob_distance(pattern, name), name, letters});
    }
  }
  std::string text;
  for (; count > 0 && !candidates.empty(); --count) {
    const auto nearest =
        std::min_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
    text += (text.empty() ? "" : ", ") + nearest->name;
    candidates.erase(nearest);
  }
  return text;
}

inline std::vector<std::string> names_of(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  return names;
}

/// What is thrown for a name of a `kind`, such as a parameter, that is none of those that the model has.
[[gnu::cold]] inline Error unknown_name(const std::string& kind, std::string_view name,
                                        const std::vector<std::string>& names) {
  return Error("the model has no " + kind + " named '" + std::string(name) + "'",
               names.empty() ? "it has none at all" : "the nearest names are " + nearest_names(name, names, 3));
}

/// The part of a buffer that the tensor of that name has; `kind` is what it is called where there is none.
template <class S>
std::span<S> slice_of(const std::vector<TensorInfo>& tensors, std::span<S> buffer, std::string_view name,
                      const std::string& kind) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name != name) continue;
    return buffer.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
  }
  throw unknown_name(kind, name, names_of(tensors));
}

}  // namespace simplx

// ---- simplx/differentiate/function.hpp

/// \file simplx/differentiate/function.hpp
/// Function<f>: a function of named inputs with its gradient, bound to Eigen objects, spans and numbers.
///
///     inline constexpr auto least_squares = [] {
///       auto A = input("A", rows_of(Axis::batch, 8)), y = input("y", rows_of(Axis::batch, 1));
///       auto w = variable("w", fixed_shape(8, 1));                       // its gradient is wanted
///       return mean(square(A * w - y));
///     };
///
///     Function<least_squares> f;
///     f.bind<"A">(A).bind<"y">(y).set<"w">(w);       // A is row-major and read in place; w is copied
///     double loss = f.value_and_grad();
///     w -= 0.1 * f.gradient<"w">();
///
/// The compiler derives the gradient; here is only memory. Rows of an axis are those of what was bound last.

namespace simplx::inline SIMPLX_TARGET {

template <auto const& f, class T>
class Directional;

/// A function of named inputs with its gradient; owns its memory, and reads in place what is bound to it. One that was
/// moved from can be assigned to; else it throws.
template <auto const& f, class Backend_ = Cpu<double>>
class Function : public detail::FunctionOn<f, Backend_> {
  using Memory = detail::FunctionOn<f, Backend_>;
  using Memory::context_, Memory::pointers_, Memory::check_size, Memory::take_rows;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using typename Memory::G;

  /// `seed` is that of the initial values of parameters that the function makes.
  ///
  /// Errors  throws Error, on a GPU, if there is none, or if its memory is short
  explicit Function(std::uint64_t seed = 0) : Memory(seed) {}

  /// Copies an Eigen object, a container or a number into the input, parameter or constant of that name.
  ///
  /// Errors  does not compile for a name the function does not have, nor for indices that are no integers; throws if
  ///         the sizes do not fit, or an index not into 32 bits
  template <Name name, class Object>
  Function& set(const Object& object) {
    constexpr int node = find<name>();
    static_assert(!detail::on_device<Object>,
                  "simplx: set copies from the host: give bind what lies on the device, which is read in place");
    static_assert(detail::NumbersFor<Object, S>,
                  "simplx: set copies an Eigen object, one number, or a container of numbers that lie one after "
                  "another (it has data() and size()): a std::vector, std::array or std::span, for example");
    const detail::ObjectSize size = detail::size_of<shape<node>>(object);
    if constexpr (is_input(node)) {
      using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
      constexpr int number = G::layout.input[node];
      auto& buffer = storage<T>()[number];
      check_size(node, size);
      if constexpr (std::is_same_v<T, std::int32_t>) detail::check_numbers<T>(object);  // before anything changes
      const Index needed = (shape<node>.is_fixed() ? shape<node>.rows : size.rows) * shape<node>.cols;
      cpu::Buffer<T> larger(buffer.size() < needed ? needed : 0);  // before anything changes: memory may be short
      const Index rows = take_rows(node, size, detail::Holder::function);
      if (larger.size() != 0) buffer = std::move(larger);
      detail::assign<shape<node>>(object, rows, buffer.data());
      pointers_[number] = buffer.data();
    } else {
      check_size(node, size);
      S* place = G::table.info[node].kind == Kind::parameter
                     ? Memory::parameters().data() + G::layout.parameter[node]
                     : Memory::constants().data() + G::layout.constant[node];
      detail::assign_anew<shape<node>>(object, shape<node>.rows, place);
    }
    evaluated_ = false;
    return *this;
  }

  /// Reads an input where it is: the object must outlive this, and changes to it are seen. It is none of the function's
  /// own results or gradients, which are written meanwhile. On a GPU that is a DeviceBuffer of numbers, whose filling
  /// has been waited for; what lies on the host is copied at each forward().
  ///
  /// Errors  does not compile unless the object is row-major (or a vector) of this function's scalar, nor for a
  ///         temporary that owns its memory; throws if it is a block with gaps
  template <Name name, class Object_>
  Function& bind(Object_&& object) {
    using Object = std::remove_cvref_t<Object_>;
    constexpr int node = find<name>();
    static_assert(!has<name>() || is_input(node),
                  "simplx: bind reads inputs in place; parameters and constants are copied by set");
    using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
    static_assert(
        detail::contiguous<Object, T>,
        "simplx: bind reads row-major memory of the function's scalar (std::int32_t for indices) in place: use "
        "a RowMajor matrix, a vector or a span, or copy the object with set");
    static_assert(std::is_lvalue_reference_v<Object_> || !detail::owning<Object>,
                  "simplx: bind reads memory that outlives the call, and this object ends with it: give it a name, or "
                  "copy it with set");
    if (!detail::dense(object)) {
      throw Error(std::string(name.view()) + " is a part of a larger matrix, with gaps between its rows or elements",
                  "copy it with set<\"" + std::string(name.view()) + "\">(...)");
    }
    constexpr detail::Holder holder = detail::on_device<Object> ? detail::Holder::device : detail::Holder::caller;
    static_assert(!has<name>() || holder == detail::Holder::caller || G::table.info[node].kind == Kind::input,
                  "simplx: indices are checked on the host, and sorted there: bind or set those that lie there");
    static_assert(holder == detail::Holder::caller || requires { Backend::on_device; },
                  "simplx: memory of a GPU is read by functions that run there, on Cuda<...>: copy it to the host "
                  "first");
    take_rows(node, detail::size_of<shape<node>>(object), holder);
    pointers_[G::layout.input[node]] = object.data();
    evaluated_ = false;
    return *this;
  }

  /// Lengths of the packed sequences on the axis of tokens; one sequence unless given.
  ///
  /// Errors  throws if one is below 0; then nothing has changed
  Function& set_sequences(std::span<const Index> lengths) {
    Memory::take_lengths(lengths);
    evaluated_ = false;
    return *this;
  }

  /// Evaluates all results.
  ///
  /// Errors  throws if an input is missing, if inputs along one axis have different numbers of rows, if the sequences
  ///         are not all tokens or too long for the positions, or if an index is out of range. Views of results and
  ///         gradients end when the number of rows changes.
  void forward() {
    evaluated_ = false;  // unless all inputs are as they should be
    Memory::check_present();
    if (Memory::stale_) {
      differentiated_ = false;
      Memory::arrange();
    }
    Memory::take_inputs();
    evaluate();
  }
  /// Gradients of everything that wants one, from those of the results: see `output_gradient`.
  ///
  /// Errors  throws unless it follows a forward() of what was set, bound and given as sequences
  /// Cost    a second one after the same forward() evaluates that again, if the first wrote over values (of logits)
  void backward() {
    Memory::check_present();
    if (!evaluated_) {
      throw Error("backward() without a forward() of these inputs", "call forward() after set, bind and set_sequences");
    }
    if (used_up_) evaluate();
    used_up_ = G::uses_up_values;
    Memory::differentiate();
    differentiated_ = true;
  }

  /// The first result, a number.
  S value() {
    static_assert(!G::sound || result_shape(0) == fixed_shape(1, 1),
                  "simplx: value() is for functions whose first result is one number; use forward() and output<k>()");
    forward();
    return Memory::result(0)[0];
  }
  /// The same; afterwards gradient<name>() holds its gradients.
  S value_and_grad() {
    const S result = value();
    seed_first_result();
    backward();
    return result;
  }

  /// Result k.
  ///
  /// Errors  throws, as `output_gradient` and `gradient` do, unless it follows a forward()
  template <int k = 0>
  auto output() const {
    check_arranged("output()");
    return detail::object_map<result_shape(k)>(Memory::result(k), context_.rows_of(result_shape(k)));
  }
  /// The gradient of result k: those of all results are to be filled before each backward(), which writes over some and
  /// leaves others; forward() leaves them as they are.
  template <int k = 0>
  auto output_gradient() {
    check_arranged("output_gradient()");
    return detail::object_map<result_shape(k)>(Memory::result_gradient(k), context_.rows_of(result_shape(k)));
  }
  /// The gradient with respect to an input or parameter, as the last backward left it: inputs that were set since, of
  /// as many rows or others, change it no sooner than they are evaluated.
  ///
  /// Errors  throws without a backward() after the first evaluation of so many rows, and after row_gradients
  template <Name name>
  auto gradient() {
    constexpr int node = find<name>();
    static_assert(!has<name>() || G::fusion.wanted[node],
                  "simplx: the gradient of this input is not wanted: make it a variable(...), or use with_respect_to");
    check_differentiated();
    S* place = nullptr;
    if constexpr (is_input(node)) {
      place = Memory::input_gradient(G::layout.input[node]);
    } else {
      place = const_cast<S*>(Memory::gradients().data()) + G::layout.parameter[node];
    }
    return detail::object_map<shape<node>>(place, context_.rows_of(shape<node>));
  }

  /// The gradient with respect to a parameter by its name in tensors(), which may lie within a stack.
  ///
  /// Errors  throws as `gradient<name>`, and for an unknown name, with the nearest ones
  std::span<const S> gradient(std::string_view name) {
    check_differentiated();
    return slice_of(Memory::tensors().parameters, Memory::gradients(), name, "parameter");
  }

  /// One gradient for each row of the first result, (rows, 1): row r of the answer is the gradient of result r with
  /// respect to a static value, flattened.
  ///
  /// Afterwards results are those of all rows, as after forward().
  ///
  /// Errors  does not compile if rows of the first result read others
  /// Cost    one evaluation of a single row for each row, and two of all
  template <Name name>
  Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> row_gradients() {
    constexpr int node = find<name>();
    constexpr Shape result = result_shape(0);
    static_assert(!has<name>() || (shape<node>.is_fixed() && !result.is_fixed() && result.cols == 1 &&
                                   rows_are_apart(result.axis)),
                  "simplx: row_gradients is for a first result of shape (rows, 1), rows that are neither tokens nor "
                  "sequences of them, and a static value; of one number gradient<name>() is the gradient");
    constexpr int first = std::max(result_node(0), 0);
    static_assert(!has<name>() || !rows_are_apart(result.axis) || detail::keeps_rows_apart<G, result.axis>(first),
                  "simplx: row_gradients evaluates one row after the other, and rows of this function read others: it "
                  "reduces over rows (Over::rows, Over::all, transpose(a) * b), moves them, or has a kernel that does "
                  "not say rows_apart. For each row set all of output_gradient() to 0 but that row to 1, and call "
                  "backward()");
    forward();  // checks what was set
    const Context<S> whole = context_;
    const Index rows = whole.rows_of(result), size = shape<node>.columns();
    Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> all(rows, size);
    Memory::stale_ = true;  // an exception would leave the context of one row
    for (Index row = 0; row < rows; ++row) {
      context_ = whole;
      Memory::start_at(result.axis, row);
      evaluate();
      seed_first_result();
      backward();
      const auto g = gradient<name>();
      std::copy_n(g.data(), size, all.row(row).data());
    }
    context_ = whole;
    Memory::stale_ = false;
    forward();  // results of all rows again; the gradients were those of one
    differentiated_ = false;
    return all;
  }

  /// A parameter that the function makes, in place.
  template <Name name>
  auto parameter() {
    constexpr int node = find<name>();
    static_assert(!has<name>() || G::table.info[node].kind == Kind::parameter,
                  "simplx: this name is no parameter but an input or a constant, which set or bind gives");
    Memory::check_present();
    return detail::object_map<shape<node>>(Memory::parameters().data() + G::layout.parameter[node], shape<node>.rows);
  }
  /// The same by its name in tensors(), which may lie within a stack: "blocks.0.mlp.up.weight".
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(Memory::tensors().parameters, Memory::parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(Memory::tensors().constants, Memory::constants(), name, "constant");
  }

 protected:
  static constexpr int result_node(int k) { return view_of<G>.result_node(k); }
  static constexpr Shape result_shape(int k) {
    const int node = result_node(k);
    return node < 0 ? Shape{} : G::table.info[node].shape;
  }

  bool evaluated_ = false;       ///< what was set, bound and given as sequences
  bool differentiated_ = false;  ///< there are gradients of these rows

 private:
  template <auto const&, class>
  friend class Directional;

  /// The node of that name, or -1.
  template <Name name>
  static constexpr int node_of() {
    for (int i = 0; i < G::count; ++i) {
      const Kind kind = G::table.info[i].kind;
      const bool named = is_input(i) || kind == Kind::parameter || kind == Kind::constant;
      if (named && G::flat.label[i].name == name) return i;
    }
    return -1;
  }
  /// Whether there is one; where there is none nothing more is said than that, of a broken rule nothing here.
  template <Name name>
  static constexpr bool has() {
    return G::sound && node_of<name>() >= 0;
  }
  template <Name name>
  static constexpr int find() {
    static_assert(!G::sound || has<name>(),
                  "simplx: the function uses no input, parameter or constant of that name; with scopes it is as in "
                  "tensors(); those within a stack or recompute are found by parameter(\"name\") and "
                  "gradient(\"name\")");
    return has<name>() ? node_of<name>() : 0;
  }
  /// Whether a row along this axis can be evaluated by itself.
  static constexpr bool rows_are_apart(Axis axis) {
    bool of_tokens = axis == Axis::tokens;
    for (int i = 0; i < G::count; ++i) {
      of_tokens |= axis == Axis::sequences && G::table.info[i].shape.axis == Axis::tokens;
    }
    return !of_tokens;
  }
  static constexpr bool is_input(int node) {
    return G::table.info[node].kind == Kind::input || G::table.info[node].kind == Kind::indices;
  }
  template <int node>
  static constexpr Shape shape = G::table.info[node].shape;
  template <class T>
  auto& storage() {
    if constexpr (std::is_same_v<T, S>) {
      return Memory::inputs_;
    } else {
      return Memory::indices_;
    }
  }

  /// Results and gradients lie in memory that the first evaluation makes.
  void check_arranged(const char* asked) const {
    Memory::check_present();
    if (Memory::arranged()) return;
    throw Error(std::string(asked) + " without a forward()", "call forward() or value_and_grad() before");
  }
  void check_differentiated() const {
    check_arranged("gradient()");
    if (differentiated_) return;
    throw Error("gradient() without a backward()",
                "call value_and_grad(), or forward(), output_gradient() and backward()");
  }
  void evaluate() {
    Memory::evaluate();
    evaluated_ = true;
    used_up_ = false;
  }
  /// Of the first result one, of the others nothing.
  void seed_first_result() {
    for (int k = 0; k < G::layout.outputs; ++k) {
      std::fill_n(Memory::result_gradient(k), context_.rows_of(result_shape(k)) * result_shape(k).cols, S(k == 0));
    }
  }

  bool used_up_ = false;  ///< backward has written over values of the last evaluation
};

}  // namespace simplx

// ---- simplx/differentiate/directional.hpp

/// \file simplx/differentiate/directional.hpp
/// Derivatives along a direction: the same forward and reverse sweeps, run over dual numbers.
///
///     Directional<f> d;
///     d.set<"x">(x, v);              // a point and a direction
///     d.jvp();                       // d.tangent<0>()    J v, without a reverse sweep
///     d.hvp();                       // d.gradient<"x">() and d.hessian_product<"x">()    H v, without H
///
/// A direction passes through the function itself: of with_pull_back it sees f, and the pull-back in gradients alone.
///
/// Cost    two to three products for each of f, respectively of its gradient, and all else in numbers one by one: jvp
///         takes four to six times f, hvp five to seven times its gradient; both allocate. A difference of two
///         gradients is cheaper, and as exact as its step allows

namespace simplx::inline SIMPLX_TARGET {

/// Jacobian- and Hessian-vector products of a function along the directions that are set with its inputs.
template <auto const& f, class T = double>
class Directional {
 public:
  using Number = Dual<T>;
  using Dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit Directional(std::uint64_t seed = 0) : function_(seed) {}

  /// A point; the function does not move along it.
  template <Name name, class Object>
  Directional& set(const Object& point) {
    function_.template set<name>(point);
    return *this;
  }
  /// A point and the direction in which it moves, of equal size.
  template <Name name>
  Directional& set(const Eigen::Ref<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>& point,
                   const Eigen::Ref<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>& direction) {
    if (point.rows() != direction.rows() || point.cols() != direction.cols()) {
      throw Error("the direction of " + std::string(Name(name).view()) + " has another size than the point");
    }
    using Duals = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic>;
    const Duals moving = point.binaryExpr(direction, [](const T& x, const T& v) { return Number(x, v); });
    function_.template set<name>(moving);
    return *this;
  }
  /// The same of containers.
  template <Name name, detail::Container Point, detail::Container Direction>
    requires(!detail::EigenObject<Point>)
  Directional& set(const Point& point, const Direction& direction) {
    if (point.size() != direction.size()) {
      throw Error("the direction of " + std::string(Name(name).view()) + " has another size than the point");
    }
    std::vector<Number> moving;
    for (std::size_t i = 0; i < point.size(); ++i) {
      moving.emplace_back(static_cast<T>(point.data()[i]), static_cast<T>(direction.data()[i]));
    }
    function_.template set<name>(moving);
    return *this;
  }
  /// A number and the speed at which it moves.
  template <Name name>
  Directional& set(T point, T direction) {
    function_.template set<name>(Eigen::Matrix<Number, 1, 1>(Number(point, direction)));
    return *this;
  }

  /// Evaluates the results and their derivatives along the direction.
  void jvp() { function_.forward(); }
  /// The same for the gradient of the first result, a number.
  void hvp() { function_.value_and_grad(); }

  /// Errors  throws, as `tangent` does, without a jvp() or hvp(); those of gradients without an hvp()
  template <int k = 0>
  Dense output() const {
    return read_after("output", "jvp() or hvp()", [&] { return values(function_.template output<k>()); });
  }
  template <int k = 0>
  Dense tangent() const {
    return read_after("tangent", "jvp() or hvp()", [&] { return tangents(function_.template output<k>()); });
  }
  template <Name name>
  Dense gradient() {
    return read_after("gradient", "hvp()", [&] { return values(function_.template gradient<name>()); });
  }
  template <Name name>
  Dense hessian_product() {
    return read_after("hessian_product", "hvp()", [&] { return tangents(function_.template gradient<name>()); });
  }

 private:
  /// What is read too early is told in the names of this class, not in those of Function.
  template <class Read>
  Dense read_after(const std::string& asked, const std::string& first, Read read) const {
    try {
      return read();
    } catch (const Error&) {
      function_.check_present();
      throw Error(asked + "() without " + (first == "hvp()" ? "an " : "a ") + first, "call " + first + " before");
    }
  }
  template <class Map>
  static Dense values(const Map& map) {
    return map.unaryExpr([](const Number& x) { return x.value; });
  }
  template <class Map>
  static Dense tangents(const Map& map) {
    return map.unaryExpr([](const Number& x) { return x.tangent; });
  }

  Function<f, Cpu<Number>> function_;
};

}  // namespace simplx

// ---- simplx/ops/shared.hpp

/// \file simplx/ops/shared.hpp
/// Shared: the block of a stack whose layers have one set of parameters, as in ALBERT and in transformers that loop.
///
///     x = stack("blocks", 12, Shared{Block{...}}, x);          // parameters blocks.mlp.up.weight, without a number
///     inline constexpr DecoderOf<Shared<Block>> looped{...};   // in place of DecoderOf<Block>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// False of what is called: a stack takes the block out of its Shared.
template <class Block>
inline constexpr bool is_block_of_stack = false;

}  // namespace detail

/// A block whose parameters and constants are made once for all layers of the stack; the gradient is the sum over the
/// layers. A block that asks for its layer is told 0 in all of them. Activations, what a stream remembers, probes and
/// the masks of dropout are those of each layer.
///
/// Errors  does not compile where it is called: only `stack`, `recompute` and `recompute_first` take it
/// Cost    of parameters, moments and prepared weights, those of one layer; of FLOPs and activations, those of all. The
///         gradient of a Trainer has room for each layer, since only so its bits do not depend on threads
/// Source  Lan et al. 2020, "ALBERT", Sec. 3.1; Dehghani et al. 2019, "Universal Transformers"
template <class Block>
struct Shared {
  Block block;

  constexpr Expr operator()(At x) const {
    static_assert(detail::is_block_of_stack<Block>,
                  "simplx: Shared{block} is given to a stack, and to nothing that would call it: named, frozen and "
                  "recompute go within it, as in stack(\"blocks\", layers, Shared{named(\"inner\", block)}, x)");
    return {x.node};
  }
};

template <class Block>
Shared(Block) -> Shared<Block>;  // clang++ 14 deduces no aggregates

}  // namespace simplx

// ---- simplx/ops/stack.hpp

/// \file simplx/ops/stack.hpp
/// `stack`: a block applied several times in a row. Depth is a loop at run time.
///
///     x = stack("blocks", 6, SasP{...}, x)        parameters blocks.0.*, blocks.1.*, ...
///
/// Layers whose graphs are equal share one instantiation, whatever their number (core/equal_layers.hpp). Each layer
/// has its own parameters, unless the block is Shared (ops/shared.hpp), and its own share of the kept region;
/// temporaries are shared by all.

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"stack"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool adds_by_itself = true;

  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const int layers = detail::stack_settings(attributes).layers;
    if (layers < 1) return {"layers", layers, 1};
    return x;
  }

  template <class F>
  using Layers = typename F::Graph::template layers_of<F::index>;
  template <class F>
  static constexpr bool recomputes = F::Graph::template recomputes<F::index>;

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    using Stack = Layers<F>;
    Index most = 0;
    [&]<int... k>(std::integer_sequence<int, k...>) {
      ((most = std::max(most, detail::graph_scratch<typename Stack::template child<k>, Backend>(rows))), ...);
    }(std::make_integer_sequence<int, Stack::distinct>{});
    return most;
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    using Stack = Layers<F>;
    double total = 0;
    for (int layer = 0; layer < Stack::layers; ++layer) {
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        total += detail::graph_flops<Child>(rows, causal);
      });
    }
    return total;
  }

  template <class G, int node, class Backend, class S>
  static void prepare(Backend, const S* parameters, S* packed, S* turned, int part, int parts) {
    using Stack = typename G::template layers_of<node>;
    for (int layer = part; layer < Stack::sets; layer += parts) {
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        const Index place = Stack::offsets.packed[layer];
        Execute<Child, Backend>::prepare(parameters + G::layout.parameter[node] + Stack::offsets.parameter[layer],
                                         packed + place, turned ? turned + place : turned);
      });
    }
  }

  /// What the names in a layer have before them: "blocks.3.", or the scope of a module that is recomputed, its name. By
  /// it dropout draws: the number stays where layers share their parameters, so that each has masks of its own.
  template <class F>
  static std::uint64_t scope_of(std::uint64_t scope, int layer) {
    scope = detail::extended(scope, F::name.view());
    if constexpr (recomputes<F>) return scope;
    return detail::extended(detail::extended(detail::extended(scope, "."), std::to_string(layer)), ".");
  }

  /// The context of one layer: its share of every buffer, and the carry in and out.
  template <class F, class S>
  static Context<S> layer_context(const F& frame, int layer, const Columns& workspace) {
    using Stack = Layers<F>;
    const Context<S>& whole = frame.context;
    Context<S> mine = whole;
    constexpr const auto& at = Stack::offsets;
    mine.parameters += F::Graph::layout.parameter[F::index] + at.parameter[layer];
    mine.constants += F::Graph::layout.constant[F::index] + at.constant[layer];
    const Index packed = F::Graph::layout.packed[F::index] + at.packed[layer];
    if (mine.packed) mine.packed += packed;
    if (mine.turned) mine.turned += packed;
    if (mine.gradients) mine.gradients += F::Graph::layout.parameter[F::index] + at.parameter[layer];
    if (mine.further_gradients) {
      mine.further_gradients += F::Graph::layout.further[F::index] + at.further[layer];
      if (layer >= Stack::sets) mine.gradients = mine.further_gradients - at.parameter[Stack::layers];
    }
    const Columns& saved = F::Graph::layout.saved[F::index];
    for (int i = 0; i < axis_count; ++i) {
      if constexpr (recomputes<F>) {
        mine.kept[i] = mine.temporary[i] + (workspace.on[i] + at.temporary.on[i]) * whole.stride[i];
      } else {
        mine.kept[i] += (saved.on[i] + at.kept[layer].on[i]) * whole.stride[i];
      }
      mine.temporary[i] += workspace.on[i] * whole.stride[i];
    }
    mine.random.scope = scope_of<F>(whole.random.scope, layer);
    mine.inputs[0] = layer == 0 ? frame.template in<0>() : carry(frame, layer - 1);
    mine.outputs[0] = layer == Stack::layers - 1 ? frame.out() : carry(frame, layer);
    return mine;
  }

  /// What goes from layer to layer + 1.
  template <class F>
  static auto* carry(const F& frame, int layer) {
    using Stack = Layers<F>;
    constexpr int axis = static_cast<int>(F::out_shape.axis);
    constexpr Index columns = room_of(F::out_shape);
    const Index layers_kept = recomputes<F> ? 0 : Stack::offsets.kept[Stack::layers].on[axis];
    const Index at = F::Graph::layout.saved[F::index].on[axis] + layers_kept;
    return frame.context.kept[axis] + (at + layer * columns) * frame.context.stride[axis];
  }

  template <class Backend, class F>
  static void forward(Backend, const F& frame) {
    using Stack = Layers<F>;
    using S = typename Backend::Scalar;
    for (int layer = 0; layer < Stack::layers; ++layer) {
      const Context<S> mine = layer_context<F, S>(frame, layer, F::Graph::layout.forward_workspace[F::index]);
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) { Execute<Child, Backend>::forward(mine); });
    }
  }

  /// Two gradients of the carry take turns, except where a layer turns the one into the other in place.
  template <class Backend, class F>
  static void backward(Backend, const F& frame) {
    using Stack = Layers<F>;
    using S = typename Backend::Scalar;
    constexpr int axis = static_cast<int>(F::out_shape.axis);
    constexpr const Columns& workspace = F::Graph::layout.backward_workspace[F::index];
    const Index size = frame.rows() * F::out_shape.cols;
    S* current = const_cast<S*>(frame.out_grad());
    const Index kept_again = recomputes<F> ? Stack::offsets.largest_kept.on[axis] : 0;
    const Index layer_room = Stack::offsets.temporary.on[axis] + kept_again;
    S* other = frame.context.temporary[axis] + (workspace.on[axis] + layer_room) * frame.context.stride[axis];
    [[maybe_unused]] S* unread = other + room_of(F::out_shape) * frame.context.stride[axis];
    for (int layer = Stack::layers - 1; layer >= 0; --layer) {
      Context<S> mine = layer_context<F, S>(frame, layer, workspace);
      Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        if constexpr (recomputes<F>) {
          mine.outputs[0] = unread;
          Execute<Child, Backend>::forward(mine);
        }
        mine.output_gradients[0] = current;
        mine.input_gradients[0] = Child::plan.in_place ? current : other;
        Execute<Child, Backend>::backward(mine);
        if (!Child::plan.in_place) std::swap(current, other);
      });
    }
    const detail::Addition addition(frame.template turn<0>());
    if constexpr (F::template write<0> == Write::store) {
      Backend::copy(frame.context, current, size, frame.template grad<0>());
    } else if constexpr (F::template write<0> == Write::accumulate) {
      Backend::add(frame.context, current, size, frame.template grad<0>());
    }
  }
};

namespace detail {

template <class Block>
concept BlockInStack = requires(const Block& block, Expr x) { Expr(block(x)); } ||
                       requires(const Block& block, Expr x) { Expr(block(0, x)); };

/// What a block makes of x in a layer, whether it asks for the layer's number or not.
template <class Block>
constexpr Expr apply_block(const Block& block, int layer, Expr x) {
  if constexpr (requires { Expr(block(layer, x)); }) {
    return block(layer, x);
  } else if constexpr (requires { Expr(block(x)); }) {
    return block(x);
  } else {
    static_assert(BlockInStack<Block>,
                  "simplx: the block of a stack needs `constexpr Expr operator()(Expr x) const`, or one of (int layer, "
                  "Expr x) in that order: it must be const, and return an Expr");
    return x;
  }
}

template <class Block>
constexpr Expr apply_block(const Shared<Block>& shared, int layer, Expr x) {
  if constexpr (requires { shared.block.in_layer(layer, 0, x); }) {
    return shared.block.in_layer(layer, 0, x);
  } else {
    return apply_block(shared.block, 0, x);
  }
}

template <class Block>
constexpr bool asks_for_the_layer(const Block&) {
  return requires(const Block& block, Expr x) { block(0, x); };
}
template <class Block>
constexpr bool asks_for_the_layer(const Shared<Block>&) {
  return requires(const Block& block, Expr x) { block.in_layer(0, 0, x); };
}

template <class Block>
inline constexpr bool shares_parameters = false;
template <class Block>
inline constexpr bool shares_parameters<Shared<Block>> = true;

/// A block of any type behind two function pointers.
template <class Block>
struct BlockOf : BlockMaker {
  Block block;

  constexpr explicit BlockOf(const Block& b) : block(b) {
    layered = asks_for_the_layer(b);
    make = [](const BlockMaker* self, int layer, Node* carry) {
      return apply_block(static_cast<const BlockOf*>(self)->block, layer, Expr{carry}).node;
    };
    destroy = [](BlockMaker* self) { delete static_cast<BlockOf*>(self); };
  }
};

template <class Block>
constexpr Expr stack_of(const char* name, const StackSettings& settings, const Block& block, At x) {
  Expr result = apply<"stack">(attributes_of(settings), x);
  if (result.node->kind == Kind::error) return result;
  result.node->name = name;
  result.node->block = new BlockOf<Block>(block);
  return result;
}

}  // namespace detail

/// Applies a block `layers` times; block(x) or block(layer, x), each layer with parameters of its own unless the block
/// is Shared.
///
/// Shapes  the block returns the shape it is given
/// Errors  does not compile if the block uses an expression made outside of it, or changes the shape
/// Cost    `layers` times the block's kept columns, once its temporaries; compile time of the distinct layers
template <class Block>
constexpr Expr stack(const char* name, int layers, const Block& block, At x) {
  return detail::stack_of(name, {.layers = layers, .shared = detail::shares_parameters<Block>}, block, x);
}

/// Calls f(name, shape, value, gradient) for every probe of a graph, in stacks for each layer.
///
/// Values are those of the last forward, gradients (null where none flows) those of the last backward.
template <class G, class S, class F>
void each_probe(const Context<S>& context, const std::string& prefix, F& f) {
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Info info = G::table.info[i];
    const std::string name = prefix + std::string(G::flat.label[i].name.view());
    if constexpr (info.observed) {
      const S* gradient = nullptr;
      if constexpr (G::fusion.wanted[i]) gradient = Address<G>::template gradient<i>(context);
      f(name, info.shape, Address<G>::template value<i>(context), gradient);
    } else if constexpr (info.stack && !G::template recomputes<i>) {
      using Stack = typename G::template layers_of<i>;
      const Frame<G, i, S> frame{context};
      for (int layer = 0; layer < Stack::layers; ++layer) {
        const Context<S> mine = op<"stack">::layer_context<Frame<G, i, S>, S>(frame, layer, Columns{});
        Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
          each_probe<Child>(mine, name + "." + std::to_string(layer) + ".", f);
        });
      }
    }
  });
}

}  // namespace simplx

// ---- simplx/train/evaluation.hpp

/// \file simplx/train/evaluation.hpp
/// Evaluation: a model with its own parameters and memory, forward and backward, everything reachable by name.
///
///     Evaluation<model> run(tokens{128});
///     std::ranges::copy(text, run.indices("tokens").begin());  // likewise labels
///     run.forward();                       // run.output(0)
///     run.output_gradient(0)[...] = ...;   // gradient of the result
///     run.backward();                      // run.gradient("blocks.0.mlp.up.weight")

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What an evaluation holds and what is reached by name: compiled once for each number type, not for each model.
template <class S_>
class EvaluationMemory {
 public:
  using S = S_;

  const TensorList& tensors() const { return tensors_; }
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next forward()
  /// reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// As the last backward() left them, in the same layout.
  std::span<S> gradients() { return gradients_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> gradient(std::string_view name) {
    return slice_of(tensors_.parameters, gradients(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }

  /// An input of numbers and its gradient, one of indices; each throws Error for the other kind.
  std::span<S> input(std::string_view name) { return inputs_[number_of(name, Kind::input)].span(); }
  std::span<S> input_gradient(std::string_view name) { return input_gradients_[number_of(name, Kind::input)].span(); }
  std::span<std::int32_t> indices(std::string_view name) { return indices_[number_of(name, Kind::indices)].span(); }
  /// A result, and its gradient: those of all results are to be filled before each backward, which writes over some and
  /// leaves others.
  std::span<S> output(int number = 0) { return result(number, context_.outputs); }
  std::span<S> output_gradient(int number = 0) { return result(number, context_.output_gradients); }
  /// What dropout draws from; nothing is dropped unless its `training` is set.
  Randomness& random() { return context_.random; }
  /// The arena, for tests that poison it.
  std::span<S> memory() { return arena_->memory(); }
  /// The numbers of the graph.
  const GraphView& graph() const { return graph_; }

 protected:
  EvaluationMemory(const GraphView& graph, TensorList tensors, Index (*scratch)(const Rows&), Rows rows,
                   std::uint64_t seed, std::vector<Index> lengths)
      : graph_(graph),
        tensors_(std::move(tensors)),
        parameters_(graph.parameters),
        gradients_(graph.parameters),
        constants_(graph.constants),
        packed_(2 * graph.packed) {
    for (const Index count : {rows.tokens, rows.sequences, rows.labelled, rows.batch}) {
      if (count < 0) throw Error("an evaluation of " + std::to_string(count) + " rows", "rows are counted from 0 on");
    }
    if (lengths.empty()) {
      for (Index s = 0; s < rows.sequences; ++s) lengths.push_back(rows.tokens / rows.sequences);
    }
    offsets_ = offsets_of(lengths);
    rows.sequences = static_cast<Index>(lengths.size());
    rows.longest_sequence = longest_of(graph, offsets_);
    if (offsets_.back() != rows.tokens) {
      throw Error("the sequences have " + std::to_string(offsets_.back()) + " tokens together, not " +
                      std::to_string(rows.tokens),
                  "tokens must be the sum of the lengths, a multiple of `sequences` if none are given");
    }
    arena_.emplace(graph, scratch(rows), rows);
    initialise(tensors_.parameters, seed, parameters_.data());
    initialise(tensors_.constants, seed, constants_.data());
    context_ = arena_->context(rows, {offsets_.data(), rows.sequences}, rows.longest_sequence);
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.constants = constants_.data();
    context_.packed = packed_.data(), context_.turned = packed_.data() + graph.packed;
    for (int i = 0; i < graph.count; ++i) {
      if (!graph.is_input(i)) continue;
      const bool whole_numbers = graph.info[i].kind == Kind::indices;
      const int number = graph.input[i];
      const Index size = size_of(i);
      inputs_[number] = cpu::Buffer<S>(whole_numbers ? 0 : size);
      input_gradients_[number] = cpu::Buffer<S>(whole_numbers ? 0 : size);
      indices_[number] = cpu::Buffer<std::int32_t>(whole_numbers ? size : 0);
      context_.inputs[number] = whole_numbers ? static_cast<const void*>(indices_[number].data())
                                              : static_cast<const void*>(inputs_[number].data());
      context_.input_gradients[number] = input_gradients_[number].data();
    }
  }

  int number_of(std::string_view name, Kind kind) const {
    const int node = graph_.input_node(name);
    if (node < 0) throw unknown_name("input", name, names_of_inputs());
    if (graph_.info[node].kind != kind) {
      throw Error("the input '" + std::string(name) + "' is one of " + (kind == Kind::input ? "indices" : "numbers"),
                  std::string("reach it by ") + (kind == Kind::input ? "indices" : "input"));
    }
    return graph_.input[node];
  }
  std::vector<std::string> names_of_inputs() const {
    std::vector<std::string> names;
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.is_input(i)) names.emplace_back(graph_.label[i].name.view());
    }
    return names;
  }
  std::span<S> result(int number, S* const (&data)[max_outputs]) const {
    const int node = graph_.result_node(number);
    if (node < 0) {
      throw Error("the model has no result number " + std::to_string(number),
                  "results are numbered from 0 in the order in which the model returns them");
    }
    return {data[number], static_cast<std::size_t>(size_of(node))};
  }
  Index size_of(int node) const {
    const Shape& shape = graph_.info[node].shape;
    return context_.rows_of(shape) * shape.cols;
  }

  GraphView graph_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, gradients_, constants_, packed_;
  std::vector<Index> offsets_;
  std::optional<Arena<S>> arena_;
  Context<S> context_;
  cpu::Buffer<S> inputs_[max_inputs], input_gradients_[max_inputs];
  cpu::Buffer<std::int32_t> indices_[max_inputs];
};

}  // namespace detail

/// A model with parameters and memory of its own: forward, backward, and every tensor by name.
template <auto const& model, class Backend_ = Cpu<double>>
class Evaluation : public detail::EvaluationMemory<typename Backend_::Scalar> {
  using Memory = detail::EvaluationMemory<typename Backend_::Scalar>;
  using Memory::arena_, Memory::context_, Memory::graph_, Memory::parameters_, Memory::gradients_, Memory::packed_;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  static_assert(detail::runs_on_host<Backend>());

  /// Memory for these rows; sequences of equal length unless their lengths are given.
  ///
  /// Errors  throws Error if the lengths are not those of all tokens, or longer than the model's positions, or if a
  ///         number of rows is below 0
  explicit Evaluation(const Rows& rows, std::uint64_t seed = 0, std::vector<Index> lengths = {})
      : Memory(view_of<G>, tensors_of<model>(), detail::graph_scratch<G, Backend>, rows, seed, std::move(lengths)) {}

  /// Errors  throws Error if an index is out of range
  void forward() {
    check_indices(graph_, context_.inputs, arena_->capacity());
    Run::prepare(parameters_.data(), packed_.data(), packed_.data() + graph_.packed);
    Run::forward(context_);
    used_up_ = false, evaluated_ = true;
  }
  /// Gradients of the parameters are set, not added to.
  ///
  /// Errors  throws Error without a forward() before
  /// Cost    a second one after the same forward() evaluates that again, if the first wrote over values (of logits)
  void backward() {
    if (!evaluated_) throw Error("backward() without a forward()", "call forward() first");
    if (used_up_) Run::forward(context_);
    used_up_ = G::uses_up_values;
    std::ranges::fill(gradients_, S(0));
    Run::backward(context_);
  }

  /// Calls f(name, shape, value, gradient) for every probe, in stacks for each layer.
  template <class F>
  void each_probe(F f) {
    simplx::each_probe<G>(context_, "", f);
  }

 private:
  bool evaluated_ = false;
  bool used_up_ = false;  ///< backward has written over values of the last forward
};

}  // namespace simplx

// ---- simplx/differentiate/checked_loss.hpp

/// \file simplx/differentiate/checked_loss.hpp
/// What gradcheck sees of an evaluation: tensors that move, and a loss of all results.

namespace simplx::inline SIMPLX_TARGET::detail {

/// What is checked of an evaluation, without its type, so that the checks are compiled once and not for each model.
template <class S>
struct Subject {
  struct Tensor {
    std::string name;
    std::span<S> value, gradient;
  };
  std::vector<Tensor> tensors;  ///< trained parameters, then the variables
  std::vector<std::span<S>> outputs, seeds;
  std::span<S> memory;
  void* run;
  void (*forward_of)(void*);
  void (*backward_of)(void*);

  void forward() const { forward_of(run); }
  void backward() const { backward_of(run); }
};

template <class S>
Subject<S> subject_of(EvaluationMemory<S>& memory, void* run, void (*forward)(void*), void (*backward)(void*)) {
  Subject<S> subject;
  subject.memory = memory.memory();
  subject.run = run;
  subject.forward_of = forward;
  subject.backward_of = backward;
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    if (tensor.frozen) continue;
    subject.tensors.push_back({tensor.name, memory.parameter(tensor.name), memory.gradient(tensor.name)});
  }
  const GraphView& graph = memory.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (graph.info[i].kind == Kind::input && graph.wanted[i]) {
      const std::string name(graph.label[i].name.view());
      subject.tensors.push_back({name, memory.input(name), memory.input_gradient(name)});
    }
    if (graph.info[i].result) {
      subject.outputs.push_back(memory.output(static_cast<int>(subject.outputs.size())));
      subject.seeds.push_back(memory.output_gradient(static_cast<int>(subject.seeds.size())));
    }
  }
  return subject;
}
template <auto const& model, class Backend>
auto subject_of(Evaluation<model, Backend>& run) {
  using Run = Evaluation<model, Backend>;
  return subject_of<typename Backend::Scalar>(
      run, &run, [](void* evaluation) { static_cast<Run*>(evaluation)->forward(); },
      [](void* evaluation) { static_cast<Run*>(evaluation)->backward(); });
}

/// Random numbers that belong to a name: <w, result> is the loss, v the direction, u what H v is projected on.
struct CheckNumbers {
  std::uint64_t seed;
  double of(const std::string& what, std::size_t i) const { return normal(key_of(seed, what), i); }
  double weight(std::size_t output, std::size_t i) const { return of("seed" + std::to_string(output), i); }
  double direction(const std::string& name, std::size_t i) const { return of("direction." + name, i); }
};

/// A number for each entry of each tensor, or of each result.
using Entries = std::vector<std::vector<double>>;

/// The loss that is differentiated: <w, result>, summed over the results.
template <class S>
struct CheckedLoss {
  const Subject<S>& run;
  Entries weights;

  CheckedLoss(const Subject<S>& subject, const CheckNumbers& random) : run(subject) {
    for (std::size_t k = 0; k < run.outputs.size(); ++k) {
      weights.emplace_back(run.outputs[k].size());
      for (std::size_t i = 0; i < weights[k].size(); ++i) weights[k][i] = random.weight(k, i);
    }
  }
  double operator()() const {
    run.forward();
    double total = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      for (std::size_t i = 0; i < weights[k].size(); ++i) total += weights[k][i] * run.outputs[k][i];
    }
    return total;
  }
  /// Leaves the gradients in the tensors of `run`.
  void gradient() const {
    run.forward();
    for (std::size_t k = 0; k < weights.size(); ++k) std::ranges::copy(weights[k], run.seeds[k].begin());
    run.backward();
  }
};

/// Where the tensors are.
template <class S>
Entries values_of(const Subject<S>& run) {
  Entries values;
  for (const auto& tensor : run.tensors) values.emplace_back(tensor.value.begin(), tensor.value.end());
  return values;
}

/// v, in which all tensors move together.
template <class S>
Entries direction_of(const Subject<S>& run, const CheckNumbers& random) {
  Entries direction;
  for (const auto& tensor : run.tensors) {
    std::vector<double>& mine = direction.emplace_back(tensor.value.size());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = random.direction(tensor.name, i);
  }
  return direction;
}

/// Puts the tensors at origin + h direction.
template <class S>
void move_to(const Subject<S>& run, const Entries& origin, const Entries& direction, double h) {
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& value = run.tensors[b].value;
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = origin[b][i] + h * direction[b][i];
  }
}

}  // namespace simplx::detail

// ---- simplx/differentiate/gradcheck.hpp

/// \file simplx/differentiate/gradcheck.hpp
/// Holds a model's derivatives against its forward pass, in double: gradcheck<model>() fills a model with random
/// numbers and reports the errors of
///
/// Differences: each sampled entry of each parameter (and of each `variable`) against central differences,
/// extrapolated over several step sizes, because a single one gives false alarms at kinks.
/// Adjoint identity: <w, J v> = <J^T w, v> for random directions v of all parameters together.
/// Directions: J v of forward mode against <J^T w, v>, and H v against differences of the gradient.
///
/// The arena is filled with a large number first, so that nothing may rely on what was there.

namespace simplx::inline SIMPLX_TARGET {

/// How far gradients are from differences, and forward mode from reverse mode; errors are relative.
struct GradientReport {
  double worst = 0;           ///< largest error of an entry, relative to the entry or to 1e-3 of the largest gradient
  std::string worst_name{};   ///< of that entry's tensor
  double adjoint = 0;         ///< relative error of the adjoint identity
  double jvp = 0;             ///< relative error of forward mode against reverse mode
  double hvp = 0;             ///< largest relative error of a tensor's share of H v
  Index entries = 0;          ///< entries checked

  /// Whether derivatives were looked at, and none is wrong; check_gradients looks at neither J v nor H v. Differences
  /// are limited by h^2 and rounding: 1e-6 of an entry and of H v, 1e-8 of the adjoint identity, a sum over all
  /// entries. Forward and reverse mode are the same but for rounding: 1e-11.
  bool holds() const { return entries > 0 && worst < 1e-6 && adjoint < 1e-8 && jvp < 1e-11 && hvp < 1e-6; }
};

/// Where and how closely gradcheck looks: seed, entries, steps and the sizes of its data.
struct GradcheckOptions {
  std::uint64_t seed = 1;
  Index entries_per_tensor = 4;
  double spread = 0.2;  ///< parameters are moved by that much from their initial values
  double step = 0.02;   ///< first step of the differences, which become smaller where kinks are near
  Rows rows{.labelled = 4, .batch = 3};  ///< of gradcheck<model>(); tokens are those of the lengths unless given
  std::vector<Index> lengths = {};  ///< of its sequences; 3, 1 and 5, as far as its positions go, unless given
  Index classes = 0;  ///< its indices are below that; 5, or what its tables have, unless given
};

namespace detail {

/// Errors  throws Error for options with which nothing would be checked
inline void check_options(const GradcheckOptions& options) {
  if (options.entries_per_tensor < 1) {
    throw Error("gradcheck is to look at " + std::to_string(options.entries_per_tensor) + " entries of a tensor",
                "entries_per_tensor is at least 1");
  }
  if (!(options.step > 0 && options.step < 1e300)) {
    throw Error("gradcheck's first step is " + std::to_string(options.step), "step is a number above 0");
  }
  if (!(std::abs(options.spread) < 1e300)) {
    throw Error("gradcheck's spread is " + std::to_string(options.spread), "spread is a finite number");
  }
}

/// Derivative of f at 0 by central differences at h, h/2, h/4, ... extrapolated to h = 0 (Ridders' method).
template <class F>
double derivative(const F& f, double step) {
  constexpr int levels = 7;
  double table[levels][levels], best = 0, error = INFINITY;
  double h = step;
  for (int i = 0; i < levels; ++i, h /= 2) {
    table[i][0] = (f(h) - f(-h)) / (2 * h);
    double factor = 1;
    for (int j = 1; j <= i; ++j) {
      factor *= 4;
      table[i][j] = (factor * table[i][j - 1] - table[i - 1][j - 1]) / (factor - 1);
      const double change = std::max(std::abs(table[i][j] - table[i][j - 1]),
                                     std::abs(table[i][j] - table[i - 1][j - 1]));
      if (change <= error) error = change, best = table[i][j];
    }
  }
  return best;
}

/// The least of the errors that first steps of differences leave, from `step` on, each a quarter of the one before: one
/// that crosses no kink tells whether a derivative is right, and a wrong one is wrong by all. Deep ReLU models have
/// kinks within 1e-6 of where they are.
template <class F>
double least_error(double step, const F& error_by) {
  double least = INFINITY;
  for (int i = 0; i < 10 && !(least < 1e-9); ++i, step /= 4) least = std::min(least, error_by(step));
  return least;
}

// Templates, though S is double: who only includes this header does not pay for them.

/// Moves the tensors by random amounts, and takes the gradients there.
template <class S>
Entries move_and_differentiate(const CheckedLoss<S>& loss, const GradcheckOptions& options,
                               const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  for (const auto& tensor : run.tensors) {
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      tensor.value[i] += options.spread * random.of("move." + tensor.name, i);
    }
  }
  std::ranges::fill(run.memory, 1e30);
  loss.gradient();
  Entries gradients;
  for (const auto& tensor : run.tensors) gradients.emplace_back(tensor.gradient.begin(), tensor.gradient.end());
  return gradients;
}

/// Holds entries of each tensor against differences.
template <class S>
void check_entries(const CheckedLoss<S>& loss, const Entries& gradients, const GradcheckOptions& options,
                   GradientReport& report) {
  const Subject<S>& run = loss.run;
  double largest = 0;
  for (const auto& gradient : gradients) {
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
  }
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& tensor = run.tensors[b];
    const Index size = static_cast<Index>(tensor.value.size());
    for (Index e = 0; e < std::min(options.entries_per_tensor, size); ++e) {
      const auto i = static_cast<std::size_t>(bits(key_of(options.seed, tensor.name), static_cast<std::uint64_t>(e)) %
                                              static_cast<std::uint64_t>(size));
      const double before = tensor.value[i];
      const auto along = [&](double h) {
        tensor.value[i] = before + h;
        const double value = loss();
        tensor.value[i] = before;
        return value;
      };
      const double error = least_error(options.step, [&](double step) {
        const double expected = derivative(along, step);
        const double scale = std::max({std::abs(expected), std::abs(gradients[b][i]), 1e-3 * largest, 1e-12});
        return std::abs(expected - gradients[b][i]) / scale;
      });
      if (!(error <= report.worst)) report.worst = error, report.worst_name = tensor.name;
      ++report.entries;
    }
  }
}

/// <w, J v> by differences along v against <J^T w, v>; the tensors end where they are.
template <class S>
double adjoint_error(const CheckedLoss<S>& loss, const Entries& gradients, const GradcheckOptions& options,
                     const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  const Entries origin = values_of(run), direction = direction_of(run, random);
  double pulled = 0, scale = 0;
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      pulled += direction[b][i] * gradients[b][i];
      scale += std::abs(direction[b][i] * gradients[b][i]);
    }
  }
  const auto along = [&](double h) {
    move_to(run, origin, direction, h);
    return loss();
  };
  const double error = least_error(options.step, [&](double step) {
    return std::abs(derivative(along, step) - pulled) / std::max(scale, 1e-300);
  });
  along(0);
  return error;
}

template <class S>
GradientReport check_gradients(const Subject<S>& run, const GradcheckOptions& options) {
  check_options(options);
  const CheckNumbers random{options.seed};
  const CheckedLoss<S> loss(run, random);
  const Entries gradients = move_and_differentiate(loss, options, random);
  GradientReport report;
  check_entries(loss, gradients, options, report);
  report.adjoint = adjoint_error(loss, gradients, options, random);
  return report;
}

/// J v of forward mode against <J^T w, v>, which are the gradients in the tensors of the loss.
template <class S>
double jvp_error(const CheckedLoss<S>& loss, const Subject<Dual<S>>& dual, const Entries& direction) {
  dual.forward();
  double pushed = 0, pulled = 0, scale = 1e-300;
  for (std::size_t k = 0; k < loss.weights.size(); ++k) {
    for (std::size_t i = 0; i < loss.weights[k].size(); ++i) {
      pushed += loss.weights[k][i] * dual.outputs[k][i].tangent;
    }
  }
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      const double part = loss.run.tensors[b].gradient[i] * direction[b][i];
      pulled += part, scale += std::abs(part);
    }
  }
  return std::abs(pushed - pulled) / scale;
}

/// <u, H v> by the backward pass of `dual`, whose forward pass was, against differences of <u, gradient> along v, for a
/// random u on one tensor after the other; the tensors end elsewhere.
template <class S>
double hvp_error(const CheckedLoss<S>& loss, const Subject<Dual<S>>& dual, const Entries& direction,
                 const GradcheckOptions& options, const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  for (std::size_t k = 0; k < loss.weights.size(); ++k) std::ranges::copy(loss.weights[k], dual.seeds[k].begin());
  dual.backward();
  double largest = 1e-300, worst = 0;
  for (const auto& tensor : dual.tensors) {
    for (const Dual<S>& entry : tensor.gradient) largest = std::max(largest, std::abs(entry.tangent));
  }
  const Entries origin = values_of(run);
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& tensor = run.tensors[b];
    std::vector<double> probe(tensor.gradient.size());
    for (std::size_t i = 0; i < probe.size(); ++i) probe[i] = random.of("probe." + tensor.name, i);
    const auto along = [&](double h) {
      move_to(run, origin, direction, h);
      loss.gradient();
      double total = 0;
      for (std::size_t i = 0; i < probe.size(); ++i) total += probe[i] * tensor.gradient[i];
      return total;
    };
    double product = 0, size = largest;
    for (std::size_t i = 0; i < probe.size(); ++i) {
      const double part = probe[i] * dual.tensors[b].gradient[i].tangent;
      product += part, size += std::abs(part);
    }
    const double error =
        least_error(options.step, [&](double step) { return std::abs(derivative(along, step) - product) / size; });
    worst = std::max(worst, error);
  }
  return worst;
}

/// J v and H v on dual numbers against the reverse pass and differences of it. `run` holds the point, `dual` the same.
template <class S>
void check_directions(const Subject<S>& run, const Subject<Dual<S>>& dual, const GradcheckOptions& options,
                      GradientReport& report) {
  const CheckNumbers random{options.seed};
  const Entries direction = direction_of(run, random);
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      dual.tensors[b].value[i] = Dual<S>(run.tensors[b].value[i], direction[b][i]);
    }
  }
  const CheckedLoss<S> loss(run, random);
  loss.gradient();
  report.jvp = jvp_error(loss, dual, direction);
  report.hvp = hvp_error(loss, dual, direction, options, random);
}

/// What does not move is the same in both.
template <class S>
void copy_point(EvaluationMemory<S>& run, EvaluationMemory<Dual<S>>& dual) {
  std::ranges::copy(run.parameters(), dual.parameters().begin());
  std::ranges::copy(run.constants(), dual.constants().begin());
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.is_input(i)) continue;
    const std::string_view name = graph.label[i].name.view();
    if (graph.info[i].kind == Kind::indices) std::ranges::copy(run.indices(name), dual.indices(name).begin());
    if (graph.info[i].kind == Kind::input) std::ranges::copy(run.input(name), dual.input(name).begin());
  }
}

/// The same of a model.
template <auto const& model>
void check_directions(Evaluation<model>& run, const GradcheckOptions& options, GradientReport& report) {
  Evaluation<model, Cpu<Dual<double>>> dual(options.rows, 0, options.lengths);
  copy_point<double>(run, dual);
  check_directions(subject_of(run), subject_of(dual), options, report);
}

/// The options with the lengths that were not given filled in.
inline GradcheckOptions with_lengths(GradcheckOptions options, const GraphView& graph) {
  if (options.lengths.empty()) {
    for (const Index length : {3, 1, 5}) options.lengths.push_back(std::min(length, graph.longest));
  }
  if (!options.rows.tokens) options.rows.tokens = offsets_of(options.lengths).back();
  return options;
}

/// What the indices of an input are below.
///
/// Errors  throws Error if the options say more than its tables have
inline Index classes_of(const GraphView& graph, int node, const GradcheckOptions& options) {
  const Index bound = graph.index_bound(node, options.rows);
  if (options.classes <= bound) return options.classes ? options.classes : std::clamp<Index>(bound, 1, 5);
  throw Error("indices below " + std::to_string(options.classes) + ", but '" +
                  std::string(graph.label[node].name.view()) + "' must be below " + std::to_string(bound),
              "give fewer classes, or none");
}

/// Random inputs, which keep away from 0.
template <class S>
void fill_inputs(EvaluationMemory<S>& run, const GradcheckOptions& options) {
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.is_input(i)) continue;
    const std::string name(graph.label[i].name.view());
    const std::uint64_t key = key_of(options.seed, "input." + name);
    if (graph.info[i].kind == Kind::indices) {
      const std::span<std::int32_t> values = run.indices(name);
      const auto classes = static_cast<std::uint64_t>(classes_of(graph, i, options));
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = static_cast<std::int32_t>(bits(key, k) % classes);
      }
    } else {
      const std::span<S> values = run.input(name);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double z = normal(key, k);
        values[k] = z + (z < 0 ? -0.3 : 0.3);
      }
    }
  }
}

}  // namespace detail

/// Checks an evaluation whose inputs have been set; leaves its parameters moved by random amounts.
///
/// Cost    14 forward passes for each entry and for the adjoint identity; up to 140 where kinks are near, or where a
///         derivative is wrong
template <class Evaluation>
GradientReport check_gradients(Evaluation& run, const GradcheckOptions& options = {}) {
  static_assert(std::is_same_v<typename Evaluation::S, double>,
                "simplx: gradients are checked in double: use Cpu<double>");
  return detail::check_gradients(detail::subject_of(run), options);
}

/// Checks all derivatives of a model at random parameters and inputs, which keep away from 0.
///
/// Errors  throws Error for classes or lengths beyond the model's tables
/// Cost    14 forward passes for each entry and for the adjoint identity, 14 gradients for each tensor; up to 140 of
///         each where kinks are near or a derivative is wrong
template <auto const& model>
GradientReport gradcheck(const GradcheckOptions& given = {}) {
  const GradcheckOptions options = detail::with_lengths(given, view_of<GraphOf<model>>);
  Evaluation<model> run(options.rows, options.seed, options.lengths);
  detail::fill_inputs<double>(run, options);
  GradientReport report = check_gradients(run, options);
  detail::check_directions(run, options, report);
  return report;
}

}  // namespace simplx

// ---- simplx/train/gradient_sums.hpp

/// \file simplx/train/gradient_sums.hpp
/// The gradient of a model's parameters while sequences add to it: one copy, whatever the number of threads.
///
/// A parameter that several steps of the model use has a sum for each use (core/plan.hpp), and one that the layers of a
/// stack share has them for each layer: that of the first lies in the layout of the parameters, the further ones after
/// it, until `fold` adds them up.

namespace simplx::inline SIMPLX_TARGET {

/// A further sum of a parameter's gradient, in elements of the two buffers.
struct FurtherUse {
  Index parameter, sum, size;
};

namespace detail {

template <class G>
void list_further_uses(Index parameters, Index sums, std::vector<FurtherUse>& uses) {
  unroll<0, G::layout.further_elements ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Info info = G::table.info[i];
    const Index parameter = parameters + G::layout.parameter[i], sum = sums + G::layout.further[i];
    if constexpr (info.stack) {
      using Layers = typename G::template layers_of<i>;
      for (int layer = 0; layer < Layers::layers; ++layer) {
        const Index first = parameter + Layers::offsets.parameter[layer];
        const Index further = sum + Layers::offsets.further[layer];
        Layers::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
          constexpr Index size = Child::layout.parameters;
          if (layer >= Layers::sets && size > 0) uses.push_back({first, further - size, size});
          list_further_uses<Child>(first, further, uses);
        });
      }
    } else if constexpr (info.kind == Kind::parameter) {
      for (int use = 1; use < G::plan.uses[i]; ++use) {
        uses.push_back({parameter, sum + (use - 1) * info.parameters, info.parameters});
      }
    }
  });
}

}  // namespace detail

/// The sums of further uses, beside a buffer for those of the first.
///
/// Cost    the parameters that several steps or layers use, for each use after the first
template <class G, class S>
class FurtherSums {
 public:
  FurtherSums() : sums_(G::layout.further_elements) { detail::list_further_uses<G>(0, 0, uses_); }

  S* data() { return sums_.data(); }
  Index size() const { return sums_.size(); }
  void clear() { std::ranges::fill(sums_, S(0)); }

  /// Adds them to elements [begin, end) of `first`, in the layout of the parameters, which are then the gradient, and
  /// leaves zeros.
  void fold(S* first, Index begin, Index end) {
    for (const FurtherUse& use : uses_) {
      const Index from = std::max(begin, use.parameter), to = std::min(end, use.parameter + use.size);
      for (Index i = from; i < to; ++i) first[i] += std::exchange(sums_[use.sum + i - use.parameter], S(0));
    }
  }

 private:
  cpu::Buffer<S> sums_;
  std::vector<FurtherUse> uses_;
};

/// All sums of a gradient.
///
/// Cost    the parameters, and FurtherSums
template <class G, class S>
class GradientSums {
 public:
  GradientSums() : first_(G::layout.parameters) {}

  /// Where the backward pass of a sequence adds its gradient.
  void give_to(Context<S>& context) {
    context.gradients = first_.data();
    context.further_gradients = further_.data();
  }

  /// Adds up elements [begin, end), in the layout of the parameters: then they are the gradient.
  void fold(Index begin, Index end) { further_.fold(first_.data(), begin, end); }

  /// What the first uses added: after fold the gradient.
  std::span<S> folded() { return first_.span(); }
  Index size() const { return first_.size() + further_.size(); }

  void clear() {
    std::ranges::fill(first_, S(0));
    further_.clear();
  }

 private:
  cpu::Buffer<S> first_;
  FurtherSums<G, S> further_;
};

}  // namespace simplx

// ---- simplx/train/batch.hpp

/// \file simplx/train/batch.hpp
/// TokenBatch: packed sequences of tokens with their labels, one for each token or one for each sequence.

namespace simplx::inline SIMPLX_TARGET {

/// Sequence s occupies [offsets[s], offsets[s + 1]) of both arrays: {0, 3, 5} is a sequence of 3 tokens and one of 2.
/// Tokens before the first offset and after the last are no part of the batch. Where a model has one label for each
/// sequence, labels[s] is that of sequence s. A label of -100 carries no loss.
struct TokenBatch {
  std::vector<std::int32_t> tokens, labels;
  std::vector<Index> offsets;

  Index sequences() const { return std::max<Index>(static_cast<Index>(offsets.size()) - 1, 0); }
  /// Where they are, as evaluations take it; valid while the offsets stay.
  Segments segments() const { return {offsets.data(), sequences()}; }
};

/// What a batch must fit.
struct BatchLimits {
  Index sequences, context;  ///< at most, each
  Index tokens, labels;      ///< tokens are in [0, tokens), labels in [0, labels)
  Axis labelled = Axis::tokens;  ///< what has a label: tokens or sequences
  bool ignores = true;           ///< whether a label may be -100
};

/// Errors  throws Error if a sequence of a batch is not among its tokens
inline void check_offsets(const TokenBatch& batch) {
  Index before = 0;
  for (std::size_t i = 0; i < batch.offsets.size(); before = batch.offsets[i++]) {
    const Index offset = batch.offsets[i];
    if (before <= offset && offset <= std::ssize(batch.tokens)) continue;
    throw Error("offset " + std::to_string(i) + " of the batch is " + std::to_string(offset) +
                    (i ? " after " + std::to_string(before) : "") + ", of " + std::to_string(batch.tokens.size()) +
                    " tokens",
                "offsets never fall, and lie between 0 and the number of tokens");
  }
}

/// Errors  throws Error unless a batch has a label for each token, or for each sequence where these have them; none but
///         tokens after the last sequence may lack it, or have it
inline void check_labels(const TokenBatch& batch, Axis labelled) {
  const bool by_sequence = labelled == Axis::sequences;
  const Index labels = std::ssize(batch.labels), needed = by_sequence ? batch.sequences() : batch.offsets.back();
  const Index most = by_sequence ? needed : std::ssize(batch.tokens);
  if (labels >= needed && labels <= most) return;
  const std::string counted = std::to_string(std::clamp(labels, needed, most));
  throw Error(std::to_string(labels) + " labels for " + counted + (by_sequence ? " sequences" : " tokens"),
              by_sequence ? "every sequence has one label" : "every token has one label; -100 carries no loss");
}

/// Errors  throws Error that says which limit a batch does not keep
inline void check_batch(const TokenBatch& batch, const BatchLimits& limits) {
  if (batch.sequences() < 1) {
    throw Error("the batch has no sequences",
                "offsets are where sequences begin and the last one ends: {0, 3, 5} is one of 3 and one of 2 tokens");
  }
  if (batch.sequences() > limits.sequences) {
    throw Error("a batch of " + std::to_string(batch.sequences()) + " sequences for a trainer made for at most " +
                    std::to_string(limits.sequences),
                "raise TrainerOptions::batch");
  }
  check_offsets(batch);
  const Index* const offsets = batch.offsets.data();
  for (Index b = 0; b < batch.sequences(); ++b) {
    const Index length = offsets[b + 1] - offsets[b];
    if (length >= 1 && length <= limits.context) continue;
    throw Error("a sequence of " + std::to_string(length) + " tokens for a context of " +
                    std::to_string(limits.context),
                "sequences have between one token and the context");
  }
  check_labels(batch, limits.labelled);
  const bool by_sequence = limits.labelled == Axis::sequences;
  const Index begin = batch.offsets.front(), end = batch.offsets.back();
  const std::int32_t* const tokens = batch.tokens.data();
  for (Index i = begin; i < end; ++i) {
    if (tokens[i] >= 0 && tokens[i] < limits.tokens) continue;
    throw Error("token " + std::to_string(tokens[i]) + " at position " + std::to_string(i) +
                    ", but the model knows " + std::to_string(limits.tokens) + " tokens",
                "tokens are in [0, vocab)");
  }
  const Index first = by_sequence ? 0 : begin, last = by_sequence ? batch.sequences() : end;
  for (Index i = first; i < last; ++i) {
    const Index label = batch.labels.data()[i];
    if ((label == ignored_label && limits.ignores) || (label >= 0 && label < limits.labels)) continue;
    throw Error((by_sequence ? "sequence " : "the token at position ") + std::to_string(i) + " has the label " +
                    std::to_string(label) + ", but the model knows " + std::to_string(limits.labels) + " classes",
                std::string("labels are in [0, classes); ") +
                    (limits.ignores ? "-100 carries no loss" : "the model looks them up in a table without -100"));
  }
}

/// Tokens, or sequences, that carry a loss.
///
/// Errors  throws Error for offsets outside the tokens, or another number of labels
inline Index labelled_rows(const TokenBatch& batch, Axis labelled) {
  if (batch.offsets.empty()) return 0;
  check_offsets(batch);
  check_labels(batch, labelled);
  const bool by_sequence = labelled == Axis::sequences;
  const auto labels = batch.labels.begin();
  const Index begin = by_sequence ? 0 : batch.offsets.front();
  const Index end = by_sequence ? batch.sequences() : batch.offsets.back();
  return end - begin - std::count(labels + begin, labels + end, ignored_label);
}
inline Index labelled_tokens(const TokenBatch& batch) { return labelled_rows(batch, Axis::tokens); }
inline Index labelled_sequences(const TokenBatch& batch) { return labelled_rows(batch, Axis::sequences); }

/// One sequence without labels; each token, or the sequence, has `label` in the place of one.
inline TokenBatch unlabelled(std::span<const std::int32_t> tokens, std::int32_t label = ignored_label,
                             Axis labelled = Axis::tokens) {
  return {{tokens.begin(), tokens.end()},
          std::vector<std::int32_t>(labelled == Axis::sequences ? 1 : tokens.size(), label),
          {0, static_cast<Index>(tokens.size())}};
}

}  // namespace simplx

// ---- simplx/train/micro_batches.hpp

/// \file simplx/train/micro_batches.hpp
/// MicroBatches: which sequences of a batch a thread evaluates at once. MicroBatchWorkspace: where it does.
///
/// A sequence by itself stays in cache, and a product of its rows is fast from 64 rows on. With fewer, weights are
/// fetched for little work: 64 sequences of 16 tokens take 1.6 to 1.8 times as long as 16 of 64, 256 of 4 four times.
/// So sequences that follow one another are a micro-batch while they have at most 64 tokens, and, in training, at most
/// a sixteenth of the batch's, which leaves work for as many threads. All of that is read off the batch: neither
/// threads nor limits change any bits. A Learner divides its loss by the same rule (differentiate/divided_loss.hpp).

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

inline constexpr Index micro_batch_rows = 64;  ///< at most, but for one longer sequence
/// Tokens of a micro-batch, at most, where these many are to make so many micro-batches at least.
inline Index micro_batch_tokens(Index all, Index shares) { return std::min(micro_batch_rows, all / shares); }

/// Where micro-batches of at most so many tokens, or of one longer sequence, begin, and the last one ends.
inline void divide_sequences(const Segments& sequences, Index most_tokens, std::vector<Index>& begins) {
  begins.clear();
  for (Index s = 0; s < sequences.count; ++s) {
    const bool joins = !begins.empty() && s - begins.back() < micro_batch_rows &&  // those of a Learner may be empty
                       sequences.offsets[s + 1] - sequences.offsets[begins.back()] <= most_tokens;
    if (!joins) begins.push_back(s);
  }
  begins.push_back(sequences.count);
}

}  // namespace detail

/// The sequences of a batch in runs, each of them one micro-batch.
class MicroBatches {
 public:
  /// Room for batches of so many sequences of so many tokens at most.
  ///
  /// together  whether the model may see several sequences at once (detail::keeps_sequences_apart)
  /// shares    a batch of short sequences is cut into at least so many micro-batches, so that threads have work; with 1
  ///           the 64 tokens alone limit one
  MicroBatches(Index sequences, Index context, bool together, Index shares = 16)
      : context_(context),
        shares_(shares),
        most_tokens_(together ? detail::micro_batch_tokens(sequences * context, shares) : 0) {
    begins_.reserve(static_cast<std::size_t>(sequences) + 1);
  }

  /// Rows of the largest micro-batch.
  Rows capacity() const {
    return {.tokens = std::max(context_, most_tokens_), .sequences = std::max<Index>(most_tokens_, 1),
            .longest_sequence = context_};
  }

  /// Divides a batch of at most as many sequences.
  void divide(const TokenBatch& batch) {
    const Index all = batch.offsets.back() - batch.offsets.front();
    detail::divide_sequences(batch.segments(), std::min(most_tokens_, detail::micro_batch_tokens(all, shares_)),
                             begins_);
  }

  Index count() const { return std::ssize(begins_) - 1; }
  /// The first sequence of a micro-batch; that of the next one is the end.
  Index begin(Index number) const { return begins_[static_cast<std::size_t>(number)]; }

 private:
  Index context_, shares_, most_tokens_;
  std::vector<Index> begins_;
};

/// The arena of one thread, for one micro-batch at a time.
template <class G, class Backend>
class MicroBatchWorkspace : public detail::Workspace<G, Backend> {
 public:
  using S = typename Backend::Scalar;

  explicit MicroBatchWorkspace(const Rows& capacity, detail::Seeds seeds = detail::Seeds::room)
      : detail::Workspace<G, Backend>(capacity, seeds), offsets_(static_cast<std::size_t>(capacity.sequences) + 1) {}

  /// For sequences first .. last of these.
  Context<S> context_of(const Segments& all, Index first, Index last) {
    const Index* const begins = all.offsets + first;
    Rows rows{.tokens = begins[last - first] - begins[0], .sequences = last - first};
    for (Index s = 0; s < rows.sequences; ++s) {
      offsets_[static_cast<std::size_t>(s) + 1] = begins[s + 1] - begins[0];
      rows.longest_sequence = std::max(rows.longest_sequence, begins[s + 1] - begins[s]);
    }
    return this->context(rows, {offsets_.data(), rows.sequences}, rows.longest_sequence);
  }

 private:
  std::vector<Index> offsets_;  // of its sequences, from 0
};

}  // namespace simplx

// ---- simplx/differentiate/divided_loss.hpp

/// \file simplx/differentiate/divided_loss.hpp
/// DividedLoss: a loss of many rows, evaluated some rows at a time, by as many threads as there are.
///
///     mean over all rows = sum over parts of (rows of the part / rows of all) mean over the part
///
/// and the same is true of a sum of such means, of their multiples, and of what reads no rows beside them:
/// mean(error) + 0.1 * mean(divergence) + penalty. A sum over rows is that over its parts. So the same graph is
/// evaluated for each part, and its gradients, times the part's share, add up to that of the whole. A part stays in
/// cache, and memory is that of a part for each thread. Parts are read off the rows and lengths of sequences, and add
/// in their order (core/turn.hpp): threads change no bits.

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// What a fixed value says of rows: nothing, a mean or a sum over them to which parts add up, or what they do not tell.
enum class Says : unsigned char { nothing, mean, sum, more };

/// How the rows of a graph are divided, if its result allows it.
struct Division {
  Says result = Says::more;  ///< a mean or a sum: it does
  Axis axis{};               ///< of the rows of that mean
  bool sequences = false;    ///< parts are whole sequences, with their tokens; otherwise rows of Axis::batch

  constexpr bool possible() const { return result == Says::mean || result == Says::sum; }
};

/// Reads off a graph what its nodes say of rows.
template <class G>
struct DivisionOf {
  Says says[G::count]{};
  Axis axis[G::count]{};  ///< of a mean
  bool apart = true;      ///< no row reads others than those of its own sequence, nor what they were reduced to
  bool batch = false, sequences = false;

  constexpr DivisionOf() {
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].kind != Kind::outputs) take(i);
    }
    each_inner_graph<G>([&]<class Inner>() {
      const DivisionOf<Inner> inner;
      apart &= inner.apart && std::ranges::all_of(inner.says, [](Says s) { return s == Says::nothing; });
      batch |= inner.batch, sequences |= inner.sequences;
    });
  }

 private:
  constexpr void take(int i) {
    const Info& info = G::table.info[i];
    if (info.shape.is_fixed()) return take_fixed(i);
    batch |= info.shape.axis == Axis::batch;
    sequences |= info.shape.axis == Axis::tokens || info.shape.axis == Axis::sequences;
    apart &= info.rows_apart && info.shape.axis != Axis::labelled;
    for (int a = 0; a < info.argument_count; ++a) apart &= says[info.arguments[a]] == Says::nothing;
    apart &= looked_up_axis<G>(i) == Axis::fixed;
  }
  /// A fixed value: a mean or sum over rows, or what such make of others that they are linear in.
  constexpr void take_fixed(int i) {
    const Info& info = G::table.info[i];
    const Tag name = G::flat.label[i].op;
    const auto is = [&](auto... names) { return ((name == Tag(names)) || ...); };
    if (info.argument_count == 0) return;
    const int x = info.arguments[0], y = info.argument_count == 2 ? info.arguments[1] : x;
    const auto say = [&](Says what, Axis over) { says[i] = what, axis[i] = over; };
    if (!G::table.info[x].shape.is_fixed()) {
      return say(is("mean") ? Says::mean : is("sum") ? Says::sum : Says::more, G::table.info[x].shape.axis);
    }
    // One mask is for all rows, and a pull-back of a user's own may be other than linear in the gradient.
    bool of_rows = is("dropout", "custom");
    for (int a = 0; a < info.argument_count; ++a) {
      of_rows |= !G::table.info[info.arguments[a]].shape.is_fixed() || says[info.arguments[a]] != Says::nothing;
    }
    if (!of_rows) return;
    const bool x_says = says[x] != Says::nothing, y_says = says[y] != Says::nothing;
    const auto as = [&](int operand) { say(says[operand], axis[operand]); };
    if (is("output", "probe", "negate", "sum", "mean")) {
      as(x);
    } else if (is("add", "subtract") && x_says && y_says && says[x] == says[y] && axis[x] == axis[y]) {
      as(x);
    } else if (is("add", "subtract") && x_says != y_says && says[x_says ? x : y] == Says::mean) {
      as(x_says ? x : y);  // m + c is the mean of m + c; a sum would count c once for each part
    } else if (is("multiply") && x_says != y_says) {
      as(x_says ? x : y);
    } else if (is("divide") && !y_says) {
      as(x);
    } else {
      say(Says::more, {});
    }
  }
};

template <class G>
constexpr Division division_of() {
  if constexpr (G::sound) {
    const GraphView& graph = view_of<G>;
    const DivisionOf<G> all;
    if (G::layout.outputs != 1 || !all.apart) return {};
    if (all.batch == all.sequences) return {};  // parts have rows of one kind: neither of none, nor of both
    for (int i = 0; i < graph.count; ++i) {
      if (graph.is_input(i) && graph.wanted[i]) return {};  // its gradient is that of all rows, wherever they are
    }
    const int result = graph.result_node(0);
    if (graph.info[result].shape == fixed_shape(1, 1)) return {all.says[result], all.axis[result], all.sequences};
  }
  return {};
}

}  // namespace detail

/// Cost    gradients of a parameter's further uses (GradientSums), and for each thread an arena of a part: at most 64
///         rows of Axis::batch; or 64 sequences of together at most 64 tokens and a sixteenth of all; or one longer one
template <class G, class Backend>
class DividedLoss {
  static constexpr detail::Division division = detail::division_of<G>();
  static_assert(division.possible());

 public:
  using S = typename Backend::Scalar;
  using Run = Execute<G, Backend>;

  /// The loss; `all` has the rows, inputs, parameters and buffers of everything that was given.
  double value(cpu::Team& team, const Context<S>& all) {
    divide(team, all);
    team.run([&](int member) {
      for (Index p = member; p < parts(); p += team.size()) forward(all, p, member);
    });
    return loss();
  }
  /// The same, and its gradient in `all.gradients`.
  double value_and_grad(cpu::Team& team, const Context<S>& all) {
    divide(team, all);
    const Index share = round_up((G::layout.parameters + team.size() - 1) / team.size(), alignment);
    const auto begin_of = [&](int member) { return std::min(member * share, G::layout.parameters); };
    team.run([&](int member) {
      std::fill(all.gradients + begin_of(member), all.gradients + begin_of(member + 1), S(0));
    });
    turns_.start();
    team.run([&](int member) {
      for (Index p = turns_.deal(); p < parts(); p = turns_.deal()) {
        detail::Turn turn(turns_, p);
        Context<S> part = forward(all, p, member);
        const double weight = weight_of(all, part);
        if (weight == 0) continue;
        part.turn = &turn;
        part.output_gradients[0][0] = static_cast<S>(weight);
        Run::backward(part);
      }
    });
    team.run([&](int member) { further_.fold(all.gradients, begin_of(member), begin_of(member + 1)); });
    return loss();
  }

 private:
  static constexpr Index parts_at_least = 16;  // as train/micro_batches.hpp, which says why

  /// Evaluates part p and notes its share of the loss: of no rows, whose mean is not a number, nothing.
  Context<S> forward(const Context<S>& all, Index p, int member) {
    const Context<S> part = context_of(all, p, members_[static_cast<std::size_t>(member)]);
    const double weight = weight_of(all, part);
    Run::forward(part);
    losses_[p] = weight != 0 ? weight * static_cast<double>(part.outputs[0][0]) : 0;
    return part;
  }
  double loss() const {
    double total = 0;
    for (Index p = 0; p < parts(); ++p) total += losses_[p];
    return total;
  }

  Index parts() const { return std::ssize(begins_) - 1; }
  /// Finds where parts begin, and the last ends, in rows of Axis::batch or in sequences; and makes room for them. Of
  /// what has no rows all is one part: what a mean or a sum over none is, the graph says.
  void divide(const cpu::Team& team, const Context<S>& all) {
    begins_.clear();
    if (rows_divided(all) == 0) {
      begins_.push_back(0);
      begins_.push_back(division.sequences ? all.segments.count : 0);
    } else if constexpr (!division.sequences) {
      const Index rows = all.rows[static_cast<int>(Axis::batch)];
      for (Index row = 0; row < rows; row += detail::micro_batch_rows) begins_.push_back(row);
      begins_.push_back(rows);
    } else {
      const Index tokens = all.rows[static_cast<int>(Axis::tokens)];
      detail::divide_sequences(all.segments, detail::micro_batch_tokens(tokens, parts_at_least), begins_);
    }
    make_room(team, all);
  }
  Rows rows_of(const Context<S>& all, Index p) const {
    const Index begin = begins_[static_cast<std::size_t>(p)], end = begins_[static_cast<std::size_t>(p) + 1];
    if constexpr (!division.sequences) return {.batch = end - begin};
    const Index* const offsets = all.segments.offsets;
    Rows rows{.tokens = offsets[end] - offsets[begin], .sequences = end - begin};
    for (Index s = begin; s < end; ++s) {
      rows.longest_sequence = std::max(rows.longest_sequence, offsets[s + 1] - offsets[s]);
    }
    return rows;
  }
  /// Makes what holds the largest part, and the largest so far, unless there is room.
  void make_room(const cpu::Team& team, const Context<S>& all) {
    turns_.make_room(parts());
    if (losses_.size() < parts()) losses_ = cpu::Buffer<double>(parts());
    Rows largest = capacity_;
    for (Index p = 0; p < parts(); ++p) largest = largest.or_more(rows_of(all, p));
    if (!members_.empty() && capacity_.hold(largest)) return;
    members_.clear();  // the larger ones come in their place, not beside them
    capacity_ = {.sequences = 0};
    std::vector<MicroBatchWorkspace<G, Backend>> members;
    for (int t = 0; t < team.size(); ++t) members.emplace_back(largest);
    members_ = std::move(members);  // all of them, or none where memory is short
    capacity_ = largest;
  }

  Context<S> context_of(const Context<S>& all, Index p, MicroBatchWorkspace<G, Backend>& workspace) {
    const Index begin = begins_[static_cast<std::size_t>(p)], end = begins_[static_cast<std::size_t>(p) + 1];
    Context<S> part;
    if constexpr (division.sequences) {
      part = workspace.context_of(all.segments, begin, end);
    } else {
      part = workspace.context({.batch = end - begin}, all.segments, 0);
    }
    part.parameters = all.parameters;
    part.packed = all.packed;
    part.turned = all.turned;
    part.constants = all.constants;
    part.gradients = all.gradients;
    part.further_gradients = further_.data();
    part.random = all.random;
    part.random.first_sequence += begin;
    const GraphView& graph = view_of<G>;
    for (int i = 0; i < graph.count; ++i) {
      if (!graph.is_input(i)) continue;
      const Shape& shape = graph.info[i].shape;
      const Index first = shape.is_fixed() ? 0 : shape.axis == Axis::tokens ? all.segments.offsets[begin] : begin;
      const bool whole_numbers = graph.info[i].kind == Kind::indices;
      const Index bytes = first * shape.cols * static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      part.inputs[graph.input[i]] = static_cast<const char*>(all.inputs[graph.input[i]]) + bytes;
    }
    return part;
  }
  /// The rows that the loss is a mean or a sum over.
  static Index rows_divided(const Context<S>& context) { return context.rows[static_cast<int>(division.axis)]; }
  /// What the loss of a part counts in that of all.
  static double weight_of(const Context<S>& all, const Context<S>& part) {
    if (division.result == detail::Says::sum || rows_divided(all) == 0) return 1;
    return static_cast<double>(rows_divided(part)) / static_cast<double>(rows_divided(all));
  }

  FurtherSums<G, S> further_;
  std::vector<Index> begins_;
  std::vector<MicroBatchWorkspace<G, Backend>> members_;
  cpu::Buffer<double> losses_;
  detail::Turns turns_{0};
  Rows capacity_{.sequences = 0};
};

}  // namespace simplx

// ---- simplx/train/optimiser.hpp

/// \file simplx/train/optimiser.hpp
/// What an optimiser is: a handful of numbers, adjusted for some tensors, and the rule of a step of one element.
///
/// Optimisers are plain aggregates given anew for each step, so that a schedule is a number written into one.
/// Their state lies in the buffers of whoever trains; a rule with a single moment leaves the second alone. The rule is
/// written once, over V: a vector of elements, a single one, or a number on a GPU (docs/training.md has one in full).

namespace simplx::inline SIMPLX_TARGET {

/// How the update of a tensor differs from what the optimiser says.
struct ParameterSettings {
  double learning_rate_factor = 1;            ///< 0 freezes
  bool decays = true;                         ///< the optimiser's own weight decay applies
  std::optional<double> weight_decay = {};    ///< instead of that, whatever `decays` says
  std::optional<double> epsilon = {}, momentum = {};

  bool frozen() const { return learning_rate_factor == 0; }
  double weight_decay_or(double own) const { return weight_decay.value_or(decays ? own : 0); }
  bool operator==(const ParameterSettings&) const = default;
};

/// The flat buffers of an update, all in the layout of the parameters.
template <class S>
struct UpdateBuffers {
  S *parameters, *gradients, *first_moments, *second_moments;
};

/// Holds a number of an optimiser or of a group of parameters, such as "learning_rate", against [0, end); without an
/// end it must be finite in the parameters' type.
///
/// Errors  throws Error where it is outside, or no number
template <class S = double>
void check_setting(std::string_view name, double value, std::optional<double> end = {}) {
  if (value >= 0 && (end ? value < *end : value <= std::numeric_limits<S>::max())) return;
  throw Error(std::string(name) + " is " + shortest(value),
              end ? "it must be a number from 0 on, below " + shortest(*end)
                  : "it must be a number from 0 on, finite in the parameters' precision");
}
/// The same of what is added to a divisor that may be 0: it must not become 0 in that type.
template <class S = double>
void check_positive_setting(std::string_view name, double value) {
  if (static_cast<S>(value) > 0 && value <= std::numeric_limits<S>::max()) return;
  throw Error(std::string(name) + " is " + shortest(value),
              "it must be a number above 0, finite in the parameters' precision");
}

/// `name` tells whose moments there are; `with` gives the optimiser of a tensor; `at<S>` gives the rule of a step,
/// counted from 1: rule(p, g, m, v) takes parameter and moments to their next state, g being the clipped gradient, and
/// `second_moment` tells whether it uses v.
template <class O, class S>
concept OptimiserOf = requires(const O& optimiser, const ParameterSettings& settings, long step, Vec<S> p, Vec<S> g,
                               Vec<S> m, Vec<S> v) {
  { O::name } -> std::convertible_to<std::string_view>;
  requires !std::string_view(O::name).empty();
  { optimiser.with(settings) } -> std::same_as<O>;
  requires std::same_as<decltype(std::remove_cvref_t<decltype(optimiser.template at<S>(step))>::second_moment),
                        const bool>;  // static constexpr
  optimiser.template at<S>(step)(p, g, m, v);
};

namespace detail {

/// What step and update say of anything else.
template <class S, class Other>
void no_optimiser() {
  static_assert(OptimiserOf<Other, S>,
                "simplx: step and update need an optimiser, such as AdamW{.learning_rate = 1e-3} or "
                "Sgd{.learning_rate = 0.1}; one of your own needs a name, with(settings) and at<S>(step), which gives "
                "the rule of a step: second_moment and operator()(p, g, m, v) of any V, as train/sgd.hpp has them");
}

}  // namespace detail

/// Errors  throws what the optimiser's own check<S>(), or check(), has to say about its numbers for parameters of S
template <class S, class Optimiser>
void check_optimiser(const Optimiser& optimiser) {
  if constexpr (requires { optimiser.template check<S>(); }) {
    optimiser.template check<S>();
  } else if constexpr (requires { optimiser.check(); }) {
    optimiser.check();
  }
}

/// Calls f.operator()<V>(i) over [begin, end): V is a vector, and a single element for what is left.
template <class S, class F>
__attribute__((always_inline)) inline void each_vector(Index begin, Index end, const F& f) {
  Index i = begin;
  for (; i + lanes<S> <= end; i += lanes<S>) f.template operator()<Vec<S>>(i);
  for (; i < end; ++i) f.template operator()<S>(i);
}

/// A step over [begin, end) by its rule, in one pass: the gradient is read times a scale (the clip factor), and zeros
/// are left in its place, ready for the next step. An element's result does not depend on the range.
///
/// Cost    memory traffic of 32 bytes for each float parameter, 24 by a rule without a second moment
template <class Rule, class S>
void update_range(const Rule& rule, double gradient_scale, const UpdateBuffers<S>& buffers, Index begin, Index end) {
  S *__restrict parameter = buffers.parameters, *__restrict gradient = buffers.gradients;
  S *__restrict first_moment = buffers.first_moments, *__restrict second_moment = buffers.second_moments;
  const S scale = static_cast<S>(gradient_scale);
  each_vector<S>(begin, end, [&]<class V>(Index i) __attribute__((always_inline)) {
    V p = load<V>(parameter + i), m = load<V>(first_moment + i), v{};
    if constexpr (Rule::second_moment) v = load<V>(second_moment + i);
    rule(p, V(load<V>(gradient + i) * scale), m, v);
    store(parameter + i, p);
    store(first_moment + i, m);
    if constexpr (Rule::second_moment) store(second_moment + i, v);
    store(gradient + i, V{});
  });
}

}  // namespace simplx

// ---- simplx/train/adamw.hpp

/// \file simplx/train/adamw.hpp
/// AdamW.
///
///     p <- p (1 - lr decay)
///     m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   g = scale * gradient
///     p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
///
/// As in PyTorch: decay is decoupled and comes first, epsilon is added after the bias correction.

namespace simplx::inline SIMPLX_TARGET {

/// What one step multiplies with: the numbers of AdamW, bias corrections included.
template <class S>
struct AdamWStep {
  static constexpr bool second_moment = true;
  S beta1, beta2, rest1, rest2, rate, root, epsilon, keep;

  /// The next state of an element, or of a vector of them, here or on a GPU; g is the clipped gradient.
  template <class V>
  SIMPLX_HD __attribute__((always_inline)) void operator()(V& p, V g, V& m, V& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    p = p * keep - rate * m / (sqrt(v) * root + epsilon);
  }
};

/// The settings of AdamW, decoupled decay included; moments and count of steps are those of the trainer.
struct AdamW {
  static constexpr const char* name = "adamw";

  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.1;

  /// Errors  throws Error for a rate, decay, beta or epsilon that would spoil the parameters
  template <class S>
  void check() const {
    check_setting<S>("AdamW's learning_rate", learning_rate);
    check_setting<S>("AdamW's beta1", beta1, 1);
    check_setting<S>("AdamW's beta2", beta2, 1);
    check_positive_setting<S>("AdamW's epsilon", epsilon);
    check_setting<S>("AdamW's weight_decay", weight_decay);
  }

  AdamW with(const ParameterSettings& settings) const {
    AdamW own = *this;
    own.learning_rate *= settings.learning_rate_factor;
    own.weight_decay = settings.weight_decay_or(weight_decay);
    own.epsilon = settings.epsilon.value_or(epsilon);
    return own;
  }

  template <class S>
  AdamWStep<S> at(long step) const {
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    return {.beta1 = static_cast<S>(beta1),
            .beta2 = static_cast<S>(beta2),
            .rest1 = static_cast<S>(1 - beta1),
            .rest2 = static_cast<S>(1 - beta2),
            .rate = static_cast<S>(learning_rate / correction1),
            .root = static_cast<S>(1 / std::sqrt(correction2)),
            .epsilon = static_cast<S>(epsilon),
            .keep = static_cast<S>(1 - learning_rate * weight_decay)};
  }
};

}  // namespace simplx

// ---- simplx/train/clip.hpp

/// \file simplx/train/clip.hpp
/// The global norm of a gradient, summed over fixed chunks, and the factor that limits it.
///
/// Chunks make the sum independent of the number of threads: whoever sums a chunk gets the same number, and
/// chunks are added in order.

namespace simplx::inline SIMPLX_TARGET {

/// Elements of a chunk.
inline constexpr Index norm_chunk = Index(1) << 14;

constexpr Index norm_chunks(Index count) { return (count + norm_chunk - 1) / norm_chunk; }

/// Sum of squares of a chunk: vectors of squares added up, then the lanes. Each square is an S: what overflows there
/// would overflow in the second moment of an optimiser, too.
template <class S>
double chunk_squared_norm(const S* gradient, Index count, Index chunk) {
  const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, count);
  constexpr Index step = lanes<S>;
  Vec<S> squares[4]{};
  Index i = begin;
  for (; i + 4 * step <= end; i += 4 * step) {
    for (int k = 0; k < 4; ++k) {
      const Vec<S> g = load<Vec<S>>(gradient + i + k * step);
      squares[k] += g * g;
    }
  }
  double total = static_cast<double>(sum((squares[0] + squares[1]) + (squares[2] + squares[3])));
  for (; i < end; ++i) total += static_cast<double>(static_cast<S>(gradient[i] * gradient[i]));
  return total;
}

/// The norm of a whole gradient, chunk by chunk, as a step has it.
template <class S>
double gradient_norm(const S* gradient, Index count) {
  double squared = 0;
  for (Index chunk = 0; chunk < norm_chunks(count); ++chunk) squared += chunk_squared_norm(gradient, count, chunk);
  return std::sqrt(squared);
}

/// min(1, limit / (norm + 1e-6)), as in PyTorch; a limit of 0 or less is off.
SIMPLX_HD constexpr double clip_factor(double norm, double limit) {
  const double factor = limit / (norm + 1e-6);
  return limit > 0 && factor < 1 ? factor : 1;
}

/// The first tensor whose gradient is not finite; if all are, "loss", or "gradient_norm" where that alone is not.
template <class S>
std::string first_broken(const std::vector<TensorInfo>& tensors, const S* gradient, double loss) {
  for (const TensorInfo& tensor : tensors) {
    for (Index i = 0; i < tensor.size(); ++i) {
      if (!std::isfinite(gradient[tensor.offset + i])) return tensor.name;
    }
  }
  return std::isfinite(loss) ? "gradient_norm" : "loss";
}

}  // namespace simplx

// ---- simplx/train/sgd.hpp

/// \file simplx/train/sgd.hpp
/// Gradient descent with heavy-ball momentum; m begins at zero, so that no step is special.
///
///     d = scale * gradient + decay p,   m <- momentum m + d
///     p <- p - lr m;   with Nesterov's look-ahead p <- p - lr (d + momentum m)
///
/// As in PyTorch with dampening 0: the rate is outside of m, so that a schedule acts at once, and decay is coupled
/// (a part of the gradient, and so of m, after clipping), unlike AdamW's.

namespace simplx::inline SIMPLX_TARGET {

/// The numbers of one step.
template <class S>
struct SgdStep {
  static constexpr bool second_moment = false;
  S rate, momentum, decay;
  bool nesterov;

  /// The next state of an element, or of a vector of them, here or on a GPU; g is the clipped gradient.
  template <class V>
  SIMPLX_HD __attribute__((always_inline)) void operator()(V& p, V g, V& m, V&) const {
    const V d = g + decay * p;
    m = momentum * m + d;
    p = p - rate * (nesterov ? d + momentum * m : m);
  }
};

/// The settings of gradient descent with momentum; decay is a part of the gradient, unlike that of AdamW.
struct Sgd {
  static constexpr const char* name = "sgd";

  double learning_rate = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;

  /// Errors  throws Error for a rate, momentum or decay that would spoil the parameters
  template <class S>
  void check() const {
    check_setting<S>("Sgd's learning_rate", learning_rate);
    check_setting<S>("Sgd's momentum", momentum, 1);
    check_setting<S>("Sgd's weight_decay", weight_decay);
  }

  Sgd with(const ParameterSettings& settings) const {
    Sgd own = *this;
    own.learning_rate *= settings.learning_rate_factor;
    own.momentum = settings.momentum.value_or(momentum);
    own.weight_decay = settings.weight_decay_or(weight_decay);
    return own;
  }

  template <class S>
  SgdStep<S> at(long) const {
    return {static_cast<S>(learning_rate), static_cast<S>(momentum), static_cast<S>(weight_decay), nesterov};
  }
};

}  // namespace simplx

// ---- simplx/train/groups.hpp

/// \file simplx/train/groups.hpp
/// Groups of parameters, by their names in checkpoints, that are trained with numbers of their own:
///
///     {{.name = "*", .weight_decay = 0.01},                                        // gains and biases decay too
///      {.name = "blocks.*.value.delta", .learning_rate_factor = 0.1, .epsilon = 1e-7},
///      {.name = "embedding.*", .learning_rate_factor = 0}}                         // frozen
///
/// Neighbouring tensors of equal settings are one run of the flat buffers, so that an update is still one pass.

namespace simplx::inline SIMPLX_TARGET {

/// What the tensors that match a pattern have instead of the optimiser's numbers; what is not given stays. Later
/// groups win, field by field; an optimiser ignores what it has no use for.
struct ParameterGroup {
  std::string name = "*";                            ///< '*' stands for any text
  std::optional<double> learning_rate_factor = {};   ///< times the optimiser's rate; 0 freezes
  std::optional<bool> decays = {};                   ///< whether the optimiser's own weight decay applies
  std::optional<double> weight_decay = {};           ///< instead of that, whatever `decays` says
  std::optional<double> epsilon = {};                ///< of AdamW
  std::optional<double> momentum = {};               ///< of Sgd
  bool optional = false;                             ///< a model may have no such tensor
};

/// Elements [begin, end) of the flat buffers, padding included.
struct SettingsRun {
  Index begin, end;
  ParameterSettings settings;
};

namespace detail {

[[gnu::cold]] inline void check_group(const ParameterGroup& group, const std::vector<TensorInfo>& tensors) {
  const std::string of_group = " of the parameter group '" + group.name + "'";
  check_setting("learning_rate_factor" + of_group, group.learning_rate_factor.value_or(1));
  check_setting("weight_decay" + of_group, group.weight_decay.value_or(0));
  check_positive_setting("epsilon" + of_group, group.epsilon.value_or(1));
  check_setting("momentum" + of_group, group.momentum.value_or(0), 1);
  for (const TensorInfo& tensor : tensors) {
    if (matches_glob(group.name, tensor.name)) return;
  }
  if (group.optional) return;
  throw Error("no parameter matches the group '" + group.name + "'",
              "the nearest names are " + nearest_names(group.name, names_of(tensors), 3));
}

inline ParameterSettings settings_of(const TensorInfo& tensor, const std::vector<ParameterGroup>& groups) {
  ParameterSettings settings{.decays = tensor.decays};
  for (const ParameterGroup& group : groups) {
    if (!matches_glob(group.name, tensor.name)) continue;
    settings.learning_rate_factor = group.learning_rate_factor.value_or(settings.learning_rate_factor);
    settings.decays = group.decays.value_or(settings.decays);
    if (group.weight_decay) settings.weight_decay = group.weight_decay;
    if (group.epsilon) settings.epsilon = group.epsilon;
    if (group.momentum) settings.momentum = group.momentum;
  }
  if (tensor.frozen) settings.learning_rate_factor = 0;  // by the model: no group thaws it
  return settings;
}

}  // namespace detail

/// The runs of equal settings that cover the buffers of these tensors, in order.
///
/// Errors  throws Error for a pattern that matches nothing, with the nearest names, unless it is optional; and for
///         negative numbers
inline std::vector<SettingsRun> settings_runs(const std::vector<TensorInfo>& tensors,
                                              const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) detail::check_group(group, tensors);
  std::vector<SettingsRun> runs;
  for (const TensorInfo& tensor : tensors) {
    const ParameterSettings settings = detail::settings_of(tensor, groups);
    const Index end = tensor.offset + round_up(tensor.size(), alignment);
    if (!runs.empty() && runs.back().settings == settings) {
      runs.back().end = end;
    } else {
      runs.push_back({tensor.offset, end, settings});
    }
  }
  return runs;
}

/// As check_optimiser<S>(optimiser), of what it becomes in each run, too.
template <class S, class Optimiser>
void check_optimiser(const Optimiser& optimiser, const std::vector<SettingsRun>& runs) {
  check_optimiser<S>(optimiser);
  for (const SettingsRun& run : runs) check_optimiser<S>(optimiser.with(run.settings));
}

/// Calls f(from, to, settings) for each part of [begin, end) that has settings of its own.
template <class F>
void each_run(const std::vector<SettingsRun>& runs, Index begin, Index end, const F& f) {
  auto run = std::partition_point(runs.begin(), runs.end(), [&](const SettingsRun& r) { return r.end <= begin; });
  for (; run != runs.end() && run->begin < end; ++run) {
    f(std::max(begin, run->begin), std::min(end, run->end), run->settings);
  }
}

}  // namespace simplx

// ---- simplx/train/trainer_options.hpp

/// \file simplx/train/trainer_options.hpp
/// What a trainer is told once, and what it says after each step.

namespace simplx::inline SIMPLX_TARGET {

/// Gives tensors other laws for their initial values; everything else stays.
using InitialLaws = std::vector<TensorInfo> (*)(std::vector<TensorInfo>);

/// What a trainer is told when it is made: limits, seed, laws and groups of parameters; threads change no bits.
struct TrainerOptions {
  Index batch = 8;         ///< sequences of a call at most
  Index context = 0;       ///< tokens of a sequence at most; unless given the model's member `context`, or as many as
                           ///< it has positions: a model with neither must be told
  std::uint64_t seed = 0;  ///< of the initial values, and of dropout
  int threads = 1;         ///< not part of the result's bits; as many are useful as a call has sequences that run apart
  double clip = 1;         ///< limit of the gradient's norm; 0 is off
  Index sequences_per_step = 0;  ///< at most, in all its parts; `batch` unless given
  std::vector<ParameterGroup> groups = {};  ///< parameters with rates, decay, ... of their own
  InitialLaws laws = nullptr;  ///< of the initial values, such as as_in_fairseq; the model's unless given
};

/// What a step did. A Trainer's loss is the mean over the labelled tokens (or sequences), in nats; a Learner's is the
/// first result of its function, in whatever unit that has, or 0 from update() where that is not one number.
struct StepResult {
  double loss = 0;           ///< before the update
  double gradient_norm = 0;  ///< before clipping
  Index labelled = 0;        ///< tokens (or sequences) with a label; 0 of a Learner, which knows no labels
  bool finite = true;        ///< otherwise nothing was updated
  std::string culprit;       ///< then: the first parameter whose gradient is not finite, "loss" or "gradient_norm"

  /// Takes a gradient's norm, which tells with the loss whether all is finite.
  void take_norm(double norm) {
    gradient_norm = norm;
    finite = std::isfinite(loss) && std::isfinite(norm);
  }
};

/// Errors  throws Error for a limit of the gradient's norm below 0, or that is no number
inline void check_clip(double clip) {
  if (!(clip >= 0)) throw Error("clip is " + shortest(clip), "it must be a number from 0 on; 0 is off");
}

/// The options with what was not given filled in, for a model of sequences up to `longest`, and of `usual` tokens
/// where nobody says.
///
/// Errors  throws Error for a count below its least value, for a clip below 0, and for a context that the model does
///         not have
inline TrainerOptions checked(TrainerOptions options, Index longest, Index usual) {
  const auto at_least = [](Index least, const char* name, Index value) {
    if (value >= least) return;
    throw Error(std::string(name) + " is " + std::to_string(value), "it must be at least " + std::to_string(least));
  };
  at_least(1, "batch", options.batch);
  constexpr Index most = Index(1) << 30;
  if (options.batch > most) {
    throw Error("batch is " + std::to_string(options.batch), "it counts sequences, of which no step has as many");
  }
  at_least(0, "sequences_per_step", options.sequences_per_step);
  check_clip(options.clip);
  if (!options.sequences_per_step) options.sequences_per_step = options.batch;
  options.context = checked_context(options.context ? options.context : usual, longest);
  return options;
}

/// Errors  throws Error for a gradient that is not as long as the parameters
inline void check_gradient_size(Index gradient, Index parameters) {
  if (gradient == parameters) return;
  throw Error("a gradient of " + std::to_string(gradient) + " elements for parameters of " +
                  std::to_string(parameters),
              "make it as long as parameters(): names lie at multiples of a vector");
}

}  // namespace simplx

// ---- simplx/train/trainer_state.hpp

/// \file simplx/train/trainer_state.hpp
/// What a trainer needs, besides its model and its batches, to go on as if it had never stopped.
///
///     TrainerState<float> now = trainer.state();   // views of the buffers, copies of the counters
///     other.restore(now);                          // takes its next steps bit for bit as `trainer` would
///
/// Random numbers are drawn from counters, so that the seed and the number of steps are all that is left of them.
/// Batches and the optimiser's numbers are the caller's, who gives them at each step: the same ones give the same bits.

namespace simplx::inline SIMPLX_TARGET {

/// How far a training has come.
struct StepCount {
  std::string optimiser = {};  ///< whose moments there are; empty before the first step
  long steps = 0;              ///< taken in all: what dropout draws from
  long moment_steps = 0;       ///< of these, taken by that optimiser: its bias correction

  /// Counts a step, whose moments begin anew with another optimiser.
  void add(std::string_view by) {
    moment_steps = step_of(by);
    optimiser = by;
    ++steps;
  }
  /// The number that a step has for the moments of its optimiser, from 1 on.
  long step_of(std::string_view by) const { return optimiser == by ? moment_steps + 1 : 1; }
};

/// Buffers are in the layout of the parameters; a rule with a single moment leaves the second at zero.
template <class S>
struct TrainerState {
  std::span<S> parameters, first_moments, second_moments;
  StepCount count = {};
  std::uint64_t seed = 0;       ///< of dropout
  std::string rules = {};       ///< of the trainer's updates (rules_of); empty where they are not known
  std::span<S> constants = {};  ///< what is not trained: rates that someone set, what was drawn; none if not known
};

/// What the updates of a trainer with these options depend on, beside the optimiser's own numbers:
/// "clip 1, embedding.* learning_rate_factor 0". Other options, another text.
inline std::string rules_of(const TrainerOptions& options) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) text.append(name).append(shortest(*value));
  };
  add("clip ", options.clip);
  for (const ParameterGroup& group : options.groups) {
    text += ", " + group.name;
    add(" learning_rate_factor ", group.learning_rate_factor);
    if (group.decays) text += *group.decays ? " decays" : " does not decay";
    add(" weight_decay ", group.weight_decay);
    add(" epsilon ", group.epsilon);
    add(" momentum ", group.momentum);
  }
  return text;
}

/// Refuses what a trainer cannot go on from bit for bit.
///
/// Errors  throws Error that lists everything that differs
template <class S>
void check_same_training(const TrainerState<S>& saved, const TrainerState<S>& own) {
  std::string faults;
  const auto compare = [&](const char* name, std::uint64_t there, std::uint64_t here) {
    if (there == here) return;
    faults += std::string("\n  ") + name + ": " + std::to_string(there) + " there, " + std::to_string(here) + " here";
  };
  compare("elements of the parameters", saved.parameters.size(), own.parameters.size());
  compare("elements of the first moments", saved.first_moments.size(), own.first_moments.size());
  compare("elements of the second moments", saved.second_moments.size(), own.second_moments.size());
  if (!saved.constants.empty()) {
    compare("elements of the constants", saved.constants.size(), own.constants.size());
  }
  compare("seed", saved.seed, own.seed);
  if (!saved.rules.empty() && !own.rules.empty() && saved.rules != own.rules) {
    faults += "\n  rules: " + saved.rules + " there, " + own.rules + " here";
  }
  const long steps = saved.count.steps, moment_steps = saved.count.moment_steps;
  if (steps < 0 || moment_steps < 0 || moment_steps > steps) {
    faults += "\n  steps: " + std::to_string(moment_steps) + " of " + std::to_string(steps) + " is impossible";
  }
  if (faults.empty()) return;
  throw Error("the state is not of this training:" + faults,
              "give the trainer the model, seed, clip and groups that the state was made with; load_checkpoint takes "
              "its weights alone");
}

/// Goes on from a state: its buffers are copied to a training's own, unless they are these, filled in place.
///
/// Errors  as check_same_training; then nothing has changed
template <class S>
StepCount take_state(const TrainerState<S>& state, const TrainerState<S>& own) {
  check_same_training(state, own);
  const auto take = [](std::span<S> from, std::span<S> to) {
    if (from.data() != to.data()) std::ranges::copy(from, to.begin());
  };
  take(state.parameters, own.parameters);
  take(state.first_moments, own.first_moments);
  take(state.second_moments, own.second_moments);
  take(state.constants, own.constants);
  return state.count;
}

}  // namespace simplx

// ---- simplx/train/updates.hpp

/// \file simplx/train/updates.hpp
/// Updates: what turns gradients into steps of an optimiser, for whoever trains: its moments, the settings of groups of
/// parameters, the limit of the gradient's norm, and how many steps were taken.

namespace simplx::inline SIMPLX_TARGET {

/// Updates the parameters of one model, with the same bits for any number of threads.
template <class S>
class Updates {
 public:
  /// Of these tensors, in flat buffers of so many elements.
  ///
  /// Errors  throws Error for a group that matches no parameter, or whose numbers make no sense
  Updates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : clip_(options.clip),
        runs_(settings_runs(tensors, options.groups)),
        first_moment_(elements),
        second_moment_(elements),
        chunk_norms_(static_cast<std::size_t>(norm_chunks(elements))) {}

  /// How many steps were taken.
  const StepCount& count() const { return count_; }
  /// Elements of all buffers.
  Index size() const { return 2 * first_moment_.size(); }

  /// Errors  throws Error if a number of the optimiser makes no sense, for all parameters or for a group of them
  template <class Optimiser>
  void check(const Optimiser& optimiser) const {
    check_optimiser<S>(optimiser, runs_);
  }

  /// Clips a gradient, updates the parameters by it and leaves zeros in its place; nothing, unless it and the loss in
  /// `result` are finite, which is noted there with the norm. Frozen parameters keep their bits, and their gradient is
  /// no part of the norm. The moments begin anew when an optimiser of another kind takes over. `fold(begin, end)` is
  /// called first for each part of the gradient.
  template <class Optimiser, class Fold>
  void step(const Optimiser& optimiser, cpu::Team& team, const std::vector<TensorInfo>& tensors, S* parameters,
            S* gradient, StepResult& result, const Fold& fold) {
    const Index size = first_moment_.size(), chunks = norm_chunks(size);
    team.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team.size()) {
        const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, size);
        fold(begin, end);
        each_run(runs_, begin, end, [&](Index from, Index to, const ParameterSettings& settings) {
          if (settings.frozen()) std::fill(gradient + from, gradient + to, S(0));
        });
        chunk_norms_[static_cast<std::size_t>(chunk)] = chunk_squared_norm(gradient, size, chunk);
      }
    });
    double squared = 0;
    for (const double part : chunk_norms_) squared += part;
    result.take_norm(std::sqrt(squared));
    if (!result.finite) {
      result.culprit = first_broken(tensors, gradient, result.loss);
      return;
    }
    const long moment_step = count_.step_of(Optimiser::name);
    if (count_.optimiser != Optimiser::name) {
      std::ranges::fill(first_moment_, S(0));
      std::ranges::fill(second_moment_, S(0));
      count_.optimiser.clear(), count_.moment_steps = 0;  // should the rule throw, the moments are nobody's
    }
    const double factor = clip_factor(result.gradient_norm, clip_);
    const UpdateBuffers<S> buffers{parameters, gradient, first_moment_.data(), second_moment_.data()};
    team.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team.size()) {
        const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, size);
        each_run(runs_, begin, end, [&](Index from, Index to, const ParameterSettings& settings) {
          if (settings.frozen()) return;
          update_range(optimiser.with(settings).template at<S>(moment_step), factor, buffers, from, to);
        });
      }
    });
    count_.add(Optimiser::name);
  }

  std::span<S> first_moments() { return first_moment_.span(); }
  std::span<S> second_moments() { return second_moment_.span(); }
  /// Goes on after so many steps, whose moments were restored.
  void restore(const StepCount& count) { count_ = count; }

 private:
  double clip_;
  std::vector<SettingsRun> runs_;
  cpu::Buffer<S> first_moment_, second_moment_;
  std::vector<double> chunk_norms_;
  StepCount count_;
};

}  // namespace simplx

// ---- simplx/differentiate/learner.hpp

/// \file simplx/differentiate/learner.hpp
/// Learner<loss>: a Function whose parameters an optimiser trains, for data of any kind; Trainer is for tokens.
///
///     inline constexpr auto loss = [] {
///       const Expr x = input("image", rows_of(Axis::batch, 64));
///       return mean(cross_entropy(classifier(x), indices("digit", Axis::batch)));
///     };
///
///     Learner<loss> learner{{.seed = 1}};
///     learner.set<"image">(images).set<"digit">(digits);     // one batch after another
///     const StepResult result = learner.step(AdamW{.learning_rate = 1e-3});
///     save_checkpoint("digits.safetensors", learner);        // save_training(...) to go on from
///
/// A loss that is a mean over rows (or a sum of means or of sums: differentiate/divided_loss.hpp), as nearly all are,
/// is evaluated some rows at a time, on as many threads as the learner has, with the same bits for any number of them:
/// `Learner<loss>::divides` says whether it is. Others are evaluated at once, on one thread, and so is every loss with
/// other results beside it: return the loss alone, and evaluate the others by a Function of the same parameters.
///
/// Inputs that are `variable` have gradients, too, but whoever gave them changes them.

namespace simplx::inline SIMPLX_TARGET {

/// What a learner is told when it is made, as TrainerOptions.
struct LearnerOptions {
  std::uint64_t seed = 0;                   ///< of the initial values, and of dropout
  int threads = 1;                          ///< of a CPU; not part of the result's bits
  double clip = 1;                          ///< limit of the gradient's norm; 0 is off
  std::vector<ParameterGroup> groups = {};  ///< parameters with rates, decay, ... of their own
  InitialLaws laws = nullptr;               ///< of the initial values; the function's unless given

  operator TrainerOptions() const {
    return {.seed = seed, .threads = threads, .clip = clip, .groups = groups, .laws = laws};
  }
};

namespace detail {

/// How parameters are updated where a backend has them: this is the CPU.
template <class Backend>
class LearnerUpdates : public Updates<typename Backend::Scalar> {
  using Base = Updates<typename Backend::Scalar>;

 public:
  LearnerUpdates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : Base(tensors, elements, options), team_(options.threads) {}

  cpu::Team& team() { return team_; }
  template <class Optimiser, class Trained>
  void step(const Optimiser& optimiser, const std::vector<TensorInfo>& tensors, const Trained& trained,
            StepResult& result) {
    Base::step(optimiser, team_, tensors, trained.parameters, trained.gradients, result, [](Index, Index) {});
  }

 private:
  cpu::Team team_;
};

/// Who evaluates a loss that is not divided: the function itself, as everything on a GPU.
struct Undivided {};

template <class G, class Backend>
constexpr bool divides_on() {
  if constexpr (requires { Backend::on_device; }) {
    return false;
  } else {
    return division_of<G>().possible();
  }
}

}  // namespace detail

/// Trains the parameters of a function, whose first result is the loss.
template <auto const& f, class Backend_ = Cpu<float>>
class Learner : public Function<f, Backend_> {
  using Base = Function<f, Backend_>;

 public:
  using typename Base::Backend, typename Base::S;
  /// Whether steps and loss() evaluate the rows in parts, which threads share.
  static constexpr bool divides = detail::divides_on<typename Base::G, Backend>();

  /// Draws the initial values; memory for evaluations is taken by the first, that of moments here.
  ///
  /// Errors  throws Error for a clip below 0, for a group that matches no parameter or whose numbers make no sense,
  ///         and for threads below 1 or that do not start
  explicit Learner(const LearnerOptions& options = {})
      : Base(options.seed),
        options_(options),
        updates_(this->tensors().parameters, std::ssize(this->parameters()), options_) {
    check_clip(options.clip);
    if (!options.laws) return;
    this->tensors_.parameters = options.laws(std::move(this->tensors_.parameters));
    initialise(this->tensors_.parameters, options.seed, this->parameters().data());
  }

  long steps() const { return updates_.count().steps; }
  const LearnerOptions& options() const { return options_; }

  /// As of Function: data for the next step.
  template <Name name, class Object>
  Learner& set(const Object& object) {
    Base::template set<name>(object);
    return *this;
  }
  template <Name name, class Object>
  Learner& bind(Object&& object) {
    Base::template bind<name>(std::forward<Object>(object));
    return *this;
  }
  Learner& set_sequences(std::span<const Index> lengths) {
    Base::set_sequences(lengths);
    return *this;
  }

  /// The loss of what was set, bound and given as sequences, its gradient, and an update by it; dropout drops, from
  /// the seed and the number of the step. output() is that of the last forward(), which this is where the loss is not
  /// divided.
  ///
  /// Errors  as Function::value_and_grad, and throws Error if a number of the optimiser makes no sense; then nothing
  ///         has changed
  /// Cost    three times the FLOPs of a forward pass; memory of a part of the rows for each thread, or of all rows
  ///         where the loss is not divided; no allocation, but for more rows than before, or other sequences
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const Optimiser& optimiser) {
    updates_.check(optimiser);
    const auto dropping = training();
    if constexpr (divides) {
      return update(optimiser, divided_.value_and_grad(updates_.team(), Base::given(updates_.team())));
    } else if constexpr (has_loss()) {
      this->value_and_grad();
      return update(optimiser);
    } else {
      return {};
    }
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult step(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// The loss of what was set, bound and given as sequences; forward only, and nothing is dropped. output() as after
  /// step().
  ///
  /// Errors  as Function::value
  /// Cost    a forward pass, on all threads where the loss is divided
  double loss() {
    if constexpr (divides) {
      return divided_.value(updates_.team(), Base::given(updates_.team()));
    } else if constexpr (has_loss()) {
      return static_cast<double>(this->value());
    } else {
      return 0;
    }
  }

  /// Evaluations of one's own drop what step() would, while the object lives that this returns (and the learner stays
  /// where it is); otherwise nothing:
  ///
  ///     const auto training = learner.training();
  ///     learner.forward();
  ///     learner.output_gradient<1>() = ...;
  ///     learner.backward();
  ///     learner.update(optimiser);
  [[nodiscard]] auto training() {
    return TrainingMode(this->random(), {.training = true, .key = detail::dropout_key(options_.seed, steps())});
  }

  /// Clips the gradient that the last backward() left, and updates the parameters by it if it is finite, and so is the
  /// loss where that is one number. It is used up: `gradient` waits for the next backward(). The moments begin anew
  /// when an optimiser of another kind takes over; frozen parameters keep their bits.
  ///
  /// Errors  throws Error without a backward(), or if a number of the optimiser makes no sense; then nothing has
  ///         changed
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    updates_.check(optimiser);
    if (!this->differentiated_) {
      throw Error("update() without a backward()",
                  "call step(), or forward(), output_gradient(), backward() and then update()");
    }
    if constexpr (Base::result_shape(0) == fixed_shape(1, 1)) {
      return update(optimiser, static_cast<double>(this->output()(0)));
    } else {
      return update(optimiser, 0.0);
    }
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult update(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// What continues this training bit for bit; its buffers are views of this learner's.
  TrainerState<S> state() {
    return {this->parameters(), updates_.first_moments(), updates_.second_moments(), updates_.count(), options_.seed,
            rules_of(options_), this->constants()};
  }
  /// Goes on from a state: its buffers are copied, unless they are this learner's own, filled in place.
  ///
  /// Errors  throws Error if it is of other sizes, another seed, clip or groups; then nothing has changed
  void restore(const TrainerState<S>& state) {
    updates_.restore(take_state(state, this->state()));
    this->differentiated_ = this->evaluated_ = false;
  }

 private:
  static constexpr bool has_loss() {
    constexpr bool one_number = Base::result_shape(0) == fixed_shape(1, 1);
    static_assert(!Base::G::sound || one_number,
                  "simplx: the first result of a Learner is its loss, one number: mean(cross_entropy(...)), where a "
                  "Trainer takes a loss for each row; other results are trained by forward(), output_gradient<k>(), "
                  "backward() and update(optimiser)");
    return one_number;
  }
  /// Dropout as a step has it, until the end of a scope.
  class TrainingMode {
   public:
    TrainingMode(Randomness& random, const Randomness& of_step) : random_(random), before_(random) { random = of_step; }
    TrainingMode(const TrainingMode&) = delete;
    TrainingMode& operator=(const TrainingMode&) = delete;
    ~TrainingMode() { random_ = before_; }

   private:
    Randomness& random_;
    Randomness before_;
  };
  template <class Optimiser>
  StepResult update(const Optimiser& optimiser, double loss) {
    StepResult result;
    result.loss = loss;
    this->differentiated_ = this->evaluated_ = false;  // also where the optimiser throws
    updates_.step(optimiser, this->tensors().parameters, this->trained(), result);
    return result;
  }
  LearnerOptions options_;
  detail::LearnerUpdates<Backend> updates_;
  std::conditional_t<divides, DividedLoss<typename Base::G, Backend>, detail::Undivided> divided_;
};

}  // namespace simplx

// ---- simplx/differentiate/value_and_grad.hpp

/// \file simplx/differentiate/value_and_grad.hpp
/// One evaluation in one call:
///
///     const auto g = value_and_grad<f>(arg<"A">(A), arg<"y">(y), arg<"w">(w)).gradient<"w">();

namespace simplx::inline SIMPLX_TARGET {

/// An object under a name: arg<"w">(w).
template <Name name_, class Object>
struct Argument {
  static constexpr Name name = name_;
  const Object& object;
};
template <Name name, class Object>
constexpr Argument<name, Object> arg(const Object& object) {
  return {object};
}

/// A value and the gradients that belong to it.
template <auto const& f>
struct ValueAndGradient {
  double value;
  Function<f> function;

  template <Name name>
  auto gradient() & {
    return function.template gradient<name>();
  }
  template <Name name>
  auto gradient() && {  // of a temporary: a copy
    return typename decltype(function.template gradient<name>())::PlainObject(function.template gradient<name>());
  }
};

/// A single evaluation: value_and_grad<f>(arg<"A">(A), arg<"y">(y), arg<"w">(w)).gradient<"w">().
///
/// Cost    allocates; keep a Function where the same function is evaluated often
template <auto const& f, class... Arguments>
ValueAndGradient<f> value_and_grad(const Arguments&... arguments) {
  Function<f> function;
  (function.template set<Arguments::name>(arguments.object), ...);
  const double value = function.value_and_grad();
  return {value, std::move(function)};
}

}  // namespace simplx

// ---- simplx/differentiate/with_respect_to.hpp

/// \file simplx/differentiate/with_respect_to.hpp
/// The same function with other variables: gradients of the named inputs and parameters, and of nothing else.
///
///     Function<with_respect_to<loss, "w", "bias">> f;      // the backward of everything else is not compiled

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("with respect to", (possible<left, right>),
            "with_respect_to<f, names...> names something that f does not use as an input or parameter (left number: "
            "which of the names, from 0); parameters within a stack are not among these")

namespace detail {

template <auto const& f, Name... names>
struct WithRespectTo {
  constexpr auto operator()() const {
    auto results = f();
    constexpr int count = sizeof...(names);
    bool found[count + 1]{};
    each_made(results, [&](Node* node) {
      const Name wanted[] = {names...};
      int which = 0;
      while (which < count && !(wanted[which] == node->name)) ++which;
      if (node->kind == Kind::input) node->wanted = which < count;
      if (node->kind == Kind::parameter) node->frozen = which == count;
      if (node->block) node->frozen = true;  // what a stack makes bears other names
      if (node->kind == Kind::input || node->kind == Kind::parameter) found[which] = true;
    });
    for (int i = 0; i < count; ++i) {
      if (!found[i]) mark_broken(results, i);
    }
    return results;
  }

 private:
  /// The first result reports the name that was not found.
  static constexpr void mark_broken(auto& results, int which) {
    bool first = true;
    each_result(results, [&](Expr result, const char*) {
      if (first) broken(result.node, "with respect to", which, 0);
      first = false;
    });
  }
};

}  // namespace detail

/// The function f, of which the gradients with respect to these inputs and parameters are wanted, be they frozen in f,
/// and no others.
///
/// Errors  does not compile if a name is neither an input nor a parameter of f: rule "with respect to"
template <auto const& f, Name... names>
inline constexpr detail::WithRespectTo<f, names...> with_respect_to{};

}  // namespace simplx

// ---- simplx/train/trained_model.hpp

/// \file simplx/train/trained_model.hpp
/// What Trainer reads off the graph of a model: where its loss and logits are, and what its inputs may be. Of several
/// losses each has the labels; what they are along is read off the first that the graph has.

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// Whether each sequence of a batch has a loss and gradients of its own, whatever the others are.
template <class G>
constexpr bool keeps_sequences_apart() {
  return keeps_rows_apart<G, Axis::tokens, Axis::sequences, Axis::labelled>();
}

template <class G>
struct TrainedModel {
  static constexpr int find_op(Tag op) {
    for (int i = 0; i < G::count; ++i) {
      if (G::flat.label[i].op == op) return i;
    }
    return -1;
  }
  /// Whether the loss computes its logits in tiles and holds none of them.
  static constexpr bool tiled() { return find_op("linear_cross_entropy") >= 0; }
  static constexpr int loss_node() {
    static_assert(!G::sound || tiled() || find_op("cross_entropy") >= 0,
                  "simplx: Trainer needs a model that ends with cross_entropy(...) or linear_cross_entropy(...)");
    return G::sound ? find_op(tiled() ? "linear_cross_entropy" : "cross_entropy") : 0;
  }
  static constexpr int logits_node() {
    static_assert(!tiled(),
                  "simplx: a loss in tiles holds no logits: take them from Inference<logits_of<model>>, or train a "
                  "model with tiled_loss = false");
    return G::table.info[loss_node()].arguments[0];
  }
  static constexpr bool has_other_logits() {
    for (int i = 0; i < G::count; ++i) {
      const Tag name = G::flat.label[i].op;
      const bool is_loss = name == Tag("cross_entropy") || name == Tag("linear_cross_entropy");
      if (is_loss && G::table.info[i].arguments[0] != logits_node()) return true;
    }
    return false;
  }
  /// The same, where a forward pass leaves them: what backward does not read, others may overwrite.
  static constexpr int logits_left() {
    constexpr int node = logits_node();
    static_assert(!G::sound || !has_other_logits(),
                  "simplx: this model has several losses, of several logits: take those that are wanted from Inference "
                  "of a model that ends with them");
    static_assert(!G::sound || G::plan.kept[node] || G::fusion.step_of[loss_node()] == G::fusion.steps - 1,
                  "simplx: a forward pass overwrites these logits, as nothing in training reads them again (they are "
                  "frozen, and the loss has further parts): take them from Inference of a model that ends with them");
    return node;
  }
  /// What has a label: tokens or sequences.
  static constexpr Axis labelled_axis() {
    constexpr Axis axis = G::table.info[loss_node()].shape.axis;
    static_assert(!G::sound || axis == Axis::tokens || axis == Axis::sequences,
                  "simplx: Trainer needs labels along the tokens or the sequences: indices(\"labels\", Axis::tokens)");
    return axis;
  }
  /// Whether the losses are all that it gives: what a step seeds with 1 / labels, and sums.
  static constexpr bool gives_losses() {
    const Shape losses = G::table.info[loss_node()].shape, result = G::table.info[view_of<G>.result_node(0)].shape;
    return G::layout.outputs == 1 && result.axis == losses.axis && result.rows == losses.rows && result.cols == 1;
  }
  /// Whether a Trainer can train it; it gives `more` inputs of its own.
  template <int more>
  static constexpr bool is_trainable() {
    static_assert(!G::sound || (G::layout.inputs == 2 + more && G::input_number("tokens") >= 0 &&
                                G::input_number("labels") >= 0),
                  "simplx: Trainer needs a model with the inputs indices(\"tokens\", ...) and indices(\"labels\", "
                  "...), and no other, since batches have none; for more there is Learner");
    static_assert(!G::sound || (bounded("tokens") && bounded("labels")),
                  "simplx: Trainer knows tokens and labels by the rows of the tables that they look up, and here these "
                  "are run-time rows, of which it evaluates some at a time: give gather a weight, or take Learner");
    static_assert(!G::sound || gives_losses(),
                  "simplx: Trainer needs a model whose only result is the loss of each token or sequence, as "
                  "cross_entropy(...) gives it: without mean() or sum(), since a step divides by the labels of all "
                  "its parts, and without logits beside it, which Trainer::logits gives");
    return true;
  }
  /// Whether all sequences of a batch may be evaluated at once, as a GPU does; a CPU takes others one by one.
  static constexpr bool takes_sequences_together() {
    static_assert(!G::sound || keeps_sequences_apart<G>(),
                  "simplx: on a GPU the sequences of a batch are evaluated together, and this model would mix them: it "
                  "sums over rows (Over::rows, Over::all, transpose(a) * b), moves along the axis of sequences, or has "
                  "a kernel there that does not say rows_apart. Train it on the CPU, or reduce by sequence: "
                  "first_of_sequence, mean_of_sequence, attention");
    return true;
  }
  /// Columns of the logits.
  static constexpr Index classes() {
    if constexpr (tiled()) {
      return G::table.info[G::table.info[loss_node()].arguments[0]].shape.rows;  // of the table
    } else {
      return G::table.info[logits_node()].shape.cols;
    }
  }
  /// What is below this is a token, or a label, wherever the model looks it up.
  static constexpr Index tokens_known() { return known("tokens"); }
  static constexpr Index labels_known() { return known("labels"); }
  /// Whether -100 is a label: where it is not looked up in a table, too.
  static constexpr bool ignores_labels() {
    const int labels = view_of<G>.input_node("labels");
    for (const Lookup& lookup : view_of<G>.lookups) {
      if (lookup.indices == labels && !lookup.ignores) return false;
    }
    return true;
  }
  /// What stands for a label where logits alone are asked for.
  static constexpr std::int32_t no_label() { return ignores_labels() ? ignored_label : 0; }
  /// Tokens of the longest sequence that the positions allow.
  static constexpr Index longest_sequence() { return view_of<G>.longest; }

 private:
  static constexpr bool bounded(std::string_view input) {
    return view_of<G>.looks_up_static_rows(view_of<G>.input_node(input));
  }
  static constexpr Index known(std::string_view input) {
    return view_of<G>.index_bound(view_of<G>.input_node(input));
  }
};

}  // namespace detail
}  // namespace simplx

// ---- simplx/generate/logits_model.hpp

/// \file simplx/generate/logits_model.hpp
/// What is known of a model that gives logits, and checked of its tokens, whoever evaluates it: Inference, Stream, here
/// or on a GPU.

namespace simplx::inline SIMPLX_TARGET {

/// The expressions of a model whose parameters are not trained: nothing is kept for a backward.
template <auto const& model>
struct Untrained {
  using Lowering = AsWritten;
  template <class F>
  static constexpr auto with(F f) {
    const detail::Evaluated evaluated = detail::evaluate(model);
    detail::each_node(evaluated.root, [](Node* node) {
      detail::freeze(node);
      node->wanted = false;
    });
    return f(evaluated.root);
  }
};

struct InferenceOptions {
  std::uint64_t seed = 0;  ///< of the initial values
  int threads = 1;         ///< that evaluate a batch, on a CPU
};

namespace detail {

/// Columns and lengths of the logits of a model of tokens, and whether tokens are its own.
template <auto const& model>
class LogitsModel {
 public:
  using G = Graph<Untrained<model>>;
  static_assert(!G::sound || (G::layout.inputs == 1 && G::input_number("tokens") == 0 && G::layout.outputs == 1),
                "simplx: Inference needs a model of indices(\"tokens\", ...) alone that gives logits alone: of a "
                "decoder it is logits_of<model>");
  static_assert(!G::sound || view_of<G>.looks_up_static_rows(view_of<G>.input_node("tokens")),
                "simplx: Inference knows tokens by the rows of the tables that they look up, and here these are run-"
                "time rows, of which it evaluates some at a time: give gather a weight, or take Function");

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return result().cols; }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return view_of<G>.longest; }
  /// The same, or the model's `context` if its positions do not end; 0 if it has none.
  static constexpr Index usual_context() { return simplx::usual_context<model>(longest_sequence()); }

  /// Errors  throws Error if a token is not one of the model's
  static void check(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      if (token >= 0 && token < known()) continue;
      throw Error("token " + std::to_string(token) + ", but the model knows " + std::to_string(known()),
                  "tokens are in [0, vocab)");
    }
  }

 protected:
  /// Whether several sequences can be evaluated at once: each has logits of its own, whatever the others are.
  static constexpr bool together() { return !result().is_fixed() && keeps_sequences_apart<G>(); }

  /// Of one sequence.
  static std::size_t logits_of_all(std::span<const std::int32_t> tokens) {
    const Rows one{.tokens = static_cast<Index>(tokens.size()), .sequences = 1};
    return static_cast<std::size_t>(one.count(result()) * result().cols);
  }
  /// Where those of a sequence of a batch begin; of the number of sequences all of them.
  static std::size_t logits_before(const TokenBatch& batch, Index sequence) {
    const Rows rows{.tokens = batch.offsets[static_cast<std::size_t>(sequence)] - batch.offsets.front(),
                    .sequences = sequence};
    const Index count = result().is_fixed() ? sequence * result().rows : rows.count(result());
    return static_cast<std::size_t>(count * result().cols);
  }
  /// Errors  throws Error if so many logits, of so many tokens, do not fill the room
  static void check_room(Index tokens, std::size_t logits, std::size_t room) {
    if (room == logits) return;
    throw Error("room for " + std::to_string(room) + " logits of " + std::to_string(tokens) + " tokens",
                "give room for the " + std::to_string(logits) + " that they have");
  }
  /// The length of a sequence.
  ///
  /// Errors  throws Error if there is no token, one is not the model's, or the positions end before
  static Index checked_length(std::span<const std::int32_t> tokens) {
    const auto length = static_cast<Index>(tokens.size());
    if (length == 0) throw Error("there is no token to evaluate", "begin with at least one");
    check(tokens);
    check_length("a sequence", length, longest_sequence());
    return length;
  }
  /// The length of the longest sequence of a batch.
  ///
  /// Errors  throws Error if there is no sequence, one has no token or ends beyond the positions or the tokens, or a
  ///         token is not the model's
  static Index checked_lengths(const TokenBatch& batch) {
    if (batch.sequences() < 1) throw Error("the batch has no sequences", "offsets of one of 3 tokens are {0, 3}");
    check_offsets(batch);
    Index longest = 0;
    for (std::size_t s = 1; s < batch.offsets.size(); ++s) {
      const Index length = batch.offsets[s] - batch.offsets[s - 1];
      if (length == 0) {
        throw Error("sequence " + std::to_string(s - 1) + " of the batch has no token", "begin with at least one");
      }
      longest = std::max(longest, length);
    }
    check_length("a sequence", longest, longest_sequence());
    check(tokens_of(batch));
    return longest;
  }
  /// Those of its sequences.
  static std::span<const std::int32_t> tokens_of(const TokenBatch& batch) {
    const Index begin = batch.offsets.front(), end = batch.offsets.back();
    return {batch.tokens.data() + begin, static_cast<std::size_t>(end - begin)};
  }
  /// What to keep room for beside what there is: somewhat longer sequences will come.
  static Rows room_for(const Rows& rows, const Rows& before) {
    const Index longest = std::max(std::min(longest_sequence(), round_up(rows.longest(), 128)), before.longest());
    return {.tokens = std::max(std::max(rows.tokens, before.tokens), longest),
            .sequences = std::max(rows.sequences, before.sequences),
            .longest_sequence = longest};
  }

 private:
  static constexpr Shape result() { return G::table.info[view_of<G>.result_node(0)].shape; }
  /// Tokens are in [0, known()).
  static constexpr Index known() { return view_of<G>.index_bound(view_of<G>.input_node("tokens")); }
};

/// What whoever evaluates token by token asks of further tokens.
///
/// Errors  throws Error if there is no token, one is not the model's, or they do not fit a context that has `size`
template <class Net>
void check_feed(std::span<const std::int32_t> tokens, Index size, Index capacity) {
  const auto count = static_cast<Index>(tokens.size());
  if (count == 0) throw Error("there is no token to evaluate", "begin with at least one");
  Net::check(tokens);
  if (count > capacity - size) {
    throw Error("the context is full: " + std::to_string(size) + " tokens and " + std::to_string(count) +
                    " more, of " + std::to_string(capacity),
                "reset() and feed the last tokens again");
  }
}

}  // namespace detail
}  // namespace simplx

// ---- simplx/generate/inference.hpp

/// \file simplx/generate/inference.hpp
/// Inference: the weights of a model and its forward pass, nothing else; no backward is compiled or kept room for.
///
///     Inference<logits_of<tiny>> net;
///     load_checkpoint(path, net);
///     net.logits(tokens);                       // of a whole sequence; stream.hpp: of one token after the other
///     net.logits(batch);                        // of several sequences
///     net.logits(tokens, to);                   // into memory of the caller

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Work that the first of several threads does, while the others wait for it.
class DoneOnce {
 public:
  template <class F>
  void operator()(const F& work) {
    if (state_->done.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(state_->mutex);
    if (state_->done.load(std::memory_order_relaxed)) return;
    work();
    state_->done.store(true, std::memory_order_release);
  }
  /// It has to be done anew. No other thread may wait for it meanwhile.
  void again() { state_->done.store(false, std::memory_order_relaxed); }

 private:
  struct State {  // elsewhere, so that its owner can be moved, and is of no use then
    std::atomic<bool> done{false};
    std::mutex mutex;
  };
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace detail

/// The weights of a model and its forward pass: logits of whole sequences, without a backward.
template <auto const& model, class Backend_ = Cpu<float>>
class Inference : public detail::LogitsModel<model> {
  using Model = detail::LogitsModel<model>;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = typename Model::G;
  using Run = Execute<G, Backend>;
  static_assert(detail::runs_on_host<Backend>());

  /// Initial values, until others are loaded.
  ///
  /// Errors  throws Error for less than one thread, or if the system does not start them all
  explicit Inference(const InferenceOptions& options = {})
      : team_(options.threads),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        packed_(G::layout.packed_elements) {
    initialise(tensors_.parameters, options.seed, parameters_.data());
    initialise(tensors_.constants, options.seed, constants_.data());
  }

  const TensorList& tensors() const { return tensors_; }
  /// To be filled in the layout of tensors(), which is that of a trainer of the model. Ask anew for each change, of one
  /// tensor, too: kernels read a prepared copy, made by the next evaluation.
  std::span<S> parameters() {
    prepared_.again();
    return parameters_.span();
  }
  std::span<S> constants() { return constants_.span(); }
  /// To be read, also while streams run on other threads.
  std::span<const S> parameters() const { return parameters_.span(); }
  std::span<const S> constants() const { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  std::span<const S> parameter(std::string_view name) const {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<const S> constant(std::string_view name) const {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }

  /// Logits of a whole sequence, (tokens, vocab), of a classifier (1, classes), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or the model's positions end before
  /// Cost    a forward pass over all tokens; allocates if none so long came before
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const Context<S> context = begin(tokens);
    Run::forward(context);
    return {context.outputs[0], Model::logits_of_all(tokens)};
  }
  /// The same, computed where the caller wants them: `to` has as many numbers.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(std::span<const std::int32_t> tokens, std::span<S> to) {
    Model::check_room(std::ssize(tokens), Model::logits_of_all(tokens), to.size());
    Context<S> context = begin(tokens);
    context.outputs[0] = to.data();
    Run::forward(context);
  }

  /// Logits of the sequences of a batch, one after the other, (tokens, vocab), of a classifier (sequences, classes),
  /// valid until the next call. Labels are not read.
  ///
  /// Errors  throws Error if there is no sequence, one has no token, a token is out of range, or the model's positions
  ///         end before
  /// Cost    a forward pass over all tokens. Short sequences that follow one another run together, up to 64 tokens of
  ///         them, on one thread; more are shared out among all. So their logits are those of each alone to rounding,
  ///         and the number of threads changes no bits. Allocates: each thread has room for its longest sequence
  std::span<const S> logits(const std::same_as<TokenBatch> auto& batch) {
    Model::checked_lengths(batch);
    results_.resize(Model::logits_before(batch, batch.sequences()));
    logits(batch, results_);
    return results_;
  }
  /// The same, computed where the caller wants them: `to` has as many numbers.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(const std::same_as<TokenBatch> auto& batch, std::span<S> to) {
    const Index longest = Model::checked_lengths(batch);
    Model::check_room(std::ssize(Model::tokens_of(batch)), Model::logits_before(batch, batch.sequences()), to.size());
    MicroBatches parts(batch.sequences(), longest, Model::together(), 1);
    parts.divide(batch);
    const int busy = static_cast<int>(std::min<Index>(team_.size(), parts.count()));
    make_room(parts.capacity(), busy);
    std::atomic<Index> next = 0;
    team_.run([&](int member) {
      if (member >= busy) return;
      for (Index part = next++; part < parts.count(); part = next++) {
        const Index first = parts.begin(part), last = parts.begin(part + 1);
        MicroBatchWorkspace<G, Backend>& workspace = workspaces_[static_cast<std::size_t>(member)];
        Context<S> context = give_weights(workspace.context_of(batch.segments(), first, last));
        context.inputs[0] = batch.tokens.data() + batch.offsets[static_cast<std::size_t>(first)];
        context.outputs[0] = to.data() + Model::logits_before(batch, first);
        Run::forward(context);
      }
    });
  }

  /// The context with the addresses of the weights, prepared where they have changed; for several threads at once.
  Context<S> give_weights(Context<S> context) {
    prepared_([&] { Run::prepare(parameters_.data(), packed_.data(), /*turned*/ nullptr); });
    context.parameters = parameters_.data();
    context.constants = constants_.data();
    context.packed = packed_.data();
    return context;
  }

 private:
  /// The context of a forward pass over these tokens.
  Context<S> begin(std::span<const std::int32_t> tokens) {
    const Index length = Model::checked_length(tokens);
    make_room(Rows{.tokens = length}, 1);
    offsets_[1] = length;
    Context<S> context = give_weights(workspaces_[0].context(Rows{.tokens = length}, {offsets_, 1}, length));
    context.inputs[0] = tokens.data();
    return context;
  }
  /// So many workspaces that hold these rows at least.
  void make_room(const Rows& rows, int threads) {
    Rows room = workspaces_.empty() ? Rows{} : workspaces_[0].capacity();
    if (!room.hold(rows)) {
      room = Model::room_for(rows, room);
      workspaces_.clear();
    }
    while (std::ssize(workspaces_) < threads) workspaces_.emplace_back(room, detail::Seeds::none);
  }

  cpu::Team team_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, constants_, packed_;
  std::vector<MicroBatchWorkspace<G, Backend>> workspaces_;
  std::vector<S> results_;
  Index offsets_[2] = {0, 0};
  detail::DoneOnce prepared_;
};

}  // namespace simplx

// ---- simplx/train/sampler.hpp

/// \file simplx/train/sampler.hpp
/// Drawing a token from logits: probabilities p_i proportional to exp(logit_i / temperature), of which the most
/// probable remain,
///
///     top k      the k largest [Fan et al. 2018]
///     top p      the fewest largest of these that have the share p of their sum [Holtzman et al. 2020]
///
/// Tokens of equal logits are ranked by their number, smaller first. Draw number n of a seed depends on nothing but
/// these two and the logits.

namespace simplx::inline SIMPLX_TARGET {

/// How a token is drawn from logits; the same seed draws the same tokens.
struct Sampling {
  double temperature = 1;  ///< 0 takes the largest logit
  Index top_k = 0;         ///< 0: all
  double top_p = 1;        ///< 1: all
  std::uint64_t seed = 0;
};

/// Draws token after token.
class Sampler {
 public:
  /// Errors  throws Error for options that make no sense
  explicit Sampler(const Sampling& options = {}) : options_(options), key_(key_of(options.seed, "sample")) {
    const auto refuse = [](const char* name, const std::string& value, const char* hint) {
      throw Error(std::string(name) + " is " + value, hint);
    };
    if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
      refuse("the temperature", shortest(options.temperature),
             "it is a number from 0, which takes the most probable token");
    }
    if (options.top_k < 0) refuse("top k", std::to_string(options.top_k), "it is a number of tokens, or 0 for all");
    if (!(options.top_p > 0 && options.top_p <= 1)) {
      refuse("top p", shortest(options.top_p), "it is a share of the probability, above 0 and at most 1");
    }
  }

  /// The next token.
  ///
  /// Shapes  logits (vocab), minus infinity for tokens that cannot be
  /// Errors  throws Error if there is no logit, one is NaN or infinite, or none is above minus infinity
  /// Cost    up to four exponentials for each logit, and comparisons times the logarithm of what top k or top p keep;
  ///         allocates at the first draw
  template <std::ranges::contiguous_range Logits>
    requires std::floating_point<std::ranges::range_value_t<Logits>>
  std::int32_t operator()(const Logits& of_all) {
    using S = std::ranges::range_value_t<Logits>;
    const std::span<const S> logits(of_all);
    const S largest = checked_largest(logits);
    const double number = uniform(key_, draws_++);
    if (options_.temperature == 0) {
      return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
    }
    const auto weight = [&](std::int32_t token) {
      const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
      return std::exp((logit - static_cast<double>(largest)) / options_.temperature);
    };
    tokens_.resize(logits.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<std::int32_t>(i);
    keep_most_probable(logits, weight);

    double total = 0, left = 0;
    for (const std::int32_t token : tokens_) total += weight(token);
    left = number * total;
    std::int32_t drawn = tokens_.front();
    for (const std::int32_t token : tokens_) {
      const double w = weight(token);
      if (w > 0) drawn = token;
      if ((left -= w) < 0) break;
    }
    return drawn;
  }

  std::uint64_t draws() const { return draws_; }

 private:
  template <class S>
  static S checked_largest(std::span<const S> logits) {
    S largest = -std::numeric_limits<S>::infinity();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<S>::infinity()) {
        throw Error("logit " + std::to_string(i) + " is " + std::to_string(logits[i]),
                    "were the weights trained and loaded?");
      }
      largest = std::max(largest, logits[i]);
    }
    if (!std::isfinite(largest)) throw Error("no token has a probability", "give at least one finite logit");
    return largest;
  }

  /// Leaves the tokens to draw from, in the order of their numbers.
  template <class S, class Weight>
  void keep_most_probable(std::span<const S> logits, const Weight& weight) {
    const auto before = [&](std::int32_t a, std::int32_t b) {
      const S x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    };
    const auto count = static_cast<Index>(tokens_.size());
    Index kept = options_.top_k > 0 ? std::min(options_.top_k, count) : count;
    if (kept == count && options_.top_p == 1) return;
    const auto select = [&](Index begin, Index end) {  // the most probable from `begin` on, sorted
      const auto at = tokens_.begin();
      if (end - begin > 256) {
        std::nth_element(at + begin, at + end, tokens_.end(), before);
        std::sort(at + begin, at + end, before);
      } else {
        std::partial_sort(at + begin, at + end, tokens_.end(), before);
      }
    };
    const auto keep = [&](Index first_ones) {
      tokens_.resize(static_cast<std::size_t>(first_ones));
      std::sort(tokens_.begin(), tokens_.end());
    };
    if (kept < count) {
      select(0, kept);
      keep(kept);
    }
    if (options_.top_p == 1) return;
    double total = 0, seen = 0;
    for (const std::int32_t token : tokens_) total += weight(token);
    Index enough = 0;
    for (Index begin = 0, some = 256; begin < kept; begin += some, some *= 4) {  // most often few tokens are enough
      const Index end = std::min(begin + some, kept);
      select(begin, end);
      while (enough < end && seen < options_.top_p * total) seen += weight(tokens_[static_cast<std::size_t>(enough++)]);
      if (enough < end) break;
    }
    keep(enough);
  }

  Sampling options_;
  std::uint64_t key_, draws_ = 0;
  std::vector<std::int32_t> tokens_;
};

}  // namespace simplx

// ---- simplx/generate/generate.hpp

/// \file simplx/generate/generate.hpp
/// Text from a model, token by token:
///
///     Sampler draw({.temperature = 0.8, .top_k = 40, .seed = 1});
///     generate(stream, prompt, 400, draw, [](std::int32_t token) { std::putchar(token); });
///
/// Where the context is full its first half is forgotten: the last context / 2 tokens are fed again, from position 0
/// on, so that a text of any length costs two evaluations of each token at most.

namespace simplx::inline SIMPLX_TARGET {

/// What a stream does, without remembering anything: the whole sequence is evaluated again for each token.
template <auto const& model, class Backend = Cpu<float>>
class Replay {
 public:
  using Net = Inference<model, Backend>;

  /// Uses the weights of `net`, which must outlive it.
  ///
  /// Errors  as Stream
  explicit Replay(Net& net, Index context = Net::usual_context())
      : net_(net), capacity_(checked_context(context, Net::longest_sequence())) {}

  /// As Stream::feed.
  auto feed(std::span<const std::int32_t> tokens) {
    detail::check_feed<Net>(tokens, size(), capacity_);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return net_.logits(tokens_).last(static_cast<std::size_t>(Net::vocab()));
  }
  void reset() { tokens_.clear(); }
  Index size() const { return static_cast<Index>(tokens_.size()); }
  Index capacity() const { return capacity_; }

 private:
  Net& net_;
  Index capacity_;
  std::vector<std::int32_t> tokens_;
};

/// Continues a prompt by `count` tokens, each given to emit(token) as it comes; ends where emit returns false.
///
/// Of a prompt longer than the context its end is seen. `source` is a Stream or a Replay, which is reset before.
/// Errors  throws Error for an empty prompt, for tokens and logits that are none, and what emit throws
/// Cost    allocates before the first token alone
template <class Source, class Emit>
void generate(Source& source, std::span<const std::int32_t> prompt, long count, Sampler& draw, Emit emit) {
  if (prompt.empty()) throw Error("the prompt is empty", "begin with at least one token");
  const auto context = static_cast<std::size_t>(source.capacity());
  std::vector<std::int32_t> seen;
  const auto forget_but = [&](std::size_t rest) { seen.erase(seen.begin(), seen.end() - static_cast<Index>(rest)); };
  seen.reserve(context + 1);
  const auto end_of_prompt = prompt.last(std::min(context, prompt.size()));
  seen.assign(end_of_prompt.begin(), end_of_prompt.end());
  source.reset();
  auto logits = source.feed(seen);
  for (long i = 0; i < count; ++i) {
    const std::int32_t token = draw(logits);
    if constexpr (std::is_void_v<decltype(emit(token))>) {
      emit(token);
    } else {
      static_assert(std::is_same_v<decltype(emit(token)), bool>,
                    "simplx: emit(token) returns a bool, false to end the text, or nothing");
      if (!emit(token)) return;
    }
    if (i + 1 == count) return;
    seen.push_back(token);
    if (source.size() == source.capacity()) {
      forget_but(std::max<std::size_t>(context / 2, 1));
      source.reset();
      logits = source.feed(seen);
    } else {
      logits = source.feed(std::span(seen).last(1));
    }
  }
}

}  // namespace simplx

// ---- simplx/cpu/attention_step.hpp

/// \file simplx/cpu/attention_step.hpp
/// Causal attention of one new token to all tokens before it, from a cache: per head, with the new token's number t,
///
///   o_t = alpha v_t + beta sum_{j <= t} a_tj v_j - gamma c_t          (He & Hofmann 2024, Eqs. (4), (5) and (13))
///   a_tj = softmax_j(q_t . k_j / sqrt(key_width) - m (t - j))
///   c_t = P_t / Z_t,   P_t = lambda P_{t-1} + v_t,   Z_t = lambda Z_{t-1} + 1,   lambda = exp(-m)
///
/// The mean c_t costs O(1) for each token: P and Z are all that is remembered for it.
///
/// Where the values are what the keys are projected from, v_j = x_j and k_j = x_j W, one store serves both:
///
///   q_t . k_j = (W_h q_t) . x_j
///
/// for the projection moves to the query, once for each token, and neither keys nor their projection are needed. Heads
/// pay with a product as wide as all of them; so where many tokens are new at once (a prompt), the keys are projected
/// after all, into scratch.
///
/// | symbol | shape                                                    | meaning                                    |
/// |--------|----------------------------------------------------------|--------------------------------------------|
/// | store  | (tokens / token_block) blocks of (width, token_block)    | keys, values or inputs, tokens side by side |
///
/// With tokens side by side scores and softmax run down the lanes, whatever the widths of the heads. Where heads that
/// follow one another have the same keys or values (grouped queries), a store has them once.

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Tokens that lie side by side in a store.
template <class S>
inline constexpr Index token_block = 4 * lanes<S>;

/// What an attention remembers; the stores hold whole blocks.
template <class S>
struct AttentionPast {
  S *keys = nullptr, *values = nullptr;  ///< stores; of inputs, one and the same, where the projection is folded
  S* sums = nullptr;                     ///< P (heads * value_width) and Z (heads), where C is subtracted
  const S* projection = nullptr;         ///< W (heads * value_width, heads * key_width) where it is folded
};

/// Puts a token into a store of fewer heads, of each group of equal ones the first.
template <int heads, int stored, Index width, class S>
void remember(const S* row, Index token, S* store) {
  constexpr Index block = token_block<S>;
  S* place = store + token / block * (stored * width * block) + token % block;
  for (int h = 0; h < stored; ++h, row += heads / stored * width) {
    for (Index c = 0; c < width; ++c, place += block) *place = row[c];
  }
}

/// One attention; `inputs`: the store holds what keys are projected from.
template <AttentionSize size, bool inputs, int key_heads, int value_heads, class S>
struct AttentionStep {
  using V = Vec<S>;
  static constexpr int L = lanes<S>, heads = size.heads, key_width = size.key_width, value_width = size.value_width;
  static constexpr int key_group = heads / key_heads, value_group = heads / value_heads;
  static constexpr Index block = token_block<S>, keys = heads * key_width, values = heads * value_width;
  static constexpr Index stored_keys = key_heads * key_width, stored_values = value_heads * value_width;
  static constexpr int rows_together = L < 4 ? L : 4;  ///< tokens, where as many are new: the stores are read once
  static constexpr int most_rows = heads > rows_together ? heads : rows_together;
  static constexpr bool gains = size.matrix != AttentionMatrix::softmax;
  static constexpr bool centred = size.matrix == AttentionMatrix::shaped;

  /// scores[i, j] = queries[i] . store[j] over `inner` rows of the store, for `count` queries and all tokens.
  template <int count, Index inner, Index query_stride = inner>
  static void score(Index tokens, const S* queries, const S* store, Index next_block, S* scores, Index stride) {
    constexpr int most = vector_bytes == 64 ? 4 : 2, rows = count < most ? count : most;  // accumulators in registers
    for (Index first = 0; first < tokens; first += block, store += next_block) {
      panel<rows, 4, Write::store>(count, inner, queries, Static<query_stride>{}, Static<1>{}, store, Static<block>{},
                                   scores + first, stride, NoEpilogue{}, 0);
    }
  }

  /// The store of all keys, k_j = x_j W.
  static void project_keys(Index tokens, const AttentionPast<S>& past, S* store) {
    constexpr int rows = vector_bytes == 64 ? 4 : 2;
    const S* from = past.keys;
    for (Index first = 0; first < tokens; first += block, from += values * block, store += stored_keys * block) {
      panel<rows, 4, Write::store>(stored_keys, values, past.projection, Static<1>{}, Static<stored_keys>{}, from,
                                   Static<block>{}, store, block, NoEpilogue{}, 0);
    }
  }
  /// Whether that is less work for so many new tokens: values^2 for each of the past, and heads times less for scores.
  static constexpr bool projects(Index rows, Index past) {
    return rows * (heads - 1) * (past + rows / 2) > past * stored_keys && rows > 1;
  }

  /// Scores become exp(score - maximum), up to the end of the last block 0; returns their sum.
  static S exponentiate(Index tokens, S scale, S slope, S* scores) {
    const auto each = [&](auto visit) __attribute__((always_inline)) {
      V number = lane_numbers<V>();
      for (Index j = 0; j < tokens; j += L, number += S(L)) {
        V score = load<V>(scores + j) * scale;
        if constexpr (size.alibi) score += slope * (number - S(tokens - 1));
        visit(j, score, number < S(tokens));
      }
    };
    V largest_of_lane = splat<V>(-std::numeric_limits<S>::infinity()), sum_of_lane{};
    each([&](Index, V score, auto seen) {
      largest_of_lane = max(largest_of_lane, select(seen, score, largest_of_lane));
    });
    const V highest = splat<V>(largest(largest_of_lane));
    each([&](Index j, V score, auto seen) {
      const V weight = select(seen, exp(V(score - highest)), V{});
      store(scores + j, weight);
      sum_of_lane += weight;
    });
    for (Index j = round_up(tokens, L); j < round_up(tokens, block); ++j) scores[j] = S(0);
    return sum(sum_of_lane);
  }

  /// out[i, c] = sum_j weights[i, j] store[j, c] for `count` rows and value_width columns.
  template <int count>
  static void mix(Index tokens, const S* weights, Index stride, const S* store, S* out) {
    const auto columns = [&]<int cols>(std::integral_constant<int, cols>, Index c,
                             V* sums) __attribute__((always_inline)) {  // (cols, count)
      const S* place = store + c * block;
      for (Index first = 0; first < tokens; first += block, place += stored_values * block) {
        SIMPLX_UNROLL
        for (int v = 0; v < 4; ++v) {
          V weight[count];
          SIMPLX_UNROLL
          for (int i = 0; i < count; ++i) weight[i] = load<V>(weights + i * stride + first + v * L);
          SIMPLX_UNROLL
          for (int k = 0; k < cols; ++k) {
            const V value = load<V>(place + k * block + v * L);
            SIMPLX_UNROLL
            for (int i = 0; i < count; ++i) sums[k * count + i] += weight[i] * value;
          }
        }
      }
    };
    constexpr int cols = L / count;  // so many sums as lanes
    constexpr Index whole = value_width / cols * cols;
    for (Index c = 0; c < whole; c += cols) {
      V sums[L]{};
      columns(std::integral_constant<int, cols>{}, c, sums);
      alignas(64) S of_lanes[L];
      simplx::store(of_lanes, lane_sums<S>(sums));
      SIMPLX_UNROLL
      for (int k = 0; k < L; ++k) out[k % count * values + c + k / count] = of_lanes[k];
    }
    for (Index c = whole; c < value_width; ++c) {
      V sums[count]{};
      columns(std::integral_constant<int, 1>{}, c, sums);
      for (int i = 0; i < count; ++i) out[i * values + c] = sum(sums[i]);
    }
  }

  /// `count` tokens from number `token` on.
  template <int count>
  static void run(const AttentionOperands<S>& in, const AttentionPast<S>& past, Index token, S* out, S* scratch) {
    const Index tokens = token + count, stride = round_up(tokens, block);
    const S scale = 1 / std::sqrt(S(key_width));
    S* scores = scratch;                       // (heads, stride) of one token, or (count, stride) of a head
    S* queries = scratch + most_rows * stride;  // W_h q_h: as many, (., values)
    const auto project = [&](int h, int row, S* query) {
      matrix_vector<key_width, stored_keys>(values, past.projection + h / key_group * key_width,
                                            in.query + row * keys + h * key_width, query);
    };
    constexpr bool all_heads = inputs && count == 1;  // read the store once
    if constexpr (all_heads) {
      for (int h = 0; h < heads; ++h) project(h, 0, queries + h * values);
      score<heads, values>(tokens, queries, past.keys, values * block, scores, stride);
    }
    for (int h = 0; h < heads; ++h) {
      S* weights = scores + (all_heads ? h * stride : 0);
      if constexpr (inputs && !all_heads) {
        for (int row = 0; row < count; ++row) project(h, row, queries + row * values);
        score<count, values>(tokens, queries, past.keys, values * block, weights, stride);
      } else if constexpr (!inputs) {
        score<count, key_width, keys>(tokens, in.query + h * key_width,
                                      past.keys + h / key_group * key_width * block, stored_keys * block, weights,
                                      stride);
      }
      const S slope = size.alibi ? in.slopes[h] : S(0), shrink = size.alibi ? -std::expm1(-slope) : S(0);
      S total[count];
      for (int row = 0; row < count; ++row) {
        const Index seen = token + row + 1;
        total[row] = exponentiate(seen, scale, slope, weights + row * stride);
        std::fill(weights + row * stride + round_up(seen, block), weights + row * stride + stride, S(0));
      }
      S* o = out + h * value_width;
      mix<count>(tokens, weights, stride, past.values + h / value_group * value_width * block, o);
      for (int row = 0; row < count; ++row, o += values) {
        const S normalise = (gains ? in.beta[h] : S(1)) / total[row];
        const S* v = in.value + row * values + h * value_width;
        S mean = 0, *sums = nullptr;
        if constexpr (centred) {
          S& sum_of_weights = past.sums[values + h];  // Z
          sum_of_weights += 1 - sum_of_weights * shrink;
          mean = in.gamma[h] / sum_of_weights;
          sums = past.sums + h * value_width;
        }
        for (Index c = 0; c < value_width; ++c) {
          S result = o[c] * normalise;
          if constexpr (gains) result += in.alpha[h] * v[c];
          if constexpr (centred) {
            sums[c] += v[c] - sums[c] * shrink;
            result -= mean * sums[c];
          }
          o[c] = result;
        }
      }
    }
  }
};

/// Elements of scratch for a context of so many tokens: scores, queries and, with `inputs`, keys.
template <AttentionSize size, bool inputs, class S>
constexpr Index attention_step_scratch(Index tokens, int key_heads = size.heads) {
  const Index rows = std::max(size.heads, 4), room = round_up(tokens, token_block<S>);
  return rows * (room + size.heads * size.value_width) + (inputs ? room * key_heads * size.key_width : 0);
}

/// Remembers `rows` tokens that follow `past_tokens` others, and what each of them attends to.
///
/// Shapes  operands and out as of attention_forward; where `inputs` holds, the keys are not read. Stores and W have the
///         columns of key_heads and value_heads heads: heads / key_heads that follow one another have equal keys
/// Cost    per token t, (key_width + value_width) heads t multiply-adds; with `inputs` keys values + (1 + heads) values
///         t, or, where that is less for all rows, keys values for each token of the past and then as without; no heap;
///         `scratch` holds attention_step_scratch elements. Four tokens at a time read the stores once, with `inputs`
///         once for the scores of each head. What is no number in one of them reaches the others, and all new ones
///         where keys are projected
/// Source  He & Hofmann 2024, Eqs. (2), (4), (5) and (13)
template <AttentionSize size, bool inputs, int key_heads = size.heads, int value_heads = size.heads, class S>
  requires(size.mask == Mask::causal)
__attribute__((noinline)) void attention_steps(Index rows, Index past_tokens, AttentionOperands<S> in,
                                               AttentionPast<S> past, S* out, S* scratch) {
  using Step = AttentionStep<size, inputs, key_heads, value_heads, S>;
  const auto remember_rows = [&](Index count) {
    for (Index row = 0; row < count; ++row) {
      const Index token = past_tokens + row;
      if constexpr (!inputs) {
        remember<size.heads, key_heads, size.key_width>(in.key + row * Step::keys, token, past.keys);
      }
      remember<size.heads, value_heads, size.value_width>(in.value + row * Step::values, token, past.values);
    }
  };
  const auto each = [&]<class Of>(Of, bool remembered) {
    const auto next = [&]<int count>(std::integral_constant<int, count>) {
      if (!remembered) remember_rows(count);
      Of::template run<count>(in, past, past_tokens, out, scratch);
      if constexpr (!inputs) in.key += count * Step::keys;
      in.query += count * Step::keys, in.value += count * Step::values, out += count * Step::values;
      past_tokens += count;
    };
    constexpr int together = Step::rows_together;
    for (; rows >= together; rows -= together) next(std::integral_constant<int, together>{});
    for (; rows > 0; --rows) next(std::integral_constant<int, 1>{});
  };
  if constexpr (inputs) {
    if (Step::projects(rows, past_tokens)) {
      remember_rows(rows);
      const Index tokens = past_tokens + rows;
      S* const keys = std::exchange(scratch, scratch + round_up(tokens, Step::block) * Step::stored_keys);
      Step::project_keys(tokens, past, keys);
      past.keys = keys;
      return each(AttentionStep<size, false, key_heads, value_heads, S>(), true);
    }
  }
  each(Step(), false);
}

}  // namespace simplx::cpu

// ---- simplx/ops/batched_matmul.hpp

/// \file simplx/ops/batched_matmul.hpp
/// A small product for each row: the row holds a matrix, row by row.
///
///     Y_r = A_r B_r,   dA_r = dY_r B_r^T,   dB_r = A_r^T dY_r

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("batched sizes", left == right,
            "batched_matmul(a, b, rows, inner, cols): a must have rows * inner columns and b inner * cols (left "
            "number: the columns it has, right number: those it needs)")

template <>
struct op<"batched_matmul"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr Checked shape(const Attributes& attributes, Shape a, Shape b) {
    const auto [rows, inner, cols, unused] = attributes.integers;
    if (a.axis != b.axis || a.rows != b.rows) return unequal_rows(a, b);
    if (a.cols != rows * inner) return {"batched sizes", a.cols, rows * inner};
    if (b.cols != inner * cols) return {"batched sizes", b.cols, inner * cols};
    return Shape{a.axis, a.rows, rows * cols};
  }
  static std::string settings(const Attributes& attributes) {
    const auto [rows, inner, cols, unused] = attributes.integers;
    return std::to_string(rows) + " x " + std::to_string(inner) + " by " + std::to_string(inner) + " x " +
           std::to_string(cols);
  }
  template <class F>
  struct Size {
    static constexpr int rows = static_cast<int>(F::attributes.integers[0]);
    static constexpr int inner = static_cast<int>(F::attributes.integers[1]);
    static constexpr int cols = static_cast<int>(F::attributes.integers[2]);
  };
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    using Is = Size<F>;
    const Shape a = F::template shape<0>;
    return 2.0 * static_cast<double>(rows.count(a)) * Is::rows * Is::inner * Is::cols;
  }
  /// A matrix of static size; a single column is stored the same way either way.
  template <class S, int rows, int cols>
  using Small = Eigen::Matrix<S, rows, cols, cols == 1 ? Eigen::ColMajor : Eigen::RowMajor>;

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    using Is = Size<F>;
    for (Index r = 0; r < frame.rows(); ++r) {
      const Eigen::Map<const Small<S, Is::rows, Is::inner>> a(frame.template in<0>() + r * Is::rows * Is::inner);
      const Eigen::Map<const Small<S, Is::inner, Is::cols>> b(frame.template in<1>() + r * Is::inner * Is::cols);
      Eigen::Map<Small<S, Is::rows, Is::cols>>(frame.out() + r * Is::rows * Is::cols) = a.lazyProduct(b);
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using Is = Size<F>;
    const auto write = []<Write mode>(std::integral_constant<Write, mode>, auto target, const auto& product) {
      if constexpr (mode == Write::store) {
        target = product;
      } else {
        target += product;
      }
    };
    for (Index r = 0; r < frame.rows(); ++r) {
      const Eigen::Map<const Small<S, Is::rows, Is::cols>> g(frame.out_grad() + r * Is::rows * Is::cols);
      if constexpr (F::template write<0> != Write::skip) {
        const Eigen::Map<const Small<S, Is::inner, Is::cols>> b(frame.template in<1>() + r * Is::inner * Is::cols);
        write(std::integral_constant<Write, F::template write<0>>{},
              Eigen::Map<Small<S, Is::rows, Is::inner>>(frame.template grad<0>() + r * Is::rows * Is::inner),
              g.lazyProduct(b.transpose()));
      }
      if constexpr (F::template write<1> != Write::skip) {
        const Eigen::Map<const Small<S, Is::rows, Is::inner>> a(frame.template in<0>() + r * Is::rows * Is::inner);
        write(std::integral_constant<Write, F::template write<1>>{},
              Eigen::Map<Small<S, Is::inner, Is::cols>>(frame.template grad<1>() + r * Is::inner * Is::cols),
              a.transpose().lazyProduct(g));
      }
    }
  }
};

/// One small product for each row.
///
/// Shapes  a (n, rows * inner), b (n, inner * cols) -> (n, rows * cols)
/// Errors  does not compile unless the widths are these products: rule "batched sizes"
constexpr Expr batched_matmul(At a, At b, Index rows, Index inner, Index cols) {
  return apply<"batched_matmul">({.integers = {rows, inner, cols}}, a, b);
}

}  // namespace simplx

// ---- simplx/ops/custom.hpp

/// \file simplx/ops/custom.hpp
/// A function with a pull-back of its user's own, both written as expressions:
///
///     constexpr auto clipped = with_pull_back(
///         [](Expr x) { return x; },                                              // y = f(x)
///         [](Expr dy, Expr y, Expr x) { return clamp(dy, -1.0, 1.0); });         // dx from dy, y and x
///     auto h = clipped(x);
///
/// With several operands the pull-back returns an aggregate of as many expressions.
///
/// Trainers evaluate some sequences at a time and add up what the pull-back of a weight gives for each. That is the
/// gradient if it is linear in dy, as derivatives are and straight-through estimators; a clamp of a weight's dy is not.
/// On rows, where each has a dy of its own, it is the same everywhere.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The graph of the function (0) or of its pull-back (1). Not a member of the op: nvcc cannot spell op<"custom">.
template <class F, int part>
using PartOf = typename F::Graph::template rule_of<F::index, part>;

}  // namespace detail

template <>
struct op<"custom"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool needs_output = true;

  /// The function's own, found by evaluating it once.
  static constexpr Checked shape(const Attributes& attributes, auto...) {
    return Shape{static_cast<Axis>(attributes.integers[0]), attributes.integers[1], attributes.integers[2]};
  }

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    return std::max(detail::graph_scratch<detail::PartOf<F, 0>, Backend>(rows),
                    detail::graph_scratch<detail::PartOf<F, 1>, Backend>(rows));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    return detail::graph_flops<detail::PartOf<F, 0>>(rows, causal);
  }
  /// The context of a part: its kept and temporary columns, one after the other, in the node's workspace.
  template <class G, class S>
  static Context<S> part_context(const Context<S>& whole, const Columns& workspace) {
    Context<S> mine = whole;
    for (int i = 0; i < axis_count; ++i) {
      mine.kept[i] = whole.temporary[i] + workspace.on[i] * whole.stride[i];
      mine.temporary[i] = mine.kept[i] + G::layout.kept.on[i] * whole.stride[i];
    }
    return mine;
  }
  template <class Backend, class F>
  static void forward(Backend, const F& frame) {
    using G = detail::PartOf<F, 0>;
    using S = typename Backend::Scalar;
    Context<S> mine = part_context<G>(frame.context, F::Graph::layout.forward_workspace[F::index]);
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int number = G::input_number(detail::operand_names[k]);
      if constexpr (number >= 0) mine.inputs[number] = frame.template in<k>();
    });
    mine.outputs[0] = frame.out();
    Execute<G, Backend>::forward(mine);
  }

  template <class Backend, class F>
  static void backward(Backend, const F& frame) {
    using G = detail::PartOf<F, 1>;
    using S = typename Backend::Scalar;
    constexpr const Columns& workspace = F::Graph::layout.backward_workspace[F::index];
    Context<S> mine = part_context<G>(frame.context, workspace);
    S* room[axis_count];
    for (int i = 0; i < axis_count; ++i) room[i] = mine.temporary[i] + G::layout.temporary.on[i] * mine.stride[i];
    constexpr int gradient = G::input_number("gradient"), result = G::input_number("result");
    if constexpr (gradient >= 0) mine.inputs[gradient] = frame.out_grad();
    if constexpr (result >= 0) mine.inputs[result] = frame.out();
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int number = G::input_number(detail::operand_names[k]);
      if constexpr (number >= 0) mine.inputs[number] = frame.template in<k>();
      constexpr Shape shape = F::template shape<k>;
      constexpr int axis = static_cast<int>(shape.axis);
      mine.outputs[k] = room[axis];
      room[axis] += room_of(shape) * mine.stride[axis];
    });
    Execute<G, Backend>::forward(mine);
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr Write mode = F::template write<k>;
      const Index size = frame.template rows_in<k>() * F::template shape<k>.cols;
      if constexpr (mode == Write::store) Backend::copy(frame.context, mine.outputs[k], size, frame.template grad<k>());
      if constexpr (mode == Write::accumulate) {
        Backend::add(frame.context, mine.outputs[k], size, frame.template grad<k>());
      }
    });
  }

  static constexpr int most_operands = max_outputs;  ///< of which each has a result of the pull-back

  /// The user's pull-back itself.
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    Node* inputs[max_arguments + 2] = {detail::whole(g, node).node, const_cast<Node*>(node)};
    Node* results[max_arguments]{};
    for (int i = 0; i < node->argument_count; ++i) inputs[2 + i] = node->arguments[i];
    node->rules->make(node->rules, 1, inputs, results);
    return Term(Expr{results[argument]});
  }
};

namespace detail {

template <class Function, class PullBack, int count>
struct RulesOf : RuleMaker {
  Function function;
  PullBack pull_back;

  constexpr RulesOf(const Function& f, const PullBack& p) : function(f), pull_back(p) {
    make = [](const RuleMaker* base, int part, Node* const* inputs, Node** results) {
      const RulesOf& self = *static_cast<const RulesOf*>(base);
      const auto x = [&](int i) { return Expr{inputs[i]}; };
      [&]<int... i>(std::integer_sequence<int, i...>) {
        if (part == 0) {
          results[0] = self.function(x(i)...).node;
        } else {
          int next = 0;
          each_result(self.pull_back(x(0), x(1), x(2 + i)...),
                      [&](Expr value, const char*) { results[next++] = value.node; });
        }
      }(std::make_integer_sequence<int, count>{});
    };
    destroy = [](RuleMaker* self) { delete static_cast<RulesOf*>(self); };
  }
};

/// What is wrong with a part: it makes leaves of its own, or uses expressions from outside.
constexpr BlockFault fault_of_part(const Node* node, int part) {
  const RulePart first = rule_part(node, part), second = rule_part(node, part);
  return fault_of(first.root, second.root, [](const Node& made) -> Tag {
    const bool leaf = made.kind == Kind::parameter || made.kind == Kind::constant || made.kind == Kind::indices;
    return leaf || made.block ? Tag("own parameters") : Tag();
  });
}

}  // namespace detail

/// A function and its pull-back as a module.
template <class Function, class PullBack>
struct WithPullBack {
  Function function;
  PullBack pull_back;

  template <class... More>
  constexpr Expr operator()(At x, const More&... more) const {
    constexpr int count = 1 + static_cast<int>(sizeof...(more));
    static_assert(count <= op<"custom">::most_operands,
                  "simplx: a function with its own pull-back has at most four operands; put some beside each other by "
                  "concatenate");
    return make<count>(x, At(more)...);
  }

 private:
  template <int count, class... Operands>
  constexpr Expr make(const Operands&... operands) const {
    auto* rules = new detail::RulesOf<Function, PullBack, count>(function, pull_back);
    const At given[] = {operands...};
    Node* inputs[count]{};
    Node* results[max_arguments]{};
    for (int i = 0; i < count; ++i) inputs[i] = detail::leaf(Kind::input, given[i].shape(), given[i].where);
    rules->make(rules, 0, inputs, results);
    const Node& sample = *results[0];
    const Shape shape = sample.shape;
    const bool sound = sample.kind != Kind::error;
    const Expr error = sound ? Expr{} : refuse(sample.rule, given[0], sample.left, sample.right);
    Node* hub = detail::new_node();
    for (Node* input : inputs) detail::use(hub, input);
    detail::use(hub, results[0]);
    if (!sound) {
      detail::use(error.node, hub);
      delete rules;
      return error;
    }
    detail::release(hub);

    Expr result = apply<"custom">({.integers = {static_cast<Index>(shape.axis), shape.rows, shape.cols}}, operands...);
    if (result.node->kind == Kind::error) {
      delete rules;
      return result;
    }
    result.node->rules = rules;
    for (int part = 0; part < 2; ++part) {
      const detail::BlockFault fault = detail::fault_of_part(result.node, part);
      if (!fault.rule.empty()) return {detail::broken(result.node, fault.rule, fault.line, given[0].where.line)};
    }
    return result;
  }
};

/// A module of a function and its pull-back.
///
/// Shapes  function(x...) any; pull_back(dy, y, x...) one expression of the shape of each operand
/// Errors  does not compile if either makes parameters or uses expressions from outside, or if shapes differ: rules
///         "own parameters", "captured" and "pull-back shape"
/// Cost    keeps the operands and the result; both parts run in temporary memory
template <class Function, class PullBack>
constexpr WithPullBack<Function, PullBack> with_pull_back(const Function& function, const PullBack& pull_back) {
  return {function, pull_back};
}

}  // namespace simplx

// ---- simplx/ops/stop_gradient.hpp

/// \file simplx/ops/stop_gradient.hpp
/// Where differentiation ends: values that count as constants, parameters that are not trained.

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"stop_gradient"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* const x = frame.template in<0>();
    std::transform(x, x + frame.rows() * F::out_shape.cols, frame.out(), constant_of<S>);
  }
  /// A dual number without its tangent.
  template <class S>
  static S constant_of(const S& x) {
    if constexpr (requires { x.tangent; }) {
      return S(constant_of(x.value));
    } else {
      return x;
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F&) {}  // never called: its gradient is not wanted
};

/// x itself, but a constant to whoever differentiates. What only serves it is not differentiated at all; its parameters
/// still decay where an optimiser lets them, unlike those of frozen(...).
///
/// Cost    a copy of x
constexpr Expr stop_gradient(At x) {
  Expr result = apply<"stop_gradient">({}, x);
  result.node->stops = true;
  return result;
}

/// A module whose parameters are not trained: they stay in checkpoints, and their backward is not compiled.
template <class Module>
struct Frozen {
  Module module;

  template <class... Arguments>
  constexpr auto operator()(const Arguments&... arguments) const
      -> decltype(detail::as_results(module(arguments...))) {
    const auto results = detail::as_results(module(arguments...));
    detail::each_made(results, detail::freeze, arguments...);
    return results;
  }
};
template <class Module>
constexpr Frozen<Module> frozen(const Module& module) {
  return {module};
}

/// One parameter that is not trained: frozen(weight("base", d, d)).
constexpr Expr frozen(Expr parameter) {
  if (parameter.node->kind != Kind::parameter) return refuse("frozen", parameter);
  parameter.node->frozen = true;
  return parameter;
}

}  // namespace simplx

// ---- simplx/ops/softmax.hpp

/// \file simplx/ops/softmax.hpp
/// Softmax and its relatives over the columns of each row, the last one also over rows or all; none overflows:
///
///     softmax        y = exp(x - L)        dx = y (g - sum(g y))
///     log_softmax    y = x - L             dx = g - exp(y) sum(g)
///     log_sum_exp    L = log sum exp x     dx = g softmax(x)

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The largest element of a row.
template <Index cols, class S>
S highest_of(const S* x) {
  if constexpr (cols < lanes<S> && cpu::takes_part<S, cols>) {
    using Row = cpu::Part<S, cols>;
    return largest(cpu::counted<Row>(load<Row>(x), splat<Row>(-std::numeric_limits<S>::infinity())));
  } else if constexpr (cols < lanes<S>) {
    S highest = x[0];
    for (Index c = 1; c < cols; ++c) highest = max(highest, x[c]);
    return highest;
  } else {
    Vec<S> highest = load<Vec<S>>(x);
    for (Index c = lanes<S>; c + lanes<S> <= cols; c += lanes<S>) highest = max(highest, load<Vec<S>>(x + c));
    if constexpr (cols % lanes<S> != 0) highest = max(highest, load<Vec<S>>(x + cols - lanes<S>));
    return largest(highest);
  }
}

/// NaN if a row has one, which highest_of may not see; else 0.
template <Index cols, class S>
S nan_of(const S* x) {
  S found = S(0);
  for (Index c = 0; c < cols; ++c) {
    if (!(x[c] == x[c])) found = x[c];
  }
  return found;
}

/// sum exp(x - highest) of a row; visit<V>(c, e) sees the exponentials. With `highest` apart nothing is rounded away
/// where all of x is far from 0.
template <Index cols, class S, class Visit>
__attribute__((always_inline)) inline S sum_below(const S* x, S highest, const Visit& visit) {
  return cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
    const cpu::Register<V> e = exp(cpu::Register<V>(load<V>(x + c) - splat<V>(highest)));
    visit.template operator()<V>(c, e);
    return e;
  });
}
template <Index cols, class S>
S sum_below(const S* x, S highest) {
  return sum_below<cols>(x, highest, []<class V>(Index, cpu::Register<V>) {});
}

/// Rows at a time: each step is taken for all of them before the next, which then need not wait for it.
inline constexpr Index rows_at_once = 64;

/// y = f(y) for each of `count` numbers, by vectors.
template <class S, class F>
__attribute__((always_inline)) inline void change_each(Index count, S* y, const F& f) {
  cpu::each_element<S, 1, true>(count, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
    store(y + i, V(f(load<V>(y + i))));
  });
}

/// Calls visit(row, highest, log sum exp(x - highest)) for all rows; with zeros for those that do not count.
template <Index cols, class S, class Counts, class Visit>
__attribute__((always_inline)) inline void log_sums_below(Index rows, const S* x, const Counts& counts,
                                                          const Visit& visit) {
  S highest[rows_at_once], sum[rows_at_once];
  for (Index begin = 0; begin < rows; begin += rows_at_once) {
    const Index count = std::min(rows_at_once, rows - begin);
    const S* const from = x + begin * cols;
    for (Index i = 0; i < count; ++i) highest[i] = counts(begin + i) ? highest_of<cols>(from + i * cols) : S(0);
    for (Index i = 0; i < count; ++i) {
      sum[i] = counts(begin + i) ? sum_below<cols>(from + i * cols, highest[i]) : S(1);
    }
    change_each(count, sum, [](auto s) { return log(s); });
    for (Index i = 0; i < count; ++i) visit(begin + i, highest[i], sum[i]);
  }
}

/// y = softmax(x) of all rows, each exponential once, NaN in a row of -inf; where L is wanted, L[row] = log sum exp of
/// the row.
template <Index cols, bool wants_log_sum, class S>
void softmax_of_rows(Index rows, const S* x, S* y, [[maybe_unused]] S* L) {
  S highest[rows_at_once], total[rows_at_once];
  for (Index begin = 0; begin < rows; begin += rows_at_once) {
    const Index count = std::min(rows_at_once, rows - begin);
    const S* const from = x + begin * cols;
    S* const to = y + begin * cols;
    for (Index i = 0; i < count; ++i) highest[i] = highest_of<cols>(from + i * cols);
    if constexpr (cols % lanes<S> != 0 && cols < 4 * lanes<S>) {  // exponentials of narrow rows fill whole vectors
      for (Index i = 0; i < count; ++i) {
        cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
          store<V>(to + i * cols + c, load<V>(from + i * cols + c) - splat<V>(highest[i]));
        });
      }
      change_each(count * cols, to, [](auto below) { return exp(below); });
      for (Index i = 0; i < count; ++i) {
        total[i] = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
          return load<V>(to + i * cols + c);
        });
      }
    } else {
      for (Index i = 0; i < count; ++i) {
        total[i] = sum_below<cols>(from + i * cols, highest[i], [&]<class V>(Index c, cpu::Register<V> e) {
          store<V>(to + i * cols + c, e);
        });
      }
    }
    if constexpr (wants_log_sum) {
      cpu::each_element<S, 1, true>(count, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
        const V most = load<V>(highest + i), zero = most - most;  // NaN where it is infinite, as L then is
        store(L + begin + i, select(zero == zero, V(most + log(load<V>(total + i))), most));
      });
      for (Index i = 0; i < count; ++i) {
        const S zero = highest[i] - highest[i];
        if (!(zero == zero)) L[begin + i] += nan_of<cols>(from + i * cols);
      }
    }
    change_each(count, total, [](auto sum) { return S(1) / sum; });
    for (Index i = 0; i < count; ++i) {
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        store<V>(to + i * cols + c, load<V>(to + i * cols + c) * splat<V>(total[i]));
      });
    }
  }
}

/// What both softmaxes share: shapes, and a pull-back that reads the result.
struct softmax_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_output = true;
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
};

}  // namespace detail

template <>
struct op<"softmax"> : detail::softmax_op {
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Term y(Expr{const_cast<Node*>(node)});
    return y * (g - Term(sum((g * y).operand(), Over::columns)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    detail::softmax_of_rows<F::out_shape.cols, false, S>(frame.rows(), frame.template in<0>(), frame.out(), nullptr);
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, g += cols, dx += cols) {
      const S along = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(g + c) * load<V>(y + c);
      });
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(y + c) * (load<V>(g + c) - splat<V>(along)));
      });
    }
  }
};

template <>
struct op<"log_softmax"> : detail::softmax_op {
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Term y(Expr{const_cast<Node*>(node)});
    return g - exp(y) * Term(sum(detail::whole(g, node), Over::columns));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* x = frame.template in<0>();
    S* y = frame.out();
    const auto all = [](Index) { return true; };
    detail::log_sums_below<cols>(frame.rows(), x, all, [&](Index row, S highest, S log_sum) {
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        const Index at = row * cols + c;
        store<V>(y + at, (load<V>(x + at) - splat<V>(highest)) - splat<V>(log_sum));
      });
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, g += cols, dx += cols) {
      const S total = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(g + c);
      });
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(g + c) - exp(load<V>(y + c)) * splat<V>(total));
      });
    }
  }
};

template <>
struct op<"log_sum_exp"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x) { return Shape{x.axis, x.rows, 1}; }
  static constexpr Index saved(const Attributes&, Shape x) { return x.cols; }  // softmax(x)
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return g * exp(Term(Expr{node->arguments[0]}) - Term(Expr{const_cast<Node*>(node)}));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    detail::softmax_of_rows<F::template shape<0>.cols, true>(frame.rows(), frame.template in<0>(), frame.saved(),
                                                             frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::template shape<0>.cols;
    const S *y = frame.saved(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, dx += cols) {
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(y + c) * splat<V>(g[row]));
      });
    }
  }
};

/// exp(x) / sum(exp(x)) over the columns of each row.
///
/// Shapes  any, and the same
/// Cost    keeps its result
constexpr Expr softmax(At x) { return apply<"softmax">({}, x); }

/// The logarithm of softmax.
///
/// Shapes  any, and the same
/// Cost    keeps its result
constexpr Expr log_softmax(At x) { return apply<"log_softmax">({}, x); }

/// log(sum(exp(x))) over everything, as `sum`, or over rows or columns: log_softmax(x) is
/// x - log_sum_exp(x, Over::columns).
///
/// Shapes  x (rows, C) -> (rows, 1), (1, C) or (1, 1)
/// Cost    over columns one node that keeps softmax(x); otherwise a maximum and a sum that keeps its exponentials
constexpr Expr log_sum_exp(At x, Over over = Over::all) {
  if (over == Over::columns) return apply<"log_sum_exp">({}, x);
  auto largest = max(x, over);
  auto highest = stop_gradient(largest);  // a gradient would cancel
  auto finite = highest - highest + 1.0;  // else NaN: where the largest is infinite, so is the result, by that alone
  auto origin = select(finite, highest, 0.0);
  auto rest = log(sum(exp(apply<"subtract">({}, x, At(origin))), over));
  return select(finite, origin + rest, highest);
}

}  // namespace simplx

// ---- simplx/generate/streamed.hpp

/// \file simplx/generate/streamed.hpp
/// How ops run when the tokens of a sequence come one after the other: streamed<"name"> for each op.
///
/// | op                       | what it remembers of the tokens before                                     |
/// |--------------------------|----------------------------------------------------------------------------|
/// | elementwise, norms, ...  | nothing: its ordinary kernel runs on the new rows                          |
/// | positions, rotary        | nothing: Context::past counts the tokens before                            |
/// | shift(x, n), n >= 0      | the last n rows of x                                                       |
/// | cumulative_sum           | one row                                                                    |
/// | attention, causal        | keys and values, or what both are made of (streamed_attention.hpp)         |
///
/// What reads tokens to come cannot be streamed, and does not compile. An op of one's own, whose rows do not look at
/// each other, is streamed by its ordinary kernel after
///
///     template <> struct simplx::streamed<"my_op"> : simplx::by_row {};
///
/// On a GPU simplx/cuda/streamed.cuh has those that remember; one of your own that does needs
/// streamed_on<Cuda<p>, "my_op"> for it.

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("streamed", (possible<left, right>),
            "a stream gives its model one token after the other, but this op (left number: its line) reads tokens to "
            "come, or all at once: full attention, sums and maxima over rows, first_of_sequence, shifts up; evaluate "
            "whole sequences by Inference, or, if it is an op of yours that reads no row but its own, specialise "
            "streamed<\"its name\">")

/// Elements that a node remembers.
struct Remembered {
  Index per_token = 0;  ///< for each token, in whole blocks of tokens
  Index once = 0;

  constexpr Remembered& operator+=(const Remembered& other) {
    per_token += other.per_token, once += other.once;
    return *this;
  }
  bool operator==(const Remembered&) const = default;
};

/// Where a node finds what it remembers; zeros before the first token.
template <class S>
struct StreamMemory {
  S* stores = nullptr;   ///< per_token * capacity elements
  S* once = nullptr;
  Index capacity = 0;    ///< tokens, in whole blocks
  S* scratch = nullptr;  ///< of the op that runs

  /// The part that begins after what the others remember.
  StreamMemory after(const Remembered& others) const {
    return {stores + others.per_token * capacity, once + others.once, capacity, scratch};
  }
};

/// An op that cannot be streamed, or of which nothing is known.
template <Tag name>
struct streamed {
  template <class F>
  static constexpr bool possible = false;
  template <class F>
  static constexpr Remembered remembers{};
};

/// Every row of the result depends on the same row of its operands alone.
struct by_row {
  template <class F>
  static constexpr bool possible = true;
  template <class F>
  static constexpr Remembered remembers{};
  /// Elements of StreamMemory::scratch for so many new rows in a context of so many tokens, beside Context::scratch.
  template <class F>
  static constexpr Index scratch(Index, Index) {
    return 0;
  }
  template <class Backend, class F>
  static void forward(Backend backend, const F& frame, const StreamMemory<typename F::Scalar>&) {
    kernels_of<Backend, typename F::Graph, F::index>::forward(backend, frame);
  }
};

/// What streams an op on a backend: as streamed says, unless the backend knows better (simplx/cuda).
template <class Backend, Tag name>
struct streamed_on : streamed<name> {};

template <> struct streamed<"matmul"> : by_row {};
template <> struct streamed<"batched_matmul"> : by_row {};
template <> struct streamed<"rms_norm"> : by_row {};
template <> struct streamed<"layer_norm"> : by_row {};
template <> struct streamed<"softmax"> : by_row {};
template <> struct streamed<"log_softmax"> : by_row {};
template <> struct streamed<"log_sum_exp"> : by_row {};
template <> struct streamed<"slice_columns"> : by_row {};
template <> struct streamed<"concatenate"> : by_row {};
template <> struct streamed<"repeat_columns"> : by_row {};
template <> struct streamed<"sum_of_repeated"> : by_row {};
template <> struct streamed<"dropout"> : by_row {};  // there is none outside of training
template <> struct streamed<"stop_gradient"> : by_row {};
template <> struct streamed<"positions"> : by_row {};
template <> struct streamed<"rotary"> : by_row {};

template <>
struct streamed<"embedding"> : by_row {
  template <class F>
  static constexpr bool possible = F::template shape<0>.is_fixed();  // rows of the sequence itself may be yet to come
};
template <>
struct streamed<"maximum"> : by_row {
  template <class F>
  static constexpr bool possible = detail::over_of(F::attributes) == Over::columns;
};

/// The last rows in a ring: row t lies where row t - n lay before.
template <>
struct streamed<"shift"> : by_row {
  template <class F>
  static constexpr bool possible = op<"shift">::by(F::attributes) >= 0;
  template <class F>
  static constexpr Remembered remembers{.once = op<"shift">::by(F::attributes) * F::out_shape.cols};

  template <class Backend, class F>
  static void forward(Backend backend, const F& frame, const StreamMemory<typename F::Scalar>& memory) {
    constexpr Index cols = F::out_shape.cols, by = op<"shift">::by(F::attributes);
    if constexpr (by == 0) {
      op<"shift">::forward(backend, frame);
    } else {
      for (Index row = 0; row < frame.rows(); ++row) {
        auto* place = memory.once + (frame.context.past + row) % by * cols;
        std::copy_n(place, cols, frame.out() + row * cols);
        std::copy_n(frame.template in<0>() + row * cols, cols, place);
      }
    }
  }
};

template <>
struct streamed<"cumulative_sum"> : by_row {
  template <class F>
  static constexpr bool possible = !op<"cumulative_sum">::from_last(F::attributes);
  template <class F>
  static constexpr Remembered remembers{.once = F::out_shape.cols};

  template <class Backend, class F>
  static void forward(Backend, const F& frame, const StreamMemory<typename F::Scalar>& memory) {
    constexpr Index cols = F::out_shape.cols;
    for (Index i = 0; i < frame.rows() * cols; ++i) {
      frame.out()[i] = memory.once[i % cols] += frame.template in<0>()[i];
    }
  }
};

}  // namespace simplx

// ---- simplx/generate/streamed_attention.hpp

/// \file simplx/generate/streamed_attention.hpp
/// What causal attention remembers when tokens come one after the other (d = H d_k = H d_v):
///
/// | values                         | per token   | once   |                                                       |
/// |--------------------------------|-------------|--------|-------------------------------------------------------|
/// | V = x W_V, or any other        | k and v: 2d | -      |                                                       |
/// | V = x, where K = x W_K (SAS)   | x: d        | -      | W_K is applied to the query: q (x W)^T = (q W^T) x^T  |
/// | and with shaped attention      |             | d + H  | the running mean C V: O(1) for each token             |
///
/// SAS thus has neither keys nor a value cache beside its inputs; keys are projected, into scratch, where many tokens
/// are new at once (cpu/attention_step.hpp). Keys and values that groups of heads share (repeat_columns of whole heads)
/// are remembered once for each group.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Whether node `key` of a graph is x W with a parameter W, and x the node `value`.
template <class G>
constexpr bool projects(int key, int value) {
  const Info& info = G::table.info[key];
  return G::flat.label[key].op == Tag("matmul") && !is_transposed(G::flat.label[key].attributes) &&
         info.arguments[0] == value && G::table.info[info.arguments[1]].kind == Kind::parameter;
}

/// How many heads of that width a node has before it repeats each for others.
template <class G>
constexpr int heads_of_its_own(int node, int heads, int width) {
  const Label& label = G::flat.label[node];
  const Copies copies = copies_in(label.attributes);
  return label.op == Tag("repeat_columns") && copies.width == width ? heads / static_cast<int>(copies.times) : heads;
}

template <AttentionMatrix matrix>
struct streamed_attention : by_row {
  using Op = attention_op<matrix>;
  template <class F>
  static constexpr AttentionSize size = Op::template size<F, false>;
  template <class F>
  static constexpr int key_heads =
      heads_of_its_own<typename F::Graph>(F::template argument<1>, size<F>.heads, size<F>.key_width);
  template <class F>
  static constexpr int value_heads =
      heads_of_its_own<typename F::Graph>(F::template argument<2>, size<F>.heads, size<F>.value_width);
  /// The keys before they are repeated.
  template <class F>
  static constexpr int own_keys = key_heads<F> == size<F>.heads
                                      ? F::template argument<1>
                                      : F::Graph::table.info[F::template argument<1>].arguments[0];
  template <class F>
  static constexpr bool folds = projects<typename F::Graph>(own_keys<F>, F::template argument<2>);
  template <class F>
  static constexpr Index stored_keys = folds<F> ? 0 : key_heads<F> * size<F>.key_width;

  template <class F>
  static constexpr bool possible = size<F>.mask == Mask::causal;
  template <class F>
  static constexpr Remembered remembers{
      .per_token = value_heads<F> * size<F>.value_width + stored_keys<F>,
      .once = matrix == AttentionMatrix::shaped ? F::out_shape.cols + size<F>.heads : 0};
  template <class F>
  static constexpr Index scratch(Index, Index context) {
    return cpu::attention_step_scratch<size<F>, folds<F>, typename F::Scalar>(context, key_heads<F>);
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame, const StreamMemory<S>& memory) {
    cpu::AttentionPast<S> past{memory.stores, memory.stores, memory.once};
    if constexpr (folds<F>) {
      constexpr int weight = F::Graph::table.info[own_keys<F>].arguments[1];
      past.projection = Address<typename F::Graph>::template value<weight>(frame.context);
    } else {
      past.values += stored_keys<F> * memory.capacity;
    }
    cpu::attention_steps<size<F>, folds<F>, key_heads<F>, value_heads<F>>(
        frame.rows(), frame.context.past, Op::operands(frame), past, frame.out(), memory.scratch);
  }
};

}  // namespace detail

template <>
struct streamed<"softmax_attention"> : detail::streamed_attention<AttentionMatrix::softmax> {};
template <>
struct streamed<"skip_init_attention"> : detail::streamed_attention<AttentionMatrix::skip_init> {};
template <>
struct streamed<"shaped_attention"> : detail::streamed_attention<AttentionMatrix::shaped> {};

}  // namespace simplx

// ---- simplx/generate/streamed_graph.hpp

/// \file simplx/generate/streamed_graph.hpp
/// A planned graph run on new tokens alone: the steps of core/execute.hpp, each op as streamed_on<Backend, op> has it,
/// and where each finds what it remembers. Layers of a stack remember each for itself.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// Which part of a feed is evaluated: of the last one results are wanted, of others what the tokens after them need.
enum class Chunk : bool { between, last };
}  // namespace detail

/// Runs the steps of a graph on new tokens; each op keeps what it remembers.
template <class G, class Backend>
struct StreamedGraph {
  using S = typename Backend::Scalar;
  template <int node>
  using FrameOf = Frame<G, node, S>;
  template <int node>
  using streamed_of = streamed_on<Backend, G::flat.label[node].op>;

  /// Computed from weights: no tokens are involved, and the ordinary kernel runs.
  static constexpr bool of_weights(int node) {
    const Info& info = G::table.info[node];
    bool fixed = info.shape.is_fixed();
    for (int a = 0; a < info.argument_count; ++a) fixed &= G::table.info[info.arguments[a]].shape.is_fixed();
    return fixed;
  }

  template <int node>
  static constexpr bool streams() {
    constexpr Info info = G::table.info[node];
    if constexpr (!info.executes() || of_weights(node)) {
      return true;
    } else if constexpr (info.shape.axis != Axis::tokens) {
      return false;
    } else if constexpr (info.kind == Kind::reduction) {
      return detail::over_of(G::flat.label[node].attributes) == Over::columns;
    } else {
      return info.kind == Kind::map || streamed_of<node>::template possible<FrameOf<node>>;
    }
  }
  /// Reports what cannot be streamed, with its line.
  template <int node>
  static constexpr void check() {
    if constexpr (!streams<node>()) {
      constexpr Where where = G::flat.label[node].where;
      constexpr detail::ShortPath path = detail::short_path(where.file);
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        detail::at_line<"streamed", where.line, 0, where.line, detail::File<path.chars[i]...>>();
      }(std::make_index_sequence<path.size>{});
    }
  }
  /// An op that is neither elementwise nor of weights, and streams.
  template <int node>
  static constexpr bool op_streams() {
    constexpr Info info = G::table.info[node];
    return info.executes() && !info.looped() && !of_weights(node) && streams<node>();
  }

  struct Table {
    Remembered before[G::count + 1]{};  ///< what the nodes before each remember together
    bool idle[G::count]{};              ///< keys whose projection is folded into the query
    bool possible = true;

    constexpr const Remembered& all() const { return before[G::count]; }
  };
  static constexpr Table table = [] {
    Table t;
    int uses[G::count]{}, folded[G::count]{};
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      check<i>();
      t.possible &= streams<i>();
      t.before[i + 1] = t.before[i];
      for (int a = 0; a < G::table.info[i].argument_count; ++a) ++uses[G::table.info[i].arguments[a]];
      if constexpr (op_streams<i>()) {
        t.before[i + 1] += streamed_of<i>::template remembers<FrameOf<i>>;
        if constexpr (requires { streamed_of<i>::template folds<FrameOf<i>>; }) {
          if (streamed_of<i>::template folds<FrameOf<i>>) ++folded[G::table.info[i].arguments[1]];
        }
      }
    });
    for (int i = G::count - 1; i >= 0; --i) {
      t.idle[i] = folded[i] > 0 && folded[i] == uses[i];
      if (t.idle[i] && G::flat.label[i].op == Tag("repeat_columns")) ++folded[G::table.info[i].arguments[0]];
    }
    return t;
  }();

  /// Elements of StreamMemory::scratch.
  static constexpr Index scratch(Index rows, Index context) {
    Index most = 0;
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (op_streams<i>()) {
        most = std::max(most, streamed_of<i>::template scratch<FrameOf<i>>(rows, context));
      }
    });
    return most;
  }

  /// Steps up to the last one that remembers something: those after it are for results alone.
  static constexpr int remembering = [] {
    int steps = 0;
    for (int s = 0; s < G::fusion.steps; ++s) {
      const int node = G::fusion.order[s];
      if (!(table.before[node] == table.before[node + 1])) steps = s + 1;
    }
    return steps;
  }();

  __attribute__((noinline)) static void forward(const Context<S>& context, const StreamMemory<S>& memory,
                                                detail::Chunk chunk = detail::Chunk::last) {
    detail::unroll<0, G::fusion.steps>([&]<int s>(std::integral_constant<int, s>) {
      constexpr int node = G::fusion.order[s];
      if constexpr (s >= remembering) {
        if (chunk == detail::Chunk::between) return;
      }
      if constexpr (G::table.info[node].looped()) {
        Backend::template map_forward<G, node>(context);
      } else if constexpr (of_weights(node)) {
        kernels_of<Backend, G, node>::forward(Backend{}, FrameOf<node>{context});
      } else if constexpr (!table.idle[node]) {
        streamed_of<node>::forward(Backend{}, FrameOf<node>{context}, memory.after(table.before[node]));
      }
    });
  }
};

namespace detail {

/// What the layers of a stack before each of them remember.
template <int layers>
struct LayersRemembered {
  Remembered before[layers + 1]{};
  bool possible = true;
};
/// Without a lambda, which nvcc 13 does not take here.
template <class Layers, class Backend, int... k>
constexpr LayersRemembered<Layers::layers> remembered_by(std::integer_sequence<int, k...>) {
  const Remembered each[] = {StreamedGraph<typename Layers::template child<k>, Backend>::table.all()...};
  LayersRemembered<Layers::layers> all;
  all.possible = (StreamedGraph<typename Layers::template child<k>, Backend>::table.possible && ...);
  for (int layer = 0; layer < Layers::layers; ++layer) {
    all.before[layer + 1] = all.before[layer];
    all.before[layer + 1] += each[Layers::grouping.which[layer]];
  }
  return all;
}

}  // namespace detail

/// Layer after layer; each remembers for itself.
template <class Backend>
struct streamed_on<Backend, "stack"> : by_row {
  template <class F>
  using Layers = op<"stack">::Layers<F>;

  template <class F>
  static constexpr auto share =
      detail::remembered_by<Layers<F>, Backend>(std::make_integer_sequence<int, Layers<F>::distinct>{});
  template <class F>
  static constexpr bool possible = share<F>.possible;
  template <class F>
  static constexpr Remembered remembers = share<F>.before[Layers<F>::layers];
  template <class F>
  static constexpr Index scratch(Index rows, Index context) {
    Index most = 0;
    for (int layer = 0; layer < Layers<F>::layers; ++layer) {
      Layers<F>::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        most = std::max(most, StreamedGraph<Child, Backend>::scratch(rows, context));
      });
    }
    return most;
  }

  template <class F, class S = typename F::Scalar>
  static void forward(Backend, const F& frame, const StreamMemory<S>& memory) {
    constexpr const Columns& workspace = F::Graph::layout.forward_workspace[F::index];
    for (int layer = 0; layer < Layers<F>::layers; ++layer) {
      const Context<S> mine = op<"stack">::layer_context<F, S>(frame, layer, workspace);
      Layers<F>::with_graph(layer, [&]<class Child>(std::type_identity<Child>) {
        StreamedGraph<Child, Backend>::forward(mine, memory.after(share<F>.before[layer]));
      });
    }
  }
};

/// A function with its user's own pull-back, if nothing in it has to be remembered.
template <class Backend>
struct streamed_on<Backend, "custom"> : by_row {
  template <class F>
  static constexpr bool possible = [] {
    using Part = StreamedGraph<detail::PartOf<F, 0>, Backend>;
    return Part::table.possible && Part::table.all().per_token == 0 && Part::table.all().once == 0;
  }();
};

}  // namespace simplx

// ---- simplx/generate/stream.hpp

/// \file simplx/generate/stream.hpp
/// Stream: a model evaluated token by token, from the expression it was trained with.
///
///     Stream<logits_of<tiny>> stream(net);
///     stream.feed(prompt);                      // logits of the last token
///     stream.feed({&token, 1});                 // of the next one; nothing before is evaluated again
///
/// New rows run through the ordinary kernels; ops that look at rows before them remember what they need
/// (streamed.hpp). What cannot be streamed does not compile.

namespace simplx::inline SIMPLX_TARGET {

/// Bytes that a stream of a model on the CPU remembers for a context of so many tokens.
template <auto const& model, class S = float>
constexpr Index cache_bytes(Index context) {
  constexpr Remembered all = StreamedGraph<Graph<Untrained<model>>, Cpu<S>>::table.all();
  return (all.per_token * round_up(context, cpu::token_block<S>) + all.once) * static_cast<Index>(sizeof(S));
}

/// A model token by token: logits of the next token, without evaluating anew what came before.
template <auto const& model, class Backend = Cpu<float>>
class Stream {
 public:
  static_assert(detail::runs_on_host<Backend>());
  using Net = Inference<model, Backend>;
  using S = typename Backend::Scalar;
  using G = typename Net::G;
  using Run = StreamedGraph<G, Backend>;

  /// Tokens evaluated at once unless told otherwise: fewer where logits of all of them would take much memory and time.
  static constexpr Index usual_chunk() { return Net::vocab() > 4096 ? 64 : 256; }

  /// Uses the weights of `net`, which must outlive it; several streams may, each on a thread of its own if no weights
  /// change meanwhile. `chunk`: tokens evaluated at once at most.
  ///
  /// Errors  throws Error if the context is no token, or longer than the model's positions
  /// Cost    cache_bytes<model, S>(context), the workspace of a chunk and, where keys are folded into queries, room for
  ///         those of a layer; nothing is allocated afterwards
  explicit Stream(Net& net, Index context = Net::usual_context(), Index chunk = usual_chunk())
      : net_(net),
        capacity_(checked_context(context, Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(chunk, 1), context)),
        workspace_(Rows{.tokens = chunk_}, detail::Seeds::none),
        remembered_(simplx::cache_bytes<model, S>(context) / static_cast<Index>(sizeof(S))),
        scratch_(Run::scratch(chunk_, context)) {}

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or they do not fit the context; then nothing
  ///         has changed
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them; no
  ///         allocation
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    detail::check_feed<Net>(tokens, size_, capacity_);
    const auto count = static_cast<Index>(tokens.size());
    for (Index begin = 0; begin < count; begin += chunk_) {
      const Index rows = std::min(chunk_, count - begin);
      evaluate(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
               begin + rows == count ? detail::Chunk::last : detail::Chunk::between);
    }
    return logits_.last(static_cast<std::size_t>(Net::vocab()));
  }

  /// Logits of the tokens that were evaluated last, of a feed at most the last `chunk`: (tokens, vocab).
  std::span<const S> logits() const { return logits_; }

  /// Forgets all tokens.
  void reset() {
    std::ranges::fill(remembered_, S(0));  // the end of a block is read before it is written
    size_ = 0;
  }

  Index size() const { return size_; }
  Index capacity() const { return capacity_; }
  /// Of what the stream remembers.
  Index cache_bytes() const { return remembered_.size() * static_cast<Index>(sizeof(S)); }
  /// What the stream remembers, for tests that poison it.
  std::span<S> memory() { return remembered_.span(); }

 private:
  void evaluate(std::span<const std::int32_t> tokens, detail::Chunk chunk) {
    const auto rows = static_cast<Index>(tokens.size());
    offsets_[1] = rows;
    Context<S> context = net_.give_weights(workspace_.context(Rows{.tokens = rows}, {offsets_, 1}, rows));
    context.past = size_;
    context.inputs[0] = tokens.data();
    const Index capacity = round_up(capacity_, cpu::token_block<S>);
    S* once = remembered_.data() + Run::table.all().per_token * capacity;
    Run::forward(context, StreamMemory<S>{remembered_.data(), once, capacity, scratch_.data()}, chunk);
    size_ += rows;
    logits_ = {context.outputs[0], static_cast<std::size_t>(rows * Net::vocab())};
  }

  Net& net_;
  Index capacity_, chunk_, size_ = 0;
  detail::Workspace<G, Backend> workspace_;
  cpu::Buffer<S> remembered_, scratch_;
  Index offsets_[2] = {0, 0};
  std::span<const S> logits_;
};

}  // namespace simplx

// ---- simplx/generate/utf8.hpp

/// \file simplx/generate/utf8.hpp
/// Bytes of a model as text that a terminal can be given: well-formed UTF-8 (RFC 3629) passes, whole characters at a
/// time; what is none, and control characters but tab and newline, becomes U+FFFD.

namespace simplx::inline SIMPLX_TARGET {

/// Takes bytes one by one; a character comes out with its last byte.
class Utf8 {
 public:
  /// What can be shown now: often nothing, or one character; two where a byte ends another's hopes.
  std::string put(std::uint8_t byte) {
    std::string shown;
    if (missing_ > 0 && (byte < low_ || byte > high_)) shown = end();
    if (missing_ > 0) {
      character_ += static_cast<char>(byte);
      low_ = 0x80, high_ = 0xBF;
      if (--missing_ == 0) {
        const bool control = character_.size() == 2 && character_[0] == '\xC2' && byte < 0xA0;
        shown += control ? replacement : character_;
        character_.clear();
      }
      return shown;
    }
    if (byte < 0x80) {
      const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
      return shown + (control ? std::string(replacement) : std::string(1, static_cast<char>(byte)));
    }
    if (byte < 0xC2 || byte > 0xF4) return shown + replacement;
    missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;   // no overlong forms
    high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;  // no surrogates, nothing above U+10FFFF
    character_ = static_cast<char>(byte);
    return shown;
  }
  /// What is left of a character that did not come to its end.
  std::string end() {
    const bool broken = missing_ > 0;
    missing_ = 0;
    character_.clear();
    return broken ? replacement : "";
  }

 private:
  static constexpr const char* replacement = "\xEF\xBF\xBD";
  int missing_ = 0;
  std::uint8_t low_ = 0x80, high_ = 0xBF;  ///< what the next byte may be
  std::string character_;
};

}  // namespace simplx

// ---- simplx/ops/cross_entropy.hpp

/// \file simplx/ops/cross_entropy.hpp
/// Cross-entropy of each row: loss = log sum exp(logits) - logits[label], in nats. A label of -100 carries no loss.
///
///     dlogits = (softmax(logits) - onehot(label)) * dloss
///
/// With label smoothing s the target is (1 - s) onehot(label) + s / classes: the loss gains
/// s mean(logits[label] - logits).
///
/// The loss of each row is a result of its own; who trains divides by the labelled rows of the whole batch.

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"cross_entropy"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b100, overwrites = 0b001;
  static constexpr int index_operand = 1;
  static constexpr bool takes_ignored = true;
  static constexpr Shape looked_up(Shape logits) { return fixed_shape(logits.cols, 1); }
  static constexpr bool reads(int, int operand) { return operand == 0; }
  static constexpr Checked shape(const Attributes&, Shape logits, Shape labels, Shape smoothing = fixed_shape(1, 1)) {
    if (!(smoothing == fixed_shape(1, 1))) return {"one number", smoothing.columns(), 1};
    if (logits.axis != labels.axis) {
      return {"labels", static_cast<Index>(labels.axis), static_cast<Index>(logits.axis)};
    }
    return rows_of(logits.axis, 1);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // highest, log sum exp(logits - highest)
  template <class F>
  static constexpr bool smooths = F::info.argument_count == 3;
  template <class F>
  static auto smoothing(const F& frame) {
    if constexpr (smooths<F>) {
      return *frame.template in<2>();
    } else {
      return typename F::Scalar(0);
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    const S* logits = frame.template in<0>();
    const std::int32_t* labels = frame.template indices<1>();
    S *loss = frame.out(), *saved = frame.saved();
    const auto labelled = [&](Index row) { return labels[row] != ignored_label; };
    const auto finish = [&](Index row, S highest, S log_sum) {
      loss[row] = saved[2 * row] = saved[2 * row + 1] = S(0);
      if (!labelled(row)) return;
      const S *of_row = logits + row * classes, own = of_row[labels[row]];
      saved[2 * row] = highest, saved[2 * row + 1] = log_sum;
      loss[row] = log_sum + (highest - own);
      if constexpr (smooths<F>) {
        if constexpr (std::is_floating_point_v<S>) {
          if (smoothing(frame) == S(0)) return;  // a logit may be -inf
        }
        loss[row] += smoothing(frame) * (own - cpu::ConstMatrixMap<S>(of_row, 1, classes).array()).mean();
      }
    };
    if constexpr (path == Path::reference) {
      for (Index row = 0; row < frame.rows(); ++row) {
        const cpu::ConstMatrixMap<S> of_row(logits + row * classes, 1, classes);
        const S highest = of_row.maxCoeff();
        finish(row, highest, log(S((of_row.array() - highest).exp().sum())));
      }
    } else {
      detail::log_sums_below<classes>(frame.rows(), logits, labelled, finish);
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    constexpr Write mode = F::template write<0>;
    const S *logits = frame.template in<0>(), *dloss = frame.out_grad(), *saved = frame.saved();
    const std::int32_t* labels = frame.template indices<1>();
    S* dlogits = frame.template grad<0>();
    const S uniform = smoothing(frame) / S(classes);
    for (Index row = 0; row < frame.rows(); ++row, logits += classes, dlogits += classes) {
      if (labels[row] == ignored_label) {
        if constexpr (mode == Write::store) std::fill_n(dlogits, classes, S(0));
        continue;
      }
      const S scale = dloss[row], highest = saved[2 * row], log_sum = saved[2 * row + 1];
      cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> below = load<V>(logits + c) - splat<V>(highest);
        const cpu::Register<V> probability = exp(cpu::Register<V>(below - splat<V>(log_sum)));
        put<mode, V>(dlogits + c, (probability - splat<V>(uniform)) * splat<V>(scale));
      });
      dlogits[labels[row]] -= scale * (S(1) - smoothing(frame));
    }
  }
};

namespace detail {
constexpr Expr with_labels(Expr loss, At labels) {
  if (loss.node->kind != Kind::error && labels.node->kind != Kind::indices) broken(loss.node, "labels", 0, 1);
  return loss;
}
}  // namespace detail

/// Loss of each row in nats; 0 where the label is -100.
///
/// Shapes  logits (rows, classes); labels (rows), whole numbers -> (rows, 1)
/// Errors  does not compile unless the second operand is indices(...) along the rows of the logits: rule "labels"
/// Cost    keeps the logits and two numbers for each row
constexpr Expr cross_entropy(At logits, At labels) {
  return detail::with_labels(apply<"cross_entropy">({}, logits, labels), labels);
}
/// The same with label smoothing: the target is 1 - smoothing of the label, and smoothing / classes of each class.
///
/// Shapes  as above; smoothing (1, 1), not trained, usually hyper("smoothing", 0.1)
/// Errors  as above, and for a smoothing of another shape or one that is trained: rules "one number" and "constant
///         operand"
/// Cost    as above
constexpr Expr cross_entropy(At logits, At labels, At smoothing) {
  return detail::with_labels(apply<"cross_entropy">({}, logits, labels, smoothing), labels);
}

}  // namespace simplx

// ---- simplx/ops/linear_cross_entropy.hpp

/// \file simplx/ops/linear_cross_entropy.hpp
/// Cross-entropy of logits = x W^T + c that never holds all of them, for vocabularies beside which a model is small:
///
///     loss = log sum exp(logits) - logits[label],   dlogits = (softmax(logits) - onehot(label)) * dloss
///
/// On a CPU logits are computed for some hundred classes at a time; while they are in the cache, forward adds them to
/// each row's sum of exponentials, and backward takes dx, dW and dc from them. Rows without a label are left out of all
/// products. The price is one more product in backward, which computes the logits again. A GPU has all logits of some
/// thousand rows at a time, and in training computes them once (cuda/linear_cross_entropy.cuh).
///
/// Source  Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models"

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"linear_cross_entropy"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool adds_by_itself = true;
  static constexpr int index_operand = 1;
  static constexpr bool takes_ignored = true;
  static constexpr Shape looked_up(Shape table) { return table; }
  /// All gradients are taken from the logits, which are computed again.
  static constexpr bool reads(int, int operand) { return operand != 1; }

  static constexpr Checked shape(const Attributes& attributes, Shape table, Shape labels, Shape x) {
    if (!table.is_fixed()) return {"static right operand", static_cast<Index>(table.axis), 0};
    if (x.cols != table.cols) return {"inner widths", x.cols, table.cols};
    if (x.axis != labels.axis) return {"labels", static_cast<Index>(labels.axis), static_cast<Index>(x.axis)};
    if (tile(attributes) < 1) return {"tile", tile(attributes), 1};
    return rows_of(x.axis, 1);
  }
  static constexpr Checked shape(const Attributes& attributes, Shape table, Shape labels, Shape x, Shape bias) {
    if (!(bias == fixed_shape(1, table.rows))) return {"gain width", bias.cols, table.rows};
    return shape(attributes, table, labels, x);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // highest, log sum exp(logits - highest)

  static std::string settings(const Attributes& attributes) {
    return "tiles of " + std::to_string(tile(attributes));
  }

  /// Classes whose logits a CPU computes together.
  static constexpr Index tile(Attributes attributes) { return attributes.integers[0]; }
  static constexpr int packs = 0;
  static constexpr Index packed(const Attributes& attributes, Shape table, auto...) {
    const auto room = [&](Index classes) { return cpu::packed_room(classes, table.cols); };
    const Index whole = table.rows / tile(attributes), rest = table.rows % tile(attributes);
    return whole * room(tile(attributes)) + (rest ? room(rest) : 0);
  }

  template <class F, class Backend>
  struct Tiles {
    static constexpr Index width = F::template shape<2>.cols, classes = F::template shape<0>.rows;
    static constexpr Index together = tile(F::attributes), whole = classes / together * together;
    static constexpr bool prepared = F::Graph::table.info[F::template argument<0>].kind == Kind::parameter;
    template <Index count>
    using Product = cpu::LinearProduct<Backend, width, count, true, prepared>;
    /// A tile in what is packed for forward or backward; of a table that is not prepared there is none.
    static auto packed_at(const F& frame, Index offset) { return prepared ? frame.packed() + offset : nullptr; }
    static auto turned_at(const F& frame, Index offset) { return prepared ? frame.turned() + offset : nullptr; }
    using Whole = Product<together>;
    using Rest = Product<classes - whole>;

    /// Calls f(Product, first class, offset in what is packed) for each tile.
    template <class Action>
    static void each(const Action& f) {
      if constexpr (whole > 0) {
        for (Index begin = 0; begin < whole; begin += together) f(Whole(), begin, begin / together * Whole::room);
      }
      if constexpr (whole < classes) f(Rest(), whole, whole / together * Whole::room);
    }
    /// Of scratch: a tile of logits, x and dx of the labelled rows, and what a product needs.
    static constexpr Index logits(Index rows) { return round_up(rows * std::min(together, classes), alignment); }
    static constexpr Index inputs(Index rows) { return round_up(rows * width, alignment); }
    static constexpr Index scratch(Index rows) {
      Index product = 0;
      if constexpr (whole > 0) product = Whole::scratch(rows);
      if constexpr (whole < classes) product = std::max(product, Rest::scratch(rows));
      return logits(rows) + 2 * inputs(rows) + product;
    }
  };

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    return Tiles<F, Backend>::scratch(rows.count(F::out_shape.axis));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    constexpr Shape table = F::template shape<0>;
    const auto count = static_cast<double>(rows.count(F::out_shape.axis));
    return 2 * count * static_cast<double>(table.cols) * static_cast<double>(table.rows);
  }

  template <class G, int node, class S, Path path>
  static void prepare(Cpu<S, path>, const S* parameters, S* packed, S* turned) {
    using F = Frame<G, node, S>;
    using T = Tiles<F, Cpu<S, path>>;
    if constexpr (T::prepared) {
      const S* table = parameters + G::layout.parameter[F::template argument<0>];
      T::each([&]<class Product>(Product, Index begin, Index offset) {
        Product::prepare(table + begin * T::width, packed + offset, turned ? turned + offset : turned);
      });
    }
  }

  /// The rows that have a label, one after the other, and where the parts of scratch are.
  template <class F, class S>
  struct Labelled {
    const std::int32_t* labels;
    Index all, count = 0;
    const S* x;
    S *logits, *dx, *product;

    template <class T>
    Labelled(const F& frame, T)
        : labels(frame.template indices<1>()), all(frame.rows()), x(frame.template in<2>()), logits(frame.scratch()) {
      S* const gathered = logits + T::logits(all);
      dx = gathered + T::inputs(all);
      product = dx + T::inputs(all);
      for (Index row = 0; row < all; ++row) count += labels[row] != ignored_label;
      if (count == all) return;
      each([&](Index i, Index row) { std::copy_n(x + row * T::width, T::width, gathered + i * T::width); });
      x = gathered;
    }
    /// Calls f(i, row) for the i-th of them.
    template <class Action>
    void each(const Action& f) const {
      for (Index row = 0, i = 0; row < all; ++row) {
        if (labels[row] != ignored_label) f(i++, row);
      }
    }
  };

  template <class F>
  static constexpr bool has_bias = F::info.argument_count == 4;
  template <class F>
  static constexpr Write bias_write() {
    if constexpr (has_bias<F>) {
      return F::template write<3>;
    } else {
      return Write::skip;
    }
  }
  /// logits += c of so many classes.
  template <Index classes, class F, class S>
  static void add_bias([[maybe_unused]] const F& frame, [[maybe_unused]] Index begin, [[maybe_unused]] S* logits) {
    if constexpr (has_bias<F>) {
      const S* bias = frame.template in<3>() + begin;
      cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<Write::accumulate, V>(logits + c, load<V>(bias + c));
      });
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    using T = Tiles<F, Cpu<S, path>>;
    const Labelled<F, S> rows(frame, T());
    S *loss = frame.out(), *saved = frame.saved();  // the labels' logits and the sums, before their logarithm
    std::fill_n(loss, rows.all, S(0));
    for (Index i = 0; i < rows.count; ++i) saved[2 * i] = minus_infinity<S>, saved[2 * i + 1] = S(0);
    T::each([&]<class Product>(Product, Index begin, Index offset) {
      constexpr Index classes = Product::outputs;
      Product::forward(rows.count, rows.x, frame.template in<0>() + begin * T::width, T::packed_at(frame, offset),
                       rows.product, rows.logits);
      rows.each([&](Index i, Index row) {
        S* logits = rows.logits + i * classes;
        add_bias<classes>(frame, begin, logits);
        add_tile<classes>(logits, saved[2 * i], saved[2 * i + 1]);
        const Index own = rows.labels[row] - begin;
        if (own >= 0 && own < classes) loss[row] = logits[own];
      });
    });
    rows.each([&](Index i, Index row) {
      saved[2 * i + 1] = log(saved[2 * i + 1]);
      loss[row] = saved[2 * i + 1] + (saved[2 * i] - loss[row]);
    });
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using T = Tiles<F, Cpu<S, path>>;
    constexpr bool wants_dx = F::template write<2> != Write::skip, wants_dw = F::template write<0> != Write::skip;
    constexpr bool wants_bias = bias_write<F>() != Write::skip;
    const Labelled<F, S> rows(frame, T());
    const S *dloss = frame.out_grad(), *saved = frame.saved(), *table = frame.template in<0>();
    S* const dtable = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dtable, T::classes * T::width, S(0));
    [[maybe_unused]] S* dbias = nullptr;
    if constexpr (wants_bias) {
      dbias = frame.template grad<3>();
      if constexpr (bias_write<F>() == Write::store) std::fill_n(dbias, T::classes, S(0));
    }
    T::each([&]<class Product>(Product, Index begin, Index offset) {
      constexpr Index classes = Product::outputs;
      const S* weight = table + begin * T::width;
      Product::forward(rows.count, rows.x, weight, T::packed_at(frame, offset), rows.product, rows.logits);
      rows.each([&](Index i, Index row) {
        S* logits = rows.logits + i * classes;
        add_bias<classes>(frame, begin, logits);
        cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> below = load<V>(logits + c) - splat<V>(saved[2 * i]);
          store<V>(logits + c, exp(cpu::Register<V>(below - splat<V>(saved[2 * i + 1]))) * splat<V>(dloss[row]));
        });
        const Index own = rows.labels[row] - begin;
        if (own >= 0 && own < classes) logits[own] -= dloss[row];
      });
      if constexpr (wants_dw) {
        Product::add_weight_gradient(rows.count, rows.x, rows.logits, dtable + begin * T::width, rows.product,
                                     frame.template turn<0>());
      }
      if constexpr (wants_bias) {
        const detail::Addition addition(frame.template turn<3>());
        for (Index i = 0; i < rows.count; ++i) {
          cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
            put<Write::accumulate, V>(dbias + begin + c, load<V>(rows.logits + i * classes + c));
          });
        }
      }
      if constexpr (wants_dx) {
        const auto add = [&]<Write mode>() {
          Product::template input_gradient<mode>(rows.count, rows.logits, weight, T::turned_at(frame, offset),
                                                 rows.product, rows.dx);
        };
        begin == 0 ? add.template operator()<Write::store>() : add.template operator()<Write::accumulate>();
      }
    });
    if constexpr (wants_dx) {
      constexpr Write mode = F::template write<2>;
      S* const dx = frame.template grad<2>();
      if constexpr (mode == Write::store) {
        if (rows.count < rows.all) std::fill_n(dx, rows.all * T::width, S(0));
      }
      rows.each([&](Index i, Index row) {
        cpu::each_column<S, T::width>([&]<class V>(Index c) __attribute__((always_inline)) {
          put<mode, V>(dx + row * T::width + c, load<V>(rows.dx + i * T::width + c));
        });
      });
    }
  }

 private:
  template <class S>
  static constexpr S minus_infinity = S(-std::numeric_limits<double>::infinity());
  /// The highest logit so far and the sum of exp(logit - highest), and those of a tile more.
  template <Index classes, class S>
  static void add_tile(const S* logits, S& highest, S& sum) {
    const S before = std::exchange(highest, max(highest, detail::highest_of<classes>(logits)));
    if (highest > minus_infinity<S>) {
      const S kept = before > minus_infinity<S> ? sum * exp(before - highest) : sum;
      sum = kept + detail::sum_below<classes>(logits, highest);
    } else {  // of logits that all are -inf nothing is added, of a NaN one
      const S all = cpu::sum_columns<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(logits + c);
      });
      if (!(all == minus_infinity<S>)) sum = all;
    }
  }
};

/// Loss of each row in nats, as cross_entropy(x * transpose(table), labels) has it; 0 where the label is -100.
/// On a CPU logits of `tile` classes are there at a time, on a GPU all logits of 8 `tile` rows in bfloat16, of 4 `tile`
/// in float, or of as many as have half a gigabyte.
///
/// Shapes  x (rows, d); table (classes, d), static; labels (rows), whole numbers -> (rows, 1)
/// Errors  does not compile unless labels are indices(...) along the rows of x, the table's rows are static, widths
///         agree, and tile is at least 1: rules "labels", "static right operand", "inner widths" and "tile"
/// Cost    2 rows d classes FLOPs forward, three times that backward, of rows that have a label, or 6 rows d classes
///         for a training step on a GPU; keeps x and two numbers for each row; scratch holds tile + 2 d numbers for
///         each, on a GPU 16 tile bytes for each class, half a gigabyte at most
constexpr Expr linear_cross_entropy(At x, At table, At labels, Index tile = 512) {
  return detail::with_labels(apply<"linear_cross_entropy">({.integers = {tile}}, table, labels, x), labels);
}
/// The same with a bias of each class, as cross_entropy(x * transpose(table) + bias, labels) has it.
///
/// Shapes  as above; bias (1, classes)
/// Errors  as above, and for a bias of another width: rule "gain width"
/// Cost    as above
constexpr Expr linear_cross_entropy(At x, At table, At labels, At bias, Index tile = 512) {
  return detail::with_labels(apply<"linear_cross_entropy">({.integers = {tile}}, table, labels, x, bias), labels);
}

}  // namespace simplx

// ---- simplx/models/head.hpp

/// \file simplx/models/head.hpp
/// What makes logits, or a loss, of a model's last x and its table of embeddings E.

namespace simplx::inline SIMPLX_TARGET {

/// logits = x E^T.
///
/// Shapes  x (tokens, d), table (V, d) -> (tokens, V)
struct TiedHead {
  constexpr Expr operator()(Expr x, Expr table) const { return x * transpose(table); }
};

/// The loss of x E^T in place of the logits, which are never held all together (ops/linear_cross_entropy.hpp).
///
/// Shapes  x (tokens, d), table (V, d), labels (tokens) -> (tokens, 1)
struct TiledLoss {
  constexpr Expr operator()(Expr x, Expr table) const {
    return linear_cross_entropy(x, table, indices("labels", Axis::tokens));
  }
};

/// logits = LayerNorm(gelu(x W + b)) E^T + c: the head of a masked language model. Parameters head.dense.weight and
/// .bias, head.norm.gain and .bias, head.bias.
///
/// Shapes  as above
/// Source  Devlin et al. 2019 (its code); Liu et al. 2019
struct MaskedTokenHead {
  double norm_epsilon = 1e-5;

  constexpr Expr operator()(Expr x, Expr table) const { return inner(x) * transpose(table) + bias(table); }

  /// What meets the table, and c.
  constexpr Expr inner(Expr x) const {
    x = gelu(named("head.dense", Linear{.bias = true})(x));
    return named("head.norm", LayerNorm{norm_epsilon})(x);
  }
  static constexpr Expr bias(Expr table) { return vector("head.bias", table.shape().rows, zeros); }
};

/// The loss of those logits, as TiledLoss.
struct TiledMaskedTokenLoss {
  MaskedTokenHead head;

  constexpr Expr operator()(Expr x, Expr table) const {
    x = head.inner(x);
    return linear_cross_entropy(x, table, indices("labels", Axis::tokens), head.bias(table));
  }
};

/// logits = dropout(tanh(x_1 W + b)) C + c, where x_1 is the first token of a sequence. Parameters pooler.weight and
/// .bias, classifier.weight and .bias: names that no encoder has, so that none of its tensors is taken for one of them.
///
/// Shapes  x (tokens, d) -> (sequences, classes); W (d, pooled), C (pooled, classes); the table is not used
/// Source  Devlin et al. 2019; that dropout is after the tanh alone: Geiping & Goldstein 2023 (their code)
struct SequenceHead {
  Index classes = 2;
  Index pooled = 0;  ///< as wide as x unless given
  double dropout = 0.1;

  constexpr Expr operator()(Expr x, Expr) const {
    x = tanh(named("pooler", Linear{.out = pooled, .bias = true})(first_of_sequence(x)));
    x = named("pooler.dropout", Dropout{dropout})(x);
    return named("classifier", Linear{.out = classes, .bias = true})(x);
  }
};

}  // namespace simplx

// ---- simplx/ops/recompute.hpp

/// \file simplx/ops/recompute.hpp
/// Memory for time: a module of which nothing is kept, because backward evaluates it again.
///
///     x = stack("blocks", 48, recompute(Block{...}), x);       // keeps what goes from block to block, nothing else

namespace simplx::inline SIMPLX_TARGET {

/// A module that is evaluated twice; names, values and gradients are those of the module.
template <class Module>
struct Recomputed {
  Module module;

  constexpr Expr operator()(At x) const {
    return detail::stack_of("", {.recomputed = true}, module, x);
  }
  constexpr Expr operator()(int layer, At x) const
    requires requires(const Module& block, Expr y) { block(layer, y); }
  {
    const auto at_layer = [block = module, layer](Expr y) { return block(layer, y); };
    return detail::stack_of("", {.recomputed = true}, at_layer, x);
  }
};

/// A block of a stack whose first layers are evaluated twice.
template <class Block>
struct RecomputedFirst {
  int layers;
  Block block;

  constexpr Expr operator()(int layer, Expr x) const { return in_layer(layer, layer, x); }
  /// Where the block sees another layer's number.
  constexpr Expr in_layer(int layer, int seen, Expr x) const {
    if (layer < layers) return detail::apply_block(Recomputed<Block>{block}, seen, x);
    return detail::apply_block(block, seen, x);
  }
};

/// A module of which forward keeps nothing: backward evaluates it again.
///
/// Shapes  the module returns the shape it is given
/// Errors  as stack; does not compile if the module contains a probe: rule "probe in recompute"
/// Cost    its forward once more; keeps x and nothing of what the module computes
template <class Module>
constexpr Recomputed<Module> recompute(const Module& module) {
  return {module};
}

template <class Block>
constexpr Shared<Recomputed<Block>> recompute(const Shared<Block>& shared) {
  return {{shared.block}};
}

constexpr Expr recompute(Expr value) { return refuse("recompute", value); }

/// The same in the first layers of a stack only: stack("blocks", 48, recompute_first(30, Block{...}), x).
template <class Block>
constexpr RecomputedFirst<Block> recompute_first(int layers, const Block& block) {
  return {layers, block};
}
template <class Block>
constexpr Shared<RecomputedFirst<Block>> recompute_first(int layers, const Shared<Block>& shared) {
  return {{layers, shared.block}};
}

}  // namespace simplx

// ---- simplx/models/tied_model.hpp

/// \file simplx/models/tied_model.hpp
/// What all language models of the papers are, around a stack of any block:
///
///     x = Norm(E[token] + P[position]);   x = block(x), L times;   logits = Norm(x) E^T
///
/// Embedding and head are tied; either norm may be absent. Decoder and Encoder say which norms, positions, head and
/// mask.

namespace simplx::inline SIMPLX_TARGET {

/// sinusoidal: P is fixed; scaled_sinusoidal: times one trained number, 1 / sqrt(d) at first; learned: P is trained.
enum class Positions : signed char { sinusoidal, learned, none, scaled_sinusoidal };

/// The sizes of a model, without its blocks.
struct ModelSizes {
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;  ///< tokens of the longest sequence
  Positions positions = Positions::sinusoidal;
  bool observed = false;  ///< the input of block i is probed as "blocks.i.input"
  Index position_rows = 0;        ///< of the table of positions, where that is longer than `context`
  bool scaled_embedding = false;  ///< E[token] times sqrt(d): "Attention Is All You Need", Sec. 3.4
  double dropout = 0;             ///< of what the first block is given
  int recomputed = 0;             ///< layers that backward evaluates again (models/within.hpp)
};

/// A block whose input, and the gradient that arrives there, stay readable if `observed`.
template <class Block>
struct ObservedBlock {
  Block block;
  bool observed = true;

  constexpr Expr operator()(Expr x) const requires requires { Expr(block(x)); } { return block(input(x)); }
  constexpr Expr operator()(int layer, Expr x) const requires requires { Expr(block(layer, x)); } {
    return block(layer, input(x));
  }

 private:
  constexpr Expr input(Expr x) const { return observed ? probe("input", x) : x; }
};

namespace detail {

template <class Block>
constexpr ObservedBlock<Block> observed_block(const Block& block, bool observed) {
  return {block, observed};
}
template <class Block>
constexpr Shared<ObservedBlock<Block>> observed_block(const Shared<Block>& shared, bool observed) {
  return {{shared.block, observed}};
}

/// 1 / sqrt(x), in constant evaluation too.
constexpr double inverse_root(double x) {
  double root = x > 1 ? x : 1;
  for (double next = (root + x / root) / 2; next < root; next = (root + x / root) / 2) root = next;  // from above
  return 1 / root;
}

constexpr Expr with_positions(const ModelSizes& sizes, Expr x) {
  const Index rows = sizes.position_rows ? sizes.position_rows : sizes.context;
  const auto sinusoids = [&] { return positions(fixed("position.table", rows, sizes.width, sinusoid)); };
  switch (sizes.positions) {
    case Positions::sinusoidal: return x + sinusoids();
    case Positions::scaled_sinusoidal: {
      const Init initial = constant(inverse_root(static_cast<double>(sizes.width)));
      return x + scalar("position.scale", initial) * sinusoids();
    }
    case Positions::learned: return x + positions(weight("position.weight", rows, sizes.width));
    default: return x;
  }
}

}  // namespace detail

/// A model whose block is any module, between two norms; `head` makes its logits of the last x and the table.
///
/// Shapes  inputs "tokens" -> (tokens, vocab), or what the head makes of them
template <class Block, class EmbeddingNorm, class FinalNorm, class Head = TiedHead>
constexpr Expr tied_model(const ModelSizes& sizes, const EmbeddingNorm& embedding_norm, const Block& block,
                           const FinalNorm& final_norm, const Head& head = {}) {
  auto table = weight("embedding.weight", sizes.vocab, sizes.width);
  auto x = embedding(table, indices("tokens", Axis::tokens));
  if (sizes.scaled_embedding) {
    const auto d = static_cast<double>(sizes.width);
    x = d * detail::inverse_root(d) * x;
  }
  x = detail::with_positions(sizes, x);
  x = named("embedding_norm", embedding_norm)(x);
  x = named("embedding_dropout", Dropout{sizes.dropout})(x);
  const auto layer = detail::observed_block(block, sizes.observed);
  x = sizes.recomputed ? stack("blocks", sizes.layers, recompute_first(sizes.recomputed, layer), x)
                       : stack("blocks", sizes.layers, layer, x);
  return head(named("final_norm", final_norm)(x), table);
}

/// The model that ends with the logits of another; its parameters lie where those of the other lie.
template <auto const& model>
struct LogitsOf {
  static constexpr Index context = usual_context<model>(no_limit);  ///< 0 if the model has none
  static constexpr bool has_logits = requires { model.logits(); };
  static_assert(has_logits,
                "simplx: logits_of takes a model with a member logits(), as Decoder, Encoder and Classifier have it; "
                "of a model of your own give Inference or Stream a function that returns the logits, as it is");
  constexpr Expr operator()() const {
    if constexpr (has_logits) {
      return model.logits();
    } else {
      return embedding(weight("none", 1, 1), indices("tokens", Axis::tokens));  // breaks no rule, for no second error
    }
  }
};
template <auto const& model>
inline constexpr LogitsOf<model> logits_of{};

}  // namespace simplx

// ---- simplx/models/encoder.hpp

/// \file simplx/models/encoder.hpp
/// The encoder of a masked language model around any block, as the crammed BERT (Geiping & Goldstein 2023) of [He &
/// Hofmann 2024, Sec. 5 and App. D.2] has it:
///
///     x = Norm(E[token] + s P[position]);   x = block(x), L times;   logits = Norm(x) E^T
///
/// Every token sees its whole sequence. Both norms are LayerNorm (the last is absent after blocks that end with a norm
/// themselves), P are sinusoids and s is one trained number. What is to be predicted is given as labels of the masked
/// tokens, -100 elsewhere.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// A norm of that epsilon, if it has one.
template <class NormType>
constexpr NormType norm_with_epsilon(double epsilon) {
  if constexpr (requires { NormType{epsilon}; }) {
    return NormType{epsilon};
  } else {
    return {};
  }
}
}  // namespace detail

/// Loss of each labelled token of an encoder with any block, whose attention must have Mask::full; inputs "tokens" and
/// "labels".
template <class BlockType, class EmbeddingNorm = LayerNorm, class FinalNorm = LayerNorm>
struct EncoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::scaled_sinusoidal;
  bool observed = false;    ///< as in ModelSizes
  Index position_rows = 0;  ///< as in ModelSizes
  EmbeddingNorm embedding_norm = detail::norm_with_epsilon<EmbeddingNorm>(1e-12);  ///< of E[token] + s P[position]
  FinalNorm final_norm = detail::norm_with_epsilon<FinalNorm>(1e-12);
  double dropout = 0;       ///< in training: of the embedding; blocks have their own
  int recomputed = 0;       ///< as in ModelSizes
  bool tiled_loss = false;  ///< as in DecoderOf; a CPU then computes no logits of rows without a label

  /// The model with a head of your own: head(x, E) of what leaves the last norm.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const ModelSizes sizes{.vocab = vocab, .width = width, .layers = layers, .context = context,
                           .positions = positions, .observed = observed, .position_rows = position_rows,
                           .dropout = dropout, .recomputed = recomputed};
    return tied_model(sizes, embedding_norm, block, final_norm, head);
  }
  constexpr Expr logits() const { return ending_with(TiedHead{}); }
  constexpr Expr operator()() const {
    return tiled_loss ? ending_with(TiledLoss{}) : cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

/// The same with a block from its token, whose epsilon is that of all norms.
struct Encoder {
  BlockConfig block;
  Index vocab = 256, width = 128;
  int heads = 4;
  Index hidden = 0;  ///< width of the MLP, value and gate together; four times `width` unless given
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::scaled_sinusoidal;  ///< none if the block has ALiBi
  bool observed = false;       ///< as in ModelSizes
  Index position_rows = 0;     ///< as in ModelSizes
  bool embedding_norm = true;  ///< of E[token] + s P[position]
  bool masked_head = false;    ///< logits by MaskedTokenHead, not by x E^T alone
  double dropout = 0;          ///< in training: of the embedding, and of each branch before it is added to its skip
  double attention_dropout = 0;  ///< in training: of attention's weights; "attention.dropout.rate" of each block
  int recomputed = 0;          ///< as in ModelSizes
  bool tiled_loss = false;     ///< as in EncoderOf

  constexpr EncoderOf<ConfiguredBlock, detail::ConfiguredNorm, detail::ConfiguredNorm> equation() const {
    const detail::ConfiguredNorm norm{Norm::layer_norm, block.norm_epsilon};
    return {.block = {block, heads, hidden, Mask::full, dropout, attention_dropout}, .vocab = vocab, .width = width,
            .layers = layers, .context = context, .positions = block.alibi ? Positions::none : positions,
            .observed = observed, .position_rows = position_rows, .embedding_norm = norm.where(embedding_norm),
            .final_norm = norm.where(block.norm_position == NormPosition::before), .dropout = dropout,
            .recomputed = recomputed, .tiled_loss = tiled_loss};
  }
  /// As in EncoderOf.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    return equation().ending_with(head);
  }
  constexpr Expr logits() const {
    return masked_head ? ending_with(MaskedTokenHead{block.norm_epsilon}) : ending_with(TiedHead{});
  }
  constexpr Expr operator()() const {
    if (!masked_head) return equation()();
    if (tiled_loss) return ending_with(TiledMaskedTokenLoss{{block.norm_epsilon}});
    return cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

}  // namespace simplx

// ---- simplx/models/classifier.hpp

/// \file simplx/models/classifier.hpp
/// A pretrained encoder with a head for whole sequences, as both papers fine-tune theirs on GLUE, but for STS-B, a
/// regression:
///
///     x = what leaves the encoder's last norm;   logits = dropout(tanh(x_1 W + b)) C + c
///
/// x_1 is the first token of its sequence. The encoder's parameters keep their names and shapes, so that `load_body`
/// reads its checkpoint; those of the head are `head_parameters`.
///
/// Sequences lie one after the other, each as long as it is, and none sees another: there is no padding to hide.
/// Two sentences are one sequence with a token between them (train/sentences.hpp).

namespace simplx::inline SIMPLX_TARGET {

/// Loss of each sequence of an Encoder or EncoderOf; inputs "tokens", and "labels" with one class for each sequence.
///
/// Errors  does not compile for a block: ClassifierOf<EncoderOf<MyBlock>>
template <class Body>
struct ClassifierOf {
  static constexpr bool takes_heads = requires(const Body& body, const SequenceHead& of) { body.ending_with(of); };
  static_assert(takes_heads,
                "simplx: ClassifierOf takes the model whose head it replaces, not its block: "
                "ClassifierOf<EncoderOf<MyBlock>>");
  Body encoder;  ///< its own head is not used
  SequenceHead head{};

  constexpr Expr logits() const { return encoder.ending_with(head); }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::sequences)); }
};
using Classifier = ClassifierOf<Encoder>;

/// The names of what a classifier has and its encoder lacks.
inline std::vector<std::string> head_parameters() { return {"pooler.*", "classifier.*"}; }

}  // namespace simplx

// ---- simplx/models/decoder.hpp

/// \file simplx/models/decoder.hpp
/// The decoder-only language model around any block:
///
///     x = E[token] + P[position];   x = block(x), L times;   logits = Norm(x) E^T
///
/// The final norm is of the blocks' kind: RMSNorm in the first paper, LayerNorm in the second, none after blocks that
/// end with a norm themselves. Positions are sinusoids, without parameters, as in the text of [He & Hofmann 2024, App.
/// D.1], or learned, as in its code: beside embeddings of deviation 0.02 a sinusoid of size one drowns the tokens at
/// first, and small models learn more slowly with it. With ALiBi, which belongs to the attention of the block, there
/// are none.

namespace simplx::inline SIMPLX_TARGET {

/// Loss of each token of a decoder with any block; inputs "tokens" and "labels".
template <class BlockType, class FinalNorm = RmsNorm>
struct DecoderOf {
  BlockType block;
  Index vocab = 256, width = 128;
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;
  bool observed = false;          ///< as in ModelSizes
  Index position_rows = 0;        ///< as in ModelSizes
  bool scaled_embedding = false;  ///< as in ModelSizes
  FinalNorm final_norm{};
  double dropout = 0;       ///< in training: of the embedding; blocks have their own
  int recomputed = 0;       ///< as in ModelSizes
  bool tiled_loss = false;  ///< training never holds the logits of all (ops/linear_cross_entropy.hpp)

  /// The model with a head of your own: head(x, E) of what leaves the last norm. In front of its callers: clang 14
  /// evaluates them as soon as it has read them.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    const ModelSizes sizes{.vocab = vocab, .width = width, .layers = layers, .context = context,
                           .positions = positions, .observed = observed, .position_rows = position_rows,
                           .scaled_embedding = scaled_embedding, .dropout = dropout, .recomputed = recomputed};
    return tied_model(sizes, Identity{}, block, final_norm, head);
  }
  constexpr Expr logits() const { return ending_with(TiedHead{}); }
  constexpr Expr operator()() const {
    return tiled_loss ? ending_with(TiledLoss{}) : cross_entropy(logits(), indices("labels", Axis::tokens));
  }
};

/// The same with a block from its token.
struct Decoder {
  BlockConfig block;
  Index vocab = 256, width = 128;
  int heads = 4;
  Index hidden = 0;  ///< width of the MLP, value and gate together; four times `width` by default
  int layers = 6;
  Index context = 128;
  Positions positions = Positions::sinusoidal;  ///< none if the block has ALiBi
  bool observed = false;          ///< as in ModelSizes
  Index position_rows = 0;        ///< as in ModelSizes
  bool scaled_embedding = false;  ///< as in ModelSizes
  std::optional<Norm> final_norm = {};  ///< after the blocks; of their kind unless given
  double dropout = 0;  ///< in training: of the embedding, and of each branch before it is added to its skip
  double attention_dropout = 0;  ///< in training: of attention's weights; "attention.dropout.rate" of each block
  int recomputed = 0;  ///< as in ModelSizes
  bool tiled_loss = false;  ///< as in DecoderOf

  /// Of the blocks' kind; RMSNorm after blocks without norms, none after norms of theirs.
  constexpr detail::ConfiguredNorm norm_after_blocks() const {
    if (final_norm) return {*final_norm, block.norm_epsilon};
    if (block.norm_position == NormPosition::after) return {Norm::none, 0};
    if (block.norm == Norm::none) return {Norm::rms_norm, RmsNorm{}.epsilon};
    return {block.norm, block.norm_epsilon};
  }
  constexpr DecoderOf<ConfiguredBlock, detail::ConfiguredNorm> equation() const {
    return {.block = {block, heads, hidden, Mask::causal, dropout, attention_dropout}, .vocab = vocab, .width = width,
            .layers = layers, .context = context, .positions = block.alibi ? Positions::none : positions,
            .observed = observed, .position_rows = position_rows, .scaled_embedding = scaled_embedding,
            .final_norm = norm_after_blocks(), .dropout = dropout, .recomputed = recomputed, .tiled_loss = tiled_loss};
  }
  /// As in DecoderOf.
  template <class Head>
  constexpr Expr ending_with(const Head& head) const {
    return equation().ending_with(head);
  }
  constexpr Expr logits() const { return equation().logits(); }
  constexpr Expr operator()() const { return equation()(); }
};

}  // namespace simplx

// ---- simplx/models/code_parrot.hpp

/// \file simplx/models/code_parrot.hpp
/// The decoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.1) trains on Python
/// source: the size of GPT-2 with 18 layers.
///
/// As their code has them: positions are learned, in the table of 1024 rows of GPT-2 of which 128 are used (with the
/// sinusoids of the text neither of the published 167M and 146M would come out); queries and keys have biases; epsilon
/// is 1e-5. The norm after the blocks is the RMSNorm of the text; .final_norm = Norm::layer_norm is that of the code.

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder code_parrot(BlockConfig block, int layers = 18, Index hidden = 3072) {
  block.query_key_bias = true;
  block.norm_epsilon = 1e-5;
  const bool trains_mlp_gain = block.mlp_gain.kind == Gain::Kind::trainable;
  if (layers == 18 && hidden == 1536 && trains_mlp_gain) block.mlp_gain = trainable(0.2);  // Fig. 6 alone: App. D.1
  return {.block = block,
          .vocab = 50'000,
          .width = 768,
          .heads = 12,
          .hidden = hidden,
          .layers = layers,
          .context = 128,
          .positions = Positions::learned,
          .position_rows = 1024,
          .final_norm = Norm::rms_norm};
}

/// Parameters as the released script counts them: each block has the biases of all matrices, zeros that are not
/// trained, two norms, and gains alpha, beta, gamma of each head and four of its branches, whether it uses them or not;
/// the last norm has a bias.
constexpr Index released_parameters(const Decoder& model) {
  const Index d = model.width, hidden = model.hidden ? model.hidden : 4 * d;
  const auto matrix = [d](Index columns) { return (d + 1) * columns; };  // with its bias
  const Index gains = 3 * model.heads + 4;
  Index total = (model.vocab + model.position_rows) * d + 2 * d;
  for (int layer = 0; layer < model.layers; ++layer) {
    const BlockConfig block = model.block.at(layer);
    total += 2 * matrix(d) + matrix(hidden) + hidden * d + d + 2 * d + gains;
    for (const Projection& projection : {block.value, block.projection}) {
      if (projection.kind != Projection::Kind::none) total += matrix(d);
      if (projection.kind == Projection::Kind::reparameterised) total += 2;
    }
  }
  return total;
}

namespace presets {
inline constexpr Decoder codeparrot_pre_ln = code_parrot(pre_ln), codeparrot_parallel = code_parrot(parallel),
                         codeparrot_v_skip_init_shaped = code_parrot(v_skip_init_shaped),
                         codeparrot_sas = code_parrot(sas), codeparrot_sas_p = code_parrot(sas_p),
                         codeparrot_sas_p_no_norm = code_parrot(sas_p_no_norm);
}  // namespace presets

}  // namespace simplx

// ---- simplx/models/crammed_bert.hpp

/// \file simplx/models/crammed_bert.hpp
/// The encoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.2) trains: the crammed
/// BERT of Geiping & Goldstein 2023 with other blocks. No matrix has a bias; 25 % of the tokens are predicted.

namespace simplx::inline SIMPLX_TARGET {

constexpr Encoder crammed_bert(const BlockConfig& block) {
  return {.block = block, .vocab = 32'768, .width = 768, .heads = 12, .hidden = 3072, .layers = 16, .context = 128};
}
/// What it is fine-tuned as, with dropout of 0.1.
///
/// Source  He & Hofmann 2024, App. D.2; width and biases of the head: the code of Geiping & Goldstein 2023. That pools
///         the first token where one setting is to do for all tasks of GLUE, and otherwise the mean over the tokens
constexpr Classifier crammed_bert_classifier(const BlockConfig& block, Index classes) {
  Encoder encoder = crammed_bert(block);
  encoder.dropout = 0.1;
  return {encoder, {.classes = classes, .pooled = 1024, .dropout = 0.1}};
}

namespace presets {
inline constexpr Encoder bert_pre_ln = crammed_bert(simplx::bert_pre_ln),
                         bert_parallel = crammed_bert(simplx::bert_parallel),
                         bert_v_skip_init_shaped = crammed_bert(simplx::bert_v_skip_init_shaped),
                         bert_sas = crammed_bert(simplx::bert_sas), bert_sas_p = crammed_bert(simplx::bert_sas_p),
                         bert_sas_p_no_norm = crammed_bert(simplx::bert_sas_p_no_norm);
}  // namespace presets

}  // namespace simplx

// ---- simplx/models/gpt3.hpp

/// \file simplx/models/gpt3.hpp
/// A model that no one machine holds, to plan with: GPT-3 of 175 billion parameters (Brown et al. 2020, Table 2.1) with
/// its own blocks, and with those of "Simplifying Transformer Blocks".

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder gpt3_175b(const BlockConfig& block) {
  return {.block = block,
          .vocab = 50'257,
          .width = 12'288,
          .heads = 96,
          .layers = 96,
          .context = 2048,
          .positions = Positions::learned};
}

namespace presets {
inline constexpr Decoder gpt3_175b_pre_ln = gpt3_175b(pre_ln_biased), gpt3_175b_sas_p = gpt3_175b(sas_p);
}  // namespace presets

}  // namespace simplx

// ---- simplx/models/languini.hpp

/// \file simplx/models/languini.hpp
/// The decoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, App. C) trains on the books of Languini:
/// ALiBi, LayerNorm, GELU (the approximation by tanh, as in the benchmark), and no bias on any matrix.

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder languini(BlockConfig block) {
  if (block.norm != Norm::none) block.norm = Norm::layer_norm;
  block.norm_epsilon = 1e-5;
  block.activation = Activation::gelu_tanh;
  block.alibi = true;
  return {.block = block,
          .vocab = 16'384,
          .width = 768,
          .heads = 12,
          .hidden = 3072,
          .layers = 12,
          .context = 512,
          .final_norm = Norm::layer_norm};
}

namespace presets {
inline constexpr Decoder languini_pre_ln = languini(pre_ln), languini_parallel = languini(parallel),
                         languini_sas = languini(sas), languini_sas_p = languini(sas_p),
                         languini_sas_p_no_norm = languini(sas_p_no_norm);
}  // namespace presets

}  // namespace simplx

// ---- simplx/models/model_of.hpp

/// \file simplx/models/model_of.hpp
/// The model that a named block belongs into, for programs that go through all of them.

namespace simplx::inline SIMPLX_TARGET {

/// Decoder or Encoder: ModelOf<number>{.block = all_blocks[number].config, .width = 64}.
template <int number>
using ModelOf = std::conditional_t<all_blocks[number].encoder, Encoder, Decoder>;

/// f(model) with a Decoder or an Encoder of the block, of default sizes.
template <class F>
constexpr auto with_model_of(const NamedBlock& block, F f) {
  return block.encoder ? f(Encoder{.block = block.config}) : f(Decoder{.block = block.config});
}

}  // namespace simplx

// ---- simplx/models/norm_former.hpp

/// \file simplx/models/norm_former.hpp
/// The models of "NormFormer" (Shleifer et al. 2021): causal language models of four sizes (Table 2) and a masked one
/// (Table 3), each with the baseline's blocks, those of NormFormer, and those with residual scales.

namespace simplx::inline SIMPLX_TARGET {

/// Sinusoids, embeddings times sqrt(d), 2048 tokens; dropout as in their scripts, of attention's weights as well. The
/// ablations (Table 7) are of 125M without dropout.
constexpr Decoder norm_former_decoder(const BlockConfig& block, int layers, Index width, int heads,
                                      double dropout = 0.1) {
  return {.block = block,
          .vocab = 51'200,
          .width = width,
          .heads = heads,
          .layers = layers,
          .context = 2048,
          .positions = Positions::sinusoidal,
          .scaled_embedding = true,
          .dropout = dropout,
          .attention_dropout = dropout};
}
constexpr Decoder norm_former_125m(const BlockConfig& block, double dropout = 0.1) {
  return norm_former_decoder(block, 12, 768, 12, dropout);
}
constexpr Decoder norm_former_355m(const BlockConfig& block) { return norm_former_decoder(block, 24, 1024, 16, 0); }
constexpr Decoder norm_former_1300m(const BlockConfig& block) { return norm_former_decoder(block, 24, 2048, 32); }
constexpr Decoder norm_former_2700m(const BlockConfig& block) { return norm_former_decoder(block, 32, 2560, 32); }

/// RoBERTa-base with norms in front of the branches and none of the embedding, with its dropout; two rows of its table
/// of positions, of 514, are not used.
constexpr Encoder norm_former_encoder(const BlockConfig& block) {
  return {.block = block,
          .vocab = 51'200,
          .width = 768,
          .heads = 12,
          .layers = 12,
          .context = 512,
          .positions = Positions::learned,
          .position_rows = 514,
          .embedding_norm = false,
          .masked_head = true,
          .dropout = 0.1,
          .attention_dropout = 0.1};
}

/// What it is fine-tuned as: RoBERTa-base's head.
///
/// Source  Shleifer et al. 2021, Sec. 2.2; Liu et al. 2019 (their code, where dropout of the head is off)
constexpr Classifier norm_former_classifier(const BlockConfig& block, Index classes) {
  return {norm_former_encoder(block), {.classes = classes, .dropout = 0}};
}

namespace presets {
inline constexpr Decoder normformer_125m_baseline = norm_former_125m(pre_ln_biased),
                         normformer_125m_normformer = norm_former_125m(norm_former),
                         normformer_125m_resscale = norm_former_125m(norm_former_resscale);
inline constexpr Decoder normformer_355m_baseline = norm_former_355m(pre_ln_biased),
                         normformer_355m_normformer = norm_former_355m(norm_former),
                         normformer_355m_resscale = norm_former_355m(norm_former_resscale);
inline constexpr Decoder normformer_1300m_baseline = norm_former_1300m(pre_ln_biased),
                         normformer_1300m_normformer = norm_former_1300m(norm_former),
                         normformer_1300m_resscale = norm_former_1300m(norm_former_resscale);
inline constexpr Decoder normformer_2700m_baseline = norm_former_2700m(pre_ln_biased),
                         normformer_2700m_relu2_baseline = norm_former_2700m(pre_ln_biased_relu2),
                         normformer_2700m_normformer = norm_former_2700m(norm_former_relu2),
                         normformer_2700m_resscale = norm_former_2700m(norm_former_resscale);
inline constexpr Encoder normformer_mlm_baseline = norm_former_encoder(pre_ln_biased),
                         normformer_mlm_normformer = norm_former_encoder(norm_former),
                         normformer_mlm_resscale = norm_former_encoder(norm_former_resscale);
}  // namespace presets

}  // namespace simplx

// ---- simplx/models/published.hpp

/// \file simplx/models/published.hpp
/// The numbers of parameters that the papers state, counted as each of them counts.
///
/// `parameters<model>` counts what is trained. The code of "Simplifying Transformer Blocks" also counts what its blocks
/// hold and do not use; the encoder of NormFormer's code has no head scales, whatever its flags say.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
template <auto const& model, class... Models>
constexpr bool is_one_of(const Models&... models) {
  return ((static_cast<const void*>(&model) == static_cast<const void*>(&models)) || ...);
}
}  // namespace detail

/// The count behind a published figure; nothing where none is published.
///
/// Source  He & Hofmann 2024, Sec. 5 and App. C: 167M and 146M, 120M and 101M, "100M"; Shleifer et al. 2021, Tables 2
///         and 3: 124.4, 124.5, 354.7, ... 2649.5 million; 125.42, 125.50, 125.51 million
template <auto const& model>
constexpr std::optional<Index> parameters_published() {
  namespace p = presets;
  if constexpr (detail::is_one_of<model>(p::codeparrot_pre_ln, p::codeparrot_sas)) {
    return released_parameters(model);
  } else if constexpr (detail::is_one_of<model>(p::bert_pre_ln, p::bert_parallel, p::bert_v_skip_init_shaped,
                                                p::bert_sas, p::bert_sas_p, p::bert_sas_p_no_norm,
                                                p::languini_pre_ln, p::languini_sas)) {
    return parameters<model>;
  } else if constexpr (detail::is_one_of<model>(
                           p::normformer_125m_baseline, p::normformer_125m_normformer, p::normformer_125m_resscale,
                           p::normformer_355m_baseline, p::normformer_355m_normformer, p::normformer_355m_resscale,
                           p::normformer_1300m_baseline, p::normformer_1300m_normformer,
                           p::normformer_2700m_baseline, p::normformer_2700m_relu2_baseline,
                           p::normformer_2700m_normformer)) {
    return parameters<model>;
  } else if constexpr (detail::is_one_of<model>(p::normformer_mlm_baseline, p::normformer_mlm_normformer,
                                                p::normformer_mlm_resscale)) {
    const bool head_scales = model.block.head_scale != HeadScale::none;
    return parameters<model> - (head_scales ? model.layers * model.heads : 0);
  } else {
    return std::nullopt;
  }
}

}  // namespace simplx

// ---- simplx/models/within.hpp

/// \file simplx/models/within.hpp
/// A model that fits into so many bytes: as many of its first layers as that takes are evaluated again in backward.
///
///     constexpr Decoder large{.block = sas_p, .width = 768, .heads = 12, .layers = 12, .context = 1024};
///     constexpr auto& model = within<large, 300'000'000, tokens{1024}>;  // 286 MB instead of 418:
///     static_assert(model.recomputed == 6);                             // forward takes half as long again

namespace simplx::inline SIMPLX_TARGET {

/// The model with that number of recomputed layers. A model of your own has members `layers` and `recomputed`, and
/// stack("...", layers, recompute_first(recomputed, block), x).
template <auto const& model, int recomputed_layers>
inline constexpr auto with_recomputed = [] {
  auto copy = model;
  copy.recomputed = recomputed_layers;
  return copy;
}();

namespace detail {

/// The fewest layers that have to be recomputed, from a first guess on: bytes fall from layer to layer, if not evenly.
template <auto const& model, Index bytes, Rows rows, class Backend, int guess>
constexpr int settle_recomputed() {
  constexpr auto fits = []<int layers>(std::integral_constant<int, layers>) {
    return arena_bytes_on<with_recomputed<model, layers>, Backend>(rows) <= bytes;
  };
  if constexpr (guess < model.layers && !fits(std::integral_constant<int, guess>{})) {
    return settle_recomputed<model, bytes, rows, Backend, guess + 1>();
  } else if constexpr (guess > 1) {
    if constexpr (fits(std::integral_constant<int, guess - 1>{})) {
      return settle_recomputed<model, bytes, rows, Backend, guess - 1>();
    } else {
      return guess;
    }
  } else {
    return guess;
  }
}

template <auto const& model, Index bytes, Rows rows, class Backend>
constexpr int fewest_recomputed() {
  constexpr Index none = arena_bytes_on<with_recomputed<model, 0>, Backend>(rows);
  if constexpr (none <= bytes) {
    return 0;
  } else {
    constexpr int layers = model.layers;
    constexpr Index one = arena_bytes_on<with_recomputed<model, 1>, Backend>(rows);
    constexpr Index all = arena_bytes_on<with_recomputed<model, layers>, Backend>(rows);
    static_assert(all <= bytes,
                  "simplx: the model does not fit into these bytes even if every layer is recomputed; allow more, or "
                  "give it fewer rows");
    constexpr Index guess = one <= bytes ? 1 : 1 + (layers - 1) * (one - bytes) / std::max<Index>(one - all, 1);
    return settle_recomputed<model, bytes, rows, Backend, static_cast<int>(std::clamp<Index>(guess, 1, layers))>();
  }
}

}  // namespace detail

/// The model with as few recomputed layers as keep an evaluation of these rows within so many bytes (arena_bytes_on);
/// parameters, names, values and gradients stay what they are.
///
/// Errors  does not compile if the model does not fit with all its layers recomputed
/// Cost    the forward of the recomputed layers once more; to the compiler, three or four plans of the model
template <auto const& model, Index bytes, Rows rows, class Backend = Cpu<float, Path::fast>>
inline constexpr auto within =
    with_recomputed<model, detail::fewest_recomputed<model, bytes, rows, Backend>()>;

}  // namespace simplx

// ---- simplx/ops/grad.hpp

/// \file simplx/ops/grad.hpp
/// grad(y, x): a derivative as an expression of the model, made by a walk from y back to x while the compiler
/// evaluates the model. What it returns is differentiated, fused and planned like everything else:
///
///     auto u = network(x);                                   // (rows, 1)
///     auto residual = grad(grad(u, x), x) + sin(u);          // a differential equation as a loss

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("grad", (possible<left, right>),
            "grad(y, x) meets an op whose pull-back is no expression (left number: the line that made it): attention, "
            "stacks, lookups, cross-entropy, dropout, rotary positions, rows of sequences, batched products and maxima "
            "are differentiated by the reverse sweep only")

namespace detail {

/// The adjoint of an operand that an elementwise op spread: summed over the rows or columns along which it did.
constexpr Term gathered(const Term& adjoint, const Node* node, const Shape& to) {
  const Shape& from = node->shape;
  if (node->kind != Kind::map || from == to) return adjoint;
  const bool over_columns = to.cols == 1 && from.cols > 1;
  const bool over_rows = to.is_fixed() && to.rows == 1 && !(from.is_fixed() && from.rows == 1);
  const Over over = !over_columns ? Over::rows : over_rows ? Over::all : Over::columns;
  return adjoint.is(0) ? adjoint : Term(sum(whole(adjoint, node), over));
}

}  // namespace detail

/// The derivative of the sum of y's elements with respect to x, which may be any expression that y uses.
///
/// Shapes  as x; zero where y does not depend on x
/// Errors  does not compile if an op between them has no pull-back as an expression: rule "grad"
/// Cost    evaluated as written; nodes of a constant evaluation: about three for each node between x and y
constexpr Expr grad(Expr y, Expr x) {
  if (y.node->kind == Kind::error) return y;
  int count = 0;
  detail::postorder(y.node, [&](Node* node) { node->index = count++; });
  Node** nodes = new Node*[static_cast<std::size_t>(count)];
  bool* depends = new bool[static_cast<std::size_t>(count)]{};
  Term* adjoint = new Term[static_cast<std::size_t>(count)]{};
  int target = x.node->index;  // unvisited if y does not use x
  detail::clear_marks(y.node);
  count = 0;
  detail::postorder(y.node, [&](Node* node) {
    nodes[count] = node;
    node->index = count++;
    depends[node->index] = node == x.node;
    for (int i = 0; i < node->argument_count && !node->stops; ++i) {
      depends[node->index] |= depends[node->arguments[i]->index];
    }
  });
  int(*arguments)[max_arguments] = new int[static_cast<std::size_t>(count)][max_arguments];
  for (int n = 0; n < count; ++n) {
    for (int i = 0; i < nodes[n]->argument_count; ++i) arguments[n][i] = nodes[n]->arguments[i]->index;
  }
  detail::clear_marks(y.node);

  const Node* obstacle = nullptr;
  adjoint[count - 1] = 1;
  for (int n = count - 1; n > target && target >= 0 && !obstacle; --n) {
    if (!depends[n] || adjoint[n].is(0)) continue;
    const Node* node = nodes[n];
    if (!node->derivable) obstacle = node;
    for (int i = 0; i < node->argument_count && !obstacle; ++i) {
      const int argument = arguments[n][i];
      if (!depends[argument]) continue;
      const Term part = node->derive(node, i, adjoint[n]);
      adjoint[argument] = adjoint[argument] + detail::gathered(part, node, nodes[argument]->shape);
    }
  }
  const Term result = target >= 0 ? adjoint[target] : Term(0);
  delete[] nodes;
  delete[] depends;
  delete[] adjoint;
  delete[] arguments;
  if (target < 0) {  // nothing connects y and x: a node that is never read lets both be freed together
    Node* hub = detail::new_node();
    detail::use(hub, y.node), detail::use(hub, x.node);
  }
  if (obstacle) return refuse("grad", At(x, obstacle->where), obstacle->where.line);
  return result.node && result.node->shape == x.shape() ? Expr{result.node} : spread(result.operand(), x);
}

}  // namespace simplx

// ---- simplx/ops/sequences.hpp

/// \file simplx/ops/sequences.hpp
/// Sequences as rows of their own: what is said of a whole one, and its tokens told of it.
///
///     sum_of_sequence(x)       y_s = sum of x_t over the tokens t of s     dx_t = dy_s
///     mean_of_sequence(x)      y_s = the same / tokens of s                dx_t = dy_s / tokens of s
///     repeat_over_sequence(x)  y_t = x_s, s the sequence of token t        dx_s = sum of dy_t
///
/// An empty sequence has zeros.

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("sequence rows", left == right,
            "this operand must have a row for each sequence (right number), not rows along another axis (left number: "
            "0 a static number, 1 tokens, 3 labelled, 4 batch): rows_of(Axis::sequences, ...)")

namespace detail {

/// Rows that are added up before they are added to others: as many as there are parts, so that a million rows lose
/// little more than a thousand.
SIMPLX_HD constexpr Index rows_of_part(Index rows) {
  Index part = 64;
  while (part * part < rows) part *= 2;
  return part;
}

struct sequence_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  /// Whether each token counts as one over the tokens of its sequence.
  static constexpr bool is_mean(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) { return is_mean(attributes) ? "mean" : ""; }

  template <class F>
  static auto weight(Index tokens) {
    using S = typename F::Scalar;
    return is_mean(F::attributes) && tokens > 0 ? S(1) / static_cast<S>(static_cast<double>(tokens)) : S(1);
  }
  /// to_s = the sum of from_t, part by part.
  template <Write mode, class F, class S>
  static void sum(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index begin, Index tokens) {
      const Index end = begin + tokens, together = rows_of_part(tokens);
      const S of_token = weight<F>(tokens);
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        cpu::Register<V> total{};
        for (Index first = begin; first < end; first += together) {
          cpu::Register<V> part{};
          for (Index t = first; t < std::min(first + together, end); ++t) part += load<V>(from + t * cols + c);
          total += part;
        }
        put<mode, V>(to + s * cols + c, total * of_token);
      });
    });
  }
  /// to_t = from_s
  template <Write mode, class F, class S>
  static void repeat(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index begin, Index tokens) {
      const S of_token = weight<F>(tokens);
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        const cpu::Register<V> x = load<V>(from + s * cols + c) * of_token;
        for (Index t = begin; t < begin + tokens; ++t) put<mode, V>(to + t * cols + c, x);
      });
    });
  }
};

}  // namespace detail

template <>
struct op<"sum_of_sequence"> : detail::sequence_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    return rows_of(Axis::sequences, x.cols);
  }
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: its pull-back comes later
    return Term(apply<"repeat_over_sequence">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    sum<Write::store>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    repeat<F::template write<0>>(frame, frame.out_grad(), frame.template grad<0>());
  }
};

/// Either is the pull-back of the other.
template <>
struct op<"repeat_over_sequence"> : detail::sequence_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::sequences) {
      return {"sequence rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::sequences)};
    }
    return rows_of(Axis::tokens, x.cols);
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"sum_of_sequence">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    repeat<Write::store>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    sum<F::template write<0>>(frame, frame.out_grad(), frame.template grad<0>());
  }
};

/// The sum of the tokens of each sequence.
///
/// Shapes  x (tokens, C) -> (sequences, C)
/// Errors  does not compile along another axis: rule "token rows"
constexpr Expr sum_of_sequence(At x) { return apply<"sum_of_sequence">({.integers = {0}}, x); }

/// The same divided by the tokens of each sequence: what a classifier reads of all of them.
///
/// Shapes  as sum_of_sequence
/// Errors  as sum_of_sequence
constexpr Expr mean_of_sequence(At x) { return apply<"sum_of_sequence">({.integers = {1}}, x); }

/// What is known of a sequence, such as a condition or a mask, for each of its tokens.
///
/// Shapes  x (sequences, C) -> (tokens, C)
/// Errors  does not compile along another axis: rule "sequence rows"
constexpr Expr repeat_over_sequence(At x) { return apply<"repeat_over_sequence">({.integers = {0}}, x); }

}  // namespace simplx

// ---- simplx/ops/siamese.hpp

/// \file simplx/ops/siamese.hpp
/// One module with one set of parameters for several inputs, as in contrastive losses and adversarial training.
///
///     const auto [one, other] = siamese(named("encoder", Encoder{}), a, b);
///     return softplus(margin * label * distance(one, other));

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("siamese stack", (possible<left, right>),
            "a stack or recompute within siamese (left number: its line) makes parameters for one input only: pack the "
            "inputs as sequences or rows of one batch instead, or apply its layers one by one")

namespace detail {

/// The nodes with a name, or with a block, that a module made of what it was given. (A template, as what follows: so
/// programs without it compile nothing of it.)
template <class Given>
struct NamedNodes {
  Node** nodes;
  int count = 0;

  constexpr NamedNodes(Expr result, const Given& given) {
    const auto has_name = [](const Node& node) { return !node.name.empty() || node.block; };
    each_made(result, [&](Node* node) { count += has_name(*node); }, given);
    nodes = new Node*[static_cast<std::size_t>(count)];
    int place = 0;
    each_made(result, [&](Node* node) { if (has_name(*node)) nodes[place++] = node; }, given);
  }
  constexpr NamedNodes(const NamedNodes&) = delete;
  constexpr ~NamedNodes() { delete[] nodes; }
  constexpr bool has(const Node* wanted) const {
    bool found = false;
    for (const Node* node : *this) found |= node == wanted;
    return found;
  }
  constexpr Node* const* begin() const { return nodes; }
  constexpr Node* const* end() const { return nodes + count; }
};

/// Gives the users of a leaf another one in its place, and deletes it.
constexpr void replace_leaf(Node* leaf, Node* by) {
  while (Node* user = leaf->first_user) {
    for (int slot = 0; slot < user->argument_count; ++slot) {
      if (user->arguments[slot] != leaf) continue;
      if (user->next_user[slot] != user) leaf->first_user = user->next_user[slot];  // of all its slots, the last
      user->arguments[slot] = by;
      user->next_user[slot] = by->first_user;
      by->first_user = user;
    }
  }
  delete leaf;
}

/// Lets one use of a module have the leaves of another; its masks and probes get its number as a scope, several times
/// where a siamese within the module has taken the name.
template <class Given>
constexpr Expr with_leaves_of(Expr first, const Given& first_given, Expr other, const Given& given, int number) {
  const char scope[] = {static_cast<char>('0' + number), 0};
  const NamedNodes<Given> originals(first, first_given), copies(other, given);
  const auto is_taken = [&](const Node* node) {
    bool taken = false;
    for (const auto* made : {&originals, &copies}) {
      for (const Node* named : *made) taken |= named != node && named->name == node->name;
    }
    return taken;
  };
  for (Node* copy : copies) {
    if (originals.has(copy)) continue;  // captured, not made
    if (copy->block) return refuse("siamese stack", At(other, copy->where), copy->where.line);
    if (copy->argument_count == 0 || !takes_scope(*copy)) continue;
    do copy->name.put_in_scope(scope);
    while (is_taken(copy));
  }
  for (Node* copy : copies) {
    if (copy->argument_count > 0 || originals.has(copy)) continue;
    Node* original = nullptr;
    for (Node* node : originals) {
      if (node->name == copy->name && node->kind == copy->kind && node->shape == copy->shape) original = node;
    }
    if (!original) continue;
    if (other.node == copy) other = {original};
    replace_leaf(copy, original);
  }
  return other;
}

}  // namespace detail

/// The results of a module for each of several inputs, with one set of parameters, constants and inputs of its own.
/// Dropout draws a mask for each use; that of the second has a name that begins with "1.".
///
/// Shapes  what the module returns for each input; all have the same columns
/// Errors  does not compile for a module that takes or returns other than one expression, for inputs of which it makes
///         tensors of different shapes (rule "one name"), or if it contains a stack or recompute, whose parameters are
///         of one input: rule "siamese stack". Dropout within a function of with_pull_back keeps its name: such a model
///         throws when it is made
/// Cost    that of the module for each input; a parameter counts once, and its gradient is the sum over the uses
/// Source  Bromley et al. 1993, "Signature Verification using a 'Siamese' Time Delay Neural Network"
template <class Module, std::same_as<Expr>... Others>
constexpr auto siamese(const Module& module, Expr first, Others... others) {
  constexpr std::size_t count = 1 + sizeof...(others);
  static_assert(count < 10, "simplx: siamese takes at most nine inputs: pack more as sequences or rows of one batch");
  constexpr bool of_one = requires { Expr(module(first)); };
  static_assert(of_one, "simplx: siamese takes a module of one expression that returns one, and not several: "
                        "siamese(module, a, b) is module(a) and module(b)");
  const std::array<Expr, count> given{first, others...};
  std::array<Expr, count> results{};
  if constexpr (of_one) {
    for (std::size_t i = 0; i < count; ++i) {
      const Expr made = module(given[i]);
      results[i] = i == 0 ? made : detail::with_leaves_of(results[0], first, made, given[i], static_cast<int>(i));
    }
  }
  return results;
}

}  // namespace simplx

// ---- simplx/train/average.hpp

/// \file simplx/train/average.hpp
/// The average of the weights over a run, which is often the better model:
///
///     a <- a + w_t (p - a),   w_1 = 1,   then w_t = 1 - decay (exponential) or w_t = 1 / t (the plain mean)
///
///     WeightAverage<float> average(trainer.parameters().size(), 0.999);
///     trainer.step(batch, optimiser);
///     average.update(trainer.parameters());
///     {
///       const auto in_place = average.swap_into(trainer);
///       trainer.loss(held_out);  // of the average
///     }                          // the weights in training are back
///
/// Swapping needs no third copy: while the average is in place, its buffer holds the weights in training.

namespace simplx::inline SIMPLX_TARGET {

/// A running average of weights, exponential or plain, that can be swapped with those in training.
template <class S>
class WeightAverage {
 public:
  /// Exchanges the average and the parameters of a network as long as it lives; both must outlive it.
  template <class Net>
  class [[nodiscard]] InPlace {
   public:
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;
    ~InPlace() { exchange(false); }

   private:
    friend WeightAverage;
    InPlace(WeightAverage& average, Net& net) : average_(average), net_(net) { exchange(true); }
    void exchange(bool in_place) {
      const std::span<S> parameters = net_.parameters();  // asked anew: of a GPU these are copies
      std::swap_ranges(parameters.begin(), parameters.end(), average_.values_.begin());
      average_.in_place_ = in_place;
    }

    WeightAverage& average_;
    Net& net_;
  };

  /// For so many parameters: exponential with a decay in [0, 1), the plain mean without.
  ///
  /// Errors  throws Error for another decay
  explicit WeightAverage(std::size_t size, std::optional<double> decay = {})
      : values_(static_cast<Index>(size)), decay_(decay) {
    if (decay && !(*decay >= 0 && *decay < 1)) {
      throw Error("the decay of an average is " + shortest(*decay), "it is in [0, 1), such as 0.999");
    }
  }

  /// Takes the parameters after a step into the average.
  ///
  /// Errors  throws Error if their number differs, or the average is in place
  /// Cost    12 bytes of memory traffic for each float parameter; no allocation
  void update(std::span<const S> parameters) {
    check(parameters.size());
    ++updates_;
    const S weight = static_cast<S>(updates_ == 1 ? 1 : decay_ ? 1 - *decay_ : 1 / static_cast<double>(updates_));
    S* __restrict values = values_.data();
    const S* __restrict taken = parameters.data();
    each_vector<S>(0, values_.size(), [&]<class V>(Index i) __attribute__((always_inline)) {
      const V a = load<V>(values + i);
      store(values + i, a + weight * (load<V>(taken + i) - a));
    });
  }

  /// Puts the average in the place of the parameters of a Trainer, or of whatever has parameters(), until the result
  /// goes out of scope.
  ///
  /// Errors  throws Error before the first update, if their number differs, or if it is in place already
  template <class Net>
  InPlace<Net> swap_into(Net& net) {
    check(net.parameters().size());
    if (!updates_) throw Error("an average of no weights cannot be used", "call update after a step first");
    return InPlace<Net>(*this, net);
  }

  std::span<const S> values() const { return values_.span(); }
  long updates() const { return updates_; }

  /// Goes on from values() and updates() of an average that was written down.
  ///
  /// Errors  throws Error if the number of values differs, that of updates is negative, or the average is in place
  void restore(std::span<const S> values, long updates) {
    check(values.size());
    if (updates < 0) throw Error("an average of " + std::to_string(updates) + " updates", "they count from 0");
    std::ranges::copy(values, values_.begin());
    updates_ = updates;
  }

 private:
  void check(std::size_t size) const {
    if (size != static_cast<std::size_t>(values_.size())) {
      throw Error("an average of " + std::to_string(values_.size()) + " parameters was given " + std::to_string(size),
                  "make it for the size of parameters()");
    }
    if (in_place_) throw Error("the average is in the place of the weights", "let the guard of swap_into end first");
  }

  cpu::Buffer<S> values_;
  std::optional<double> decay_;
  long updates_ = 0;
  bool in_place_ = false;
};

}  // namespace simplx

// ---- simplx/train/token_view.hpp

/// \file simplx/train/token_view.hpp
/// TokenView: tokens of one, two or four bytes each, in memory or in a mapped file, read where they lie.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What is a token as it lies there: a byte of text, or a number that begins at 0.
template <class T>
concept TokenNumber = std::same_as<T, char> || std::same_as<T, std::int32_t> ||
                      (std::unsigned_integral<T> && !std::same_as<T, bool> && sizeof(T) <= 4);

}  // namespace detail

/// The tokens belong to somebody else and need no alignment.
class TokenView {
 public:
  TokenView() = default;
  /// Of a vector, an array, a span or a text, which must outlive this; a literal text, which ends with a 0, is no such.
  template <std::ranges::contiguous_range Tokens>
    requires(detail::TokenNumber<std::ranges::range_value_t<Tokens>> && std::ranges::borrowed_range<Tokens> &&
             !std::is_same_v<std::remove_extent_t<std::remove_reference_t<Tokens>>, const char>)
  TokenView(Tokens&& tokens)
      : TokenView(std::as_bytes(std::span(std::ranges::data(tokens), std::ranges::size(tokens))),
                  sizeof(std::ranges::range_value_t<Tokens>)) {}
  /// Little-endian numbers of so many bytes: 1, 2 or 4.
  ///
  /// Errors  throws Error for another number of bytes
  TokenView(std::span<const std::byte> bytes, int bytes_each) : bytes_(bytes.data()), bytes_each_(bytes_each) {
    if (bytes_each != 1 && bytes_each != 2 && bytes_each != 4) {
      throw Error("tokens of " + std::to_string(bytes_each) + " bytes", "they have one, two or four");
    }
    size_ = static_cast<Index>(bytes.size()) / bytes_each;
  }

  Index size() const { return size_; }

  /// Tokens [begin, end) of these.
  TokenView part(Index begin, Index end) const {
    return {std::span(bytes_ + begin * bytes_each_, static_cast<std::size_t>((end - begin) * bytes_each_)),
            bytes_each_};
  }

  /// Token i; one of four bytes that is no int32 is negative, which no model takes.
  std::int32_t operator[](Index i) const {
    if (bytes_each_ == 1) return static_cast<std::uint8_t>(bytes_[i]);
    if (bytes_each_ == 2) return at<std::uint16_t>(i);
    return at<std::int32_t>(i);
  }

 private:
  template <class T>
  T at(Index i) const {
    T token;
    std::memcpy(&token, bytes_ + i * static_cast<Index>(sizeof(T)), sizeof(T));
    return token;
  }

  const std::byte* bytes_ = nullptr;
  Index size_ = 0;
  int bytes_each_ = 1;
};

}  // namespace simplx

// ---- simplx/train/text.hpp

/// \file simplx/train/text.hpp
/// Text files and directories as documents of bytes, split by document into training and held-out text.
///
/// A byte is a token, so there are 256 of them and nothing to learn beforehand. Directories are walked in the
/// order of their paths, and whether a document is held out depends on its path alone: the same text gives the
/// same split on every machine.

namespace simplx::inline SIMPLX_TARGET {

/// A part of the corpus: tokens [begin, end).
struct Document {
  std::string path;  ///< relative to the directory it was found in
  Index begin = 0, end = 0;
};

/// All bytes in one buffer, and where its documents are.
struct Corpus {
  std::vector<std::uint8_t> bytes;
  std::vector<Document> training, validation;
  Index skipped = 0;     ///< files of directories that are not text
  Index unreadable = 0;  ///< files and directories within directories that may not be read

  TokenView tokens() const { return TokenView(std::span(bytes)); }
  std::string_view text(const Document& document) const {
    return {reinterpret_cast<const char*>(bytes.data()) + document.begin,
            static_cast<std::size_t>(document.end - document.begin)};
  }
  static Index size_of(const std::vector<Document>& documents) {
    Index total = 0;
    for (const Document& document : documents) total += document.end - document.begin;
    return total;
  }
};

/// Which files are text to train on, and how many of them are held out.
struct TextOptions {
  std::vector<std::string> extensions = {};  ///< of the files taken from directories, ".py" or "py"; empty: all text
  int held_out_one_in = 10;                  ///< documents: one in so many is held out
  Index window = 1;                          ///< tokens that one document of each part has at least, if any has
  std::filesystem::path except = {};         ///< a directory that is left out: where results are written
};

namespace detail {

inline void check_held_out(int one_in) {
  if (one_in >= 1) return;
  throw Error("held_out_one_in is " + std::to_string(one_in),
              "10 holds out one document in ten; a number far above that of the tokens holds out nothing");
}

}  // namespace detail

/// Whether a document is held out, by the hash of its path.
///
/// Errors  throws Error if it is one in less than one
inline bool held_out(std::string_view path, int one_in) {
  detail::check_held_out(one_in);
  return key_of(0, path) % static_cast<std::uint64_t>(one_in) == 0;
}

namespace detail {

/// Text has no zero bytes and nearly no other control characters.
inline bool looks_like_text(std::span<const std::uint8_t> bytes) {
  const std::size_t looked_at = std::min<std::size_t>(bytes.size(), 1 << 16);
  std::size_t odd = 0;
  for (const std::uint8_t byte : bytes.first(looked_at)) {
    if (byte == 0) return false;
    odd += byte < 32 && byte != '\n' && byte != '\r' && byte != '\t' && byte != '\f';
  }
  return odd * 50 <= looked_at;
}

/// Appends the bytes of a file; false if it cannot be read.
inline bool append_file(const std::filesystem::path& path, std::vector<std::uint8_t>& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!file || error) return false;
  const std::size_t before = bytes.size();
  bytes.resize(before + size);
  file.read(reinterpret_cast<char*>(bytes.data() + before), static_cast<std::streamsize>(size));
  bytes.resize(before + static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return file.gcount() == static_cast<std::streamsize>(size);
}

struct FoundFile {
  std::filesystem::path path;
  std::string name;  ///< relative to its directory
  bool named = false;
};

/// Whether files of an extension such as ".py" are taken.
inline bool takes(const std::vector<std::string>& wanted, const std::string& extension) {
  for (const std::string& each : wanted) {
    if (extension == each || (!extension.empty() && extension.substr(1) == each)) return true;
  }
  return wanted.empty();
}

/// Whether a directory is that of a run (io/run.hpp): what a run wrote is no text for another.
inline bool holds_a_run(const std::filesystem::path& directory) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(directory / name, ignored); };
  return has("run.json") && (has("log.jsonl") || has("checkpoints"));
}

/// Whether a file of a directory is what tools/prepare wrote (io/corpus.hpp), or will replace in `except`.
inline bool is_prepared(const std::filesystem::path& file, const std::filesystem::path& except) {
  const std::filesystem::path name = file.filename(), directory = file.parent_path();
  if (name != "train.bin" && name != "val.bin" && name != "meta.json" && name != "tokenizer.json") return false;
  std::error_code ignored;
  if (!except.empty() && std::filesystem::equivalent(directory, except, ignored)) return true;
  constexpr std::string_view begins = "{\n \"format\": ";
  std::string start(begins.size(), ' ');
  std::ifstream(directory / "meta.json", std::ios::binary).read(start.data(), std::ssize(start));
  const auto has = [&](const char* other) { return std::filesystem::exists(directory / other, ignored); };
  return start == begins && has("train.bin") && has("val.bin");
}

/// The files of the paths, each of them once; `unreadable` counts directories inside that may not be read.
inline std::vector<FoundFile> find_files(std::span<const std::filesystem::path> paths, const TextOptions& options,
                                         Index& unreadable) {
  namespace fs = std::filesystem;
  std::vector<FoundFile> files;
  std::vector<std::string> seen;  // in order, as the files of a directory come
  const auto is_new = [&](const fs::path& file) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    const std::string name = (error ? file : real).string();
    const auto place = std::lower_bound(seen.begin(), seen.end(), name);
    if (place != seen.end() && *place == name) return false;
    seen.insert(place, name);
    return true;
  };
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) throw Error("no such file or directory: " + path.string(), "check the path");
    if (!fs::is_directory(status)) {
      if (!fs::is_regular_file(status)) {  // a pipe would be waited for until somebody writes
        throw Error("cannot read " + path.string() + ": it is a pipe or a device", "write the text to a file first");
      }
      if (is_new(path)) files.push_back({path, path.filename().generic_string(), true});
      continue;
    }
    std::vector<FoundFile> inside;
    auto entry = fs::recursive_directory_iterator(path, error);
    if (error) {
      throw Error("cannot read the directory " + path.string() + ": " + error.message(), "check its permissions");
    }
    for (; entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
        const bool left_out =
            holds_a_run(entry->path()) ||
            (!options.except.empty() && fs::equivalent(entry->path(), options.except, ignored));
        std::error_code refused;
        if (!left_out) fs::directory_iterator(entry->path(), refused);
        if (left_out || refused) entry.disable_recursion_pending();
        unreadable += static_cast<bool>(refused);
      }
      if (!entry->is_regular_file(ignored) || !takes(options.extensions, entry->path().extension().string()) ||
          is_prepared(entry->path(), options.except)) {
        continue;
      }
      inside.push_back({entry->path(), entry->path().lexically_relative(path).generic_string(), false});
    }
    if (error) throw Error("cannot read all of the directory " + path.string() + ": " + error.message(), "try again");
    std::sort(inside.begin(), inside.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (FoundFile& file : inside) {
      if (is_new(file.path)) files.push_back(std::move(file));
    }
  }
  return files;
}

/// The last tokens of each document are held out, one in so many.
inline void hold_out_tails(const std::vector<Document>& documents, int one_in, std::vector<Document>& training,
                           std::vector<Document>& validation) {
  check_held_out(one_in);
  for (const Document& document : documents) {
    const Index cut = document.end - (document.end - document.begin) / one_in;
    training.push_back({document.path, document.begin, cut});
    validation.push_back({document.path, cut, document.end});
  }
}

}  // namespace detail

/// Reads files and directories, a file that is found twice once. Files of a directory that are not text, and what may
/// not be read there, are skipped and counted. Directories of runs within a directory are passed over: those that hold
/// run.json beside log.jsonl or checkpoints. So are the files of a prepared directory (io/corpus.hpp).
///
/// Errors  throws Error with the path: missing, unreadable, binary or empty files that were named, or what is neither
///         file nor directory; no text at all; held_out_one_in below 1
inline Corpus read_text(std::span<const std::filesystem::path> paths, const TextOptions& options = {}) {
  detail::check_held_out(options.held_out_one_in);  // before everything is read
  Corpus corpus;
  std::vector<Document> documents;
  for (const detail::FoundFile& file : detail::find_files(paths, options, corpus.unreadable)) {
    const std::size_t before = corpus.bytes.size();
    const bool read = detail::append_file(file.path, corpus.bytes);
    const std::span<const std::uint8_t> content = std::span(corpus.bytes).subspan(before);
    const bool text = read && detail::looks_like_text(content);
    if (file.named) {
      if (!read) throw Error("cannot read " + file.path.string(), "check its permissions");
      if (content.empty()) throw Error("the file is empty: " + file.path.string(), "give a file with some text");
      if (!text) {
        throw Error("the file is binary, not text: " + file.path.string(), "give text files or directories of them");
      }
    }
    if (!text || content.empty()) {
      corpus.bytes.resize(before);
      ++(read ? corpus.skipped : corpus.unreadable);
      continue;
    }
    documents.push_back({file.name, static_cast<Index>(before), static_cast<Index>(corpus.bytes.size())});
  }
  if (documents.empty()) {
    throw Error("no text found in " + (paths.empty() ? std::string("nothing") : paths[0].string()),
                corpus.unreadable ? std::to_string(corpus.unreadable) + " files or directories there may not be read"
                                  : "give text files, or directories that contain some");
  }
  for (Document& document : documents) {
    (held_out(document.path, options.held_out_one_in) ? corpus.validation : corpus.training).push_back(document);
  }
  const auto has_window = [&](const std::vector<Document>& part) {
    for (const Document& each : part) {
      if (each.end - each.begin >= options.window) return true;
    }
    return false;
  };
  if (!has_window(corpus.training) || !has_window(corpus.validation)) {  // few documents, or one part has short ones
    corpus.training.clear(), corpus.validation.clear();
    detail::hold_out_tails(documents, options.held_out_one_in, corpus.training, corpus.validation);
  }
  return corpus;
}

}  // namespace simplx

// ---- simplx/train/batches.hpp

/// \file simplx/train/batches.hpp
/// Batches of windows of a corpus, in an order that a seed determines.
///
/// Documents are cut into windows of context + 1 tokens that do not overlap but for the token that is both the
/// last label of one and the first token of the next; partial tails are dropped [He & Hofmann's data loader].
/// Each epoch visits all windows in an order of its own. The tokens stay where they are: text in memory, or a file.

namespace simplx::inline SIMPLX_TARGET {

/// Room for that many sequences.
///
/// Errors  throws Error for a negative number
inline TokenBatch make_batch(Index sequences, Index context) {
  if (sequences < 0 || context < 0) {
    throw Error("a batch has no room for " + std::to_string(sequences) + " sequences of " + std::to_string(context) +
                    " tokens", "both are numbers from 0 on");
  }
  TokenBatch batch;
  if (context > 0 && sequences > std::numeric_limits<Index>::max() / context) {
    throw Error("a batch of " + std::to_string(sequences) + " sequences of " + std::to_string(context) + " tokens",
                "no memory holds as many");
  }
  batch.tokens.reserve(static_cast<std::size_t>(sequences * context));
  batch.labels.reserve(static_cast<std::size_t>(sequences * context));
  batch.offsets.reserve(static_cast<std::size_t>(sequences + 1));
  return batch;
}

/// Where in the data a run is: integers that a checkpoint keeps.
struct BatchesState {
  std::uint64_t epoch = 0, window = 0;               ///< the next window, counted in the order of its epoch
  std::uint64_t windows = 0, context = 0, seed = 0;  ///< what gives the order; another run's order is another one

  bool operator==(const BatchesState&) const = default;
};

/// How a text is cut into windows, and how many are a batch.
struct BatchesOptions {
  Index context = 0;       ///< tokens of a window: of a trainer `options().context`
  Index sequences = 1;     ///< windows of a batch
  std::uint64_t seed = 0;  ///< of their order
};

/// Windows of documents, each once an epoch, in an order that the seed and the number of the epoch determine.
class Batches {
 public:
  /// Windows of these documents; what holds the tokens must outlive this object.
  ///
  /// Errors  throws Error if no document is longer than the context, one does not lie within the tokens, there are
  ///         more than 2^32 windows, or a window or a batch is less than one
  /// Cost    four bytes for each window, whatever its context
  Batches(TokenView tokens, const std::vector<Document>& documents, const BatchesOptions& options)
      : tokens_(tokens), context_(options.context), sequences_(options.sequences), seed_(options.seed) {
    const Index context = options.context;
    if (context < 1 || context > std::numeric_limits<std::int32_t>::max()) {
      throw Error("the context of the windows is " + std::to_string(context),
                  "give the trainer's: options().context is the model's own where none was given");
    }
    if (sequences_ < 1) {
      throw Error("a batch is of " + std::to_string(sequences_) + " sequences", "it must be at least 1");
    }
    for (const Document& document : documents) {
      if (document.begin < 0 || document.end < document.begin || document.end > tokens.size()) {
        throw Error("a document is from token " + std::to_string(document.begin) + " to " +
                        std::to_string(document.end) + " of " + std::to_string(tokens.size()),
                    "are these the documents of other tokens?");
      }
      const Index inside = (document.end - document.begin - 1) / context;
      if (inside < 1) continue;
      documents_.push_back({windows_, document.begin});
      windows_ += inside;
    }
    if (windows_ == 0) {
      throw Error("the text is too short: no document has " + std::to_string(context + 1) + " tokens",
                  "give more text, or a shorter context");
    }
    if (windows_ > Index{1} << 32) {
      throw Error("the text is too long: " + std::to_string(windows_) + " windows",
                  "choose a longer context, or a part of the text");
    }
    order_.resize(static_cast<std::size_t>(windows_));
  }
  Batches(const Corpus& corpus, const std::vector<Document>& documents, const BatchesOptions& options)
      : Batches(corpus.tokens(), documents, options) {}
  Batches(Corpus&&, const std::vector<Document>&, const BatchesOptions&) = delete;  // it would be gone

  Index windows() const { return windows_; }

  /// Fills `batch` with the next sequences of the shuffled epochs; allocates nothing if make_batch gave it room.
  void next(TokenBatch& batch) {
    clear(batch);
    for (Index s = 0; s < sequences_; ++s, ++position_) {
      const Index epoch = position_ / windows(), place = position_ % windows();
      if (epoch != shuffled_epoch_) shuffle(epoch);
      append(order_[static_cast<std::size_t>(place)], batch);
    }
  }

  /// Fills `batch` with windows [first, first + sequences) in the order of the text, fewer at the end.
  ///
  /// Errors  throws Error for a negative number
  void at(Index first, TokenBatch& batch) const {
    check_place("window", first);
    clear(batch);
    for (Index w = first, end = windows() - first < sequences_ ? windows() : first + sequences_; w < end; ++w) {
      append(w, batch);
    }
  }

  /// Sequences that `next` has handed out; seek continues there.
  ///
  /// Errors  seek throws Error for a negative number, and for one that next could not count on from
  Index position() const { return position_; }
  void seek(Index position) {
    check_place("position", position);
    if (position > std::numeric_limits<Index>::max() - sequences_) {
      throw Error("position " + std::to_string(position) + " of the data", "no run gets so far");
    }
    position_ = position;
  }

  /// Where `next` goes on; the number of sequences in a batch is no part of it.
  BatchesState state() const {
    const auto count = [](Index number) { return static_cast<std::uint64_t>(number); };
    return {count(position_ / windows()), count(position_ % windows()), count(windows()), count(context_), seed_};
  }
  /// Goes on where another object stood: the next batches are the ones that it would have handed out.
  ///
  /// Errors  throws Error if the state is of data with more or fewer windows, of another context or another seed; then
  ///         nothing has changed
  void restore(const BatchesState& state) {
    const auto same = [](const char* what, std::uint64_t saved, std::uint64_t here) {
      if (saved == here) return;
      throw Error("the position in the data was saved with " + std::string(what) + " " + std::to_string(saved) +
                      ", here it is " + std::to_string(here),
                  "resume with the data, the context and the seed that the run began with");
    };
    const BatchesState here = this->state();
    same("number of windows", state.windows, here.windows);
    same("context", state.context, here.context);
    same("seed", state.seed, here.seed);
    const auto last = static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) / here.windows - 1;
    if (state.window >= here.windows || state.epoch > last) {
      throw Error("window " + std::to_string(state.window) + " of epoch " + std::to_string(state.epoch) +
                      " is no position in " + std::to_string(here.windows) + " windows",
                  "was the checkpoint changed by hand?");
    }
    position_ = static_cast<Index>(state.epoch * here.windows + state.window);
  }

 private:
  static void check_place(const std::string& what, Index number) {
    if (number < 0) throw Error(what + " " + std::to_string(number) + " of the data", "they count from 0");
  }
  static void clear(TokenBatch& batch) {
    batch.tokens.clear();
    batch.labels.clear();
    batch.offsets.assign(1, 0);
  }
  void append(Index window, TokenBatch& batch) const {
    const auto after = std::upper_bound(documents_.begin(), documents_.end(), window,
                                         [](Index w, const Windows& document) { return w < document.first; });
    const Windows& document = *std::prev(after);
    const Index at = document.begin + (window - document.first) * context_;
    for (Index i = 0; i < context_; ++i) {
      batch.tokens.push_back(tokens_[at + i]);
      batch.labels.push_back(tokens_[at + i + 1]);
    }
    batch.offsets.push_back(static_cast<Index>(batch.tokens.size()));
  }
  /// Fisher and Yates, with numbers keyed by seed and epoch.
  void shuffle(Index epoch) {
    const std::uint64_t key = key_of(seed_, "epoch") + static_cast<std::uint64_t>(epoch);
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[bits(key, i) % (i + 1)]);
    shuffled_epoch_ = epoch;
  }

  /// The windows of a document: the number of its first, and the token where that begins.
  struct Windows {
    Index first, begin;
  };

  TokenView tokens_;
  Index context_, sequences_, windows_ = 0;
  std::uint64_t seed_;
  std::vector<Windows> documents_;  ///< those with windows
  std::vector<std::uint32_t> order_;
  Index position_ = 0, shuffled_epoch_ = -1;
};

}  // namespace simplx

// ---- simplx/train/copy_parameters.hpp

/// \file simplx/train/copy_parameters.hpp
/// What one network has learnt, in another: a copy that evaluates, a teacher or target, a network with another head.

namespace simplx::inline SIMPLX_TARGET {

/// How names that begin with `from` in the one network begin in the other: all have the same by default.
struct Renaming {
  std::string_view from = "", to = "";
};

namespace detail {

/// Elements of one buffer that go to another. (A template, as what follows: programs without it compile nothing of it.)
template <class Tensors>
struct CopiedTensor {
  Index from, to, size;
};
/// Of all targets, or of those that are drawn.
template <class Tensors>
[[gnu::cold]] auto copied_tensors(const Tensors& sources, const Tensors& targets, const Renaming& renaming, bool all) {
  const auto shape_of = [](const auto& shape) {
    return std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
  };
  std::vector<CopiedTensor<Tensors>> copied;
  for (const auto& target : targets) {
    if (!target.name.starts_with(renaming.to) || !(all || target.init.is_drawn())) continue;
    const std::string name = std::string(renaming.from) + target.name.substr(renaming.to.size());
    const auto source = std::ranges::find(sources, name, &Tensors::value_type::name);
    if (source == sources.end()) {
      std::vector<std::string> names;
      for (const auto& tensor : sources) names.push_back(tensor.name);
      throw Error("'" + target.name + "' was to be copied from '" + name + "', which is not there",
                  names.empty() ? "there is nothing to copy from"
                                : "the nearest names are " + nearest_names(name, names, 3));
    }
    if (!(source->shape == target.shape)) {
      throw Error("'" + target.name + "' is " + shape_of(target.shape) + ", and '" + name +
                      "', which was to be copied to it, " + shape_of(source->shape),
                  "leave it out by a prefix of the others: {.from = \"blocks.\", .to = \"blocks.\"}");
    }
    copied.push_back({source->offset, target.offset, target.size()});
  }
  return copied;
}

}  // namespace detail

/// Copies to the parameters of `to`, and to its constants that were drawn, those of `from` that have their names:
///
///     copy_parameters(learner, classify);                                        // all that classify has
///     copy_parameters(online, target, {.from = "encoder.", .to = "momentum."});  // of momentum.w that of encoder.w
///     copy_parameters(pretrained, tuned, {.from = "blocks.", .to = "blocks."});  // neither embedding nor head
///
/// from, to  whatever has tensors(), parameters() and constants(): a Trainer, Learner, Function, Inference or
///           Evaluation, on the CPU or a GPU, in any precision. Moments of an optimiser stay what they are
/// Errors    throws Error if nothing of `to` has a name that begins with renaming.to, or if `from` lacks one of those
///           that do, or has it in another shape; nothing is copied then
/// Cost      a search by name for each tensor, and the copy
template <class From, class To>
void copy_parameters(From& from, To& to, const Renaming& renaming = {}) {
  using S = typename decltype(to.parameters())::value_type;
  const auto &sources = from.tensors(), &targets = to.tensors();
  const auto learnt = detail::copied_tensors(sources.parameters, targets.parameters, renaming, true);
  const auto drawn = detail::copied_tensors(sources.constants, targets.constants, renaming, false);
  if (learnt.empty() && drawn.empty()) {
    throw Error("no parameter begins with '" + std::string(renaming.to) + "'", "tensors() lists their names");
  }
  const auto copy = [](const auto& values, const auto& place, const auto& tensors) {
    for (const auto& [begin, target, size] : tensors) {
      std::transform(values.data() + begin, values.data() + begin + size, place.data() + target,
                     [](auto x) { return static_cast<S>(x); });
    }
  };
  copy(from.parameters(), to.parameters(), learnt);
  copy(from.constants(), to.constants(), drawn);
}

}  // namespace simplx

// ---- simplx/train/fairseq.hpp

/// \file simplx/train/fairseq.hpp
/// Initial values of the decoders of NormFormer as its code, in fairseq, has them, in the place of N(0, 0.02^2) (its
/// masked model begins with that):
///
/// | | law |
/// |---|---|
/// | embedding.weight | N(0, 1 / d), and E[token] is multiplied by sqrt(d) |
/// | query, key, value | uniform up to sqrt(3 / (in + out)): Xavier's with a gain of 1 / sqrt(2) |
/// | their biases | uniform up to 1 / sqrt(in) |
/// | projection | uniform up to sqrt(6 / (in + out)) |
/// | up, down, with their biases | uniform up to 1 / sqrt(in) |
///
/// Everything else begins as the model says. Its sinusoids have other places and frequencies than fairseq's, which the
/// paper does not name.

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The law of a tensor; that of a bias is made of the rows of its matrix.
inline Init fairseq_init(const TensorInfo& tensor, Index rows_of_matrix) {
  const auto is = [&](std::string_view pattern) { return matches_glob(pattern, tensor.name); };
  const auto in = static_cast<double>(tensor.shape.rows), out = static_cast<double>(tensor.shape.cols);
  const Init by_rows = uniform(1 / std::sqrt(static_cast<double>(rows_of_matrix)));
  if (is("embedding.weight")) return normal(1 / std::sqrt(out));
  for (const char* pattern : {"*.attention.query.", "*.attention.key.", "*.attention.value."}) {
    if (is(pattern + std::string("weight"))) return uniform(std::sqrt(3 / (in + out)));
    if (is(pattern + std::string("bias"))) return by_rows;
  }
  if (is("*.attention.projection.weight")) return uniform(std::sqrt(6 / (in + out)));
  if (is("*.mlp.up.*") || is("*.mlp.down.*")) return by_rows;
  return tensor.init;
}

}  // namespace detail

/// The same tensors with those laws: `Trainer<model>({.laws = as_in_fairseq})`.
inline std::vector<TensorInfo> as_in_fairseq(std::vector<TensorInfo> tensors) {
  Index rows = 0;  // of the last matrix: its bias follows it
  for (TensorInfo& tensor : tensors) {
    if (tensor.rank == 2) rows = tensor.shape.rows;
    tensor.init = detail::fairseq_init(tensor, rows);
  }
  return tensors;
}

}  // namespace simplx

// ---- simplx/train/hyper.hpp

/// \file simplx/train/hyper.hpp
/// Numbers that are not trained, set by name at run time: rates of dropout, epsilons, every hyper(...) of a model.

namespace simplx::inline SIMPLX_TARGET {

/// Sets each number among the constants whose name matches the pattern (glob.hpp), as from the next evaluation on:
///
///     set_hyper(trainer, "*dropout.rate", 0);  // also mlp_dropout.rate
///
/// net     whatever has tensors() and constants(): a Trainer, Learner, Function, Inference or Evaluation, on the CPU or
///         a GPU. Checkpoints of training hold what was set
/// Errors  throws Error for a pattern that matches no number, with the nearest names, and for a value that is not
///         finite in the net's numbers; nothing is set then. A rate of dropout below 0 counts as 0, above 1 as 1
template <class Net>
void set_hyper(Net& net, std::string_view pattern, double value) {
  using S = typename decltype(net.constants())::value_type;
  if (!std::isfinite(static_cast<S>(value))) {
    throw Error("'" + std::string(pattern) + "' was to be set to " + shortest(value),
                "give a number that is finite in the model's precision");
  }
  const auto constants = net.constants();
  std::vector<std::string> numbers;
  bool found = false;
  for (const TensorInfo& tensor : net.tensors().constants) {
    if (tensor.rank != 0) continue;  // slopes, positions, bases
    numbers.push_back(tensor.name);
    if (!matches_glob(pattern, tensor.name)) continue;
    constants[static_cast<std::size_t>(tensor.offset)] = static_cast<S>(value);
    found = true;
  }
  if (found) return;
  throw Error("no number of the model matches '" + std::string(pattern) + "'",
              numbers.empty() ? "it has none" : "the nearest names are " + nearest_names(pattern, numbers, 3));
}

}  // namespace simplx

// ---- simplx/train/masking.hpp

/// \file simplx/train/masking.hpp
/// What a masked language model is to predict: of each sequence exactly round(share T) tokens, so that every step has
/// as many labels as the next. Of these 80 % become the mask token, 10 % any token, and 10 % stay as they are; of a
/// sequence's labels a whole number next to each share, drawn so that the shares hold over many sequences.

namespace simplx::inline SIMPLX_TARGET {

/// Which share of the tokens is to be predicted, and what stands in their place.
struct Masking {
  double share = 0.25;           ///< of the tokens
  double masked = 0.8;           ///< of these, become mask_token
  double replaced = 0.1;         ///< of these, become a token from [0, words)
  std::int32_t mask_token = 256;
  Index words = 256;
  std::uint64_t seed = 0;
};

namespace detail {

/// Picks exactly `wanted` of `left` things that come one after the other, each equally likely.
struct Picks {
  Index wanted, left;

  bool next(double u) {
    const bool picked = u * static_cast<double>(left--) < static_cast<double>(wanted);
    wanted -= picked;
    return picked;
  }
};

[[gnu::cold]] inline void check_masking(const Masking& masking) {
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  if (!is_share(masking.share) || !is_share(masking.masked) || !is_share(masking.replaced) ||
      masking.masked + masking.replaced > 1) {
    throw Error("masking a share of " + shortest(masking.share) + ", of that " + shortest(masking.masked) +
                    " masked and " + shortest(masking.replaced) + " replaced",
                "shares are numbers from 0 to 1, and what is masked and what is replaced are no more than 1 together");
  }
  if (masking.words < 1 || masking.words > std::numeric_limits<std::int32_t>::max()) {
    throw Error("words is " + std::to_string(masking.words),
                "tokens are replaced by words: at least 1, at most " +
                    std::to_string(std::numeric_limits<std::int32_t>::max()));
  }
}

}  // namespace detail

/// Masks tokens, and labels those alone. `first` is the number of the batch's first sequence (Batches::position()
/// before it was filled): the same sequence of a run is always masked in the same way, and in each epoch in another.
///
/// Errors  throws Error for shares that are none, and for sequences that are not among the batch's tokens; then nothing
///         has changed
/// Cost    one pass; allocates only where the batch has no room for its labels
/// Source  Devlin et al. 2019, Sec. 3.1; the share and the fixed count: Geiping & Goldstein 2023 (their code)
inline void mask_tokens(TokenBatch& batch, const Masking& masking, Index first) {
  detail::check_masking(masking);
  check_offsets(batch);
  batch.labels.resize(batch.tokens.size(), ignored_label);
  const std::uint64_t run = key_of(masking.seed, "masking");
  constexpr std::uint64_t of_sequence = ~std::uint64_t{0};  // a draw that no token has
  for (Index s = 0; s < batch.sequences(); ++s) {
    const std::uint64_t key = bits(run, static_cast<std::uint64_t>(first + s));
    const auto begin = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s)]);
    const auto end = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s) + 1]);
    const auto length = static_cast<Index>(end - begin);
    const auto labels = static_cast<Index>(std::llround(masking.share * static_cast<double>(length)));
    const double u = uniform(key, of_sequence), count = static_cast<double>(labels);
    const auto drawn = [&](double share) { return std::min(labels, static_cast<Index>(share * count + u)); };
    const Index masks = drawn(masking.masked), words = drawn(masking.masked + masking.replaced) - masks;
    detail::Picks labelled{labels, length}, masked{masks, labels}, replaced{words, labels - masks};
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t draw = 4 * (i - begin);
      std::int32_t& token = batch.tokens[i];
      batch.labels[i] = ignored_label;
      if (!labelled.next(uniform(key, draw))) continue;
      batch.labels[i] = token;
      if (masked.next(uniform(key, draw + 1))) {
        token = masking.mask_token;
      } else if (replaced.next(uniform(key, draw + 2))) {
        token = static_cast<std::int32_t>(bits(key, draw + 3) % static_cast<std::uint64_t>(masking.words));
      }
    }
  }
}

}  // namespace simplx

// ---- simplx/train/schedule.hpp

/// \file simplx/train/schedule.hpp
/// The learning rate over a run: linear warm-up, then linear decay, half a cosine or nothing.
///
/// Steps count from 0. With a warm-up of w steps, step w - 1 has the peak and step s < w the share (s + 1) / w of
/// the way from `start` to it; step w has the peak as well, unless it is step `total`, which is no longer run and has
/// the floor.
/// Without warm-up, step 0 has the peak.
///
/// Errors  at() throws Error for a rate that no optimiser takes, NaN among them, for a negative number of steps, and
///         for a total that is not given or that ends before the warm-up does

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
inline void check_steps(const std::string& name, long steps) {
  if (steps < 0) throw Error(name + " is " + std::to_string(steps), "it must be a number of steps from 0 on");
}
template <class Schedule>
void check_schedule(const std::string& name, const Schedule& schedule, long step) {
  check_steps("the step that " + name + " is asked for", step);
  check_setting(name + "'s peak", schedule.peak);
  check_setting(name + "'s start", schedule.start);
  check_steps(name + "'s warmup", schedule.warmup);
  if constexpr (requires { schedule.floor; }) {
    check_setting(name + "'s floor", schedule.floor);
    if (schedule.total < std::max(1L, schedule.warmup)) {
      throw Error(name + "'s total is " + std::to_string(schedule.total) + ", its warmup " +
                      std::to_string(schedule.warmup),
                  "total is the number of steps of the run, the warm-up included: more steps, or a shorter warm-up");
    }
  }
}
inline double warm_up(double start, double peak, long step, long warmup) {
  return start + (peak - start) * static_cast<double>(step + 1) / static_cast<double>(warmup);
}
/// The share of the decay that is left: 1 at step `warmup`, 0 from step `total`.
inline double decay_left(long step, long warmup, long total) {
  return std::clamp(static_cast<double>(total - step) / static_cast<double>(std::max(1L, total - warmup)), 0.0, 1.0);
}
}  // namespace detail

/// Rises to `peak` over the first `warmup` steps and stays there.
struct ConstantSchedule {
  double peak = 1e-3;
  long warmup = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("ConstantSchedule", *this, step);
    return step < warmup ? detail::warm_up(start, peak, step, warmup) : peak;
  }
};

/// Rises to `peak` over the first `warmup` steps and falls to `floor` at step `total`, by equal decrements: the last
/// step is one decrement above the floor.
struct LinearSchedule {
  double peak = 1e-3;
  long warmup = 0;
  long total = 0;  ///< steps of the run; has to be given
  double floor = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("LinearSchedule", *this, step);
    if (step < warmup) return detail::warm_up(start, peak, step, warmup);
    return floor + (peak - floor) * detail::decay_left(step, warmup, total);
  }
};

/// The same with half a cosine for the way down [Loshchilov & Hutter 2017, Eq. (5)]: flat at both of its ends.
struct CosineSchedule {
  double peak = 1e-3;
  long warmup = 0;
  long total = 0;  ///< steps of the run; has to be given
  double floor = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("CosineSchedule", *this, step);
    if (step < warmup) return detail::warm_up(start, peak, step, warmup);
    const double left = detail::decay_left(step, warmup, total);
    return floor + (peak - floor) * (1 - std::cos(std::numbers::pi * left)) / 2;
  }
};

}  // namespace simplx

// ---- simplx/train/recipes.hpp

/// \file simplx/train/recipes.hpp
/// How the papers trained their models: optimiser, decay, clipping, size of a step and learning rate over a run.
///
/// | | optimiser (betas, epsilon, decay) | peak | schedule | clip | tokens of a step |
/// |---|---|---|---|---|---|
/// | code_parrot | AdamW (0.9, 0.999), 1e-8, 0.1 | 1e-3 | 5 % up, line to 1e-7 | 1 | 128 x 128 |
/// | crammed_bert | AdamW (0.9, 0.98), 1e-12, 0.1 | 3e-3 | triangle from 25 %, peak at 75 % | 0.5 | 64 .. 8192 x 128 |
/// | languini | AdamW (0.9, 0.95), 1e-8, 0.1 | 3e-3 | 500 steps up, line to 0 | off | 128 x 512 |
/// | norm_former | (0.9, 0.98), 1e-8, 0.01 of all | by size | 750 steps up, line to 0 | off | 0.5M, 1M |
/// | norm_former_mlm | (0.9, 0.98), 1e-6, 0.01 of all | 6e-4 | 24 000 steps up, line to 0 | off | 1M |
/// | crammed_bert_glue | AdamW (0.9, 0.98), 1e-6, 0 | 1.5e-4 | 10 % up, cosine to 0 | off | 32 sequences |
/// | norm_former_glue | (0.9, 0.98), 1e-6, 0.1 of all | tuned | 6 % up, line to 0 | off | 16 sequences |
///
/// Initial values are those of the models, laws of the first paper, and fairseq's for the decoders of NormFormer.
/// Blocks that learn best at another peak say so below: recipe.with_peak(3e-4).
///
///     Trainer<model> trainer(recipes::norm_former_125m.options({.batch = 8, .seed = 1}));

namespace simplx::inline SIMPLX_TARGET {

/// Sequences of a step: grows from `first` to `last` by a line over the first `share` of a run.
struct BatchRamp {
  Index first = 128, last = 128;
  double share = 0;

  Index at(long step, long total) const {
    const double end = share * static_cast<double>(total);
    if (static_cast<double>(step) >= end) return last;
    return first + static_cast<Index>(static_cast<double>(last - first) * static_cast<double>(step) / end);
  }
};

/// How a paper trains a model: optimiser, clipping, sequences and schedule of the learning rate.
struct Recipe {
  AdamW optimiser{};  ///< its learning rate is the peak
  double clip = 1;    ///< 0 is off
  Index context = 128;
  BatchRamp sequences{};
  long warmup = 0;          ///< steps
  double warmup_share = 0;  ///< of all steps, rounded up, if that is more
  double start = 0;         ///< warm-up begins at that share of the peak
  double floor = 0;
  const char* also_decays = "";  ///< parameters that decay although they are gains or biases, as a group's name
  InitialLaws laws = nullptr;    ///< as in TrainerOptions

  /// Of a run of so many steps; of a run in time, give milliseconds for steps.
  LinearSchedule schedule(long total) const {
    const auto share = static_cast<long>(std::ceil(warmup_share * static_cast<double>(total)));
    const double peak = optimiser.learning_rate;
    return {.peak = peak, .warmup = std::max(warmup, share), .total = total, .floor = floor, .start = start * peak};
  }
  /// The same with half a cosine for the way down.
  CosineSchedule cosine_schedule(long total) const {
    const LinearSchedule line = schedule(total);
    return {line.peak, line.warmup, line.total, line.floor, line.start};
  }
  /// What a trainer is told: clipping, groups (in front of yours) and laws (unless you give some), beside sizes and a
  /// seed of your own. Another clipping than the recipe's is set in the result.
  TrainerOptions options(TrainerOptions options = {}) const {
    options.clip = clip;
    if (!options.laws) options.laws = laws;
    const std::vector<ParameterGroup> mine = groups();
    options.groups.insert(options.groups.begin(), mine.begin(), mine.end());
    return options;
  }
  std::vector<ParameterGroup> groups() const {
    if (!*also_decays) return {};
    return {{.name = also_decays, .decays = true, .optional = true}};
  }
  constexpr Recipe with_peak(double learning_rate) const {
    Recipe recipe = *this;
    recipe.optimiser.learning_rate = learning_rate;
    return recipe;
  }
  /// Of a step at the end of the run.
  constexpr Index tokens() const { return sequences.last * context; }
};

namespace recipes {

/// He & Hofmann 2024, App. D.1, and their code. Value-SkipInit: 3e-4, with 72 layers 1e-4; SAS without MLP skip: 1e-4.
inline constexpr Recipe code_parrot{
    .optimiser = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
    .clip = 1,
    .context = 128,
    .sequences = {128, 128},
    .warmup_share = 0.05,
    .floor = 1e-7,
};

/// App. D.2 and the code of Geiping & Goldstein 2023, for a budget of time. The rate is that of SAS and SAS-P; without
/// norms: 2e-3; of the others the paper states none, and the code has 1e-3 for Pre-LN.
inline constexpr Recipe crammed_bert{
    .optimiser = {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-12, .weight_decay = 0.1},
    .clip = 0.5,
    .context = 128,
    .sequences = {64, 8192, 0.6},
    .warmup_share = 0.75,
    .start = 0.25,
    .also_decays = "position.scale",
};

/// App. C, 19 000 steps; betas and clipping of the benchmark's code. Pre-LN and parallel: 1e-3.
inline constexpr Recipe languini{
    .optimiser = {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
    .clip = 0,
    .context = 512,
    .sequences = {128, 128},
    .warmup = 500,
};

/// Fine-tuning a Classifier on the tasks of GLUE for 5 epochs: App. D.2 and the code of Geiping & Goldstein 2023, with
/// cosine_schedule and without decay.
inline constexpr Recipe crammed_bert_glue{
    .optimiser = {.learning_rate = 1.5e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0},
    .clip = 0,
    .context = 128,
    .sequences = {32, 32},
    .warmup_share = 0.1,
};

/// The same for 10 epochs: Shleifer et al. 2021, Sec. 2.2, who try peaks from 1e-5 to 6e-3 for each task, otherwise as
/// Liu et al. 2019, Table 10, where steps are of 16 sequences or of 32.
constexpr Recipe norm_former_glue(double peak) {
  return {
      .optimiser = {.learning_rate = peak, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.1},
      .clip = 0,
      .context = 512,
      .sequences = {16, 16},
      .warmup_share = 0.06,
      .also_decays = "*",
  };
}

/// Shleifer et al. 2021, Sec. 3 and Table 2, and their code, where decay is applied to every parameter. Baselines of
/// 2.7B: 1.6e-4, for with 6e-4 they diverged.
constexpr Recipe norm_former(double peak, Index tokens) {
  return {
      .optimiser = {.learning_rate = peak, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .weight_decay = 0.01},
      .clip = 0,
      .context = 2048,
      .sequences = {tokens / 2048, tokens / 2048},
      .warmup = 750,
      .also_decays = "*",
      .laws = as_in_fairseq,
  };
}
inline constexpr Recipe norm_former_125m = norm_former(3e-3, 1 << 19), norm_former_355m = norm_former(1e-3, 1 << 19),
                        norm_former_1300m = norm_former(6e-4, 1 << 20), norm_former_2700m = norm_former(6e-4, 1 << 20);

/// Its masked model (Sec. 2.2), "hyperparameters used in Liu et al. (2019)": 2 million steps of a million tokens, of
/// which 15 % are predicted (Masking::share).
inline constexpr Recipe norm_former_mlm{
    .optimiser = {.learning_rate = 6e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.01},
    .clip = 0,
    .context = 512,
    .sequences = {2048, 2048},
    .warmup = 24'000,
    .also_decays = "*",
};

/// Its ablations (Table 7): 100 000 steps of 524K tokens in shorter sequences, without dropout.
inline constexpr Recipe norm_former_ablations = [] {
  Recipe recipe = norm_former_125m;
  recipe.context = 1024;
  recipe.sequences = {512, 512};
  recipe.warmup = 500;
  return recipe;
}();

}  // namespace recipes
}  // namespace simplx

// ---- simplx/train/step_parts.hpp

/// \file simplx/train/step_parts.hpp
/// StepParts: what a trainer has accumulated of a step and not yet used for an update.

namespace simplx::inline SIMPLX_TARGET {

/// Sums and numbers of sequences of a step in parts, until its update.
class StepParts {
 public:
  bool empty() const { return sequences_ == 0; }
  /// Sequences so far: the number of the next one in the whole step.
  Index sequences() const { return sequences_; }

  /// Notes a part of so many sequences and labels; `announced` is the number of labels in all parts.
  ///
  /// Errors  throws Error if another number was announced before, or if the step has more than `limit` sequences
  void add(Index sequences, Index labelled, Index announced, Index limit) {
    if (!empty() && announced != announced_) {
      throw Error("a part of a step of " + std::to_string(announced) + " labels follows one of a step of " +
                      std::to_string(announced_), to_announce);
    }
    if (sequences_ + sequences > limit) {
      throw Error("a step of " + std::to_string(sequences_ + sequences) + " sequences for a trainer made for " +
                      std::to_string(limit),
                  "raise TrainerOptions::sequences_per_step");
    }
    sequences_ += sequences;
    labelled_ += labelled;
    announced_ = announced;
  }
  void add_loss(double loss) { loss_ += loss; }

  /// Ends the step: its mean loss.
  ///
  /// Errors  throws Error if there is none, or if not as many labels came as were announced; then it is forgotten
  StepResult take() {
    if (empty()) throw Error("there is no gradient to update with", "call accumulate before update");
    const StepParts parts = *this;
    *this = {};
    if (parts.labelled_ != parts.announced_) {
      throw Error("the step's parts have " + std::to_string(parts.labelled_) + " labels, not " +
                      std::to_string(parts.announced_) + " as announced", to_announce);
    }
    StepResult result;
    result.labelled = parts.labelled_;
    result.loss = parts.loss_ / static_cast<double>(std::max<Index>(parts.labelled_, 1));
    return result;
  }

 private:
  static constexpr const char* to_announce =
      "give each part the sum of labelled_tokens, or of labelled_sequences, over all parts";

  Index sequences_ = 0, labelled_ = 0, announced_ = 0;
  double loss_ = 0;  ///< summed over the labels
};

}  // namespace simplx

// ---- simplx/train/trainer.hpp

/// \file simplx/train/trainer.hpp
/// Trainer: parameters, gradients, moments and memory of a language model; one call for each optimiser step.
///
/// Data parallel over sequences, with the same bits for any number of threads: the sequences of a step take turns in
/// adding to one gradient (core/turn.hpp), and the norm is summed over fixed chunks. A thread runs one sequence at a
/// time, so that a whole forward and backward stays in cache, or several short ones (train/micro_batches.hpp), which
/// take their turn together. A step allocates nothing and waits for all threads four times.
///
/// Sequences are numbered over the whole step, so that a step in parts is the whole step, bit for bit where none run
/// together, as those of more than 32 tokens do not, and to rounding elsewhere:
///
///     const Index labelled = labelled_tokens(first) + labelled_tokens(second);
///     trainer.accumulate(first, labelled);
///     trainer.accumulate(second, labelled);
///     trainer.update(AdamW{.learning_rate = 1e-3});  // as step(both, ...), loss and norm included
///
/// A model with one label for each sequence is trained in the same way, by labelled_sequences.

namespace simplx::inline SIMPLX_TARGET {

/// Trains a model: step(batch, optimiser) is one step, of the same bits for any number of threads. On a CPU it may move
/// between steps; what was moved from can be assigned to, or end.
template <auto const& model, class Backend_ = Cpu<float>>
class Trainer {
 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  using Model = detail::TrainedModel<G>;
  static_assert(detail::runs_on_host<Backend>());
  static_assert(Model::template is_trainable<0>());

  /// Takes all memory and draws the initial values.
  ///
  /// Errors  throws Error for options out of range, a context longer than the model's positions, a group that matches
  ///         no parameter, and threads that do not start
  explicit Trainer(const TrainerOptions& options = {})
      : options_(checked(options, longest_sequence(), usual_context<model>(longest_sequence()))),
        team_(options.threads),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        packed_(2 * G::layout.packed_elements),
        updates_(tensors_.parameters, G::layout.parameters, options),
        turns_(options.batch),
        micro_batches_(options.batch, options_.context, detail::keeps_sequences_apart<G>()),
        losses_(static_cast<std::size_t>(options.batch)) {
    for (int t = 0; t < team_.size(); ++t) workspaces_.emplace_back(micro_batches_.capacity());
    if (options.laws) tensors_.parameters = options.laws(std::move(tensors_.parameters));
    initialise(tensors_.parameters, options.seed, parameters_.data());
    initialise(tensors_.constants, options.seed, constants_.data());
  }

  const TensorList& tensors() const { return tensors_; }
  const TrainerOptions& options() const { return options_; }
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next step or
  /// evaluation reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  /// Bytes of all buffers.
  Index bytes() const {
    Index elements = parameters_.size() + updates_.size() + gradient_.size() + constants_.size() + packed_.size();
    for (const auto& workspace : workspaces_) elements += workspace.size();
    return elements * static_cast<Index>(sizeof(S));
  }
  long steps() const { return updates_.count().steps; }

  /// What continues this training bit for bit, on any number of threads; its buffers are views of this trainer's.
  ///
  /// Errors  throws if parts of a step wait for their update
  TrainerState<S> state() {
    if (!parts_.empty()) throw Error("a step is half accumulated", "call update or discard before taking the state");
    return {parameters_.span(), updates_.first_moments(), updates_.second_moments(), updates_.count(), options_.seed,
            rules_of(options_), constants_.span()};
  }
  /// Goes on from a state: its buffers are copied, unless they are this trainer's own, filled in place.
  ///
  /// Errors  throws if the state is of other sizes, another seed, clip or groups; then nothing has changed but that
  ///         parts of a step are discarded
  void restore(const TrainerState<S>& state) {
    discard();
    updates_.restore(take_state(state, this->state()));
  }

  /// Forward, backward, clip and update over a batch, by AdamW, Sgd or another optimiser.
  ///
  /// Errors  throws if a token or label is out of range, the batch does not fit, or a number of the optimiser makes no
  ///         sense; then nothing has changed but that parts of another step are discarded
  /// Cost    three times the FLOPs of a forward pass; no allocation
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const TokenBatch& batch, const Optimiser& optimiser) {
    updates_.check(optimiser);
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    return update(optimiser);
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult step(const TokenBatch&, const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// Adds the gradient of a part of a step's sequences; `labelled` is the number of labels in all parts, between which
  /// parameters stay as they are.
  ///
  /// Errors  throws if the part or the step does not fit; then the step's parts so far are discarded
  /// Cost    three times the FLOPs of a forward pass; parts of fewer sequences than threads leave threads idle, and so
  ///         do short ones that run together
  void accumulate(const TokenBatch& part, Index labelled) {
    try {
      check(part);
      add_gradient(part, labelled);
    } catch (...) {
      discard();
      throw;
    }
  }

  /// Forgets the parts of a step that were accumulated and not used by an update; so do `step` and `loss_and_gradient`.
  void discard() {
    if (!parts_.empty()) gradient_.clear();
    parts_ = {};
  }

  /// Clips the accumulated gradient and updates the parameters. The moments begin anew when an optimiser of another
  /// kind takes over. Frozen parameters keep their bits, and their gradient is no part of the norm.
  ///
  /// Errors  throws if nothing was accumulated, or not as many labelled tokens as announced: then the parts are
  ///         discarded; and if a number of the optimiser makes no sense: then nothing has changed
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    updates_.check(optimiser);
    StepResult result = take_parts();
    try {
      updates_.step(optimiser, team_, tensors_.parameters, parameters_.data(), gradient_.folded().data(), result,
                    [&](Index begin, Index end) { gradient_.fold(begin, end); });
    } catch (...) {  // what an optimiser of the user's throws
      gradient_.clear();
      throw;
    }
    if (!result.finite) gradient_.clear();
    return result;
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult update(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// The loss and the gradient of a batch, without an update; the gradient is in the layout of parameters(), and its
  /// norm with frozen ones, which are no part of a step's.
  ///
  /// Errors  throws if the gradient is not as long as parameters(), or as step does
  StepResult loss_and_gradient(const TokenBatch& batch, std::span<S> gradient) {
    check_gradient_size(std::ssize(gradient), parameters_.size());
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    StepResult result = take_parts();
    gradient_.fold(0, parameters_.size());
    std::ranges::copy(gradient_.folded(), gradient.begin());
    gradient_.clear();
    result.take_norm(gradient_norm(gradient.data(), parameters_.size()));
    if (!result.finite) result.culprit = first_broken(tensors_.parameters, gradient.data(), result.loss);
    return result;
  }

  /// Mean loss over the labelled tokens (or sequences) of a batch, in nats; forward only.
  ///
  /// Errors  throws Error for a token or label out of range, or a batch that is larger than the options allow
  double loss(const TokenBatch& batch) {
    check(batch);
    prepare();
    micro_batches_.divide(batch);
    team_.run([&](int member) {
      for (Index m = member; m < micro_batches_.count(); m += team_.size()) {
        forward(batch, micro_batches_.begin(m), micro_batches_.begin(m + 1), member);
      }
    });
    double total = 0;
    for (Index b = 0; b < batch.sequences(); ++b) total += losses_[static_cast<std::size_t>(b)];
    return total / static_cast<double>(std::max<Index>(labelled(batch), 1));
  }

  /// Logits of one sequence of tokens, (tokens, vocab) or (1, classes), valid until the next call.
  ///
  /// Errors  as loss
  /// Cost    a forward pass, and the memory of a batch of one sequence
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const TokenBatch batch = unlabelled(tokens, Model::no_label(), Model::labelled_axis());
    check(batch);
    prepare();
    const Context<S> context = forward(batch, 0, 1, 0);
    return {Address<G>::template value<Model::logits_left()>(context),
            static_cast<std::size_t>(rows(context) * vocab())};
  }

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return Model::classes(); }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return Model::longest_sequence(); }

 private:
  static Index labelled(const TokenBatch& batch) { return labelled_rows(batch, Model::labelled_axis()); }
  /// Rows of the loss.
  static Index rows(const Context<S>& context) { return context.rows[static_cast<int>(Model::labelled_axis())]; }

  void check(const TokenBatch& batch) const {
    check_batch(batch, {options_.batch, options_.context, Model::tokens_known(), Model::labels_known(),
                        Model::labelled_axis(), Model::ignores_labels()});
  }

  S* turned() { return packed_.data() + G::layout.packed_elements; }
  void prepare() {
    team_.run([&](int member) {
      Run::prepare(parameters_.data(), packed_.data(), turned(), member, team_.size());
    });
    prepared_for_parts_ = false;
  }

  /// Runs sequences first .. last forward and notes the loss of each.
  Context<S> forward(const TokenBatch& batch, Index first, Index last, int member, const Randomness& random = {}) {
    Context<S> context = workspaces_[static_cast<std::size_t>(member)].context_of(batch.segments(), first, last);
    const Index begin = batch.offsets[static_cast<std::size_t>(first)];
    context.parameters = parameters_.data();
    context.packed = packed_.data(), context.turned = turned();
    context.constants = constants_.data();
    context.random = random;
    context.inputs[G::input_number("tokens")] = batch.tokens.data() + begin;
    constexpr bool by_token = Model::labelled_axis() == Axis::tokens;
    context.inputs[G::input_number("labels")] = batch.labels.data() + (by_token ? begin : first);
    Run::forward(context);
    const S* losses = context.outputs[0];
    const std::int32_t* label = labels_of(context);
    for (Index s = first; s < last; ++s) {
      const Index* const offsets = context.segments.offsets + (s - first);
      const Index count = by_token ? offsets[1] - offsets[0] : 1;
      double total = 0;
      for (Index row = 0; row < count; ++row, ++losses) {
        if (*label++ != ignored_label) total += static_cast<double>(*losses);
      }
      losses_[static_cast<std::size_t>(s)] = total;
    }
    return context;
  }
  static const std::int32_t* labels_of(const Context<S>& context) {
    return static_cast<const std::int32_t*>(context.inputs[G::input_number("labels")]);
  }

  /// Adds the gradient of a part, for the mean over so many labelled tokens; its sequence b is number first + b of the
  /// step.
  void add_gradient(const TokenBatch& part, Index labelled) {
    const Index first = parts_.sequences();
    parts_.add(part.sequences(), this->labelled(part), labelled, options_.sequences_per_step);
    if (first == 0 || !prepared_for_parts_) prepare();  // the parts of a step have the same parameters
    prepared_for_parts_ = true;
    const std::uint64_t key = detail::dropout_key(options_.seed, steps());
    const S scale = S(1) / static_cast<S>(std::max<Index>(labelled, 1));
    micro_batches_.divide(part);
    turns_.start();
    team_.run([&](int member) {
      for (Index m = turns_.deal(); m < micro_batches_.count(); m = turns_.deal()) {
        detail::Turn turn(turns_, m);
        const Index begin = micro_batches_.begin(m), end = micro_batches_.begin(m + 1);
        Context<S> context =
            forward(part, begin, end, member, {.training = true, .key = key, .first_sequence = first + begin});
        gradient_.give_to(context);
        context.turn = &turn;
        const std::int32_t* const labels = labels_of(context);  // a row without one is no part of the mean
        for (Index row = 0; row < rows(context); ++row) {
          context.output_gradients[0][row] = labels[row] == ignored_label ? S(0) : scale;
        }
        Run::backward(context);
      }
    });
    for (Index b = 0; b < part.sequences(); ++b) parts_.add_loss(losses_[static_cast<std::size_t>(b)]);
  }

  /// Ends the accumulation: what it found. The gradient stays where it is.
  StepResult take_parts() {
    try {
      return parts_.take();
    } catch (...) {
      gradient_.clear();
      throw;
    }
  }

  TrainerOptions options_;
  cpu::Team team_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, constants_, packed_;  // packed for forward, then for backward
  Updates<S> updates_;
  GradientSums<G, S> gradient_;
  detail::Turns turns_;
  MicroBatches micro_batches_;
  std::vector<MicroBatchWorkspace<G, Backend>> workspaces_;
  std::vector<double> losses_;
  StepParts parts_;
  bool prepared_for_parts_ = false;  // since the last part, no loss or logits were asked for, maybe of other parameters
};

}  // namespace simplx

// ---- simplx/train/sample.hpp

/// \file simplx/train/sample.hpp
/// What a trainer has learned, as text: the whole sequence is evaluated again for each token. A model that is done
/// is sampled faster by generate/generate.hpp.

namespace simplx::inline SIMPLX_TARGET {

/// Continues a prompt by `count` tokens; the model sees the last `context` of them.
///
/// Errors  throws Error for an empty prompt, and for options that make no sense
/// Cost    one forward pass over the context for each token
template <class Trainer>
std::vector<std::int32_t> sample(Trainer& trainer, std::vector<std::int32_t> prompt, int count,
                                 const Sampling& options = {}) {
  if (prompt.empty()) throw Error("the prompt is empty", "begin with at least one token");
  const auto context = static_cast<std::size_t>(trainer.options().context);
  Sampler draw(options);
  std::vector<std::int32_t> tokens = std::move(prompt);
  for (int i = 0; i < count; ++i) {
    const std::size_t seen = std::min(tokens.size(), context);
    const auto logits = trainer.logits(std::span<const std::int32_t>(tokens).last(seen));
    tokens.push_back(draw(logits.last(static_cast<std::size_t>(trainer.vocab()))));
  }
  return tokens;
}

}  // namespace simplx

// ---- simplx/train/sentences.hpp

/// \file simplx/train/sentences.hpp
/// Labelled sequences of a classifier, of one sentence or of two:
///
///     first a separator,    first a separator b separator
///
/// The model reads `first`. Sequences lie one after the other in a batch, without padding; rows that were padded are
/// handed over through `without_padding`.

namespace simplx::inline SIMPLX_TARGET {

/// The tokens around sentences, and how many a sequence may have.
struct SentenceFormat {
  std::int32_t first, separator;  ///< tokens: [CLS] and [SEP] of BERT
  Index context;                  ///< tokens of a sequence at most
};

/// A row without the padding at its end.
inline std::span<const std::int32_t> without_padding(std::span<const std::int32_t> row, std::int32_t padding) {
  while (!row.empty() && row.back() == padding) row = row.first(row.size() - 1);
  return row;
}

namespace detail {
/// Starts with `first`, then each sentence and a separator.
inline void append_sequence(TokenBatch& batch, const SentenceFormat& format, std::int32_t label,
                            std::initializer_list<std::span<const std::int32_t>> sentences) {
  if (batch.offsets.empty()) batch.offsets.push_back(0);
  batch.tokens.push_back(format.first);
  for (const auto sentence : sentences) {
    batch.tokens.insert(batch.tokens.end(), sentence.begin(), sentence.end());
    batch.tokens.push_back(format.separator);
  }
  batch.offsets.push_back(std::ssize(batch.tokens));
  batch.labels.push_back(label);
}

[[gnu::cold]] inline void check_format(const SentenceFormat& format, Index least) {
  if (format.context >= least) return;
  throw Error("a context of " + std::to_string(format.context) + " tokens",
              "the tokens around the sentences alone take " + std::to_string(least));
}
}  // namespace detail

/// Adds a sequence of one sentence, cut where the context ends, with its class.
///
/// Errors  throws Error for a context that has no room for `first` and the separators
inline void append_sentence(TokenBatch& batch, const SentenceFormat& format, std::span<const std::int32_t> a,
                            std::int32_t label) {
  detail::check_format(format, 2);
  const std::size_t room = static_cast<std::size_t>(format.context - 2);
  detail::append_sequence(batch, format, label, {a.first(std::min(a.size(), room))});
}

/// The same of two sentences. The longer one is cut first: the shorter loses nothing while it has no more than half of
/// the room.
inline void append_pair(TokenBatch& batch, const SentenceFormat& format, std::span<const std::int32_t> a,
                        std::span<const std::int32_t> b, std::int32_t label) {
  detail::check_format(format, 3);
  const std::size_t room = static_cast<std::size_t>(format.context - 3), half = room / 2;
  std::size_t first = a.size(), second = b.size();
  if (first + second > room) {
    if (first <= second) {
      first = std::min(first, half), second = room - first;
    } else {
      second = std::min(second, half), first = room - second;
    }
  }
  detail::append_sequence(batch, format, label, {a.first(first), b.first(second)});
}

}  // namespace simplx

// ---- simplx/train/ties.hpp

/// \file simplx/train/ties.hpp
/// Ties of the first matrices W0^V, W0^P of Eq. (6): initial values that depend on those of other tensors.
///
///     last layer   W0^P_L = ((prod_{l<L} W0^V_l W0^P_l) W0^V_L)^T     the product over all layers is the identity
///     all layers   W0^P_l = (W0^V_l)^T for every l                    the product in each layer is the identity
///
/// They start a model like one with the identity as W0, although each matrix is orthogonal. It is a procedure over
/// the model's tensors, applied once after `initialise`; what is trained afterwards is D, and nothing stays tied.
///
/// Source  He & Hofmann 2024, App. C, "Figure 3 with tied orthogonals" (Fig. 15)

namespace simplx::inline SIMPLX_TARGET {

/// Which bases W0 depend on others at first: none, W0^P of the last layer, or W0^P of every layer.
enum class Ties : signed char { none, last_layer, all_layers };

/// Ties the bases "<stack>.<layer>.attention.value.base" and "...projection.base" of a buffer of constants.
///
/// Errors  throws Error if a layer lacks one of the two
/// Cost    last_layer: two products of d x d matrices for each layer
template <class S>
void tie_projections(const std::vector<TensorInfo>& constants, Ties ties, S* buffer,
                     const std::string& stack = "blocks") {
  if (ties == Ties::none) return;
  using Square = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto name_of = [&](int layer, const char* which) {
    return stack + "." + std::to_string(layer) + ".attention." + which + ".base";
  };
  const auto find = [&](int layer, const char* which) {
    return std::ranges::find(constants, name_of(layer, which), &TensorInfo::name);
  };
  const auto matrix = [&](int layer, const char* which) {
    const auto found = find(layer, which);
    if (found == constants.end()) {
      throw Error("the model has no " + name_of(layer, which) + " to tie",
                  "ties need V and P reparameterised with a base that is not the identity, as in shaped_reparam");
    }
    return Eigen::Map<Square>(buffer + found->offset, found->shape.rows, found->shape.cols);
  };
  int last = 0;  // a layer that has only one of the two is found and refused
  while (find(last + 1, "value") != constants.end() || find(last + 1, "projection") != constants.end()) ++last;
  if (ties == Ties::all_layers) {
    for (int layer = 0; layer <= last; ++layer) matrix(layer, "projection") = matrix(layer, "value").transpose();
    return;
  }
  Square product = Square::Identity(matrix(0, "value").rows(), matrix(0, "value").cols());
  for (int layer = 0; layer < last; ++layer) product *= matrix(layer, "value") * matrix(layer, "projection");
  matrix(last, "projection") = (product * matrix(last, "value")).transpose();
}

}  // namespace simplx

// ---- simplx/simplx.hpp

/// \file simplx/simplx.hpp
/// The whole library; it needs Eigen and C++20. The optional headers (io, report, cuda, and models/gpt2.hpp, which is
/// there for files) are included one by one.

#define SIMPLX_VERSION_MAJOR 0
#define SIMPLX_VERSION_MINOR 1
#define SIMPLX_VERSION_PATCH 0

#define SIMPLX_SINGLE_INCLUDE  // headers of include/simplx refuse to come after this file
