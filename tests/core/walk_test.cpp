// SPDX-License-Identifier: MIT
#include <simplx/core/walk.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

/// The same values, made in another order.
struct Forwards {
  constexpr Expr operator()() const {
    auto a = vector("a", 4), b = vector("b", 4);
    return variable("x", rows_of(Axis::tokens, 4)) * a + b;
  }
};
struct Backwards {
  constexpr Expr operator()() const {
    auto b = vector("b", 4), a = vector("a", 4);
    auto x = variable("x", rows_of(Axis::tokens, 4));
    return x * a + b;
  }
};
inline constexpr Forwards forwards{};
inline constexpr Backwards backwards{};

}  // namespace

TEST_SUITE_BEGIN("core/walk");

TEST_CASE("nodes are numbered from the root: the order of creation does not matter") {
  static_assert(same_graph<forwards, backwards>());
  const auto a = tensors_of<forwards>().parameters, b = tensors_of<backwards>().parameters;
  CHECK(a[0].name == "a");
  CHECK(b[0].name == "a");
  CHECK(a[1].offset == b[1].offset);
}

TEST_CASE("sharing is identity: one variable used twice is one value") {
  struct Shared {
    constexpr Expr operator()() const {
      auto y = relu(variable("x", rows_of(Axis::tokens, 4)) * weight("w", 4, 4));
      return y * y + y;
    }
  };
  static constexpr Shared shared{};
  // x, w, product, relu, square, sum, output, root
  static_assert(GraphOf<shared>::count == 8);
}

TEST_SUITE_END();
