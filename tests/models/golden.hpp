// SPDX-License-Identifier: MIT
#pragma once

/// Holding a model against a golden file (tests/golden): logits, loss and every gradient at 1e-10.

#include "support.hpp"

#include <simplx/io/safetensors.hpp>

namespace test {

/// The loss and, in addition, the logits.
template <auto const& model>
struct WithLogits {
  struct Results {
    Expr loss, logits;
  };
  constexpr Results operator()() const {
    const Expr logits = model.logits();
    return {cross_entropy(logits, indices("labels", logits.shape().axis)), logits};
  }
};
template <auto const& model>
inline constexpr WithLogits<model> with_logits{};

inline std::span<const double> doubles(const SafetensorsFile& file, const std::string& name) {
  const Tensor* tensor = file.find(name);
  REQUIRE_MESSAGE(tensor, name);
  return {reinterpret_cast<const double*>(tensor->bytes.data()), static_cast<std::size_t>(tensor->elements())};
}

/// max |a - b| / max(floor, max |b|).
inline double distance(std::span<const double> a, std::span<const double> b, double floor) {
  REQUIRE(a.size() == b.size());
  double difference = 0, largest = floor;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

/// Results 0, the loss, and 1, the logits, of an evaluation that was given the file's tokens. `run` is what evaluates
/// `memory`.
inline void agrees_with(detail::EvaluationMemory<double>& memory, const detail::Subject<double>& run,
                        const SafetensorsFile& file) {
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    std::ranges::copy(doubles(file, tensor.name), memory.parameter(tensor.name).begin());
  }
  for (const TensorInfo& tensor : memory.tensors().constants) {
    if (tensor.name.ends_with(".base")) {
      std::ranges::copy(doubles(file, tensor.name), memory.constant(tensor.name).begin());
    }
  }
  CHECK(std::ranges::count_if(file.tensors(), [](const Tensor& t) { return t.name.starts_with("grad."); }) ==
        static_cast<std::ptrdiff_t>(memory.tensors().parameters.size()));
  run.forward();
  double loss = 0;
  for (const double row : memory.output(0)) loss += row;
  const auto labelled =
      static_cast<double>(std::ranges::count_if(memory.indices("labels"), [](int y) { return y != -100; }));
  loss /= labelled;
  CHECK(std::abs(loss - doubles(file, "loss")[0]) / doubles(file, "loss")[0] < 1e-10);
  CHECK(distance(memory.output(1), doubles(file, "logits"), 1e-12) < 1e-10);
  std::ranges::fill(memory.output_gradient(0), 1 / labelled);
  std::ranges::fill(memory.output_gradient(1), 0.0);
  run.backward();
  double largest = 0;
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    for (const double g : doubles(file, "grad." + tensor.name)) largest = std::max(largest, std::abs(g));
  }
  for (const TensorInfo& tensor : memory.tensors().parameters) {
    CAPTURE(tensor.name);
    CHECK(distance(memory.gradient(tensor.name), doubles(file, "grad." + tensor.name),
                   std::max(1e-12, 1e-3 * largest)) < 1e-10);
  }
}
template <auto const& model, class Backend>
void agrees_with(Evaluation<model, Backend>& run, const SafetensorsFile& file) {
  agrees_with(run, detail::subject_of(run), file);
}

inline SafetensorsFile golden_file(const std::string& name) {
  return SafetensorsFile::read(std::filesystem::path(SIMPLX_GOLDEN_DIR) / (name + ".safetensors"));
}
inline Rows rows_of_tokens(const Tensor& tokens) { return {.tokens = tokens.elements(), .sequences = tokens.shape[0]}; }
inline void set_tokens(detail::EvaluationMemory<double>& run, const SafetensorsFile& file) {
  const Tensor &tokens = *file.find("tokens"), &targets = *file.find("targets");
  std::memcpy(run.indices("tokens").data(), tokens.bytes.data(), tokens.bytes.size());
  std::memcpy(run.indices("labels").data(), targets.bytes.data(), targets.bytes.size());
}

template <auto const& model, class Backend>
void agrees_with(const std::string& name) {
  CAPTURE(name);
  const SafetensorsFile file = golden_file(name);
  Evaluation<with_logits<model>, Backend> run(rows_of_tokens(*file.find("tokens")));
  set_tokens(run, file);
  agrees_with(run, file);
}

}  // namespace test
