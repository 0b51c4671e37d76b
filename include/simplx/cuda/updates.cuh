// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/updates.cuh
/// DeviceUpdates: what train/updates.hpp is on the CPU. Its moments stay on the device, and a step is two launches
/// (update.cuh), which can be recorded.

#include <simplx/cuda/device_parameters.cuh>
#include <simplx/cuda/update.cuh>
#include <simplx/cuda/upload.cuh>
#include <simplx/train/trainer_state.hpp>

#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// A step of an optimiser that was laid out.
template <class S, class Segment>
struct DeviceUpdate {
  Index chunks;
  UpdateBuffers<S> buffers;
  __nv_bfloat16* rounded;  ///< parameters, or null

  /// Another one for other kernels, which optimisers of one name may have.
  static const void* kind() {
    static constexpr char place = 0;
    return &place;
  }
};

/// Updates the parameters of one model on a device.
template <class S>
class DeviceUpdates {
 public:
  /// Of these tensors, in flat buffers of so many elements.
  ///
  /// Errors  throws Error for a group that matches no parameter, or whose numbers make no sense; if memory is short
  DeviceUpdates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : clip_(options.clip),
        runs_(settings_runs(tensors, options.groups)),
        first_moment_(elements),
        second_moment_(elements),
        norm_parts_(squared_norm_parts(most_chunks)),
        totals_(2) {}

  const StepCount& count() const { return count_; }
  /// On the device.
  std::size_t bytes() const {
    return first_moment_.bytes() + second_moment_.bytes() + table_.bytes() + norm_parts_.bytes() + totals_.bytes();
  }

  /// As of Updates.
  template <class Optimiser>
  void check(const Optimiser& optimiser) const {
    check_optimiser<S>(optimiser, runs_);
  }
  /// Whether `lay_out` will keep its memory, of which recorded work has the address.
  template <class Optimiser>
  bool has_room() const {
    return table_.size() >= table_bytes<Optimiser>();
  }
  /// Lays out the next step, for `run`: what was sent before must have arrived.
  template <class Optimiser, bool rounds>
  auto lay_out(const Optimiser& optimiser, const GpuStream& stream, DeviceParameters<S, rounds>& parameters,
               S* gradient) {
    using Segment = UpdateSegmentOf<S, Optimiser>;
    if (!has_room<Optimiser>()) table_ = Upload<std::byte>(table_bytes<Optimiser>());
    auto* const segments = reinterpret_cast<Segment*>(table_.host().data());
    const Index chunks = update_segments<S>(runs_, optimiser, count_.step_of(Optimiser::name), segments);
    return DeviceUpdate<S, Segment>{chunks,
                                    {parameters.changed_device(stream), gradient, first_moment_.changed_device(stream),
                                     second_moment_.changed_device(stream)},
                                    parameters.rounded()};
  }
  /// Clips the gradient, updates the parameters and clears it; nothing unless it and the loss, the first of `totals`,
  /// are finite. The totals go to the host, and the loss becomes 0.
  template <class Segment>
  void run(const GpuStream& stream, const DeviceUpdate<S, Segment>& update) {
    const auto* const segments = reinterpret_cast<const Segment*>(table_.data());
    const auto count = static_cast<int>(runs_.size());
    table_.send(stream, count * static_cast<Index>(sizeof(Segment)));
    squared_norm(stream, segments, count, update.chunks, update.buffers.gradients, norm_parts_.data());
    gpu::update(stream, segments, count, update.chunks, update.buffers, update.rounded, norm_parts_.data(), clip_,
                totals_.data(), totals_.data() + 1);
    totals_.fetch(stream);
    clear_loss(stream);
  }
  /// Behind a step that was finite.
  template <class Optimiser>
  void took(const Optimiser&) {
    count_.add(Optimiser::name);
  }

  /// The loss, which whoever trains adds up, and the norm of the gradient.
  Download<double>& totals() { return totals_; }
  void clear_loss(const GpuStream& stream) { totals_.fill_with_zero(stream); }
  /// A loss that is not finite, as someone else has seen: nothing is updated then.
  void spoil_loss(const GpuStream& stream) {
    gpu::check(cudaMemsetAsync(totals_.data(), 0xff, sizeof(double), stream), "the loss was not set");  // NaN
  }

  /// The first tensor whose gradient is not finite, or what else is not; a copy of the gradient to the host.
  std::string first_broken_gradient(const std::vector<TensorInfo>& tensors, const GpuStream& stream,
                                    const S* on_device, double loss) const {
    std::vector<S> gradient(static_cast<std::size_t>(first_moment_.size()));
    gpu::check(cudaMemcpyAsync(gradient.data(), on_device, gradient.size() * sizeof(S), cudaMemcpyDeviceToHost, stream),
               "the gradient was not copied");
    stream.synchronize();
    each_run(runs_, 0, first_moment_.size(), [&](Index begin, Index end, const ParameterSettings& settings) {
      if (settings.frozen()) std::fill(gradient.begin() + begin, gradient.begin() + end, S(0));
    });
    return first_broken(tensors, gradient.data(), loss);
  }

  std::span<S> first_moments(const GpuStream& stream) { return first_moment_.host(stream); }
  std::span<S> second_moments(const GpuStream& stream) { return second_moment_.host(stream); }
  /// As of Updates.
  void restore(const StepCount& count) { count_ = count; }

 private:
  static constexpr Index most_chunks = Index(1) << 40;  ///< the parts of a norm do not become more with them
  template <class Optimiser>
  Index table_bytes() const {
    return static_cast<Index>(runs_.size() * sizeof(UpdateSegmentOf<S, Optimiser>));
  }

  double clip_;
  std::vector<SettingsRun> runs_;
  Mirrored<S> first_moment_, second_moment_;
  Upload<std::byte> table_;  ///< of an optimiser's kind of segments
  DeviceBuffer<double> norm_parts_;
  Download<double> totals_;
  StepCount count_;
};

}  // namespace simplx::gpu
