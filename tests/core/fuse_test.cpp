// SPDX-License-Identifier: MIT
#include <simplx/core/fuse.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

template <auto const& model>
constexpr int steps = GraphOf<model>::fusion.steps;

template <class F>
struct On {
  F f;
  constexpr Expr operator()() const { return f(variable("x", rows_of(Axis::tokens, 4))); }
};
template <class F>
On(F) -> On<F>;  // clang 14 deduces none for aggregates
inline constexpr On activation{[](Expr x) { return relu(x * weight("w", 4, 4)); }};
inline constexpr On residual{[](Expr x) { return x + scalar("a") * (x * weight("w", 4, 4)); }};
inline constexpr On two_products{
    [](Expr x) { return scalar("a") * (x * weight("w", 4, 4)) + scalar("b") * (x * weight("u", 4, 4)); }};
inline constexpr On read_twice{[](Expr x) {
  auto h = relu(x);
  return h * weight("w", 4, 4) + h;
}};
inline constexpr On long_chain{[](Expr x) {
  for (int i = 0; i < 100; ++i) x = x + x * 0.5;
  return x;
}};

}  // namespace

TEST_CASE("core/fuse: products end in the loops that use them, chains are one loop") {
  static_assert(steps<activation> == 1);    // relu(x * w), straight into the result
  static_assert(steps<residual> == 1);      // x + a * (x * w)
  static_assert(steps<two_products> == 2);  // one product, and the other with the sum as its epilogue
  static_assert(steps<read_twice> == 2);    // h is read by a product too: it is stored
  static_assert(steps<long_chain> >= 201 / max_group &&
                steps<long_chain> <= 4 * 201 / max_group);  // groups are bounded
}
