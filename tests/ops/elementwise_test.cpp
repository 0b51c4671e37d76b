// SPDX-License-Identifier: MIT
#include <simplx/ops/elementwise.hpp>

#include "support.hpp"

using namespace simplx;

// An op from outside of the library, as in the README.
template <>
struct simplx::op<"cube"> : simplx::elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return x * x * x; }  // SIMPLX_HD: on a GPU as well
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return 3 * g * x * x; }
};
constexpr simplx::Expr cube(simplx::At x) { return simplx::apply<"cube">({}, x); }

namespace {

struct Outside {
  constexpr Expr operator()(Expr x) const { return cube(x * weight("w", width(x), width(x), normal(1))) - cube(x); }
};

struct Arithmetic {
  constexpr Expr operator()(Expr x) const {
    auto row = vector("row", width(x)), number = scalar("number", constant(1.5));
    auto column = x * weight("column", width(x), 1);  // (tokens, 1)
    return (x + row) * number - x * column / (3.0 + x * x) + row / number - (-x) * row * 0.5;
  }
};
struct Divisors {  // numbers, a row and a column are inverted before they are spread
  constexpr Expr operator()(Expr x) const {
    auto row = vector("row", width(x), constant(2)), column = 3.0 + square_of(x) * weight("column", width(x), 1);
    return x / row + x / column + row / column + x / scalar("number", constant(1.5)) + 1.0 / (2.0 + square_of(x)) +
           x / 4.0;
  }
  static constexpr Expr square_of(Expr x) { return x * x; }
};
struct Kinked {
  constexpr Expr operator()(Expr x) const { return relu(x) * vector("row", width(x)) + relu(-x); }
};
struct Shared {
  constexpr Expr operator()(Expr x) const {
    auto a = x * vector("a", width(x));
    auto b = a * a + a;       // a used three times
    return b + b + x + x * b;  // b too, and x again
  }
};
struct Static {  // shapes without a run-time axis: numbers, rows and matrices of their own
  constexpr Expr operator()(Expr x) const {
    auto a = scalar("a") * scalar("b", constant(2)), row = vector("r", width(x)) * a + 1.0;
    auto matrix = multiply(weight("m", width(x), 4), weight("n", width(x), 4)) + scalar("c") * weight("o", width(x), 4);
    return x * row + x * (matrix * weight("p", 4, width(x)));
  }
};
struct ProbesAndOutputs {
  struct Results {
    Expr first, second;
  };
  constexpr Results operator()(Expr x) const {
    auto h = probe("h", x * vector("row", width(x)));
    return {h * h, h + x};
  }
};

inline constexpr test::OnTokens<Arithmetic> arithmetic8{8}, arithmetic5{5}, arithmetic1{1};
inline constexpr test::OnTokens<Divisors> divisors8{8}, divisors5{5};
inline constexpr test::OnTokens<Kinked> kinked{11};
inline constexpr test::OnTokens<Shared> shared8{8}, shared3{3};
inline constexpr test::OnTokens<Static> static8{8}, static3{3};
inline constexpr test::OnTokens<ProbesAndOutputs> probes{8};
inline constexpr test::OnTokens<Outside> outside{8}, outside_odd{3};

}  // namespace

TEST_SUITE_BEGIN("ops/elementwise");

TEST_CASE("arithmetic with broadcast rows, columns and numbers, at whole vectors, odd widths and width one") {
  test::check_model<arithmetic8>();
  test::check_model<arithmetic5>();
  test::check_model<arithmetic1>();
  CHECK(test::distance_to_reference<arithmetic8, float>() < 1e-5);
}

TEST_CASE("a divisor is inverted before it is spread") {
  test::check_model<divisors8>();
  test::check_model<divisors5>();
  CHECK(test::distance_to_reference<divisors8, float>() < 1e-5);
  using G = GraphOf<divisors8>;
  int divisions = 0, full = 0;
  for (int i = 0; i < G::count; ++i) {
    if (G::flat.label[i].op != Tag("divide")) continue;
    ++divisions;
    full += G::table.info[i].shape == rows_of(Axis::tokens, 8);
  }
  CHECK(divisions == 5);  // not by 4.0
  CHECK(full == 1);       // by 2 + x^2
}

TEST_CASE("an operand used several times gets all its gradients") {
  test::check_model<shared8>();
  test::check_model<shared3>();
}

TEST_CASE("values of static shape are differentiated like all others") {
  test::check_model<static8>();
  test::check_model<static3>();
}

TEST_CASE("several results, and a probe whose value and gradient can be read") {
  test::check_model<probes>();
  Evaluation<probes> run(Rows{.tokens = 2});
  test::fill_inputs(run);
  std::ranges::fill(run.parameter("row"), 2.0);
  run.forward();
  std::ranges::fill(run.output_gradient(0), 1.0);
  std::ranges::fill(run.output_gradient(1), 10.0);
  run.backward();
  int found = 0;
  run.each_probe([&](const std::string& name, const Shape& shape, const double* value, const double* gradient) {
    ++found;
    CHECK(name == "h");
    CHECK(shape == rows_of(Axis::tokens, 8));
    for (int i = 0; i < 16; ++i) {
      CHECK(value[i] == 2 * run.input("x")[static_cast<std::size_t>(i)]);
      CHECK(gradient[i] == doctest::Approx(2 * value[i] + 10));  // d(h h) + 10 d(h + x)
    }
  });
  CHECK(found == 1);
}

TEST_CASE("an op of the user's own is differentiated, fused and vectorised like those of the library") {
  static_assert(GraphOf<outside>::fusion.steps == 1);
  test::check_model<outside>();
  test::check_model<outside_odd>();
}

TEST_CASE("relu away from its kink") { test::check_model<kinked>({.step = 1e-3}); }

TEST_CASE("what is written in place is the same expression") {
  static constexpr auto model = [] {
    Expr x = input("x", rows_of(Axis::tokens, 1));
    x += 3.0;
    x *= x;
    x -= 1.0;
    x /= 5.0;
    return x;
  };
  Evaluation<model> run(Rows{.tokens = 1});
  run.input("x")[0] = 1;
  run.forward();
  CHECK(run.output()[0] == 3);
}

TEST_CASE("rules by hand") {
  CHECK(op<"relu">::f(-2.0) == 0);
  CHECK(op<"relu">::f(2.0) == 2);
  CHECK(op<"relu">::d<0>(5.0, 0.0, 0.0) == 0);  // the derivative at 0 is 0
  CHECK(op<"multiply">::d<0>(5.0, 0.0, 2.0, 3.0) == 15);
  CHECK(op<"multiply">::d<1>(5.0, 0.0, 2.0, 3.0) == 10);
  CHECK(op<"divide">::d<0>(6.0, 2.0, 4.0, 2.0) == 3);
  CHECK(op<"divide">::d<1>(6.0, 2.0, 4.0, 2.0) == -6);
  CHECK(op<"subtract">::d<1>(5.0, 0.0, 2.0, 3.0) == -5);
}

TEST_SUITE_END();
