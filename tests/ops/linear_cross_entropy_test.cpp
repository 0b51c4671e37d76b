// SPDX-License-Identifier: MIT
#include <simplx/ops/linear_cross_entropy.hpp>

#include <simplx/ops/functions.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

constexpr Expr labels() { return indices("labels", Axis::tokens); }
constexpr Expr table(Index classes, Expr x) { return weight("table", classes, width(x), normal(1)); }

/// The same loss in tiles, and of logits that are held.
template <Index classes, Index tile>
struct Tiled {
  constexpr Expr operator()(Expr x) const { return linear_cross_entropy(x, table(classes, x), labels(), tile); }
};
template <Index classes>
struct Held {
  constexpr Expr operator()(Expr x) const { return cross_entropy(x * transpose(table(classes, x)), labels()); }
};
template <Index classes, Index tile>
struct TiledWithBias {
  constexpr Expr operator()(Expr x) const {
    return linear_cross_entropy(x, table(classes, x), labels(), vector("bias", classes, normal(1)), tile);
  }
};
template <Index classes>
struct HeldWithBias {
  constexpr Expr operator()(Expr x) const {
    return cross_entropy(x * transpose(table(classes, x)) + vector("bias", classes, normal(1)), labels());
  }
};
/// A table that is computed, and x with another reader, so that its gradient is added to.
struct Computed {
  struct Results {
    Expr loss, x;
  };
  constexpr Results operator()(Expr x) const {
    return {linear_cross_entropy(x, tanh(table(40, x)), labels(), 16), x * 2.0};
  }
};
struct FixedTable {
  constexpr Expr operator()(Expr x) const {
    return linear_cross_entropy(x, fixed("table", 40, width(x), normal(1)), labels(), 16);
  }
};

template <Index classes, Index tile, Index width>
inline constexpr test::OnTokens<Tiled<classes, tile>> tiled{width};
template <Index classes, Index width>
inline constexpr test::OnTokens<Held<classes>> held{width};
template <Index classes, Index tile, Index width>
inline constexpr test::OnTokens<TiledWithBias<classes, tile>> tiled_with_bias{width};
template <Index classes, Index width>
inline constexpr test::OnTokens<HeldWithBias<classes>> held_with_bias{width};
inline constexpr test::OnTokens<Computed> computed{8};
inline constexpr test::OnTokens<FixedTable> fixed_table{8};

/// Losses and gradients of two models of the same parameters and inputs, where `labelled` says which rows count.
template <auto const& one, auto const& other, class Backend, class Labelled>
double farthest(Labelled labelled, Index tokens = 37) {
  Evaluation<one, Backend> a(Rows{.tokens = tokens}, 1);
  Evaluation<other, Backend> b(Rows{.tokens = tokens}, 1);
  const auto fill = [&](auto& run) {
    test::fill_inputs(run, std::ssize(run.parameter("table")) * tokens / std::ssize(run.input("x")));
    for (Index row = 0; row < tokens; ++row) {
      if (!labelled(row)) run.indices("labels")[static_cast<std::size_t>(row)] = ignored_label;
    }
    using S = typename Backend::Scalar;
    std::ranges::fill(run.memory(), std::numeric_limits<S>::quiet_NaN());  // what is read must have been written
    std::ranges::fill(run.input_gradient("x"), S(99));
    run.forward();
    for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = static_cast<S>(i % 5) - 1;
    run.backward();
  };
  fill(a), fill(b);
  double result = 0;
  const auto compare = [&](auto left, auto right) {
    REQUIRE(left.size() == right.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      result = std::max(result, std::abs(static_cast<double>(left[i] - right[i])));
    }
  };
  compare(a.output(), b.output());
  compare(a.gradients(), b.gradients());
  compare(a.input_gradient("x"), b.input_gradient("x"));
  return result;
}

template <auto const& one, auto const& other, class Backend>
void check_same(double tolerance) {
  CHECK(farthest<one, other, Backend>([](Index) { return true; }) < tolerance);
  CHECK(farthest<one, other, Backend>([](Index row) { return row % 4 == 1; }) < tolerance);
  CHECK(farthest<one, other, Backend>([](Index) { return false; }) == 0);
}

}  // namespace

TEST_SUITE_BEGIN("ops/linear_cross_entropy");

TEST_CASE("gradients, of tables that are parameters, computed or fixed") {
  test::check_op<tiled<40, 16, 8>>();
  test::check_model<tiled<7, 16, 3>>();
  test::check_model<tiled_with_bias<37, 16, 5>>();
  test::check_model<computed>();
  test::check_model<fixed_table>();
}

