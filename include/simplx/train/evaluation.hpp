// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/evaluation.hpp
/// Evaluation: a model with its own parameters and memory, forward and backward, everything reachable by name.
///
///     Evaluation<model> run(tokens{128});
///     std::ranges::copy(text, run.indices("tokens").begin());  // likewise labels
///     run.forward();                       // run.output(0)
///     run.output_gradient(0)[...] = ...;   // gradient of the result
///     run.backward();                      // run.gradient("blocks.0.mlp.up.weight")

#include <simplx/core/inputs.hpp>
#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/train/glob.hpp>
#include <simplx/train/initialise.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What an evaluation holds and what is reached by name: compiled once for each number type, not for each model.
template <class S_>
class EvaluationMemory {
 public:
  using S = S_;

  const TensorList& tensors() const { return tensors_; }
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next forward()
  /// reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// As the last backward() left them, in the same layout.
  std::span<S> gradients() { return gradients_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> gradient(std::string_view name) {
    return slice_of(tensors_.parameters, gradients(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }

  /// An input of numbers and its gradient, one of indices; each throws Error for the other kind.
  std::span<S> input(std::string_view name) { return inputs_[number_of(name, Kind::input)].span(); }
  std::span<S> input_gradient(std::string_view name) { return input_gradients_[number_of(name, Kind::input)].span(); }
  std::span<std::int32_t> indices(std::string_view name) { return indices_[number_of(name, Kind::indices)].span(); }
  /// A result, and its gradient: those of all results are to be filled before each backward, which writes over some and
  /// leaves others.
  std::span<S> output(int number = 0) { return result(number, context_.outputs); }
  std::span<S> output_gradient(int number = 0) { return result(number, context_.output_gradients); }
  /// What dropout draws from; nothing is dropped unless its `training` is set.
  Randomness& random() { return context_.random; }
  /// The arena, for tests that poison it.
  std::span<S> memory() { return arena_->memory(); }
  /// The numbers of the graph.
  const GraphView& graph() const { return graph_; }

 protected:
  EvaluationMemory(const GraphView& graph, TensorList tensors, Index (*scratch)(const Rows&), Rows rows,
                   std::uint64_t seed, std::vector<Index> lengths)
      : graph_(graph),
        tensors_(std::move(tensors)),
        parameters_(graph.parameters),
        gradients_(graph.parameters),
        constants_(graph.constants),
        packed_(2 * graph.packed) {
    for (const Index count : {rows.tokens, rows.sequences, rows.labelled, rows.batch}) {
      if (count < 0) throw Error("an evaluation of " + std::to_string(count) + " rows", "rows are counted from 0 on");
    }
    if (lengths.empty()) {
      for (Index s = 0; s < rows.sequences; ++s) lengths.push_back(rows.tokens / rows.sequences);
    }
    offsets_ = offsets_of(lengths);
    rows.sequences = static_cast<Index>(lengths.size());
    rows.longest_sequence = longest_of(graph, offsets_);
    if (offsets_.back() != rows.tokens) {
      throw Error("the sequences have " + std::to_string(offsets_.back()) + " tokens together, not " +
                      std::to_string(rows.tokens),
                  "tokens must be the sum of the lengths, a multiple of `sequences` if none are given");
    }
    arena_.emplace(graph, scratch(rows), rows);
    initialise(tensors_.parameters, seed, parameters_.data());
    initialise(tensors_.constants, seed, constants_.data());
    context_ = arena_->context(rows, {offsets_.data(), rows.sequences}, rows.longest_sequence);
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.constants = constants_.data();
    context_.packed = packed_.data(), context_.turned = packed_.data() + graph.packed;
    for (int i = 0; i < graph.count; ++i) {
      if (!graph.is_input(i)) continue;
      const bool whole_numbers = graph.info[i].kind == Kind::indices;
      const int number = graph.input[i];
      const Index size = size_of(i);
      inputs_[number] = cpu::Buffer<S>(whole_numbers ? 0 : size);
      input_gradients_[number] = cpu::Buffer<S>(whole_numbers ? 0 : size);
      indices_[number] = cpu::Buffer<std::int32_t>(whole_numbers ? size : 0);
      context_.inputs[number] = whole_numbers ? static_cast<const void*>(indices_[number].data())
                                              : static_cast<const void*>(inputs_[number].data());
      context_.input_gradients[number] = input_gradients_[number].data();
    }
  }

  int number_of(std::string_view name, Kind kind) const {
    const int node = graph_.input_node(name);
    if (node < 0) throw unknown_name("input", name, names_of_inputs());
    if (graph_.info[node].kind != kind) {
      throw Error("the input '" + std::string(name) + "' is one of " + (kind == Kind::input ? "indices" : "numbers"),
                  std::string("reach it by ") + (kind == Kind::input ? "indices" : "input"));
    }
    return graph_.input[node];
  }
  std::vector<std::string> names_of_inputs() const {
    std::vector<std::string> names;
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.is_input(i)) names.emplace_back(graph_.label[i].name.view());
    }
    return names;
  }
  std::span<S> result(int number, S* const (&data)[max_outputs]) const {
    const int node = graph_.result_node(number);
    if (node < 0) {
      throw Error("the model has no result number " + std::to_string(number),
                  "results are numbered from 0 in the order in which the model returns them");
    }
    return {data[number], static_cast<std::size_t>(size_of(node))};
  }
  Index size_of(int node) const {
    const Shape& shape = graph_.info[node].shape;
    return context_.rows_of(shape) * shape.cols;
  }

  GraphView graph_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, gradients_, constants_, packed_;
  std::vector<Index> offsets_;
  std::optional<Arena<S>> arena_;
  Context<S> context_;
  cpu::Buffer<S> inputs_[max_inputs], input_gradients_[max_inputs];
  cpu::Buffer<std::int32_t> indices_[max_inputs];
};

}  // namespace detail

