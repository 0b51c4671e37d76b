// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/memory.hpp
/// Buffer: aligned memory filled with zeros, its pages present from the beginning.

#include <simplx/core/shape.hpp>

#include <cstring>
#include <new>
#include <span>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A fixed number of elements, 64-byte aligned; large buffers ask for huge pages.
///
/// Cost    one allocation; touched once here, so that no page faults happen later
template <class S>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size) : size_(size) {
    if (size == 0) return;
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(S);
    data_ = static_cast<S*>(::operator new(bytes, alignment_of(size)));
#if defined(__linux__)
    if (bytes >= huge_from) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_) ::operator delete(data_, alignment_of(size_));
  }

  S* data() { return data_; }
  const S* data() const { return data_; }
  Index size() const { return size_; }
  S* begin() { return data_; }
  S* end() { return data_ + size_; }
  const S* begin() const { return data_; }
  const S* end() const { return data_ + size_; }
  S& operator[](Index i) { return data_[i]; }
  const S& operator[](Index i) const { return data_[i]; }
  std::span<S> span() { return {data_, static_cast<std::size_t>(size_)}; }
  std::span<const S> span() const { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  static constexpr std::size_t huge_page = std::size_t(2) << 20, huge_from = 2 * huge_page;
  static std::align_val_t alignment_of(Index size) {
    return std::align_val_t(static_cast<std::size_t>(size) * sizeof(S) >= huge_from ? huge_page : 64);
  }

  S* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace simplx::cpu
