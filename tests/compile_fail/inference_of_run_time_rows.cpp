// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model that is evaluated gathers rows of what its tokens made.
// expect: error: .*simplx: Inference knows tokens by the rows of the tables that they look up
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/generate/inference.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr tokens = indices("tokens", Axis::tokens);
    Expr x = embedding(weight("embedding", 6, 4), tokens);
#ifdef FIXED
    x += embedding(weight("more", 6, 4), tokens);
#else
    x += gather(x, tokens);
#endif
    return x * weight("head", 4, 6);
  }
};
inline constexpr Net model{};
Inference<model> net;
