// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/gradcheck.hpp
/// Holds a model's reverse pass against its forward pass, in double.
///
/// Differences: each sampled entry of each parameter (and of each `variable`) against central differences,
/// extrapolated over several step sizes, because a single one gives false alarms at kinks.
/// Adjoint identity: <w, J v> = <J^T w, v> for random directions v of all parameters together.
/// The arena is filled with a large number first, so that nothing may rely on what was there.

#include <simplx/train/evaluation.hpp>

#include <cmath>

namespace simplx {

struct GradientReport {
  double worst = 0;           ///< largest error of an entry, relative to the entry or to 1e-3 of the largest gradient
  std::string worst_name;     ///< of that entry's tensor
  double adjoint = 0;         ///< relative error of the adjoint identity
  Index entries = 0;          ///< entries checked
};

struct GradcheckOptions {
  std::uint64_t seed = 1;
  Index entries_per_tensor = 4;
  double spread = 0.2;  ///< parameters are moved by that much from their initial values
  double step = 0.02;   ///< first step of the differences; shrink it where kinks are near
};

namespace detail {

/// Derivative of f at 0 by central differences at h, h/2, h/4, ... extrapolated to h = 0 (Ridders' method).
template <class F>
double derivative(const F& f, double step) {
  constexpr int levels = 7;
  double table[levels][levels], best = 0, error = INFINITY;
  double h = step;
  for (int i = 0; i < levels; ++i, h /= 2) {
    table[i][0] = (f(h) - f(-h)) / (2 * h);
    double factor = 1;
    for (int j = 1; j <= i; ++j) {
      factor *= 4;
      table[i][j] = (factor * table[i][j - 1] - table[i - 1][j - 1]) / (factor - 1);
      const double change = std::max(std::abs(table[i][j] - table[i][j - 1]),
                                     std::abs(table[i][j] - table[i - 1][j - 1]));
      if (change <= error) error = change, best = table[i][j];
    }
  }
  return best;
}

}  // namespace detail

/// Checks an evaluation whose inputs have been set; leaves its parameters moved by random amounts.
///
/// Cost    14 forward passes for each entry
template <class Evaluation>
GradientReport check_gradients(Evaluation& run, const GradcheckOptions& options = {}) {
  using S = typename Evaluation::S;
  using G = typename Evaluation::G;
  static_assert(std::is_same_v<S, double>, "gradients are checked in double");
  GradientReport report;
  const auto random = [&](std::string_view what, Index i) {
    return normal(key_of(options.seed, what), static_cast<std::uint64_t>(i));
  };

  struct Block {  // parameters by tensor, then the variables
    std::string name;
    std::span<S> value, gradient;
  };
  std::vector<Block> blocks;
  for (const TensorInfo& tensor : run.tensors().parameters) {
    blocks.push_back({tensor.name, run.parameter(tensor.name), run.gradient(tensor.name)});
  }
  for (int i = 0; i < G::count; ++i) {
    if (G::table.info[i].kind != Kind::input || !G::fusion.wanted[i]) continue;
    const std::string name(G::flat.label[i].name.view());
    blocks.push_back({name, run.input(name), run.input_gradient(name)});
  }
  for (Block& block : blocks) {
    for (std::size_t i = 0; i < block.value.size(); ++i) {
      block.value[i] += options.spread * random("move." + block.name, static_cast<Index>(i));
    }
  }

  std::vector<std::vector<S>> weights;  // the loss is <w, result>, summed over the results
  for (int k = 0; k < G::layout.outputs; ++k) {
    weights.emplace_back(run.output(k).size());
    for (std::size_t i = 0; i < weights.back().size(); ++i) {
      weights.back()[i] = random("seed" + std::to_string(k), static_cast<Index>(i));
    }
  }
  const auto loss = [&] {
    run.forward();
    double total = 0;
    for (int k = 0; k < G::layout.outputs; ++k) {
      const std::span<S> result = run.output(k);
      for (std::size_t i = 0; i < result.size(); ++i) total += weights[static_cast<std::size_t>(k)][i] * result[i];
    }
    return total;
  };

  std::ranges::fill(run.memory(), S(1e30));
  loss();
  for (int k = 0; k < G::layout.outputs; ++k) std::ranges::copy(weights[static_cast<std::size_t>(k)], run.seed(k).begin());
  run.backward();

  double largest = 0;
  std::vector<std::vector<S>> gradients;
  for (const Block& block : blocks) {
    gradients.emplace_back(block.gradient.begin(), block.gradient.end());
    for (const S g : block.gradient) largest = std::max(largest, std::abs(g));
  }

  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    const Index size = static_cast<Index>(block.value.size());
    for (Index e = 0; e < std::min(options.entries_per_tensor, size); ++e) {
      const auto i = static_cast<std::size_t>(bits(key_of(options.seed, block.name), static_cast<std::uint64_t>(e)) %
                                              static_cast<std::uint64_t>(size));
      const S before = block.value[i];
      const auto along = [&](double h) {
        block.value[i] = before + h;
        const double value = loss();
        block.value[i] = before;
        return value;
      };
      double error = INFINITY;
      for (const double step : {options.step, options.step / 16, options.step / 256}) {
        const double expected = detail::derivative(along, step);
        const double scale = std::max({std::abs(expected), std::abs(gradients[b][i]), 1e-3 * largest, 1e-12});
        error = std::min(error, std::abs(expected - gradients[b][i]) / scale);
        if (error < 1e-10) break;
      }
      if (!(error <= report.worst)) report.worst = error, report.worst_name = block.name;
      ++report.entries;
    }
  }

  // <w, J v> by differences along v, <J^T w, v> from the reverse pass.
  double pulled = 0, scale = 0;
  std::vector<std::vector<S>> direction, origin;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    direction.emplace_back(blocks[b].value.size());
    origin.emplace_back(blocks[b].value.begin(), blocks[b].value.end());
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      direction[b][i] = random("direction." + blocks[b].name, static_cast<Index>(i));
      pulled += direction[b][i] * gradients[b][i];
      scale += std::abs(direction[b][i] * gradients[b][i]);
    }
  }
  const auto along = [&](double h) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t i = 0; i < direction[b].size(); ++i) blocks[b].value[i] = origin[b][i] + h * direction[b][i];
    }
    return loss();
  };
  report.adjoint = INFINITY;
  for (double step = options.step; step > options.step / 5000; step /= 4) {
    const double pushed = detail::derivative(along, step);
    report.adjoint = std::min(report.adjoint, std::abs(pushed - pulled) / std::max(scale, 1e-300));
  }
  along(0);
  return report;
}

}  // namespace simplx
