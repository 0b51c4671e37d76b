// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/device_parameters.cuh
/// DeviceParameters: those of a model, which live on the device and can be seen on the host, and beside them what
/// products of bfloat16 take them as. That is rounded when the host has changed them; an update writes it as well.

#include <simplx/cuda/mirrored.cuh>
#include <simplx/cuda/rounded.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <class S, bool rounds>
class DeviceParameters {
 public:
  explicit DeviceParameters(Index size) : numbers_(size), rounded_(rounds ? size : 0) {}

  Index size() const { return numbers_.size(); }
  std::size_t bytes() const { return numbers_.bytes() + rounded_.bytes(); }

  /// As of Mirrored.
  std::span<S> host(const GpuStream& stream) { return numbers_.host(stream); }
  /// As of Mirrored.
  ///
  /// Cost    a copy to the device, and 6 bytes of its memory's traffic for each number, if `host` was called since
  S* device(const GpuStream& stream) {
    const bool changed = numbers_.host_may_be_newer();
    S* const data = numbers_.device(stream);
    if constexpr (rounds) {
      if (changed) round_parameters(stream, data, size(), rounded_.data());
    }
    return data;
  }
  /// The same for kernels that change them, and what is rounded.
  S* changed_device(const GpuStream& stream) {
    device(stream);
    return numbers_.changed_device(stream);
  }
  /// On the device; null if nothing is rounded.
  __nv_bfloat16* rounded() { return rounded_.data(); }

 private:
  Mirrored<S> numbers_;
  DeviceBuffer<__nv_bfloat16> rounded_;
};

}  // namespace simplx::gpu
