// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/evaluation.cuh
/// Evaluation on a GPU, with the names and spans of train/evaluation.hpp, which are on the host: forward copies
/// parameters and inputs to the device and all values back, backward the seeds and the gradients. For tests and for
/// looking into a model; Trainer keeps everything on the device.

#include <simplx/cuda/graph_on.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/train/evaluation.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& model, Precision precision>
class Evaluation<model, Cuda<precision>> : public detail::EvaluationMemory<typename Cuda<precision>::Scalar> {
  using Memory = detail::EvaluationMemory<typename Cuda<precision>::Scalar>;
  using Memory::arena_, Memory::context_, Memory::graph_, Memory::offsets_;

 public:
  using Backend = Cuda<precision>;
  using S = typename Backend::Scalar;
  using G = gpu::GraphOn<Root<model>, Backend>;
  using Run = Execute<G, Backend>;

  explicit Evaluation(const Rows& rows, std::uint64_t seed = 0, std::vector<Index> lengths = {})
      : Memory(view_of<G>, tensors_of<model>(), detail::graph_scratch<G, Backend>, rows, seed, std::move(lengths)),
        parameters_(std::ssize(this->parameters())),
        gradients_(std::ssize(this->gradients())),
        constants_(std::ssize(this->constants())),
        memory_(std::ssize(this->memory())),
        rounded_(Backend::rounds_values ? parameters_.size() : 0),
        device_offsets_(std::ssize(offsets_)),
        device_(context_) {
    device_.gpu = &gpu_;
    device_.parameters = parameters_.data();
    gpu_.take_parameters(parameters_.data(), rounded_.data());
    device_.gradients = gradients_.data();
    device_.constants = constants_.data();
    device_.segments.offsets = device_offsets_.data();
    const auto move = [&](S*& place) { place = memory_.data() + (place - this->memory().data()); };
    for (int axis = 0; axis < axis_count; ++axis) move(device_.kept[axis]), move(device_.temporary[axis]);
    move(device_.scratch);
    for (int i = 0; i < max_outputs; ++i) {
      if (device_.outputs[i]) move(device_.outputs[i]), move(device_.output_gradients[i]);
    }
    for (int i = 0; i < max_inputs; ++i) {
      values_[i] = DeviceBuffer<S>(this->inputs_[i].size());
      value_gradients_[i] = DeviceBuffer<S>(this->inputs_[i].size());
      numbers_[i] = DeviceBuffer<std::int32_t>(this->indices_[i].size());
      gpu_.reserve(i, this->indices_[i].size());
      device_.inputs[i] = numbers_[i].size() ? static_cast<const void*>(numbers_[i].data()) : values_[i].data();
      device_.input_gradients[i] = value_gradients_[i].data();
    }
    device_offsets_.copy_from(offsets_, gpu_.stream());
  }

  /// Errors  throws Error if an index is out of range
  void forward() {
    check_indices(graph_, context_.inputs, arena_->capacity());
    device_.gpu = &gpu_;  // which may have moved
    const cudaStream_t stream = gpu_.stream();
    parameters_.copy_from(this->parameters(), stream);
    if constexpr (Backend::rounds_values) {
      gpu::round_parameters(stream, parameters_.data(), parameters_.size(), rounded_.data());
    }
    constants_.copy_from(this->constants(), stream);
    memory_.copy_from(this->memory(), stream);
    for (int i = 0; i < max_inputs; ++i) {
      values_[i].copy_from(this->inputs_[i].span(), stream);
      numbers_[i].copy_from(this->indices_[i].span(), stream);
      if (numbers_[i].size()) gpu_.sort(i, this->indices_[i].span());
    }
    device_.random = context_.random;
    gpu_.draw_from(context_.random);
    gpu_.send();
    Run::forward(device_);
    used_up_ = false, evaluated_ = true;
    memory_.copy_to(this->memory(), stream);
    gpu_.synchronize();
  }

  /// Gradients of the parameters are set, not added to.
  ///
  /// Cost    as on a CPU: a second one may evaluate forward again
  void backward() {
    if (!evaluated_) throw Error("backward() without a forward()", "call forward() first");
    device_.gpu = &gpu_;
    const cudaStream_t stream = gpu_.stream();
    memory_.copy_from(this->memory(), stream);
    if (used_up_) Run::forward(device_);
    used_up_ = G::uses_up_values;
    gradients_.fill_with_zero(stream);
    Run::backward(device_);
    memory_.copy_to(this->memory(), stream);
    gradients_.copy_to(this->gradients(), stream);
    for (int i = 0; i < max_inputs; ++i) value_gradients_[i].copy_to(this->input_gradients_[i].span(), stream);
    gpu_.synchronize();
  }

  /// As of a trainer.
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

  /// Calls f(name, shape, value, gradient) for every probe, in stacks for each layer.
  template <class F>
  void each_probe(F f) {
    simplx::each_probe<G>(context_, "", f);
  }

 protected:  // bench/gpu/kernels.cu times passes without their copies
  Gpu gpu_;
  DeviceBuffer<S> parameters_, gradients_, constants_, memory_;
  DeviceBuffer<__nv_bfloat16> rounded_;  ///< parameters
  DeviceBuffer<Index> device_offsets_;
  Context<S> device_;
  DeviceBuffer<S> values_[max_inputs], value_gradients_[max_inputs];
  DeviceBuffer<std::int32_t> numbers_[max_inputs];
  bool evaluated_ = false;
  bool used_up_ = false;  ///< backward has written over values of the last forward
};

}  // namespace simplx
