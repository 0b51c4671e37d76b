// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Logits are asked of a trainer whose forward pass has written over them.
// expect: error: .*simplx: a forward pass overwrites these logits, as nothing in training reads them again
#include <simplx/simplx.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    const Expr x = embedding(weight("table", 16, 8), indices("tokens", Axis::tokens));
    const Expr still = stop_gradient(x) * frozen(weight("head", 8, 16));
#ifdef FIXED
    const Expr logits = x * weight("head", 8, 16);
#else
    const Expr logits = still;
#endif
    const Expr trained = tanh(x * weight("up", 8, 32)) * weight("down", 32, 8);
    return cross_entropy(logits, indices("labels", Axis::tokens)) + mean(square(trained + x), Over::columns);
  }
};
inline constexpr Net model{};
float first(Trainer<model>& net, std::span<const std::int32_t> tokens) { return net.logits(tokens)[0]; }
