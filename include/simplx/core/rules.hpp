// SPDX-License-Identifier: MIT
#pragma once

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

#include <simplx/core/expr.hpp>


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
SIMPLX_RULE("window", left >= 0,
            "a window (left number) is how many tokens a query sees, itself among them: give 1 or more, or 0 for no "
            "window")
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
