// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A shared block is given to something else than a stack.
// expect: error: .*simplx: Shared{block} is given to a stack, and to nothing that would call it
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return stack("blocks", 2, Shared{named("mlp", Mlp{})}, x);
#else
    return stack("blocks", 2, named("mlp", Shared{Mlp{}}), x);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
