// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A stream evaluates its model token by token, so that no op may read tokens to come.
// expect: error: .*simplx: a stream gives its model one token after the other
// expect: at_line.*24
#include <simplx/generate/stream.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Model {
#ifdef FIXED
  Mask mask = Mask::causal;
#else
  Mask mask = Mask::full;
#endif
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 16, 8), indices("tokens", Axis::tokens));
    x = stack("blocks", 2, *this, x);
    return x * weight("head", 8, 16);
  }
  constexpr Expr operator()(Expr x) const {
    auto key = x * weight("key", 8, 8);
    return softmax_attention(x, key, x, {.count = 2, .mask = mask});
  }
};
inline constexpr Model model{};
static_assert(cache_bytes<model>(100) > 0);
