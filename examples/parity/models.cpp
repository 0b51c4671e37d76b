// SPDX-License-Identifier: MIT
//
// Compiled once for each PARITY_PART: blocks number PARITY_PART, PARITY_PART + PARITY_PARTS, ...

#include "models.hpp"

#include <simplx/models/model_of.hpp>
#include <simplx/train/evaluation.hpp>

#include <cstring>
#include <iterator>

#ifndef PARITY_PART
#define PARITY_PART 0
#endif

using namespace simplx;

namespace parity {
namespace {

template <int block>
inline constexpr ModelOf<block> plain{.block = all_blocks[block].config, .vocab = PARITY_VOCAB, .width = PARITY_WIDTH,
                                      .heads = PARITY_HEADS, .hidden = PARITY_HIDDEN, .layers = PARITY_LAYERS,
                                      .context = PARITY_CONTEXT};

/// The losses of all tokens and the logits behind them.
template <int block>
struct WithLogits {
  struct Values {
    Expr losses, logits;
  };
  constexpr Values operator()() const {
    const Expr logits = plain<block>.logits();
    return {cross_entropy(logits, indices("labels", Axis::tokens)), logits};
  }
};
template <int block>
inline constexpr WithLogits<block> model{};

/// Bases are given with the weights; positions, slopes and epsilons are the model's own.
bool is_base(const TensorInfo& constant) { return constant.name.ends_with(".base"); }

template <int block>
std::vector<TensorInfo> weights() {
  TensorList tensors = tensors_of<model<block>>();
  std::ranges::copy_if(tensors.constants, std::back_inserter(tensors.parameters), is_base);
  return std::move(tensors.parameters);
}

template <class T>
void read(const SafetensorsFile& file, const std::string& name, std::span<T> values) {
  std::memcpy(values.data(), file.find(name)->bytes.data(), values.size_bytes());
}

template <int block>
Results evaluate(const SafetensorsFile& file) {
  const std::vector<Index>& shape = file.find("tokens")->shape;  // (B, T)
  Evaluation<model<block>> run(Rows{.tokens = shape[0] * shape[1], .sequences = shape[0]});
  for (const TensorInfo& tensor : run.tensors().parameters) read(file, tensor.name, run.parameter(tensor.name));
  for (const TensorInfo& tensor : run.tensors().constants) {
    if (is_base(tensor)) read(file, tensor.name, run.constant(tensor.name));
  }
  const auto labels = run.indices("labels");
  read(file, "tokens", run.indices("tokens"));
  read(file, "targets", labels);

  run.forward();
  const auto labelled = static_cast<double>(std::ranges::count_if(labels, [](int label) { return label >= 0; }));
  Results results;
  for (const double loss : run.output(0)) results.loss += loss / labelled;
  results.logits.assign(run.output(1).begin(), run.output(1).end());

  std::ranges::fill(run.output_gradient(0), 1 / labelled);
  std::ranges::fill(run.output_gradient(1), 0.0);
  run.backward();
  for (const TensorInfo& tensor : run.tensors().parameters) {
    const auto gradient = run.gradient(tensor.name);
    results.gradients.push_back({tensor, {gradient.begin(), gradient.end()}});
  }
  return results;
}

template <int block>
void add_models(std::vector<Model>& models) {
  if constexpr (block < std::size(all_blocks)) {
    models.push_back({block, weights<block>, evaluate<block>});
    add_models<block + PARITY_PARTS>(models);
  }
}

}  // namespace

template <int part>
std::vector<Model> models_of_part() {
  std::vector<Model> models;
  add_models<part>(models);
  return models;
}
template std::vector<Model> models_of_part<PARITY_PART>();

}  // namespace parity
