// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/memory.cuh
/// Streams, and memory on the device, each owned by an object.
///
///     const GpuStream stream;
///     DeviceBuffer<float> x(host.size());
///     x.copy_from(host, stream);
///     ... kernels on the stream, which read x.data() ...
///     x.copy_to(host, stream);
///     stream.synchronize();                // before the host reads

#include <simplx/cuda/port.cuh>

#include <span>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// Work in order; independent of the default stream.
class GpuStream {
 public:
  /// Errors  throws Error if there is no GPU, or no driver for it
  GpuStream() { gpu::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "no stream was created"); }
  GpuStream(GpuStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  GpuStream& operator=(GpuStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~GpuStream() {
    if (stream_) cudaStreamDestroy(stream_);
  }

  operator cudaStream_t() const { return stream_; }

  /// Waits for all work given to the stream.
  ///
  /// Errors  throws Error with what went wrong in any of it
  void synchronize() const { gpu::check(cudaStreamSynchronize(stream_), "the work of a stream has failed"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// So many elements on the device, not initialised; aligned to 256 bytes.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "elements go to the device as bytes");

 public:
  static constexpr bool on_device = true;  ///< so that nobody takes it for memory of the host

  DeviceBuffer() = default;
  /// Errors  throws Error with the bytes asked for if memory is short
  /// Cost    waits for the device, and cannot be done while a stream captures
  explicit DeviceBuffer(Index size) : size_(size) {
    if (size_ == 0) return;
    const cudaError_t error = cudaMalloc(&data_, bytes());
    if (error == cudaErrorMemoryAllocation) throw_short_of_memory();
    gpu::check(error, "no memory was allocated");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) cudaFree(data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }

  /// Copies the values of the host into the elements from `first` on. They must not change before the stream has come
  /// so far: where host and device share an address space, no copy of them is made in between.
  ///
  /// Errors  throws Error if they go over the end
  void copy_from(std::span<const T> values, cudaStream_t stream, Index first = 0) {
    check_range(first, static_cast<Index>(values.size()), "copied into");
    gpu::check(cudaMemcpyAsync(data_ + first, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream),
               "nothing was copied to the device");
  }
  /// Copies the elements from `first` on to the host, which synchronises before it reads them.
  ///
  /// Errors  throws Error if there are fewer
  void copy_to(std::span<T> values, cudaStream_t stream, Index first = 0) const {
    check_range(first, static_cast<Index>(values.size()), "copied from");
    gpu::check(cudaMemcpyAsync(values.data(), data_ + first, values.size_bytes(), cudaMemcpyDeviceToHost, stream),
               "nothing was copied from the device");
  }
  void fill_with_zero(cudaStream_t stream) {
    gpu::check(cudaMemsetAsync(data_, 0, bytes(), stream), "memory was not cleared");
  }

 private:
  void check_range(Index first, Index count, const char* what) const {
    if (first >= 0 && first + count <= size_) return;
    throw Error("the elements from " + std::to_string(first) + " to " + std::to_string(first + count) +
                " of a buffer of " + std::to_string(size_) + " are " + what);
  }
  [[noreturn]] void throw_short_of_memory() const {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    gpu::check(cudaMemGetInfo(&free, &total), "the memory of the device is not known");
    throw Error("the device is short of memory: " + std::to_string(bytes()) + " bytes are needed at once, " +
                    std::to_string(free) + " of " + std::to_string(total) + " are free",
                "take a smaller batch or a shorter context");
  }

  T* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace simplx
