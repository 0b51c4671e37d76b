// SPDX-License-Identifier: MIT
#pragma once

/// The device behind the stand-in of CUDA's runtime: what memory it has, and what its streams have yet to do.
///
/// Lazy: the work of a stream waits until somebody synchronises, so who reads a result too early, or writes into what a
/// copy has yet to read, is found out each time. The default stream works at once. All of it is for one thread.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace emulation {

/// What memory a range of addresses is; torn: it leaves the allocation that it touches.
enum class Memory { pageable, pinned, device, torn };

/// All that was allocated on the device, or pinned.
class Allocations {
 public:
  static constexpr std::size_t alignment = 256;  // that of cudaMalloc
  static constexpr int poison = 0xff;            // a NaN, and an index out of all bounds

  void* allocate(Memory kind, std::size_t bytes) {
    void* place = nullptr;
    if (posix_memalign(&place, alignment, bytes) != 0) throw std::bad_alloc();
    std::memset(place, poison, bytes);
    table_.emplace(reinterpret_cast<std::uintptr_t>(place),
                   Allocation{std::unique_ptr<void, Free>(place), bytes, kind});
    return place;
  }
  /// Whether this was the beginning of such memory.
  bool release(Memory kind, void* place) {
    const auto found = table_.find(reinterpret_cast<std::uintptr_t>(place));
    if (found == table_.end() || found->second.kind != kind) return false;
    table_.erase(found);
    return true;
  }

  Memory kind_of(const void* place, std::size_t bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(place), end = begin + bytes;
    const auto next = table_.upper_bound(begin);
    if (next != table_.begin()) {
      const auto& [start, allocation] = *std::prev(next);
      if (begin < start + allocation.bytes) return end <= start + allocation.bytes ? allocation.kind : Memory::torn;
    }
    return next != table_.end() && next->first < end ? Memory::torn : Memory::pageable;
  }

  std::size_t count(Memory kind) const { return sum(kind, [](const Allocation&) { return std::size_t(1); }); }
  std::size_t bytes(Memory kind) const { return sum(kind, [](const Allocation& one) { return one.bytes; }); }

 private:
  struct Free {
    void operator()(void* place) const { std::free(place); }
  };
  struct Allocation {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes;
    Memory kind;
  };
  template <class F>
  std::size_t sum(Memory kind, const F& f) const {
    std::size_t total = 0;
    for (const auto& entry : table_) total += entry.second.kind == kind ? f(entry.second) : 0;
    return total;
  }

  std::map<std::uintptr_t, Allocation> table_;
};

/// Tells a test of each call that a host makes, as it begins and as it ends; calls may lie in others.
struct Call {
  inline static void (*watch)(const char* name, bool begins) = nullptr;

  explicit Call(const char* name) : name(name) {
    if (watch) watch(name, true);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (watch) watch(name, false);
  }
  const char* name;
};

/// A kernel, a copy or a product with its arguments, by value.
using Work = std::function<void()>;

/// Work in order; an exception drops what comes after it.
class Queue {
 public:
  void push(Work work) { pending_.push_back(std::move(work)); }
  /// The place after all work so far.
  std::uint64_t end() const { return done_ + pending_.size(); }

  void run_until(std::uint64_t place) {
    while (done_ < place) {
      const Work work = std::move(pending_.front());
      pending_.pop_front();
      ++done_;
      try {
        work();
      } catch (...) {
        done_ += pending_.size();
        pending_.clear();
        throw;
      }
    }
  }
  void run() { run_until(end()); }

 private:
  std::deque<Work> pending_;
  std::uint64_t done_ = 0;
};

/// What is recorded instead of run.
struct Capture {
  bool relaxed = false;  ///< others may allocate meanwhile
  bool valid = true;
  std::vector<Work> records;
};

}  // namespace emulation

/// Outside of the namespace, so that an unqualified call with a stream does not look into it.
struct CUstream_st {
  bool blocking = false;  ///< ordered with the default stream
  std::shared_ptr<emulation::Queue> queue = std::make_shared<emulation::Queue>();
  std::optional<emulation::Capture> capture;
};
using cudaStream_t = CUstream_st*;

namespace emulation {

/// The one device. Tests may read and set it: without a GPU, or with little memory, to see what is said.
struct Device {
  bool present = true;
  std::size_t memory = std::size_t(4) << 30;  ///< bytes
  Allocations allocations;
  std::set<cudaStream_t> streams;
  std::exception_ptr failure;  ///< of work that ran where nothing can be thrown; the next synchronisation throws it

  /// Runs the work of a queue, now or never.
  void run(Queue& queue) {
    queue.run();
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }
  void run_all() {
    for (cudaStream_t stream : std::set(streams)) run(*stream->queue);
  }
  /// As run_all(), for destructors.
  void run_all_quietly() noexcept {
    try {
      run_all();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  bool captures() const {
    for (const cudaStream_t stream : streams) {
      if (stream->capture && !stream->capture->relaxed) return true;
    }
    return false;
  }
  /// What a forbidden call does to captures.
  void spoil_captures() {
    for (cudaStream_t stream : streams) {
      if (stream->capture && !stream->capture->relaxed) stream->capture->valid = false;
    }
  }
};

inline Device& device() {
  static Device one;
  return one;
}

}  // namespace emulation
