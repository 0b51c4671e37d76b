// SPDX-License-Identifier: MIT
#pragma once

/// A model on the device against the same model on the CPU.

#include "cuda/kernels.hpp"
#include "cuda/on_cpu.hpp"
#include "support.hpp"

#include <simplx/cuda/evaluation.cuh>

namespace test {

/// Of a model: as they begin, or moved away from there, where queries are zero and small weights hide an MLP.
enum class Parameters { initial, stirred };

/// Runs a model forward and backward, seeded by numbers, and gives all results and gradients. Rows of Axis::batch are
/// as many as tokens.
template <auto const& model, class Backend>
std::vector<double> all_of(Index tokens, const std::vector<Index>& lengths, const Randomness& random,
                           Parameters parameters = Parameters::stirred) {
  Evaluation<model, Backend> run(Rows{.tokens = tokens, .batch = tokens}, 1, lengths);
  using S = typename Backend::Scalar;
  std::ranges::fill(run.memory(), std::numeric_limits<S>::quiet_NaN());  // whatever is read must have been written
  fill_inputs(run);
  if (parameters == Parameters::stirred) {
    for (const TensorInfo& tensor : run.tensors().parameters) {
      std::uint64_t number = 0;
      for (S& p : run.parameter(tensor.name)) p += static_cast<S>(0.3 * normal(key_of(9, tensor.name), number++));
    }
  }
  run.random() = random;
  run.forward();
  std::vector<double> all;
  const auto take = [&](std::span<S> values) { all.insert(all.end(), values.begin(), values.end()); };
  const GraphView& graph = run.graph();
  for (int i = 0; i < graph.count; ++i) {
    if (!graph.info[i].result) continue;
    take(run.output(graph.output[i]));
    std::uint64_t number = 0;
    for (S& seed : run.output_gradient(graph.output[i])) seed = static_cast<S>(normal(5, number++));
  }
  run.backward();
  take(run.gradients());
  for (int i = 0; i < graph.count; ++i) {
    if (graph.info[i].kind == Kind::input && graph.wanted[i]) take(run.input_gradient(graph.label[i].name.view()));
  }
  return all;
}

/// The same by the reference path of the CPU, in S.
template <auto const& model, class S = double>
std::vector<double> expected(Index tokens, const std::vector<Index>& lengths = {}, const Randomness& random = {},
                             Parameters parameters = Parameters::stirred) {
  return on_cpu([&](auto number) {
    return all_of<model, Cpu<decltype(number), Path::reference>>(tokens, lengths, random, parameters);
  }, S());
}

/// The largest difference; infinite where a number is not finite.
inline double farthest(const std::vector<double>& on_device, const std::vector<double>& on_cpu) {
  REQUIRE(on_cpu.size() == on_device.size());
  double worst = 0;
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    const double difference = std::abs(on_cpu[i] - on_device[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

/// Every number is finite and differs by no more than `tolerance` times the largest of those on the CPU.
inline void check_close(const std::vector<double>& on_device, const std::vector<double>& on_cpu, double tolerance) {
  double largest = 1;
  for (const double number : on_cpu) largest = std::max(largest, std::abs(number));
  CHECK(farthest(on_device, on_cpu) <= tolerance * largest);
}

/// Results and gradients on the device have the same bits under every schedule, and are those of the CPU to rounding.
template <auto const& model>
void same_on_device(Index tokens, const std::vector<Index>& lengths = {}, const Randomness& random = {}) {
  CAPTURE(tokens);
  const auto on_device =
      same_bits([&] { return all_of<model, Cuda<Precision::float64>>(tokens, lengths, random); });
  check_close(on_device, expected<model>(tokens, lengths, random), 1e-12);
}

/// In float a device gives the numbers of the CPU in double, to the rounding of float.
template <auto const& model>
void float_on_device(Index tokens, const std::vector<Index>& lengths = {}, const Randomness& random = {}) {
  check_close(all_of<model, Cuda<>>(tokens, lengths, random), expected<model>(tokens, lengths, random), 1e-5);
}

/// In bfloat16 to its rounding, with the same bits under every schedule.
template <auto const& model>
void bfloat16_on_device(Index tokens, double tolerance, const std::vector<Index>& lengths = {},
                        Parameters parameters = Parameters::stirred) {
  check_close(same_bits([&] { return all_of<model, Cuda<Precision::bfloat16>>(tokens, lengths, {}, parameters); }),
              expected<model>(tokens, lengths, {}, parameters), tolerance);
}

}  // namespace test
