// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A parameter or its scope has an empty name, so that a checkpoint would hold ".weight".
// expect: error: .*simplx: a parameter, constant, input or stack \(left number: its line\), or a scope that it is in,
// expect: at_line<.*, 16L?, 0L?
#include <simplx/core/counts.hpp>
#include <simplx/core/named.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
    const auto project = [](Expr y) { return y * weight("weight", 64, 64); };
#ifdef FIXED
    return named("projection", project)(x);
#else
    return named("", project)(x);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
