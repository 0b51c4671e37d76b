// SPDX-License-Identifier: MIT
#pragma once

/// A function with a stack of its own, which can stop in the middle and go on later.

#include "emulation/sanitizers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

namespace detail {

#if defined(__x86_64__)
/// Where a stack goes on: its pointer; the registers that a function must preserve lie on top.
struct Resumption {
  void* stack = nullptr;
};

/// Leaves this stack, noting where, and goes on with another.
__attribute__((naked, noinline)) EMULATION_UNCHECKED inline void switch_stack(void** /*from*/, void* /*to*/) {
  asm volatile(
      "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\t"
      "movq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
      "retq");
}
inline void switch_to(Resumption& from, Resumption& to) { switch_stack(&from.stack, to.stack); }

/// A stack on which `entry` is about to be called.
inline void prepare(Resumption& place, std::byte* stack, std::size_t bytes, void (*entry)()) {
  auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t(15);
  auto* words = reinterpret_cast<void**>(top);
  *--words = nullptr;  // entry returns nowhere; it finds the stack aligned as after a call
  *--words = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--words = nullptr;
  place.stack = words;
}
#else
struct Resumption {
  ucontext_t context;
};
inline void switch_to(Resumption& from, Resumption& to) { swapcontext(&from.context, &to.context); }
inline void prepare(Resumption& place, std::byte* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&place.context);
  place.context.uc_stack.ss_sp = stack;
  place.context.uc_stack.ss_size = bytes;
  place.context.uc_link = nullptr;
  makecontext(&place.context, entry, 0);
}
#endif

}  // namespace detail

/// Runs on the thread that resumes it. A fiber that has begun must have ended before it is destroyed.
///
/// Cost    stack_bytes; a switch is some fifteen instructions on x86-64
class Fiber {
 public:
  /// AddressSanitizer makes frames larger; ThreadSanitizer notes all bytes of a new stack, a fifth of its time for 64 KiB.
  static constexpr std::size_t stack_bytes = std::size_t(address_sanitized ? 128 : thread_sanitized ? 32 : 64) << 10;

  explicit Fiber(std::function<void()> body)
      : body_(std::move(body)), stack_(new_stack()) {
    std::memcpy(stack_.get(), canary().data(), canary().size());
    detail::prepare(inside_, stack_.get(), stack_bytes, &entry);
#if defined(EMULATION_TSAN)
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
#if defined(EMULATION_TSAN)
    retire(tsan_);
#endif
    if (reuses_stacks) unused_stacks().push_back(std::move(stack_));
  }

  /// Runs the function until it suspends or ends.
  ///
  /// Errors  throws what the function threw; throws if it needed more stack than it has
  void resume() {
    Fiber* const outer = std::exchange(current(), this);
#if defined(EMULATION_TSAN)
    // The first switch carries over what the host did before; later ones order nothing.
    tsan_host_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, begun_ ? __tsan_switch_to_fiber_no_sync : 0);
#endif
    begun_ = true;
#if defined(EMULATION_ASAN)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, stack_.get(), stack_bytes);
#endif
    detail::switch_to(outside_, inside_);
#if defined(EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    current() = outer;
    if (ended_ && std::memcmp(stack_.get(), canary().data(), canary().size()) != 0) {
      throw std::runtime_error("a fiber needs more stack than it has");
    }
    if (failure_) {
      acquire(&failure_);
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

  /// Called by the function of the current fiber: returns when it is resumed.
  static void suspend() { current()->leave(false); }

  bool begun() const { return begun_; }
  bool ended() const { return ended_; }

 private:
  using Stack = std::unique_ptr<std::byte[]>;
  /// Else the allocator would ask the system for the same ones again. To ThreadSanitizer each fiber has its own.
  static constexpr bool reuses_stacks = !thread_sanitized;
  static std::vector<Stack>& unused_stacks() {
    static std::vector<Stack> stacks;
    return stacks;
  }
  static Stack new_stack() {
    if (unused_stacks().empty()) return Stack(new std::byte[stack_bytes]);
    Stack stack = std::move(unused_stacks().back());
    unused_stacks().pop_back();
    forget_frames(stack.get(), stack_bytes);
    return stack;
  }
  /// What lies at the far end of a stack, and must stay there.
  static const std::array<unsigned char, 4096>& canary() {
    static const auto bytes = [] {
      std::array<unsigned char, 4096> same;
      same.fill(0xa5);
      return same;
    }();
    return bytes;
  }

  static Fiber*& current() {
    static Fiber* fiber = nullptr;
    return fiber;
  }

  static void entry() {
    Fiber* const self = current();
    self->arrive(nullptr);
    try {
      self->body_();
    } catch (...) {
      self->failure_ = std::current_exception();
      release(&self->failure_);
    }
    self->ended_ = true;
    self->leave(true);
  }

  void leave([[maybe_unused]] bool for_good) {
#if defined(EMULATION_TSAN)
    __tsan_switch_to_fiber(tsan_host_, __tsan_switch_to_fiber_no_sync);
#endif
    [[maybe_unused]] void* fake_stack = nullptr;
#if defined(EMULATION_ASAN)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, host_stack_, host_stack_bytes_);
#endif
    detail::switch_to(inside_, outside_);
    arrive(fake_stack);
  }
  void arrive([[maybe_unused]] void* fake_stack) {
#if defined(EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, &host_stack_, &host_stack_bytes_);
#endif
  }

  std::function<void()> body_;
  Stack stack_;
  detail::Resumption inside_, outside_;
  std::exception_ptr failure_;
  bool begun_ = false, ended_ = false;
#if defined(EMULATION_ASAN)
  const void* host_stack_ = nullptr;
  std::size_t host_stack_bytes_ = 0;
#endif
#if defined(EMULATION_TSAN)
  void *tsan_ = nullptr, *tsan_host_ = nullptr;
#endif
};

}  // namespace emulation
