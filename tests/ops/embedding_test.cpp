// SPDX-License-Identifier: MIT
#include <simplx/ops/embedding.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Lookup {
  constexpr Expr operator()() const {
    return embedding(weight("table", 5, 8, normal(1)), indices("index", Axis::tokens)) +
           positions(weight("place", 6, 8));
  }
};
inline constexpr Lookup lookup{};

}  // namespace

TEST_SUITE_BEGIN("ops/embedding");

TEST_CASE("gradients of tables, rows looked up several times") { test::check_model<lookup>({}, {3, 1, 5, 6}); }

TEST_CASE("positions begin anew in every sequence") {
  Evaluation<lookup> run(Rows{.tokens = 5}, 1, {3, 2});
  std::ranges::fill(run.parameter("table"), 0.0);
  for (std::size_t i = 0; i < 48; ++i) run.parameter("place")[i] = static_cast<double>(i / 8);
  run.forward();
  const double expected[] = {0, 1, 2, 0, 1};
  for (std::size_t row = 0; row < 5; ++row) CHECK(run.output()[row * 8 + 3] == expected[row]);
}

TEST_SUITE_END();
