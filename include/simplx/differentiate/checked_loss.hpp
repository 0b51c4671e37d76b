// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/checked_loss.hpp
/// What gradcheck sees of an evaluation: tensors that move, and a loss of all results.

#include <simplx/cpu/random_numbers.hpp>
#include <simplx/train/evaluation.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// What is checked of an evaluation, without its type, so that the checks are compiled once and not for each model.
template <class S>
struct Subject {
  struct Tensor {
    std::string name;
    std::span<S> value, gradient;
  };
  std::vector<Tensor> tensors;  ///< trained parameters, then the variables
  std::vector<std::span<S>> outputs, seeds;
  std::span<S> memory;
  void* run;
  void (*forward_of)(void*);
  void (*backward_of)(void*);

  void forward() const { forward_of(run); }
  void backward() const { backward_of(run); }
};

template <class S>
Subject<S> subject_of(EvaluationMemory<S>& memory, void* run, void (*forward)(void*), void (*backward)(void*)) {
  Subject<S> subject;
  subject.memory = memory.memory();
  subject.run = run;
  subject.forward_of = forward;
  subject.backward_of = backward;
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    if (tensor.frozen) continue;
    subject.tensors.push_back({tensor.name, memory.parameter(tensor.name), memory.gradient(tensor.name)});
  }
  const GraphView& graph = memory.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (graph.info[i].kind == Kind::input && graph.wanted[i]) {
      const std::string name(graph.label[i].name.view());
      subject.tensors.push_back({name, memory.input(name), memory.input_gradient(name)});
    }
    if (graph.info[i].result) {
      subject.outputs.push_back(memory.output(static_cast<int>(subject.outputs.size())));
      subject.seeds.push_back(memory.output_gradient(static_cast<int>(subject.seeds.size())));
    }
  }
  return subject;
}
template <auto const& model, class Backend>
auto subject_of(Evaluation<model, Backend>& run) {
  using Run = Evaluation<model, Backend>;
  return subject_of<typename Backend::Scalar>(
      run, &run, [](void* evaluation) { static_cast<Run*>(evaluation)->forward(); },
      [](void* evaluation) { static_cast<Run*>(evaluation)->backward(); });
}

/// Random numbers that belong to a name: <w, result> is the loss, v the direction, u what H v is projected on.
struct CheckNumbers {
  std::uint64_t seed;
  double of(const std::string& what, std::size_t i) const { return normal(key_of(seed, what), i); }
  double weight(std::size_t output, std::size_t i) const { return of("seed" + std::to_string(output), i); }
  double direction(const std::string& name, std::size_t i) const { return of("direction." + name, i); }
};

/// A number for each entry of each tensor, or of each result.
using Entries = std::vector<std::vector<double>>;

/// The loss that is differentiated: <w, result>, summed over the results.
template <class S>
struct CheckedLoss {
  const Subject<S>& run;
  Entries weights;

  CheckedLoss(const Subject<S>& subject, const CheckNumbers& random) : run(subject) {
    for (std::size_t k = 0; k < run.outputs.size(); ++k) {
      weights.emplace_back(run.outputs[k].size());
      for (std::size_t i = 0; i < weights[k].size(); ++i) weights[k][i] = random.weight(k, i);
    }
  }
  double operator()() const {
    run.forward();
    double total = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      for (std::size_t i = 0; i < weights[k].size(); ++i) total += weights[k][i] * run.outputs[k][i];
    }
    return total;
  }
  /// Leaves the gradients in the tensors of `run`.
  void gradient() const {
    run.forward();
    for (std::size_t k = 0; k < weights.size(); ++k) std::ranges::copy(weights[k], run.seeds[k].begin());
    run.backward();
  }
};

/// Where the tensors are.
template <class S>
Entries values_of(const Subject<S>& run) {
  Entries values;
  for (const auto& tensor : run.tensors) values.emplace_back(tensor.value.begin(), tensor.value.end());
  return values;
}

/// v, in which all tensors move together.
template <class S>
Entries direction_of(const Subject<S>& run, const CheckNumbers& random) {
  Entries direction;
  for (const auto& tensor : run.tensors) {
    std::vector<double>& mine = direction.emplace_back(tensor.value.size());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = random.direction(tensor.name, i);
  }
  return direction;
}

/// Puts the tensors at origin + h direction.
template <class S>
void move_to(const Subject<S>& run, const Entries& origin, const Entries& direction, double h) {
  for (std::size_t b = 0; b < run.tensors.size(); ++b) {
    const auto& value = run.tensors[b].value;
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = origin[b][i] + h * direction[b][i];
  }
}

}  // namespace simplx::detail
