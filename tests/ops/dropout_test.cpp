// SPDX-License-Identifier: MIT
#include <simplx/ops/dropout.hpp>

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/recompute.hpp>

#include "core/built.hpp"
#include "support.hpp"

#include <cmath>

using namespace simplx;

namespace {

inline constexpr auto dropped = [] {
  return dropout("drop", variable("x", rows_of(Axis::tokens, 8)), hyper("rate", 0.25));
};
inline constexpr auto of_rows = [] { return dropout("drop", variable("x", rows_of(Axis::batch, 8)), 0.5); };
struct Layer {
  constexpr Expr operator()(Expr x) const { return x + 0.0 * dropout("a", x, 0.5) + dropout("b", x, 0.5); }
};
inline constexpr auto layers = [] { return stack("blocks", 2, Layer{}, variable("x", rows_of(Axis::tokens, 8))); };
/// Two modules of one kind, which may be evaluated again in backward, in and beside two stacks of one block.
struct Twice {
  bool again;
  constexpr Expr operator()(Expr x) const {
    const auto drop = [](Expr y) { return dropout("mask", y, 0.5); };
    const auto one = [&](const char* scope) {
      return again ? named(scope, recompute(drop))(x) : named(scope, drop)(x);
    };
    return one("a") + 8 * one("b");
  }
};
template <bool again>
struct Scopes {
  constexpr Expr operator()() const {
    const Expr x = variable("x", rows_of(Axis::tokens, 8));
    const Expr inside = stack("encoder", 1, Twice{again}, x) + 64 * stack("decoder", 1, Twice{again}, x);
    return inside + 4096 * Twice{again}(x);
  }
};
inline constexpr Scopes<false> scopes{};
inline constexpr Scopes<true> recomputed_scopes{};
inline constexpr auto one_layer = [] { return stack("blocks", 1, Layer{}, variable("x", rows_of(Axis::tokens, 8))); };

template <auto const& f>
Eigen::MatrixXd evaluate(const Eigen::MatrixXd& x, const Randomness& random, std::vector<Index> lengths = {}) {
  Function<f> run;
  run.template set<"x">(x);
  if (!lengths.empty()) run.set_sequences(lengths);
  run.random() = random;
  run.forward();
  return run.template output<0>();
}

}  // namespace

TEST_SUITE_BEGIN("ops/dropout");

TEST_CASE("nothing happens outside of training; in training a quarter is dropped and the rest made up for it") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(1000, 8);
  CHECK(evaluate<dropped>(x, {}) == x);
  const Eigen::MatrixXd y = evaluate<dropped>(x, {.training = true, .key = 5});
  CHECK((y.array() == 0).count() == doctest::Approx(2000).epsilon(0.1));
  CHECK(((y.array() == 0) || (y.array() - 4.0 / 3).abs() < 1e-12).all());
  CHECK(y.mean() == doctest::Approx(1).epsilon(0.05));
  CHECK(evaluate<dropped>(x, {.training = true, .key = 6}) != y);
}

TEST_CASE("a mask without a name and a rate that is no probability are refused") {
  const auto rule_of = [](const char* name, double rate) {
    const test::Built model{dropout(name, input("x", rows_of(Axis::tokens, 4)), hyper("rate", rate))};
    return model.root.node->kind == Kind::error ? model.root.node->rule : Tag();
  };
  CHECK(rule_of("drop", 0.5) == Tag());
  CHECK(rule_of("", 0.5) == Tag("a name"));
  for (const double rate : {-0.1, 1.1, std::nan("")}) CHECK(rule_of("drop", rate) == Tag("dropout rate"));
}

TEST_CASE("a rate below 0 counts as 0, above 1 as 1") {
  Function<dropped> run;
  run.set<"x">(Eigen::MatrixXd::Ones(6, 8));
  run.random() = {.training = true, .key = 9};
  for (const auto& [rate, kept] : {std::pair(-0.5, 1.0), {1.5, 0.0}, {1.0, 0.0}}) {
    run.set<"rate">(rate).forward();
    CHECK((run.output().array() == kept).all());
  }
}

TEST_CASE("the mask depends on sequences, not on how they are packed") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(9, 8);
  const Eigen::MatrixXd packed = evaluate<dropped>(x, {.training = true, .key = 1, .first_sequence = 3}, {4, 5});
  const Eigen::MatrixXd alone = evaluate<dropped>(x.topRows(5), {.training = true, .key = 1, .first_sequence = 4});
  CHECK(packed.bottomRows(5) == alone);
  CHECK(packed.topRows(4) != alone.topRows(4));
  const Eigen::MatrixXd rows = evaluate<of_rows>(x, {.training = true, .key = 1, .first_sequence = 2});
  CHECK(rows.bottomRows(6) == evaluate<of_rows>(x.topRows(6), {.training = true, .key = 1, .first_sequence = 5}));
}

TEST_CASE("the gradient goes where the value came from") {
  Function<dropped> run;
  run.set<"x">(Eigen::MatrixXd::Constant(6, 8, 3.0));
  run.random() = {.training = true, .key = 9};
  run.forward();
  const Eigen::MatrixXd y = run.output();
  run.output_gradient().setConstant(1);
  run.backward();
  CHECK((run.gradient<"x">() * 3 - y).norm() < 1e-12);
}

TEST_CASE("names and layers have masks of their own") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(16, 8);
  const Randomness random{.training = true, .key = 2};
  const Eigen::MatrixXd first = evaluate<one_layer>(x, random), both = evaluate<layers>(x, random);
  // 1 + m with m in {0, 2}: one layer gives 1 or 3, two give 1, 3 or 9, and equal masks would give no 3.
  CHECK(((first.array() == 1) || (first.array() == 3)).all());
  CHECK((both.array() == 3).count() > 32);
  CHECK((both.array() == 9).count() > 8);
}

TEST_CASE("scopes and stacks have masks of their own, the same where modules are recomputed") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(200, 8);
  const Randomness random{.training = true, .key = 3};
  const Eigen::MatrixXd y = evaluate<scopes>(x, random);
  CHECK(y == evaluate<recomputed_scopes>(x, random));
  // Digits to the base 8, 0 or 2: six masks. Those of two names agree in half of the places.
  const auto digit = [&](Index i, int which) { return static_cast<int>(y(i / 8, i % 8)) >> (3 * which) & 7; };
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < a; ++b) {
      int equal = 0;
      for (Index i = 0; i < y.size(); ++i) equal += digit(i, a) == digit(i, b);
      CAPTURE(a);
      CAPTURE(b);
      CHECK(std::abs(equal - 800) < 100);
    }
  }
}

TEST_SUITE_END();
