// SPDX-License-Identifier: MIT
#include <simplx/ops/grad.hpp>

#include <simplx/ops/activation.hpp>
#include <simplx/ops/norm.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/softmax.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/ops/stop_gradient.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

/// y and its derivative as an expression; the reverse sweep of y is what it must equal.
struct Pair {
  Expr value, derivative;
};
template <class F>
struct Derived {
  constexpr Pair operator()() const {
    auto x = variable("x", rows_of(Axis::tokens, 6));
    auto y = F{}(x);
    return {y, grad(y, x)};
  }
};

struct Elementary {
  constexpr Expr operator()(Expr x) const {
    return exp(x) * sin(x) + cos(x) / (2.0 + tanh(x)) - sigmoid(x) * erf(x) + sqrt(1.0 + square(x)) +
           rsqrt(1.0 + square(x)) + log(2.0 + square(x)) + log1p(square(x)) + softplus(x) + pow(1.0 + square(x), 1.5);
  }
};
struct Kinks {
  constexpr Expr operator()(Expr x) const {
    return relu(x) * x + abs(x) * x + max(x, square(x)) - min(x, 0.3) + clamp(x, -0.5, 0.6) * x + leaky_relu(x, 0.1) +
           select(x > 0.2, square(x), x);
  }
};
struct Gelus {
  constexpr Expr operator()(Expr x) const { return gelu(x) * gelu_tanh(2.0 * x); }
};
struct Broadcasts {
  constexpr Expr operator()(Expr x) const {
    auto column = sum(square(x), Over::columns), row = mean(x * x * x, Over::rows);
    return x * column + row * column + mean(x * x) * x + mean(square(x), Over::columns) + sum(x) * sum(x);
  }
};
struct Products {
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", 6, 6, normal(0.5));
    auto h = tanh(x * w);
    return h * transpose(w) + x * (transpose(h) * x) * transpose(w * w);
  }
};
struct Softmaxes {
  constexpr Expr operator()(Expr x) const {
    return softmax(2.0 * x) * x + log_softmax(square(x)) * x + log_sum_exp(x, Over::columns) * x +
           log_sum_exp(x * x, Over::rows);
  }
};
struct Moves {
  constexpr Expr operator()(Expr x) const {
    auto parts = concatenate(slice_columns(x, 0, 2), square(slice_columns(x, 1, 3)), slice_columns(x, 5, 1));
    return parts * shift(x, 1) + cumulative_sum(square(x)) * x + repeat_columns(square(slice_columns(x, 2, 2)), 3) * x;
  }
};
struct Norms {
  constexpr Expr operator()(Expr x) const {
    auto gain = vector("gain", 6), bias = vector("bias", 6);
    return rms_norm(x, gain, 0.1) * x + rms_norm_inside(x * gain, gain, 0.1) +
           layer_norm(x * x, gain * bias, bias, 0.1);
  }
};
/// The second derivative of a network with respect to its input, as in a differential equation.
struct Curvature {
  constexpr Expr operator()(Expr x) const {
    auto u = tanh(x * weight("a", 6, 5, normal(1)) + vector("b", 5, normal(1))) * weight("c", 5, 1, normal(1));
    return grad(grad(u, x), x) + u;
  }
};

template <class F>
inline constexpr Derived<F> derived{};

/// The derivative of the derivative (of the derivative), where a branch that is not taken has none.
struct Higher {
  Expr constant, linear, norm;
};
inline constexpr auto at_zero = [] {
  auto x = variable("x", rows_of(Axis::tokens, 2));
  const auto derived = [x](Expr y) { return grad(sum(y), x); };
  return Higher{derived(derived(pow(x, 0.0))), derived(derived(derived(pow(x, 1.0)))),
                derived(derived(square(rms_norm(x, fixed("gain", 1, 2, constant(1)), 0.5))))};
};

/// Frozen layers are no constants: they are refused as others are, whether x is a variable or not.
inline constexpr auto through_frozen_layers = [] {
  auto x = input("x", rows_of(Axis::tokens, 2));
  const auto layers = [](Expr y) { return stack("layers", 2, [](Expr z) { return tanh(z); }, y * weight("w", 2, 2)); };
  return grad(square(x) + frozen(layers)(x), x);
};
static_assert(detail::broken_summary<Root<through_frozen_layers>>.rule == Tag("grad"));

}  // namespace

TEST_SUITE_BEGIN("ops/grad");

TEST_CASE_TEMPLATE_DEFINE("the derivative as an expression equals the reverse sweep, and is differentiated again", F,
                          derivatives) {
  const std::vector<Index> lengths{3, 1, 5};
  Evaluation<derived<F>> run(Rows{.tokens = 9}, 1, lengths);
  test::fill_inputs(run);
  run.forward();
  std::ranges::fill(run.output_gradient(0), 1.0);
  std::ranges::fill(run.output_gradient(1), 0.0);
  run.backward();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < run.output(1).size(); ++i) {
    worst = std::max(worst, std::abs(run.output(1)[i] - run.input_gradient("x")[i]));
    largest = std::max(largest, std::abs(run.output(1)[i]));
  }
  CHECK(largest > 0.1);
  CHECK(worst < 1e-12 * largest);
  const GradientReport report = gradcheck<derived<F>>({.step = 0.005});
  CHECK(report.worst < 1e-6);
  CHECK(report.jvp < 1e-12);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Elementary, Kinks, Gelus, Broadcasts, Products, Softmaxes, Moves, Norms,
                          Curvature);

TEST_CASE("twenty steps of Newton's method are one expression") {
  static constexpr auto root_of_two = [] {
    Expr x = input("x", fixed_shape(1, 1));
    for (int step = 0; step < 20; ++step) {
      Expr f = x * x - 2.0;
      x = x - f / grad(f, x);
    }
    return x;
  };
  Evaluation<root_of_two> run(Rows{});
  run.input("x")[0] = 5;
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(std::sqrt(2.0)).epsilon(1e-15));
}

TEST_CASE("a stopped value is a constant to the derivative as well") {
  static constexpr auto stopped = [] {
    auto x = input("x", fixed_shape(1, 1));
    return grad(x * stop_gradient(x * x), x);
  };
  Evaluation<stopped> run(Rows{});
  run.input("x")[0] = 3;
  run.forward();
  CHECK(run.output()[0] == 9);
}

TEST_CASE("what y does not depend on has a derivative of zero") {
  static constexpr auto constant_function = [] {
    auto x = input("x", rows_of(Axis::batch, 3)), z = input("z", rows_of(Axis::batch, 3));
    return grad(square(x), z);
  };
  Evaluation<constant_function> run(Rows{.batch = 2});
  std::ranges::fill(run.memory(), 1e30);
  run.forward();
  for (const double d : run.output()) CHECK(d == 0);
}

TEST_CASE("derivatives of higher order at 0, of powers and of the norm of a row of zeros") {
  Evaluation<at_zero> run(Rows{.tokens = 1});
  run.forward();
  for (const int i : {0, 1}) {
    CHECK(run.output(0)[i] == 0);
    CHECK(run.output(1)[i] == 0);
    CHECK(run.output(2)[i] == doctest::Approx(2 / (0.5 * 0.5)));  // of sum(x^2) / epsilon^2
  }
}

TEST_SUITE_END();
