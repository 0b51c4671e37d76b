// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model to be trained gathers rows of what its tokens made.
// expect: error: .*simplx: Trainer knows tokens and labels by the rows of the tables that they look up
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/train/trainer.hpp>

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
    return cross_entropy(x * weight("head", 4, 6), indices("labels", Axis::tokens));
  }
};
inline constexpr Net model{};
Trainer<model> trainer;
