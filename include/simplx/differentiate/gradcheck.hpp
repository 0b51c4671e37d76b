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
#include <simplx/differentiate/checked_loss.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

/// How far gradients are from differences, and forward mode from reverse mode; errors are relative.
struct GradientReport {
  double worst = 0;           ///< largest error of an entry, relative to the entry or to 1e-3 of the largest gradient
  std::string worst_name{};   ///< of that entry's tensor
  double adjoint = 0;         ///< relative error of the adjoint identity
  double jvp = 0;             ///< relative error of forward mode against reverse mode
  double hvp = 0;             ///< largest relative error of a tensor's share of H v
  Index entries = 0;          ///< entries checked

  /// Whether derivatives were looked at, and none is wrong; check_gradients looks at neither J v nor H v. Differences
  /// are limited by h^2 and rounding: 1e-6 of an entry and of H v, 1e-8 of the adjoint identity, a sum over all
  /// entries. Forward and reverse mode are the same but for rounding: 1e-11.
  bool holds() const { return entries > 0 && worst < 1e-6 && adjoint < 1e-8 && jvp < 1e-11 && hvp < 1e-6; }
};

/// Where and how closely gradcheck looks: seed, entries, steps and the sizes of its data.
struct GradcheckOptions {
  std::uint64_t seed = 1;
  Index entries_per_tensor = 4;
  double spread = 0.2;  ///< parameters are moved by that much from their initial values
  double step = 0.02;   ///< first step of the differences, which become smaller where kinks are near
  Rows rows{.labelled = 4, .batch = 3};  ///< of gradcheck<model>(); tokens are those of the lengths unless given
  std::vector<Index> lengths = {};  ///< of its sequences; 3, 1 and 5, as far as its positions go, unless given
  Index classes = 0;  ///< its indices are below that; 5, or what its tables have, unless given
};

namespace detail {

/// Errors  throws Error for options with which nothing would be checked
inline void check_options(const GradcheckOptions& options) {
  if (options.entries_per_tensor < 1) {
    throw Error("gradcheck is to look at " + std::to_string(options.entries_per_tensor) + " entries of a tensor",
                "entries_per_tensor is at least 1");
  }
  if (!(options.step > 0 && options.step < 1e300)) {
    throw Error("gradcheck's first step is " + std::to_string(options.step), "step is a number above 0");
  }
  if (!(std::abs(options.spread) < 1e300)) {
    throw Error("gradcheck's spread is " + std::to_string(options.spread), "spread is a finite number");
  }
}

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

/// The least of the errors that first steps of differences leave, from `step` on, each a quarter of the one before: one
/// that crosses no kink tells whether a derivative is right, and a wrong one is wrong by all. Deep ReLU models have
/// kinks within 1e-6 of where they are.
template <class F>
double least_error(double step, const F& error_by) {
  double least = INFINITY;
  for (int i = 0; i < 10 && !(least < 1e-9); ++i, step /= 4) least = std::min(least, error_by(step));
  return least;
}

// Templates, though S is double: who only includes this header does not pay for them.

/// Moves the tensors by random amounts, and takes the gradients there.
template <class S>
Entries move_and_differentiate(const CheckedLoss<S>& loss, const GradcheckOptions& options,
                               const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  for (const auto& tensor : run.tensors) {
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      tensor.value[i] += options.spread * random.of("move." + tensor.name, i);
    }
  }
  std::ranges::fill(run.memory, 1e30);
  loss.gradient();
  Entries gradients;
  for (const auto& tensor : run.tensors) gradients.emplace_back(tensor.gradient.begin(), tensor.gradient.end());
  return gradients;
}

/// Holds entries of each tensor against differences.
template <class S>
void check_entries(const CheckedLoss<S>& loss, const Entries& gradients, const GradcheckOptions& options,
                   GradientReport& report) {
  const Subject<S>& run = loss.run;
  double largest = 0;
  for (const auto& gradient : gradients) {
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
  }
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& tensor = run.tensors[b];
    const Index size = static_cast<Index>(tensor.value.size());
    for (Index e = 0; e < std::min(options.entries_per_tensor, size); ++e) {
      const auto i = static_cast<std::size_t>(bits(key_of(options.seed, tensor.name), static_cast<std::uint64_t>(e)) %
                                              static_cast<std::uint64_t>(size));
      const double before = tensor.value[i];
      const auto along = [&](double h) {
        tensor.value[i] = before + h;
        const double value = loss();
        tensor.value[i] = before;
        return value;
      };
      const double error = least_error(options.step, [&](double step) {
        const double expected = derivative(along, step);
        const double scale = std::max({std::abs(expected), std::abs(gradients[b][i]), 1e-3 * largest, 1e-12});
        return std::abs(expected - gradients[b][i]) / scale;
      });
      if (!(error <= report.worst)) report.worst = error, report.worst_name = tensor.name;
      ++report.entries;
    }
  }
}

