// SPDX-License-Identifier: MIT
#include <simplx/core/turn.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace simplx;

namespace {

/// Lets `threads` see through `sequences` with three additions each, and notes who made which.
std::vector<std::vector<Index>> additions(detail::Turns& turns, int threads, Index sequences) {
  std::vector<std::vector<Index>> made(3);
  turns.start();
  const auto work = [&](int thread) {
    for (Index n = turns.deal(); n < sequences; n = turns.deal()) {
      detail::Turn turn(turns, n);
      for (auto& place : made) {
        // Later threads are the faster ones, so that order comes from turns and not from luck.
        std::this_thread::sleep_for(std::chrono::microseconds(50 * (threads - thread)));
        const detail::Addition addition(&turn);
        place.push_back(n);  // a data race, were it not in turn: the sanitizers look at it, too
      }
    }
  };
  std::vector<std::jthread> team;
  for (int thread = 0; thread < threads; ++thread) team.emplace_back(work, thread);
  team.clear();
  return made;
}

}  // namespace

TEST_SUITE_BEGIN("core/turn");

TEST_CASE("every addition is made in the order of the sequences, by any number of threads, pass after pass") {
  detail::Turns turns(20);
  for (const int threads : {1, 2, 3, 8, 25}) {
    for (const Index sequences : {20, 1, 7}) {
      CAPTURE(threads);
      CAPTURE(sequences);
      std::vector<Index> order;
      for (Index n = 0; n < sequences; ++n) order.push_back(n);
      for (const auto& made : additions(turns, threads, sequences)) CHECK(made == order);
    }
  }
}

TEST_CASE("there is room for more sequences when it is asked for") {
  detail::Turns turns(0);
  for (const Index sequences : {3, 40, 2}) {
    turns.make_room(sequences);
    std::vector<Index> order;
    for (Index n = 0; n < sequences; ++n) order.push_back(n);
    for (const auto& made : additions(turns, 2, sequences)) CHECK(made == order);
  }
}

TEST_CASE("a sequence makes its additions while the one before is at its next") {
  detail::Turns turns(2);
  turns.start();
  detail::Turn second(turns, 1);
  detail::Turn first(turns, 0);  // ends before the second one, which waits for that
  first.begin(), first.end();
  second.begin(), second.end();  // would wait for ever if the first one had to be at its end
  first.begin(), first.end();
  second.begin(), second.end();
}

TEST_CASE("who comes after a sequence that throws is not left waiting, and still ends after it") {
  detail::Turns turns(3);
  turns.start();
  std::vector<int> ends;
  std::mutex mutex;
  const auto note = [&](int n) {
    const std::lock_guard lock(mutex);
    ends.push_back(n);
  };
  std::jthread last([&] {
    detail::Turn turn(turns, 2);
    turn.begin(), turn.end();
    note(2);
  });
  std::jthread middle([&] {
    try {
      detail::Turn turn(turns, 1);
      throw std::runtime_error("a kernel");
    } catch (const std::runtime_error&) {
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  note(0);
  { detail::Turn turn(turns, 0); }
  middle.join();
  last.join();
  CHECK(ends == std::vector<int>{0, 2});
}

TEST_CASE("without a turn an addition waits for nobody") { const detail::Addition addition(nullptr); }

TEST_SUITE_END();
