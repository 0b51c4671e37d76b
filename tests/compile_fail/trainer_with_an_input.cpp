// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The Trainer is given a model with an input that no batch fills.
// expect: error: .*simplx: Trainer needs a model .* and no other, since batches have none
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = embedding(weight("embedding", 256, 64), indices("tokens", Axis::tokens));
#ifdef FIXED
    return cross_entropy(x * weight("head", 64, 256), indices("labels", Axis::tokens));
#else
    return cross_entropy(x * weight("head", 64, 256) + input("bias", fixed_shape(1, 256)),
                         indices("labels", Axis::tokens));
#endif
  }
};
inline constexpr Net model{};
void run(Trainer<model>& trainer, const TokenBatch& batch) { trainer.step(batch, AdamW{}); }
