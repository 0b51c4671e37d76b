// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Logits are asked of a trainer whose model has two heads.
// expect: error: .*simplx: this model has several losses, of several logits: take those that are wanted from Inference
#include <simplx/simplx.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    const Expr labels = indices("labels", Axis::tokens);
    const Expr x = embedding(weight("table", 16, 8), indices("tokens", Axis::tokens));
    const Expr logits = tanh(x) * weight("head", 8, 16);
#ifdef FIXED
    const Expr early = logits;
#else
    const Expr early = x * weight("early_head", 8, 16);
#endif
    return cross_entropy(logits, labels) + 0.3 * cross_entropy(early, labels);
  }
};
inline constexpr Net model{};
float first(Trainer<model>& net, std::span<const std::int32_t> tokens) { return net.logits(tokens)[0]; }
