// SPDX-License-Identifier: MIT
#pragma once

/// What generated models are held against: the values of generate.py, differences, the adjoint identity, directions.

#include <simplx/core/named.hpp>
#include <simplx/differentiate/gradcheck.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/grad.hpp>
#include <simplx/ops/recompute.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/softmax.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace test {

using namespace simplx;

/// Element k of the tensor of that name, as generate.py has it.
inline double entry(std::string_view name, std::size_t k) {
  const double u = uniform(key_of(7, name), k);
  return 2 * u - 1 + (u < 0.5 ? -0.1 : 0.1);
}

template <auto const& model>
void check_compiled(const std::vector<std::vector<double>>& expected) {
  using G = GraphOf<model>;
  const GradcheckOptions options =
      detail::with_lengths({.entries_per_tensor = 2, .spread = 0, .step = 5e-3}, view_of<G>);
  Evaluation<model> run(options.rows, 0, options.lengths);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    auto values = run.parameter(tensor.name);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = entry(tensor.name, k);
  }
  for (int i = 0; i < G::count; ++i) {
    const std::string name(G::flat.label[i].name.view());
    if (G::table.info[i].kind == Kind::input) {
      for (std::size_t k = 0; k < run.input(name).size(); ++k) run.input(name)[k] = entry(name, k);
    } else if (G::table.info[i].kind == Kind::indices) {
      for (std::size_t k = 0; k < run.indices(name).size(); ++k) {
        run.indices(name)[k] = static_cast<std::int32_t>(bits(key_of(7, name), k) % 3);
      }
    }
  }
  std::ranges::fill(run.memory(), 1e30);
  run.forward();
  REQUIRE(static_cast<std::size_t>(G::layout.outputs) == expected.size());
  for (int k = 0; k < G::layout.outputs; ++k) {
    const auto& numbers = expected[static_cast<std::size_t>(k)];
    REQUIRE(run.output(k).size() == numbers.size());
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      worst = std::max(worst, std::abs(run.output(k)[i] - numbers[i]) / std::max(1.0, std::abs(numbers[i])));
    }
    CAPTURE(k);
    CHECK(worst < 1e-12);
  }
  GradientReport report = check_gradients(run, options);
  detail::check_directions<model>(run, options, report);
  CAPTURE(report.worst_name);
  CHECK(report.entries > 0);
  CHECK(report.worst < 1e-7);
  CHECK(report.adjoint < 1e-10);
  CHECK(report.jvp < 1e-12);
  CHECK(report.hvp < 1e-6);
}

}  // namespace test