TEST_CASE("tiles of any width give what held logits give, with and without labels") {
  check_same<tiled<96, 32, 32>, held<96, 32>, Cpu<double>>(1e-12);      // whole tiles
  check_same<tiled<100, 48, 24>, held<100, 24>, Cpu<double>>(1e-12);    // a rest of 4
  check_same<tiled<9, 512, 16>, held<9, 16>, Cpu<double>>(1e-12);       // less than a tile
  check_same<tiled<64, 1, 16>, held<64, 16>, Cpu<double>>(1e-12);       // a class at a time
  check_same<tiled<1100, 512, 48>, held<1100, 48>, Cpu<float>>(5e-5);   // of the width that models have
  check_same<tiled<100, 48, 24>, held<100, 24>, Cpu<double, Path::reference>>(1e-12);
  check_same<tiled_with_bias<100, 48, 24>, held_with_bias<100, 24>, Cpu<double>>(1e-12);
  check_same<tiled_with_bias<100, 48, 24>, held_with_bias<100, 24>, Cpu<double, Path::reference>>(1e-12);
}

TEST_CASE("products of bfloat16 round as those of held logits do") {
  check_same<tiled<128, 64, 32>, held<128, 32>, Cpu<float, Path::bfloat16>>(2e-2);
  CHECK(farthest<tiled<128, 128, 32>, held<128, 32>, Cpu<float, Path::bfloat16>>([](Index) { return true; }) < 1e-5);
}

TEST_CASE("huge logits stay finite, and a row of one class costs nothing") {
  static constexpr auto& model = tiled<40, 16, 1>;
  Evaluation<model> run(Rows{.tokens = 2}, 1);
  std::ranges::fill(run.parameter("table"), 0.0);
  run.parameter("table")[33] = 1.0;
  std::ranges::copy(std::array{1e4, -1e4}, run.input("x").begin());
  std::ranges::copy(std::array{33, 0}, run.indices("labels").begin());
  run.forward();
  CHECK(run.output()[0] == 0);
  CHECK(run.output()[1] == doctest::Approx(std::log(39)));
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  for (const double g : run.gradients()) CHECK(std::isfinite(g));
}

TEST_CASE("logits far from 0 lose nothing") {
  static constexpr auto& model = tiled_with_bias<40, 16, 1>;
  Evaluation<model, Cpu<float>> run(Rows{.tokens = 1}, 1);
  run.input("x")[0] = 0;
  run.indices("labels")[0] = 17;
  for (const float level : {1e6f, -1e8f}) {
    std::ranges::fill(run.parameter("bias"), level);
    run.forward();
    CHECK(run.output()[0] == doctest::Approx(std::log(40)));
    run.output_gradient()[0] = 1;
    std::ranges::fill(run.gradients(), 0.0f);
    run.backward();
    CHECK(run.gradient("bias")[17] == doctest::Approx(1 / 40.0 - 1));
    CHECK(run.gradient("bias")[3] == doctest::Approx(1 / 40.0));
  }
}

TEST_CASE("a logit that is NaN is not lost beside a tile of -inf") {
  static constexpr auto& model = tiled<40, 16, 1>;  // tiles of 16 classes
  Evaluation<model> run(Rows{.tokens = 1}, 1);
  run.input("x")[0] = 1;
  const std::span<double> logits = run.parameter("table");
  const auto loss = [&](std::int32_t label) {
    run.indices("labels")[0] = label;
    run.forward();
    return run.output()[0];
  };
  std::ranges::fill(logits, 0.0);
  std::ranges::fill(logits.first(16), -INFINITY);
  CHECK(loss(33) == doctest::Approx(std::log(24)));
  logits[3] = std::nan("");
  CHECK(std::isnan(loss(33)));
  std::ranges::fill(logits.first(32), 0.0);
  std::ranges::fill(logits.last(8), -INFINITY);
  CHECK(loss(20) == doctest::Approx(std::log(32)));
  logits[3] = std::nan("");
  CHECK(std::isnan(loss(20)));
}

TEST_CASE("the arena does not grow with the classes") {
  static constexpr auto& few = tiled<1024, 512, 32>;
  static constexpr auto& many = tiled<65536, 512, 32>;
  static_assert(arena_bytes<many>(tokens{128}) == arena_bytes<few>(tokens{128}));
  static_assert(arena_bytes<many>(tokens{128}) < arena_bytes<held<65536, 32>>(tokens{128}) / 80);
  static_assert(flops<many>(tokens{128}) == flops<held<65536, 32>>(tokens{128}));
}

TEST_SUITE_END();
