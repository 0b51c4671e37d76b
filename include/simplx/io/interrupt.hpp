// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/interrupt.hpp
/// Ctrl-C and SIGTERM as a question that a program asks when it suits it, without handlers and without globals.
///
///     Interrupt interrupt;             // before threads are made: they inherit that the signals wait
///     while (!interrupt.poll()) step();
///     save();
///     return interrupt.exit_status();  // 130 after Ctrl-C, 143 after SIGTERM, as shells expect
///
/// The first signal is answered by poll; from then on they are what they were, so that a second Ctrl-C ends at once.

#if defined(__unix__) || defined(__APPLE__)
#include <csignal>
#include <pthread.h>
#endif

#include <simplx/core/target.hpp>

#include <initializer_list>

namespace simplx::inline SIMPLX_TARGET {

/// Makes SIGINT and SIGTERM wait as long as it lives, unless the program was started to ignore them.
///
/// Errors  elsewhere than on POSIX systems poll never finds anything
class Interrupt {
 public:
#if defined(__unix__) || defined(__APPLE__)
  Interrupt() {
    sigemptyset(&watched_);
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) sigaddset(&watched_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  }
  ~Interrupt() { restore(); }

  /// The signal that came, now or at an earlier call; 0 if none did.
  ///
  /// Cost    a system call, well below a microsecond
  int poll() {
    if (signal_) return signal_;
    sigset_t pending;
    sigpending(&pending);
    for (const int signal : {SIGINT, SIGTERM}) {
      if (!sigismember(&watched_, signal) || !sigismember(&pending, signal)) continue;
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      int taken;
      sigwait(&one, &taken);  // does not wait: it is pending
      if (!signal_) signal_ = signal;
    }
    if (signal_) restore();
    return signal_;
  }
#else
  Interrupt() = default;
  int poll() { return 0; }
#endif
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// What a shell calls a program that this signal ended; 0 if none came.
  int exit_status() const { return signal_ ? 128 + signal_ : 0; }

 private:
  int signal_ = 0;
#if defined(__unix__) || defined(__APPLE__)
  void restore() {
    if (blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    blocked_ = false;
  }

  sigset_t watched_, before_;
  bool blocked_ = true;
#endif
};

}  // namespace simplx
