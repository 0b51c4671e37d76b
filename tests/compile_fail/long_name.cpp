// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A name has 96 characters or more, by itself or with its scopes.
// expect: error: .*simplx: the compiler cannot evaluate this model, for the reason that it gives below
// reason: simplx: a name with its scopes is too long
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>
#include <simplx/core/named.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    const char* scope = "attention.projection2";
#else
    const char* scope = "the second of the two very carefully regularised projections of the first attention";
#endif
    return named(scope, [](Expr y) { return y * vector("gain.of.every.column", 64); })(x);
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
