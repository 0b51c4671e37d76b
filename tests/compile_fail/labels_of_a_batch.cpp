// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The model that is trained has labels of samples: the Trainer knows tokens and sequences of them.
// expect: error: .*simplx: Trainer needs labels along the tokens or the sequences
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    Expr x = embedding(weight("embedding", 256, 64), indices("tokens", Axis::tokens));
    return cross_entropy(first_of_sequence(x) * weight("head", 64, 3), indices("labels", Axis::sequences));
#else
    Expr x = embedding(weight("embedding", 256, 64), indices("tokens", Axis::batch));
    return cross_entropy(x * weight("head", 64, 3), indices("labels", Axis::batch));
#endif
  }
};
inline constexpr Net model{};
void run(Trainer<model>& trainer, const TokenBatch& batch) { trainer.step(batch, AdamW{}); }
