// SPDX-License-Identifier: MIT
#include <simplx/core/info.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Normed {  // a norm of static rows: its saved numbers are elements, not columns
  constexpr Expr operator()() const {
    return variable("x", rows_of(Axis::tokens, 4)) *
           rms_norm(weight("w", 4, 8, normal(1)), vector("g", 8), hyper("e", 0.1));
  }
};
inline constexpr Normed normed{};
}  // namespace

TEST_SUITE_BEGIN("core/info");

TEST_CASE("columns add up and rise axis by axis") {
  Columns a, b;
  a[Axis::tokens] = 3, b[Axis::tokens] = 5, b[Axis::batch] = 1;
  a += b;
  CHECK(a[Axis::tokens] == 8);
  b.raise_to(a);
  CHECK(b[Axis::tokens] == 8);
  CHECK(b[Axis::batch] == 1);
}

TEST_CASE("what a kernel saves of a static matrix has room for every row") { test::check_model<normed>(); }

TEST_SUITE_END();
