// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/turn.hpp
/// Turns: threads that share one gradient, each sequence adding to it after the one before; where several are evaluated
/// at once (train/micro_batches.hpp), they are one sequence here.
///
/// Backward is the same straight-line code for every sequence, so its additions to the gradients of parameters can be
/// counted. A sequence makes its k-th addition once the sequence before it has made that one: every sum has the order
/// of the sequences for any number of threads, and threads follow each other through the layers an addition apart.
///
///     detail::Turns turns(batch);                  // once
///     turns.start();                               // before each pass, then on every thread:
///     for (Index n = turns.deal(); n < sequences; n = turns.deal()) {
///       detail::Turn turn(turns, n);
///       context.turn = &turn;                      // backward waits where it has to
///     }

#include <simplx/core/shape.hpp>

#include <atomic>
#include <limits>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Waits until a number is no longer `old`, and returns it: spins for a while, since that is usually soon, then sleeps.
/// Who changes the number has to notify.
inline int wait_for_change(std::atomic<int>& value, int old) {
  for (int spin = 0; spin < 4000; ++spin) {
    const int now = value.load(std::memory_order_acquire);
    if (now != old) return now;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

/// The additions that each sequence of a pass has made so far.
class Turns {
 public:
  /// Room for so many sequences.
  explicit Turns(Index sequences) : made_(static_cast<std::size_t>(sequences)) {}
  /// Between passes.
  Turns(Turns&& other) noexcept : made_(std::move(other.made_)) {}
  Turns& operator=(Turns&& other) noexcept {
    made_ = std::move(other.made_);
    return *this;
  }

  /// Room for more, if need be; no thread may be in a pass.
  void make_room(Index sequences) {
    if (std::ssize(made_) < sequences) made_ = std::vector<Made>(static_cast<std::size_t>(sequences));
  }
  /// Before a pass; no thread may be in one.
  void start() {
    dealt_.store(0, std::memory_order_relaxed);
    for (Made& made : made_) made.additions.store(0, std::memory_order_relaxed);
  }
  /// The next sequence that no thread has been given. A thread must see through what it was dealt.
  Index deal() { return dealt_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class Turn;
  struct alignas(64) Made {  // a cache line each: the next sequence keeps looking at it
    std::atomic<int> additions{0};
  };
  std::vector<Made> made_;
  std::atomic<Index> dealt_{0};
};

/// One sequence's part in a pass; its end, also by an exception, waits for that of the sequence before.
class Turn {
 public:
  Turn(Turns& turns, Index sequence)
      : own_(turns.made_[static_cast<std::size_t>(sequence)].additions),
        before_(sequence > 0 ? &turns.made_[static_cast<std::size_t>(sequence - 1)].additions : nullptr) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    wait_for(all);
    tell(all);
  }

  /// Waits until the next addition is this sequence's to make, and says that it is made.
  void begin() { wait_for(made_ + 1); }
  void end() { tell(++made_); }

 private:
  static constexpr int all = std::numeric_limits<int>::max();

  void wait_for(int additions) {
    if (!before_) return;
    for (int seen = before_->load(std::memory_order_acquire); seen < additions;) seen = wait_for_change(*before_, seen);
  }
  void tell(int additions) {
    own_.store(additions, std::memory_order_release);
    own_.notify_one();
  }

  std::atomic<int>& own_;
  std::atomic<int>* before_;
  int made_ = 0;
};

/// One addition, for as long as this object lives; nothing without a turn.
class Addition {
 public:
  explicit Addition(Turn* turn) : turn_(turn) {
    if (turn_) turn_->begin();
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;
  ~Addition() {
    if (turn_) turn_->end();
  }

 private:
  Turn* turn_;
};

}  // namespace simplx::detail
