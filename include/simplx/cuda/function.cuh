// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/function.cuh
/// Function on a GPU: what differentiate/function.hpp does, with the same names, initial values and objects of the
/// host.
///
///     Function<loss, Cuda<>> f;
///     f.set<"x">(x).set<"y">(y);                // copied to the device when they are evaluated
///     f.bind<"features">(on_device);            // a DeviceBuffer<float>, read where it is
///     const float value = f.value_and_grad();   // f.gradient<"w">(), f.parameters(), ... are copies on the host
///
/// Each evaluation copies what has changed since the one before to the device, and results back; gradients and
/// parameters are copied when they are asked for. From the second evaluation of as many rows on, forward and backward
/// are each one graph of CUDA, unless another DeviceBuffer is bound in between.

#include <simplx/cuda/device_parameters.cuh>
#include <simplx/cuda/graph_on.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/cuda/recorded.cuh>
#include <simplx/differentiate/function.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// What an update reads and writes.
template <class S, bool rounds>
struct TrainedOnDevice {
  const GpuStream& stream;
  gpu::DeviceParameters<S, rounds>& parameters;
  S* gradients;
};

/// How a function is evaluated on a GPU.
template <auto const& f, Precision precision>
class FunctionOn<f, Cuda<precision>> : public FunctionInputs<typename Cuda<precision>::Scalar> {
  using Backend = Cuda<precision>;
  using S = typename Backend::Scalar;
  using Inputs = FunctionInputs<S>;

 public:
  using G = gpu::GraphOn<Root<f>, Backend>;
  using Run = Execute<G, Backend>;

  /// Copies on the host, valid until the next evaluation; what is written there counts from that on.
  std::span<S> parameters() { return parameters_.host(gpu_.stream()); }
  std::span<S> constants() { return constants_.host(gpu_.stream()); }
  /// Those of all parameters, element by element, as the last backward left them, zeros after an update; copied when
  /// they are asked for.
  std::span<const S> gradients() { return gradients_.host(gpu_.stream()); }
  /// As of a trainer.
  std::string not_recorded() const {
    Inputs::check_present();
    return repeated_->refusal();
  }
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

 protected:
  using Inputs::graph_, Inputs::tensors_, Inputs::pointers_, Inputs::rows_, Inputs::offsets_, Inputs::context_;