/// <w, J v> by differences along v against <J^T w, v>; the tensors end where they are.
template <class S>
double adjoint_error(const CheckedLoss<S>& loss, const Entries& gradients, const GradcheckOptions& options,
                     const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  const Entries origin = values_of(run), direction = direction_of(run, random);
  double pulled = 0, scale = 0;
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      pulled += direction[b][i] * gradients[b][i];
      scale += std::abs(direction[b][i] * gradients[b][i]);
    }
  }
  const auto along = [&](double h) {
    move_to(run, origin, direction, h);
    return loss();
  };
  const double error = least_error(options.step, [&](double step) {
    return std::abs(derivative(along, step) - pulled) / std::max(scale, 1e-300);
  });
  along(0);
  return error;
}

template <class S>
GradientReport check_gradients(const Subject<S>& run, const GradcheckOptions& options) {
  check_options(options);
  const CheckNumbers random{options.seed};
  const CheckedLoss<S> loss(run, random);
  const Entries gradients = move_and_differentiate(loss, options, random);
  GradientReport report;
  check_entries(loss, gradients, options, report);
  report.adjoint = adjoint_error(loss, gradients, options, random);
  return report;
}

/// J v of forward mode against <J^T w, v>, which are the gradients in the tensors of the loss.
template <class S>
double jvp_error(const CheckedLoss<S>& loss, const Subject<Dual<S>>& dual, const Entries& direction) {
  dual.forward();
  double pushed = 0, pulled = 0, scale = 1e-300;
  for (std::size_t k = 0; k < loss.weights.size(); ++k) {
    for (std::size_t i = 0; i < loss.weights[k].size(); ++i) {
      pushed += loss.weights[k][i] * dual.outputs[k][i].tangent;
    }
  }
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      const double part = loss.run.tensors[b].gradient[i] * direction[b][i];
      pulled += part, scale += std::abs(part);
    }
  }
  return std::abs(pushed - pulled) / scale;
}

/// <u, H v> by the backward pass of `dual`, whose forward pass was, against differences of <u, gradient> along v, for a
/// random u on one tensor after the other; the tensors end elsewhere.
template <class S>
double hvp_error(const CheckedLoss<S>& loss, const Subject<Dual<S>>& dual, const Entries& direction,
                 const GradcheckOptions& options, const CheckNumbers& random) {
  const Subject<S>& run = loss.run;
  for (std::size_t k = 0; k < loss.weights.size(); ++k) std::ranges::copy(loss.weights[k], dual.seeds[k].begin());
  dual.backward();
  double largest = 1e-300, worst = 0;
  for (const auto& tensor : dual.tensors) {
    for (const Dual<S>& entry : tensor.gradient) largest = std::max(largest, std::abs(entry.tangent));
  }
  const Entries origin = values_of(run);
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& tensor = run.tensors[b];
    std::vector<double> probe(tensor.gradient.size());
    for (std::size_t i = 0; i < probe.size(); ++i) probe[i] = random.of("probe." + tensor.name, i);
    const auto along = [&](double h) {
      move_to(run, origin, direction, h);
      loss.gradient();
      double total = 0;
      for (std::size_t i = 0; i < probe.size(); ++i) total += probe[i] * tensor.gradient[i];
      return total;
    };
    double product = 0, size = largest;
    for (std::size_t i = 0; i < probe.size(); ++i) {
      const double part = probe[i] * dual.tensors[b].gradient[i].tangent;
      product += part, size += std::abs(part);
    }
    const double error =
        least_error(options.step, [&](double step) { return std::abs(derivative(along, step) - product) / size; });
    worst = std::max(worst, error);
  }
  return worst;
}

