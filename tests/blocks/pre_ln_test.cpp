// SPDX-License-Identifier: MIT
#include <simplx/blocks/pre_ln.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct One {
  constexpr Expr operator()() const { return PreLn{{2}, {24}}(variable("x", rows_of(Axis::tokens, 16))); }
};
inline constexpr One one{};
static_assert(parameters<one> == 4 * 16 * 16 + 2 * 16 * 24 + 2 * 16);
}  // namespace

TEST_CASE("blocks/pre_ln: with projections of zero the block is the identity, bit for bit") {
  Evaluation<one> run(Rows{.tokens = 6}, 1, {2, 4});
  test::fill_inputs(run);
  std::ranges::fill(run.parameter("attention.projection.weight"), 0.0);
  std::ranges::fill(run.parameter("mlp.down.weight"), 0.0);
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
}
