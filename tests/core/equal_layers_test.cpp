// SPDX-License-Identifier: MIT
#include <simplx/core/equal_layers.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct EvenOdd {
  constexpr Expr operator()(int layer, Expr x) const {
    return layer % 2 ? x * vector("g", width(x)) : x + vector("b", width(x));
  }
};
struct AllDifferent {
  constexpr Expr operator()(int layer, Expr x) const {
    return x * static_cast<double>(layer + 1) + vector("b", width(x));
  }
};
struct OtherBeginnings {
  constexpr Expr operator()(int layer, Expr x) const { return x * vector("g", width(x), constant(layer)); }
};
template <class Block, int layers>
struct Stacked {
  constexpr Expr operator()() const { return stack("s", layers, Block{}, variable("x", rows_of(Axis::tokens, 4))); }
};
template <class Block, int layers>
inline constexpr Stacked<Block, layers> stacked{};
template <class Block, int layers>
using LayersIn = typename GraphOf<stacked<Block, layers>>::template layers_of<1>;

}  // namespace

TEST_SUITE_BEGIN("core/equal_layers");

TEST_CASE("distinct layers are counted, whatever the depth") {
  static_assert(LayersIn<EvenOdd, 5>::distinct == 2 && LayersIn<EvenOdd, 72>::distinct == 2);
  static_assert(LayersIn<EvenOdd, 72>::grouping.which[71] == 1 &&
                LayersIn<EvenOdd, 72>::grouping.representative[1] == 1);
  static_assert(LayersIn<AllDifferent, 5>::distinct == 5);
  static_assert(LayersIn<OtherBeginnings, 30>::distinct == 1);
}

TEST_CASE("initial values still differ from layer to layer") {
  Evaluation<stacked<OtherBeginnings, 30>> run(Rows{.tokens = 1});
  CHECK(run.parameter("s.0.g")[0] == 0);
  CHECK(run.parameter("s.29.g")[3] == 29);
}

TEST_CASE("the hash of a chain follows its structure") {
  detail::Evaluated a = detail::evaluate(stacked<EvenOdd, 5>), b = detail::evaluate(stacked<EvenOdd, 5>),
                    c = detail::evaluate(stacked<EvenOdd, 6>);
  const auto x = detail::chain_of(a.root), y = detail::chain_of(b.root), z = detail::chain_of(c.root);
  CHECK(x.hash == y.hash);
  CHECK(x.hash != z.hash);
  CHECK(detail::first_difference(x, y) == -1);
  CHECK(detail::first_difference(x, z) == 1);  // the stack
  detail::unnumber(x), detail::unnumber(y), detail::unnumber(z);
}

TEST_SUITE_END();
