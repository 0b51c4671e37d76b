// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/mirrored.cuh
/// Mirrored: numbers that live on the device and can be seen on the host; copied when the other side has changed.

#include <simplx/cpu/memory.hpp>
#include <simplx/cuda/memory.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <class S>
class Mirrored {
 public:
  explicit Mirrored(Index size) : host_(size), device_(size) {}

  Index size() const { return host_.size(); }
  /// Whether `device` will copy.
  bool host_may_be_newer() const { return host_may_be_newer_; }
  std::size_t bytes() const { return device_.bytes(); }

  /// The numbers on the host, to be read and written until `device` is called.
  ///
  /// Cost    a copy from the device, and waiting for it, if it has changed them
  std::span<S> host(const GpuStream& stream) {
    if (device_is_newer_) device_.copy_to(host_.span(), stream);
    if (device_is_newer_ || sending_) stream.synchronize();  // where memory is coherent a copy may still read
    device_is_newer_ = sending_ = false;
    host_may_be_newer_ = true;
    return host_.span();
  }
  /// The numbers on the device, for kernels that read them.
  ///
  /// Cost    a copy to the device if `host` was called since
  S* device(const GpuStream& stream) {
    if (host_may_be_newer_) {
      device_.copy_from(host_.span(), stream);
      sending_ = true;
    }
    host_may_be_newer_ = false;
    return device_.data();
  }
  /// The same for kernels that write all of them anew: nothing is copied there.
  S* written_device() {
    host_may_be_newer_ = false;
    device_is_newer_ = true;
    return device_.data();
  }
  /// The same as `device` for kernels that change them.
  S* changed_device(const GpuStream& stream) {
    S* data = device(stream);
    device_is_newer_ = true;
    return data;
  }

 private:
  cpu::Buffer<S> host_;
  DeviceBuffer<S> device_;
  bool host_may_be_newer_ = true, device_is_newer_ = false;
  bool sending_ = false;  ///< the device may still read what is on the host
};

}  // namespace simplx::gpu
