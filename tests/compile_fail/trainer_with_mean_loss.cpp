// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The Trainer is given a model whose result is one mean loss, or one with logits beside the losses.
// expect: error: .*simplx: Trainer needs a model whose only result is the loss of each token or sequence
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = embedding(weight("embedding", 256, 64), indices("tokens", Axis::tokens));
    Expr losses = cross_entropy(x * weight("head", 64, 256), indices("labels", Axis::tokens));
#ifdef FIXED
    return losses;
#else
    return mean(losses);
#endif
  }
};
inline constexpr Net model{};
void run(Trainer<model>& trainer, const TokenBatch& batch) { trainer.step(batch, AdamW{}); }
