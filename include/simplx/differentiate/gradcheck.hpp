// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/gradcheck.hpp
/// Holds a model's derivatives against its forward pass, in double: gradcheck<model>() fills a model with random
/// numbers and reports the errors of
///
/// Differences: each sampled entry of each parameter (and of each `variable`) against central differences,
/// extrapolated over several step sizes, because a single one gives false alarms at kinks.
/// Adjoint identity: <w, J v> = <J^T w, v> for random directions v of all parameters together.
/// Directions: J v of forward mode against <J^T w, v>, and H v against differences of the gradient.
///
/// The arena is filled with a large number first, so that nothing may rely on what was there.

#include <simplx/cpu/dual.hpp>
#include <simplx/train/evaluation.hpp>

#include <cmath>

namespace simplx {

struct GradientReport {
  double worst = 0;           ///< largest error of an entry, relative to the entry or to 1e-3 of the largest gradient
  std::string worst_name;     ///< of that entry's tensor
  double adjoint = 0;         ///< relative error of the adjoint identity
  double jvp = 0;             ///< relative error of forward mode against reverse mode
  double hvp = 0;             ///< largest relative error of a tensor's share of H v
  Index entries = 0;          ///< entries checked
};

struct GradcheckOptions {
  std::uint64_t seed = 1;
  Index entries_per_tensor = 4;
  double spread = 0.2;  ///< parameters are moved by that much from their initial values
  double step = 0.02;   ///< first step of the differences; shrink it where kinks are near
  Rows rows{.tokens = 9, .batch = 3};        ///< of gradcheck<model>()
  std::vector<Index> lengths{3, 1, 5};       ///< of its sequences
  Index classes = 5;                         ///< its indices are below that
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
  static_assert(std::is_same_v<S, double>, "simplx: gradients are checked in double: use Cpu<double>");
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
    if (tensor.frozen) continue;
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

namespace detail {

/// J v and H v of a model on dual numbers against its reverse pass and differences of it. `run` holds the point.
template <auto const& model>
void check_directions(Evaluation<model>& run, const GradcheckOptions& options, GradientReport& report) {
  using Number = Dual<double>;
  using G = GraphOf<model>;
  Evaluation<model, Cpu<Number>> dual(options.rows, 0, options.lengths);
  const auto random = [&](const std::string& what, std::size_t i) { return normal(key_of(options.seed, what), i); };
  struct Block {
    std::string name;
    std::span<double> value, gradient;
    std::span<Number> dual_gradient;
    std::vector<double> origin;
  };
  std::vector<Block> blocks;
  const auto moves = [&](const std::string& name, auto value, auto gradient, auto dual_value, auto dual_gradient) {
    blocks.push_back({name, value, gradient, dual_gradient, {value.begin(), value.end()}});
    for (std::size_t i = 0; i < value.size(); ++i) dual_value[i] = Number(value[i], random("direction." + name, i));
  };
  for (const TensorInfo& tensor : run.tensors().parameters) {
    const std::string& name = tensor.name;
    if (tensor.frozen) {
      std::ranges::copy(run.parameter(name), dual.parameter(name).begin());
    } else {
      moves(name, run.parameter(name), run.gradient(name), dual.parameter(name), dual.gradient(name));
    }
  }
  for (const TensorInfo& tensor : run.tensors().constants) {
    std::ranges::copy(run.constant(tensor.name), dual.constant(tensor.name).begin());
  }
  for (int i = 0; i < G::count; ++i) {
    const std::string name(G::flat.label[i].name.view());
    if (G::table.info[i].kind == Kind::indices) std::ranges::copy(run.indices(name), dual.indices(name).begin());
    if (G::table.info[i].kind != Kind::input) continue;
    if (G::fusion.wanted[i]) {
      moves(name, run.input(name), run.input_gradient(name), dual.input(name), dual.input_gradient(name));
    } else {
      std::ranges::copy(run.input(name), dual.input(name).begin());
    }
  }

  const auto gradient = [&] {
    run.forward();
    for (int k = 0; k < G::layout.outputs; ++k) {
      for (std::size_t i = 0; i < run.seed(k).size(); ++i) run.seed(k)[i] = random("seed" + std::to_string(k), i);
    }
    run.backward();
  };
  gradient();
  dual.forward();
  double pushed = 0, pulled = 0, scale = 1e-300;
  for (int k = 0; k < G::layout.outputs; ++k) {
    for (std::size_t i = 0; i < dual.seed(k).size(); ++i) {
      const double weight = random("seed" + std::to_string(k), i);
      pushed += weight * dual.output(k)[i].tangent;
      dual.seed(k)[i] = Number(weight);
    }
  }
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.value.size(); ++i) {
      const double part = block.gradient[i] * random("direction." + block.name, i);
      pulled += part, scale += std::abs(part);
    }
  }
  report.jvp = std::abs(pushed - pulled) / scale;

  dual.backward();
  double largest = 1e-300;
  for (const Block& block : blocks) {
    for (const Number& entry : block.dual_gradient) largest = std::max(largest, std::abs(entry.tangent));
  }
  for (const Block& block : blocks) {
    const auto along = [&](double h) {  // <u, gradient> at the point moved by h, u random on this tensor alone
      for (const Block& b : blocks) {
        for (std::size_t i = 0; i < b.value.size(); ++i) b.value[i] = b.origin[i] + h * random("direction." + b.name, i);
      }
      gradient();
      double total = 0;
      for (std::size_t i = 0; i < block.gradient.size(); ++i) total += random("probe." + block.name, i) * block.gradient[i];
      return total;
    };
    double product = 0, size = largest;
    for (std::size_t i = 0; i < block.dual_gradient.size(); ++i) {
      const double part = random("probe." + block.name, i) * block.dual_gradient[i].tangent;
      product += part, size += std::abs(part);
    }
    double error = INFINITY;
    for (const double step : {options.step, options.step / 16, options.step / 256}) {
      error = std::min(error, std::abs(derivative(along, step) - product) / size);
    }
    report.hvp = std::max(report.hvp, error);
  }
}

}  // namespace detail

/// Checks all derivatives of a model at random parameters and inputs, which keep away from 0.
///
/// Cost    14 forward passes for each entry, and 42 gradients for each tensor
template <auto const& model>
GradientReport gradcheck(const GradcheckOptions& options = {}) {
  using G = GraphOf<model>;
  Evaluation<model> run(options.rows, options.seed, options.lengths);
  for (int i = 0; i < G::count; ++i) {
    const std::string name(G::flat.label[i].name.view());
    const std::uint64_t key = key_of(options.seed, "input." + name);
    if (G::table.info[i].kind == Kind::input) {
      for (std::size_t k = 0; k < run.input(name).size(); ++k) {
        const double z = normal(key, k);
        run.input(name)[k] = z + (z < 0 ? -0.3 : 0.3);
      }
    } else if (G::table.info[i].kind == Kind::indices) {
      for (std::size_t k = 0; k < run.indices(name).size(); ++k) {
        run.indices(name)[k] = static_cast<std::int32_t>(bits(key, k) % static_cast<std::uint64_t>(options.classes));
      }
    }
  }
  GradientReport report = check_gradients(run, options);
  detail::check_directions<model>(run, options, report);
  return report;
}

}  // namespace simplx
