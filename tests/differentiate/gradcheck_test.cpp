// SPDX-License-Identifier: MIT
#include <simplx/differentiate/gradcheck.hpp>

#include "support.hpp"

using namespace simplx;

// Ops with a fault each: what the check is for.
template <>
struct simplx::op<"wrong sign"> : simplx::elementwise {
  static constexpr auto f(auto x) { return -x; }
  template <int i>
  static constexpr auto d(auto g, auto, auto) { return g; }
};
template <>
struct simplx::op<"nearly right"> : simplx::elementwise {
  static constexpr bool needs_inputs = true;
  static constexpr auto f(auto x) { return x * x; }
  template <int i>
  static constexpr auto d(auto g, auto, auto x) { return g * x * 2.001; }
};

namespace {
struct WrongSign {
  constexpr Expr operator()(Expr x) const { return apply<"wrong sign">({}, At(x * weight("w", width(x), 8))) + x; }
};
struct NearlyRight {
  constexpr Expr operator()(Expr x) const { return apply<"nearly right">({}, At(x * weight("w", width(x), 8))); }
};
struct Right {
  constexpr Expr operator()(Expr x) const { return tanh(x * weight("w", width(x), 8)) + x; }
};
inline constexpr test::OnTokens<Right> right{8};
inline constexpr test::OnTokens<WrongSign> wrong_sign{8};
inline constexpr test::OnTokens<NearlyRight> nearly_right{8};

inline constexpr Decoder small{
    .block = pre_ln, .vocab = 3, .width = 8, .heads = 2, .layers = 1, .context = 4, .positions = Positions::learned};

template <auto const& model>
GradientReport report() {
  Evaluation<model> run(Rows{.tokens = 3});
  test::fill_inputs(run);
  return check_gradients(run);
}
}  // namespace

TEST_SUITE_BEGIN("differentiate/gradcheck");

TEST_CASE("a wrong sign and an error of a twentieth of a percent are found by both checks") {
  CHECK(report<wrong_sign>().worst > 1);
  CHECK(report<wrong_sign>().adjoint > 1e-3);
  CHECK(report<nearly_right>().worst > 4e-4);
  CHECK(report<nearly_right>().worst < 6e-4);
  CHECK(report<nearly_right>().adjoint > 1e-6);
  CHECK(!report<nearly_right>().worst_name.empty());
}

TEST_CASE("a report holds if each of its numbers does") {
  CHECK(!report<wrong_sign>().holds());
  CHECK(!report<nearly_right>().holds());
  CHECK(report<right>().holds());
  CHECK(gradcheck<small>().holds());
  CHECK(GradientReport{.entries = 1}.holds());
  CHECK(!GradientReport{}.holds());  // of a model that has nothing to be looked at
  CHECK(!GradientReport{.worst = 1e-5, .entries = 1}.holds());
  CHECK(!GradientReport{.adjoint = 1e-7, .entries = 1}.holds());
  CHECK(!GradientReport{.jvp = 1e-10, .entries = 1}.holds());
  CHECK(!GradientReport{.hvp = 1e-5, .entries = 1}.holds());
  CHECK(!GradientReport{.jvp = NAN, .entries = 1}.holds());
}

TEST_CASE("derivatives by extrapolated differences are good to ten digits") {
  CHECK(detail::derivative([](double h) { return std::exp(1 + h); }, 0.1) ==
        doctest::Approx(std::exp(1)).epsilon(1e-11));
  CHECK(detail::derivative([](double h) { return std::sin(3 * h); }, 0.1) == doctest::Approx(3).epsilon(1e-11));
}

TEST_CASE("inputs keep to the tables of a model, and options that do not are refused") {
  const GradientReport report = gradcheck<small>({.entries_per_tensor = 1, .step = 0.01});
  CAPTURE(report.worst_name);
  CHECK(report.worst < 1e-6);
  CHECK(report.adjoint < 1e-10);
  CHECK_THROWS_WITH_AS(gradcheck<small>({.classes = 4}), doctest::Contains("'tokens' must be below 3"), Error);
  CHECK_THROWS_WITH_AS(gradcheck<small>({.lengths = {5}}), doctest::Contains("positions end at 4"), Error);
  CHECK_THROWS_WITH_AS(gradcheck<small>({.entries_per_tensor = 0}), doctest::Contains("to look at 0 entries"), Error);
  CHECK_THROWS_WITH_AS(gradcheck<small>({.step = 0}), doctest::Contains("first step is 0.0"), Error);
  CHECK_THROWS_WITH_AS(gradcheck<small>({.spread = NAN}), doctest::Contains("spread is "), Error);
}

TEST_SUITE_END();