/// A model with parameters and memory of its own: forward, backward, and every tensor by name.
template <auto const& model, class Backend_ = Cpu<double>>
class Evaluation : public detail::EvaluationMemory<typename Backend_::Scalar> {
  using Memory = detail::EvaluationMemory<typename Backend_::Scalar>;
  using Memory::arena_, Memory::context_, Memory::graph_, Memory::parameters_, Memory::gradients_, Memory::packed_;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  static_assert(detail::runs_on_host<Backend>());

  /// Memory for these rows; sequences of equal length unless their lengths are given.
  ///
  /// Errors  throws Error if the lengths are not those of all tokens, or longer than the model's positions, or if a
  ///         number of rows is below 0
  explicit Evaluation(const Rows& rows, std::uint64_t seed = 0, std::vector<Index> lengths = {})
      : Memory(view_of<G>, tensors_of<model>(), detail::graph_scratch<G, Backend>, rows, seed, std::move(lengths)) {}

  /// Errors  throws Error if an index is out of range
  void forward() {
    check_indices(graph_, context_.inputs, arena_->capacity());
    Run::prepare(parameters_.data(), packed_.data(), packed_.data() + graph_.packed);
    Run::forward(context_);
    used_up_ = false, evaluated_ = true;
  }
  /// Gradients of the parameters are set, not added to.
  ///
  /// Errors  throws Error without a forward() before
  /// Cost    a second one after the same forward() evaluates that again, if the first wrote over values (of logits)
  void backward() {
    if (!evaluated_) throw Error("backward() without a forward()", "call forward() first");
    if (used_up_) Run::forward(context_);
    used_up_ = G::uses_up_values;
    std::ranges::fill(gradients_, S(0));
    Run::backward(context_);
  }

  /// Calls f(name, shape, value, gradient) for every probe, in stacks for each layer.
  template <class F>
  void each_probe(F f) {
    simplx::each_probe<G>(context_, "", f);
  }

 private:
  bool evaluated_ = false;
  bool used_up_ = false;  ///< backward has written over values of the last forward
};

}  // namespace simplx
