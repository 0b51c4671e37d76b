// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/function_memory.hpp
/// The memory of a Function on the CPU, laid out once the rows of all inputs are known, and its evaluation there.

#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/differentiate/function_inputs.hpp>

#include <algorithm>
#include <optional>
#include <span>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Compiled once for each number type, not for each function.
template <class S>
class FunctionMemory : public FunctionInputs<S> {
  using Inputs = FunctionInputs<S>;

 public:
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next evaluation
  /// reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// Those of all parameters, element by element, as the last backward left them; zeros after an update.
  std::span<const S> gradients() { return gradients_.span(); }

 protected:
  using Inputs::graph_, Inputs::tensors_, Inputs::pointers_, Inputs::rows_, Inputs::offsets_, Inputs::context_;

  FunctionMemory(const GraphView& graph, TensorList tensors, Index (*scratch)(const Rows&), std::uint64_t seed)
      : Inputs(graph, std::move(tensors)),
        scratch_(scratch),
        parameters_(graph.parameters),
        gradients_(graph.parameters),
        constants_(graph.constants),
        packed_(2 * graph.packed) {
    initialise(tensors_.parameters, seed, parameters_.data());
    initialise(tensors_.constants, seed, constants_.data());
  }

  /// Whether results and gradients have memory, which the first evaluation makes.
  bool arranged() const { return arena_.has_value(); }
  /// Lays everything out for the rows of what was given; there is room for the most of each kind so far.
  void arrange() {
    Inputs::count_rows();
    Inputs::make_room(arena_, scratch_);
    const Randomness random = context_.random;
    context_ = arena_->context(rows_, {offsets_.data(), rows_.sequences}, rows_.longest_sequence);
    context_.random = random;
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.constants = constants_.data();
    context_.packed = packed_.data(), context_.turned = turned();
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].kind != Kind::input || !graph_.wanted[i]) continue;
      const int number = graph_.input[i];
      const Index size = Inputs::size_of(i);
      if (input_gradients_[number].size() < size) input_gradients_[number] = cpu::Buffer<S>(size);
      context_.input_gradients[number] = input_gradients_[number].data();
    }
    Inputs::stale_ = false;
  }
  /// Reads inputs where they are.
  ///
  /// Errors  throws Error for an index out of range
  void take_inputs() {
    check_indices(graph_, pointers_, rows_);
    std::copy_n(pointers_, max_inputs, context_.inputs);
  }

  /// Everything that was given, without memory for an evaluation of it.
  ///
  /// Errors  as take_inputs
  Context<S> given() {
    Inputs::count_rows();
    check_indices(graph_, pointers_, rows_);
    Context<S> all;
    set_rows(all, rows_);
    all.segments = {offsets_.data(), rows_.sequences};
    all.parameters = parameters_.data();
    all.gradients = gradients_.data();
    all.constants = constants_.data();
    all.packed = packed_.data(), all.turned = turned();
    all.random = context_.random;
    std::copy_n(pointers_, max_inputs, all.inputs);
    return all;
  }

  S* result(int k) const { return context_.outputs[k]; }
  S* result_gradient(int k) const { return context_.output_gradients[k]; }
  S* input_gradient(int number) const { return context_.input_gradients[number]; }

  S* turned() { return packed_.data() + graph_.packed; }

  Index (*scratch_)(const Rows&);
  cpu::Buffer<S> parameters_, gradients_, constants_, packed_;  ///< packed for forward, then for backward
  cpu::Buffer<S> input_gradients_[max_inputs];
  std::optional<Arena<S>> arena_;
};

/// What an update reads and writes.
template <class S>
struct TrainedOnHost {
  S *parameters, *gradients;
};

/// How a function is evaluated by a backend: this is the CPU.
template <auto const& f, class Backend>
class FunctionOn : public FunctionMemory<typename Backend::Scalar> {
  using Memory = FunctionMemory<typename Backend::Scalar>;
  static_assert(runs_on_host<Backend>());

 public:
  using G = GraphOf<f>;
  using Run = Execute<G, Backend>;

 protected:
  explicit FunctionOn(std::uint64_t seed) : Memory(view_of<G>, tensors_of<f>(), graph_scratch<G, Backend>, seed) {}

  void take_inputs() {
    Memory::take_inputs();
    Run::prepare(Memory::parameters_.data(), Memory::packed_.data(), Memory::turned());
  }
  /// For threads that share the evaluation.
  Context<typename Backend::Scalar> given(cpu::Team& team) {
    const auto all = Memory::given();
    team.run([&](int member) {
      Run::prepare(Memory::parameters_.data(), Memory::packed_.data(), Memory::turned(), member, team.size());
    });
    return all;
  }
  void evaluate() { Run::forward(Memory::context_); }
  /// Gradients of everything, anew.
  void differentiate() {
    std::ranges::fill(Memory::gradients_, typename Backend::Scalar(0));
    Run::backward(Memory::context_);
  }
  TrainedOnHost<typename Backend::Scalar> trained() {
    return {Memory::parameters_.data(), Memory::gradients_.data()};
  }
};

}  // namespace simplx::inline SIMPLX_TARGET::detail
