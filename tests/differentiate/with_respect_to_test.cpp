// SPDX-License-Identifier: MIT
#include <simplx/differentiate/with_respect_to.hpp>

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/ops/stop_gradient.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
inline constexpr auto loss = [] {
  auto x = variable("x", rows_of(Axis::batch, 3));
  auto h = tanh(x * weight("w", 3, 3, normal(1)) + vector("bias", 3, normal(1)));
  return mean(square(h * vector("gain", 3)));
};
constexpr Expr loss_of(Expr w) { return sum(square(input("x", rows_of(Axis::batch, 3)) * w)); }
inline constexpr auto loss_of_w = [] { return loss_of(weight("w", 3, 3, normal(1))); };
inline constexpr auto frozen_loss = [] { return loss_of(frozen(weight("w", 3, 3, normal(1)))); };
struct Layers {
  constexpr Expr operator()(Expr x) const {
    const auto layer = [](Expr y) { return tanh(y * weight("w", 3, 3, normal(1))); };
    return stack("layers", 3, layer, x * weight("first", 3, 3, normal(1)));
  }
};
template <class Module>
struct Around {
  Module module;
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::batch, 3));
    return sum(square(x + module(x)));
  }
};
inline constexpr Around<Layers> around_layers{};
inline constexpr Around<Frozen<Layers>> around_frozen_layers{frozen(Layers{})};
using All = GraphOf<loss>;
using Bias = GraphOf<with_respect_to<loss, "bias">>;
constexpr int wanted_leaves(const auto& graph) {
  int total = 0;
  for (int i = 0; i < graph.count; ++i) total += graph.table.info[i].argument_count == 0 && graph.fusion.wanted[i];
  return total;
}
static_assert(wanted_leaves(All{}) == 4);
static_assert(wanted_leaves(Bias{}) == 1);
}  // namespace

TEST_SUITE_BEGIN("differentiate/with_respect_to");

TEST_CASE("the gradients that are asked for are those of the function") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(5, 3);
  Function<loss> f(3);
  Function<with_respect_to<loss, "bias">> g(3);
  Function<with_respect_to<loss, "x", "w">> h(3);
  f.set<"x">(x), g.set<"x">(x), h.set<"x">(x);
  const double value = f.value_and_grad();
  CHECK(g.value_and_grad() == value);
  CHECK(h.value_and_grad() == value);
  CHECK((f.gradient<"bias">() - g.gradient<"bias">()).norm() < 1e-15);
  CHECK((f.gradient<"x">() - h.gradient<"x">()).norm() < 1e-15);
  CHECK((f.gradient<"w">() - h.gradient<"w">()).norm() < 1e-15);
}

TEST_CASE("what is frozen has a gradient where one is asked for") {
  Function<with_respect_to<frozen_loss, "w">> f(3);
  Function<loss_of_w> g(3);
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(5, 3);
  f.set<"x">(x), g.set<"x">(x);
  CHECK(f.value_and_grad() == g.value_and_grad());
  CHECK(f.gradient<"w">() == g.gradient<"w">());
  CHECK(g.gradient<"w">().norm() > 0);
}

TEST_CASE("frozen layers pass on what is asked for before them") {
  Function<with_respect_to<around_frozen_layers, "x", "first">> f(3);
  Function<with_respect_to<around_layers, "x", "first">> g(3);
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(5, 3);
  f.set<"x">(x), g.set<"x">(x);
  CHECK(f.value_and_grad() == g.value_and_grad());
  CHECK(f.gradient<"x">() == g.gradient<"x">());
  CHECK(f.gradient<"first">() == g.gradient<"first">());
  CHECK(g.gradient<"first">().norm() > 0);
}

TEST_SUITE_END();