  explicit FunctionOn(std::uint64_t seed)
      : Inputs(view_of<G>, tensors_of<f>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        gradients_(G::layout.parameters) {
    initialise(tensors_.parameters, seed, parameters().data());
    initialise(tensors_.constants, seed, constants().data());
  }

  bool arranged() const { return arena_.has_value(); }
  void arrange() {
    Inputs::count_rows();
    if (Inputs::make_room(arena_, &graph_scratch<G, Backend>)) repeated_->forget();
    const auto make_room = [&](auto& buffer, Index size) {
      if (buffer.size() >= size) return;
      repeated_->forget();  // what was recorded has the place before
      buffer = std::remove_cvref_t<decltype(buffer)>(size);
    };
    make_room(device_offsets_, std::ssize(offsets_));
    device_offsets_.copy_from(offsets_, gpu_.stream());
    const Randomness random = context_.random;
    context_ = arena_->context(rows_, {device_offsets_.data(), rows_.sequences}, rows_.longest_sequence);
    context_.random = random;
    context_.gradients = gradients_.device(gpu_.stream());
    for (int i = 0; i < graph_.count; ++i) {
      const Index size = Inputs::size_of(i);
      if (graph_.info[i].result) {
        make_room(results_[graph_.output[i]], size);
        make_room(result_gradients_[graph_.output[i]], size);
      }
      if (!graph_.is_input(i)) continue;
      const int number = graph_.input[i];
      Inputs::changed_[number] = true;
      if (graph_.info[i].kind == Kind::indices) {
        if (numbers_[number].size() < size) gpu_.reserve(number, size);
        make_room(numbers_[number], size);
        context_.inputs[number] = numbers_[number].data();
      } else if (graph_.wanted[i]) {
        InputGradient& gradient = input_gradients_[number];
        make_room(gradient.device, size);
        make_room(gradient.host, size);
        gradient.size = static_cast<std::size_t>(size);
        context_.input_gradients[number] = gradient.device.data();
      }
    }
    gpu_.synchronize();  // offsets may change again
    Inputs::stale_ = false;
  }

  /// Copies to the device what is new, or may have changed where it lies.
  ///
  /// Errors  throws Error for an index out of range
  void take_inputs() {
    check_indices(graph_, pointers_, rows_);
    part_ = false;
    guarded([&] {
      for (int i = 0; i < graph_.count; ++i) {
        if (graph_.is_input(i)) take_input(i, graph_.input[i]);
      }
    });
  }

  void evaluate() {
    const GpuStream& stream = gpu_.stream();
    guarded([&] {
      context_.parameters = parameters_.device(stream);
      gpu_.take_parameters(context_.parameters, parameters_.rounded());
      context_.constants = constants_.device(stream);
      gpu_.draw_from(context_.random);
      gpu_.send();
      run(false, [&] { Run::forward(context_); });
      each_result([&](int node, int number) {
        gpu::check(cudaMemcpyAsync(results_[number].data(), context_.outputs[number], bytes(node),
                                   cudaMemcpyDeviceToHost, stream),
                   "a result was not copied");
      });
      gpu_.synchronize();
    });
  }
  /// Gradients of everything, anew.
  void differentiate() {
    const GpuStream& stream = gpu_.stream();
    guarded([&] {
      each_result([&](int node, int number) {
        gpu::check(cudaMemcpyAsync(context_.output_gradients[number], result_gradients_[number].data(), bytes(node),
                                   cudaMemcpyHostToDevice, stream),
                   "the gradient of a result was not copied");
      });
      gradients_.written_device();
      for (InputGradient& gradient : input_gradients_) gradient.fetched = false;
      run(true, [&] {
        Backend::clear(context_, context_.gradients, G::layout.parameters);
        Run::backward(context_);
      });
      gpu_.synchronize();
    });
  }

  /// A row alone, as FunctionInputs has it: its indices are sorted as such.
  void start_at(Axis axis, Index row) {
    Inputs::start_at(axis, row);
    part_ = true;
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].kind != Kind::indices || graph_.info[i].shape.axis != axis) continue;
      const int number = graph_.input[i];
      gpu_.sort(number, {static_cast<const std::int32_t*>(pointers_[number]) + row, 1});
      Inputs::changed_[number] = true;  // for the next whole evaluation
    }
  }

  S* result(int k) const { return const_cast<S*>(results_[k].data()); }
  S* result_gradient(int k) const { return const_cast<S*>(result_gradients_[k].data()); }
  S* input_gradient(int number) {
    InputGradient& gradient = input_gradients_[number];
    if (!gradient.fetched) {
      gradient.device.copy_to(gradient.host.span().first(gradient.size), gpu_.stream());
      gpu_.synchronize();
      gradient.fetched = true;
    }
    return gradient.host.data();
  }
  TrainedOnDevice<S, Backend::rounds_values> trained() {
    return {gpu_.stream(), parameters_, gradients_.written_device()};  // by the update
  }

 private:
  /// On the device, and on the host once it was asked for.
  struct InputGradient {
    DeviceBuffer<S> device;
    cpu::Buffer<S> host;
    std::size_t size = 0;
    bool fetched = false;
  };
  /// What is recorded: a sweep over so many rows, with dropout, from such a scope, or without.
  struct Work {
    Rows rows;
    bool backward, training;
    std::uint64_t scope;

    bool operator==(const Work&) const = default;
  };

  template <class F>
  void run(bool backward, const F& sweep) {
    context_.gpu = &gpu_;  // which may have moved
    if (part_) return sweep();
    repeated_->run(gpu_.stream(), {rows_, backward, context_.random.training, context_.random.scope}, sweep);
  }
  /// Waits for work that throws: copies may still read what the caller has.
  template <class F>
  void guarded(const F& work) {
    try {
      work();
    } catch (...) {
      gpu_.synchronize();
      throw;
    }
  }

  void take_input(int node, int number) {
    if (Inputs::holder_[number] == Holder::device) {
      place_input(number, pointers_[number]);
    } else if (graph_.info[node].kind == Kind::indices) {
      if (is_new(number)) take_indices(node, number);
    } else {
      const Index size = Inputs::size_of(node);
      if (values_[number].size() < size) values_[number] = DeviceBuffer<S>(size);
      place_input(number, values_[number].data());
      if (is_new(number)) values_[number].copy_from(given<S>(node, number), gpu_.stream());
    }
    Inputs::changed_[number] = false;
  }

  /// Whether an input on the host was given since it was copied, or may have changed.
  bool is_new(int number) const {
    return Inputs::changed_[number] || Inputs::holder_[number] == Holder::caller;
  }
  template <class T>
  std::span<const T> given(int node, int number) const {
    return {static_cast<const T*>(pointers_[number]), static_cast<std::size_t>(Inputs::size_of(node))};
  }
  void take_indices(int node, int number) {
    numbers_[number].copy_from(given<std::int32_t>(node, number), gpu_.stream());
    gpu_.sort(number, given<std::int32_t>(node, number));
  }
  /// Where kernels read an input; what was recorded has the place before.
  void place_input(int number, const void* place) {
    if (std::exchange(places_[number], place) != place) repeated_->forget();
    context_.inputs[number] = place;
  }
  template <class F>
  void each_result(const F& take) const {
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].result) take(i, graph_.output[i]);
    }
  }
  std::size_t bytes(int node) const { return sizeof(S) * static_cast<std::size_t>(Inputs::size_of(node)); }

  Gpu gpu_;
  gpu::DeviceParameters<S, Backend::rounds_values> parameters_;
  gpu::Mirrored<S> constants_, gradients_;
  DeviceBuffer<S> values_[max_inputs];
  const void* places_[max_inputs]{};  ///< where inputs of numbers were read last
  DeviceBuffer<std::int32_t> numbers_[max_inputs];
  InputGradient input_gradients_[max_inputs];
  cpu::Buffer<S> results_[max_outputs], result_gradients_[max_outputs];  ///< on the host
  DeviceBuffer<Index> device_offsets_;
  std::optional<Arena<S, DeviceBuffer<S>>> arena_;
  // Elsewhere: a function may move.
  std::unique_ptr<gpu::Repeated<Work>> repeated_ = std::make_unique<gpu::Repeated<Work>>();
  bool part_ = false;  ///< a single row is evaluated
};

}  // namespace simplx::inline SIMPLX_TARGET::detail
