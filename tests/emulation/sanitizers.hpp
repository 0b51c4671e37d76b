// SPDX-License-Identifier: MIT
#pragma once

/// What the sanitizers must be told of a program that switches stacks by itself; nothing without them.
///
/// ThreadSanitizer takes each fiber for a thread. Switches do not order memory, only what calls release and acquire
/// does: so a missing barrier is a race, in shared and in global memory, although one thread runs it all.

#include <cstddef>

#if defined(__has_feature)
#define EMULATION_HAS_FEATURE(name) __has_feature(name)
#else
#define EMULATION_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || EMULATION_HAS_FEATURE(address_sanitizer)
#define EMULATION_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__) || EMULATION_HAS_FEATURE(thread_sanitizer)
#define EMULATION_TSAN 1
#include <sanitizer/tsan_interface.h>

#include <deque>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif
#undef EMULATION_HAS_FEATURE

#define EMULATION_UNCHECKED __attribute__((no_sanitize("thread", "address", "undefined")))

namespace emulation {

#if defined(EMULATION_ASAN)
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#if defined(EMULATION_TSAN)
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif

/// While one lives, accesses of the current fiber are the executor's own, not the kernel's.
class Ignored {
 public:
#if defined(EMULATION_TSAN)
  Ignored() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Ignored() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Ignored() {}
  ~Ignored() {}
#endif
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;
};

/// The variables that were on a stack are no more.
inline void forget_frames([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t bytes) {
#if defined(EMULATION_ASAN)
  __asan_unpoison_memory_region(stack, bytes);
#endif
}

/// What the fiber did so far is seen by all that acquire the same place later.
inline void release([[maybe_unused]] void* place) {
#if defined(EMULATION_TSAN)
  __tsan_release(place);
#endif
}
inline void acquire([[maybe_unused]] void* place) {
#if defined(EMULATION_TSAN)
  __tsan_acquire(place);
#endif
}

#if defined(EMULATION_TSAN)
/// Destroys a fiber of ThreadSanitizer, but late: a new one would take its number, and what the two do unordered would
/// count as done by one thread.
inline void retire(void* fiber) {
  static std::deque<void*> retired;
  retired.push_back(fiber);
  if (retired.size() <= 4096) return;  // it knows 8128 threads at most
  __tsan_destroy_fiber(retired.front());
  retired.pop_front();
}
#endif

}  // namespace emulation
