// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Gradients of each row are asked of results that are made of several tokens.
// expect: error: .*simplx: row_gradients is for a first result of shape .rows, 1., rows that are neither tokens nor sequences
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/sequences.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    Expr x = input("x", rows_of(Axis::batch, 8));
    return x * weight("w", 8, 1);
#else
    Expr x = input("x", rows_of(Axis::tokens, 8));
    return mean_of_sequence(x) * weight("w", 8, 1);
#endif
  }
};
inline constexpr Net model{};
void run(Function<model>& f) { f.row_gradients<"w">(); }
