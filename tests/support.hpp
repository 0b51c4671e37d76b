// SPDX-License-Identifier: MIT
#pragma once

/// Small models around one expression, and what every test of an op asks of it.

#include <simplx/models/decoder.hpp>
#include <simplx/differentiate/gradcheck.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace test {

using namespace simplx;

/// A model that applies a module to x, (tokens, width), whose gradient is wanted.
template <class Module>
struct OnTokens {
  Index width = 8;
  Module module{};
  constexpr auto operator()() const { return module(variable("x", rows_of(Axis::tokens, width))); }
};

/// Fills the inputs of an evaluation with numbers that no kink is near.
template <class Evaluation>
void fill_inputs(Evaluation& run, Index vocab = 5) {
  using G = typename Evaluation::G;
  for (int i = 0; i < G::count; ++i) {
    const std::string name(G::flat.label[i].name.view());
    if (G::table.info[i].kind == Kind::input) {
      auto values = run.input(name);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double z = normal(key_of(7, name), k);
        values[k] = static_cast<typename Evaluation::S>(z + (z < 0 ? -0.3 : 0.3));
      }
    } else if (G::table.info[i].kind == Kind::indices) {
      auto values = run.indices(name);
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = static_cast<std::int32_t>(bits(key_of(7, name), k) % static_cast<std::uint64_t>(vocab));
        if (name == "labels" && k % 4 == 2) values[k] = -100;
      }
    }
  }
}

struct Tolerance {
  double gradient = 1e-7, adjoint = 1e-11;
  double step = 0.02;
};

/// The reverse pass of both paths against differences and the adjoint identity, in double.
template <auto const& model>
void check_model(const Tolerance& tolerance = {}, std::vector<Index> lengths = {3, 1, 5}) {
  const auto check = [&](auto backend) {
    Index total = 0;
    for (const Index length : lengths) total += length;
    Evaluation<model, decltype(backend)> run(Rows{.tokens = total, .batch = 3}, 3, lengths);
    fill_inputs(run);
    const GradientReport report = check_gradients(run, {.step = tolerance.step});
    CAPTURE(report.worst_name);
    CHECK(report.entries > 0);
    CHECK(report.worst < tolerance.gradient);
    CHECK(report.adjoint < tolerance.adjoint);
  };
  check(Cpu<double>{});
  check(Cpu<double, Path::reference>{});
}

/// All derivatives of an op: as check_model, and forward mode and second order over dual numbers.
template <auto const& model>
void check_op(const Tolerance& tolerance = {}) {
  check_model<model>(tolerance);
  const GradientReport report = gradcheck<model>({.step = tolerance.step});
  CHECK(report.worst < tolerance.gradient);
  CHECK(report.jvp < 1e-13);
  CHECK(report.hvp < 10 * tolerance.gradient);
}

/// Results and gradients of the fast path in type S against the reference path in double, relative to the largest.
template <auto const& model, class S>
double distance_to_reference(std::vector<Index> lengths = {3, 1, 5}) {
  Index total = 0;
  for (const Index length : lengths) total += length;
  const Rows rows{.tokens = total, .batch = 3};
  Evaluation<model, Cpu<S>> fast(rows, 3, lengths);
  Evaluation<model, Cpu<double, Path::reference>> reference(rows, 3, lengths);
  const auto run = [](auto& evaluation) {
    using T = typename std::remove_reference_t<decltype(evaluation)>::S;
    fill_inputs(evaluation);
    for (const TensorInfo& tensor : evaluation.tensors().parameters) {
      auto values = evaluation.parameter(tensor.name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += static_cast<T>(0.3 * normal(key_of(9, tensor.name), i));
      }
    }
    std::ranges::fill(evaluation.memory(), T(1e30));
    evaluation.forward();
    for (std::size_t i = 0; i < evaluation.seed().size(); ++i) evaluation.seed()[i] = static_cast<T>(normal(11, i));
    evaluation.backward();
  };
  run(fast), run(reference);
  double worst = 0;
  const auto compare = [&](auto a, auto b) {
    double largest = 1e-12, difference = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    }
    worst = std::max(worst, difference / largest);
  };
  compare(fast.output(), reference.output());
  compare(fast.gradients(), reference.gradients());
  return worst;
}

}  // namespace test
