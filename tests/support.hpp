// SPDX-License-Identifier: MIT
#pragma once

/// Small models around one expression, and what every test of an op asks of it.

#include <simplx/models/decoder.hpp>
#include <simplx/differentiate/gradcheck.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

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
template <class S>
void fill_inputs(detail::EvaluationMemory<S>& run, Index vocab = 5) {
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.is_input(i)) continue;
    const std::string name(graph.label[i].name.view());
    if (graph.info[i].kind == Kind::input) {
      const std::span<S> values = run.input(name);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double z = normal(key_of(7, name), k);
        values[k] = static_cast<S>(z + (z < 0 ? -0.3 : 0.3));
      }
    } else {
      const std::span<std::int32_t> values = run.indices(name);
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

// What is the same for every model is compiled once: models are many here, and each is compiled three times.

inline Rows rows_of_lengths(const std::vector<Index>& lengths) {
  return {.tokens = std::accumulate(lengths.begin(), lengths.end(), Index(0)), .batch = 3};
}

inline void check_report(const GradientReport& report, const Tolerance& tolerance) {
  CAPTURE(report.worst_name);
  CHECK(report.entries > 0);
  CHECK(report.worst < tolerance.gradient);
  CHECK(report.adjoint < tolerance.adjoint);
}

template <auto const& model, class Backend>
void check_gradients_on(const Tolerance& tolerance, const std::vector<Index>& lengths) {
  Evaluation<model, Backend> run(rows_of_lengths(lengths), 3, lengths);
  fill_inputs(run);
  check_report(check_gradients(run, {.step = tolerance.step}), tolerance);
}

/// The reverse pass of both paths against differences and the adjoint identity, in double.
template <auto const& model>
void check_model(const Tolerance& tolerance = {}, const std::vector<Index>& lengths = {3, 1, 5}) {
  check_gradients_on<model, Cpu<double>>(tolerance, lengths);
  check_gradients_on<model, Cpu<double, Path::reference>>(tolerance, lengths);
}

inline void check_all_orders(const GradientReport& report, const Tolerance& tolerance) {
  CHECK(report.worst < tolerance.gradient);
  CHECK(report.jvp < 1e-13);
  CHECK(report.hvp < 10 * tolerance.gradient);
}

/// All derivatives of an op: as check_model, and forward mode and second order over dual numbers.
template <auto const& model>
void check_op(const Tolerance& tolerance = {}) {
  check_model<model>(tolerance);
  check_all_orders(gradcheck<model>({.step = tolerance.step}), tolerance);
}

/// Results and gradients, with the same inputs, parameters and seeds for every number type.
template <class S>
void run_both_ways(detail::EvaluationMemory<S>& memory, const detail::Subject<S>& run) {
  fill_inputs(memory);
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    const std::span<S> values = memory.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<S>(0.3 * normal(key_of(9, tensor.name), i));
    }
  }
  std::ranges::fill(memory.memory(), S(1e30));
  run.forward();
  for (std::size_t i = 0; i < memory.output_gradient().size(); ++i) memory.output_gradient()[i] = static_cast<S>(normal(11, i));
  run.backward();
}
/// Of results and gradients, each relative to the largest of b.
template <class S>
double distance_of(detail::EvaluationMemory<S>& a, detail::EvaluationMemory<double>& b) {
  double worst = 0;
  const auto compare = [&](std::span<const S> x, std::span<const double> y) {
    double largest = 1e-12, difference = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      largest = std::max(largest, std::abs(y[i]));
      difference = std::max(difference, std::abs(static_cast<double>(x[i]) - y[i]));
    }
    worst = std::max(worst, difference / largest);
  };
  compare(a.output(), b.output());
  compare(a.gradients(), b.gradients());
  return worst;
}

/// Results and gradients of the fast path in type S against the reference path in double, relative to the largest.
template <auto const& model, class S>
double distance_to_reference(const std::vector<Index>& lengths = {3, 1, 5}) {
  const Rows rows = rows_of_lengths(lengths);
  Evaluation<model, Cpu<S>> fast(rows, 3, lengths);
  Evaluation<model, Cpu<double, Path::reference>> reference(rows, 3, lengths);
  run_both_ways<S>(fast, detail::subject_of(fast));
  run_both_ways<double>(reference, detail::subject_of(reference));
  return distance_of<S>(fast, reference);
}

}  // namespace test
