// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/threads.hpp
/// Team: threads that wait for work; a call runs on all of them and returns when the last is done. divide: shares of a
/// loop for them.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <simplx/core/error.hpp>
#include <simplx/core/turn.hpp>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The number of this process, where there is fork().
inline long this_process() {
#if defined(__unix__) || defined(__APPLE__)
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

/// A fixed number of threads; member 0 is the caller. Calls must not overlap, and none runs while a team is moved.
///
/// Errors  throws Error in a process that fork() made: it has the team's memory, and none of its threads
/// Cost    a call wakes size - 1 threads and allocates nothing
class Team {
 public:
  /// Errors  throws Error for less than one thread, or if the system does not start them all
  explicit Team(int threads = 1) : Team(threads, [](auto work) { return std::jthread(work); }) {}
  /// The same, of threads that start(function) makes: tests let it fail.
  template <class Start>
  Team(int threads, Start start) {
    if (threads < 1) throw Error("threads is " + std::to_string(threads), "it must be at least 1");
    shared_ = std::make_unique<Shared>();
    shared_->errors.resize(static_cast<std::size_t>(threads));
    try {
      for (int member = 1; member < threads; ++member) {
        workers_.push_back(start([shared = shared_.get(), member] { shared->work(member); }));
      }
    } catch (const std::exception& error) {  // of the system, or std::bad_alloc
      release();
      throw Error("cannot start thread " + std::to_string(size() + 1) + " of " + std::to_string(threads) + ": " +
                      error.what(),
                  "use fewer threads, or raise the limits of processes and memory (ulimit -u, -v)");
    }
  }
  Team(Team&&) noexcept = default;  // what was moved from can end, or be assigned to, alone
  Team& operator=(Team&& other) noexcept {
    release();
    workers_ = std::move(other.workers_);  // the own ones end here
    shared_ = std::move(other.shared_);
    return *this;
  }
  ~Team() { release(); }

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls f(member) for each member; an exception of the first member that throws is thrown again here.
  template <class F>
  void run(F&& f) {
    if (workers_.empty()) return run_alone(f);
    Shared& shared = *shared_;
    if (shared.process != this_process()) {
      throw Error("these threads were started before fork(), which copies none of them",
                  "make what has more than one thread in the process that runs it");
    }
    shared.function = const_cast<void*>(static_cast<const void*>(&f));
    shared.call = call<std::remove_reference_t<F>>;
    shared.running.store(size() - 1, std::memory_order_relaxed);
    shared.round.fetch_add(1, std::memory_order_release);
    shared.round.notify_all();
    shared.guarded(0);
    for (int left = shared.running.load(std::memory_order_acquire); left; ) {
      left = detail::wait_for_change(shared.running, left);
    }
    std::exception_ptr first;
    for (std::exception_ptr& error : shared.errors) {  // all of them: the next run begins without
      if (!first) first = error;
      error = nullptr;
    }
    if (first) std::rethrow_exception(first);
  }

  /// Calls f(0) here, by the same instructions as run.
  template <class F>
  static void run_alone(F&& f) {
    call<std::remove_reference_t<F>>(const_cast<void*>(static_cast<const void*>(&f)), 0);
  }

 private:
  /// f(member), by the same instructions for any number of threads. Of two copies, one of them in line, g++ may fuse
  /// other products with sums, as in beta m + (1 - beta) g, where either can be: then their last bits differ.
  template <class Function>
#if defined(__GNUC__) && !defined(__clang__)
  __attribute__((noipa))
#else
  __attribute__((noinline))
#endif
  static void call(void* function, int member) {
    (*static_cast<Function*>(function))(member);
  }
  struct Shared {
    std::atomic<int> round{0}, running{0};
    void* function = nullptr;
    void (*call)(void*, int) = nullptr;
    std::vector<std::exception_ptr> errors;
    const long process = this_process();

    void guarded(int member) {
      try {
        call(function, member);
      } catch (...) {
        errors[static_cast<std::size_t>(member)] = std::current_exception();
      }
    }
    void work(int member) {
      for (int seen = 0;;) {
        seen = detail::wait_for_change(round, seen);
        if (!call) return;
        guarded(member);
        if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
      }
    }
  };

  /// Lets the workers end, which are joined with workers_.
  void release() {
    if (!shared_) return;
    shared_->call = nullptr;
    shared_->round.fetch_add(1, std::memory_order_release);
    shared_->round.notify_all();
  }

  std::unique_ptr<Shared> shared_;
  std::vector<std::jthread> workers_;  // joined before what they share ends
};

/// Multiply-adds that are worth the microsecond or two in which another thread takes them over.
inline constexpr Index least_share = Index(1) << 17;

/// Calls f(begin, end) for even shares of [0, count), which together are `work` multiply-adds, each on a thread of the
/// team; for all of it here if that is less work, or there is no team. What f computes must not depend on the shares.
///
/// Cost    as Team::run, where there are several
template <class F>
void divide(Team* team, Index count, Index work, const F& f) {
  const Index threads = team ? team->size() : 1;
  const Index shares = std::max<Index>(std::min({threads, count, work / least_share}), 1);
  const auto share = [&](int member) {
    if (member < shares) f(count * member / shares, count * (member + 1) / shares);
  };
  shares > 1 ? team->run(share) : Team::run_alone(share);
}
/// For all of it, in a graph whose steps threads do not share.
template <class F>
__attribute__((always_inline)) inline void divide(std::nullptr_t, Index count, Index, const F& f) {
  f(Index(0), count);
}

}  // namespace simplx::cpu
