// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/upload.cuh
/// Memory that host and device each have a copy of, for what goes from one to the other in every step: pinned on the
/// host, so that a copy can be recorded (recorded.cuh) and each run of it takes what is there then.
///
///     Upload<float> scale(1);
///     scale.host()[0] = 0.5f;              // not before the stream has done what was sent last
///     scale.send(stream);
///     ... kernels on the stream, which read scale.data() ...
///
///     Download<double> totals(2);
///     ... kernels on the stream, which write to totals.data() ...
///     totals.fetch(stream);
///     stream.synchronize();                // before the host reads totals.host()

#include <simplx/cuda/memory.cuh>

#include <memory>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// So many elements of the host that devices copy without its help; not initialised.
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "elements go to the device as bytes");

 public:
  PinnedBuffer() = default;
  /// Errors  throws Error if there is no GPU, or memory is short
  explicit PinnedBuffer(Index size) : size_(size) {
    if (size_ == 0) return;
    T* place = nullptr;
    check(cudaMallocHost(&place, static_cast<std::size_t>(size_) * sizeof(T)), "no memory was pinned");
    data_.reset(place);
  }

  std::span<T> span() { return {data_.get(), static_cast<std::size_t>(size_)}; }

 private:
  struct Free {
    void operator()(T* place) const { cudaFreeHost(place); }
  };
  std::unique_ptr<T, Free> data_;
  Index size_ = 0;
};

/// Elements that the host writes and the device reads.
template <class T>
class Upload {
 public:
  Upload() = default;
  explicit Upload(Index size) : host_(size), device_(size) {}

  Index size() const { return device_.size(); }
  std::size_t bytes() const { return device_.bytes(); }
  std::span<T> host() { return host_.span(); }
  const T* data() const { return device_.data(); }

  /// Copies the first `count` elements to the device, when the stream has come so far; all of them unless given.
  void send(cudaStream_t stream, Index count) {
    if (count == 0) return;
    device_.copy_from(host().first(static_cast<std::size_t>(count)), stream);
  }
  void send(cudaStream_t stream) { send(stream, size()); }

 private:
  PinnedBuffer<T> host_;
  DeviceBuffer<T> device_;
};

/// Elements that the device writes and the host reads.
template <class T>
class Download {
 public:
  explicit Download(Index size) : host_(size), device_(size) {}

  std::span<const T> host() { return host_.span(); }
  std::size_t bytes() const { return device_.bytes(); }
  T* data() { return device_.data(); }

  /// Copies all elements to the host, which synchronises before it reads them.
  void fetch(cudaStream_t stream) { device_.copy_to(host_.span(), stream); }
  void fill_with_zero(cudaStream_t stream) { device_.fill_with_zero(stream); }

 private:
  PinnedBuffer<T> host_;
  DeviceBuffer<T> device_;
};

}  // namespace simplx::gpu
