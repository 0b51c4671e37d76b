// SPDX-License-Identifier: MIT
#include <simplx/io/interrupt.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

using namespace simplx;

namespace {

/// What waitpid says of a child that runs f and exits with its result.
template <class F>
int status_of(F f) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);  // not the test runner's
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

bool is_blocked(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal);
}

}  // namespace

TEST_SUITE_BEGIN("io/interrupt");

TEST_CASE("a signal waits until it is asked for, and has the status that shells expect") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const int status = status_of([signal] {
      Interrupt interrupt;
      if (interrupt.poll() != 0 || interrupt.exit_status() != 0) return 1;
      kill(getpid(), signal);
      if (interrupt.poll() != signal) return 2;
      if (interrupt.poll() != signal) return 3;  // and stays known
      return interrupt.exit_status();
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == (signal == SIGINT ? 130 : 143));
  }
}

TEST_CASE("a signal that finds other threads waits as well") {
  const int status = status_of([] {
    Interrupt interrupt;
    std::jthread other([](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    kill(getpid(), SIGINT);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    return interrupt.poll() == SIGINT ? 7 : 1;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("both at once are one; a signal after the first ends the program at once") {
  const int status = status_of([] {
    Interrupt interrupt;
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    if (!interrupt.poll()) return 1;
    kill(getpid(), SIGINT);
    return 2;  // not reached
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("what the program was started to ignore stays ignored, and afterwards signals are what they were") {
  const int status = status_of([] {
    signal(SIGINT, SIG_IGN);
    Interrupt interrupt;
    kill(getpid(), SIGINT);
    return interrupt.poll() == 0 && is_blocked(SIGTERM) ? 7 : 1;
  });
  CHECK(WEXITSTATUS(status) == 7);
  {
    Interrupt interrupt;
    CHECK(is_blocked(SIGINT));
  }
  CHECK(!is_blocked(SIGINT));
  CHECK(!is_blocked(SIGTERM));
}

TEST_SUITE_END();