/// J v and H v on dual numbers against the reverse pass and differences of it. `run` holds the point, `dual` the same.
template <class S>
void check_directions(const Subject<S>& run, const Subject<Dual<S>>& dual, const GradcheckOptions& options,
                      GradientReport& report) {
  const CheckNumbers random{options.seed};
  const Entries direction = direction_of(run, random);
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) {
      dual.tensors[b].value[i] = Dual<S>(run.tensors[b].value[i], direction[b][i]);
    }
  }
  const CheckedLoss<S> loss(run, random);
  loss.gradient();
  report.jvp = jvp_error(loss, dual, direction);
  report.hvp = hvp_error(loss, dual, direction, options, random);
}

/// What does not move is the same in both.
template <class S>
void copy_point(EvaluationMemory<S>& run, EvaluationMemory<Dual<S>>& dual) {
  std::ranges::copy(run.parameters(), dual.parameters().begin());
  std::ranges::copy(run.constants(), dual.constants().begin());
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.is_input(i)) continue;
    const std::string_view name = graph.label[i].name.view();
    if (graph.info[i].kind == Kind::indices) std::ranges::copy(run.indices(name), dual.indices(name).begin());
    if (graph.info[i].kind == Kind::input) std::ranges::copy(run.input(name), dual.input(name).begin());
  }
}

/// The same of a model.
template <auto const& model>
void check_directions(Evaluation<model>& run, const GradcheckOptions& options, GradientReport& report) {
  Evaluation<model, Cpu<Dual<double>>> dual(options.rows, 0, options.lengths);
  copy_point<double>(run, dual);
  check_directions(subject_of(run), subject_of(dual), options, report);
}

/// The options with the lengths that were not given filled in.
inline GradcheckOptions with_lengths(GradcheckOptions options, const GraphView& graph) {
  if (options.lengths.empty()) {
    for (const Index length : {3, 1, 5}) options.lengths.push_back(std::min(length, graph.longest));
  }
  if (!options.rows.tokens) options.rows.tokens = offsets_of(options.lengths).back();
  return options;
}

/// What the indices of an input are below.
///
/// Errors  throws Error if the options say more than its tables have
inline Index classes_of(const GraphView& graph, int node, const GradcheckOptions& options) {
  const Index bound = graph.index_bound(node, options.rows);
  if (options.classes <= bound) return options.classes ? options.classes : std::clamp<Index>(bound, 1, 5);
  throw Error("indices below " + std::to_string(options.classes) + ", but '" +
                  std::string(graph.label[node].name.view()) + "' must be below " + std::to_string(bound),
              "give fewer classes, or none");
}

/// Random inputs, which keep away from 0.
template <class S>
void fill_inputs(EvaluationMemory<S>& run, const GradcheckOptions& options) {
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.is_input(i)) continue;
    const std::string name(graph.label[i].name.view());
    const std::uint64_t key = key_of(options.seed, "input." + name);
    if (graph.info[i].kind == Kind::indices) {
      const std::span<std::int32_t> values = run.indices(name);
      const auto classes = static_cast<std::uint64_t>(classes_of(graph, i, options));
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = static_cast<std::int32_t>(bits(key, k) % classes);
      }
    } else {
      const std::span<S> values = run.input(name);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double z = normal(key, k);
        values[k] = z + (z < 0 ? -0.3 : 0.3);
      }
    }
  }
}

}  // namespace detail

/// Checks an evaluation whose inputs have been set; leaves its parameters moved by random amounts.
///
/// Cost    14 forward passes for each entry and for the adjoint identity; up to 140 where kinks are near, or where a
///         derivative is wrong
template <class Evaluation>
GradientReport check_gradients(Evaluation& run, const GradcheckOptions& options = {}) {
  static_assert(std::is_same_v<typename Evaluation::S, double>,
                "simplx: gradients are checked in double: use Cpu<double>");
  return detail::check_gradients(detail::subject_of(run), options);
}

/// Checks all derivatives of a model at random parameters and inputs, which keep away from 0.
///
/// Errors  throws Error for classes or lengths beyond the model's tables
/// Cost    14 forward passes for each entry and for the adjoint identity, 14 gradients for each tensor; up to 140 of
///         each where kinks are near or a derivative is wrong
template <auto const& model>
GradientReport gradcheck(const GradcheckOptions& given = {}) {
  const GradcheckOptions options = detail::with_lengths(given, view_of<GraphOf<model>>);
  Evaluation<model> run(options.rows, options.seed, options.lengths);
  detail::fill_inputs<double>(run, options);
  GradientReport report = check_gradients(run, options);
  detail::check_directions(run, options, report);
  return report;
}

}  // namespace simplx
