// SPDX-License-Identifier: MIT
#include <simplx/cpu/threads.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace simplx;
using namespace simplx::cpu;

TEST_SUITE_BEGIN("cpu/threads");

TEST_CASE("every member runs once in every call, and calls do not overlap") {
  for (const int size : {1, 2, 5}) {
    Team team(size);
    REQUIRE(team.size() == size);
    std::vector<int> calls(static_cast<std::size_t>(size));
    int total = 0;
    for (int round = 0; round < 300; ++round) {
      std::atomic<int> inside{0};
      team.run([&](int member) {
        ++calls[static_cast<std::size_t>(member)];
        ++inside;
      });
      REQUIRE(inside == size);  // all are done when run returns
      ++total;
    }
    for (const int count : calls) CHECK(count == total);
  }
}

TEST_CASE("shares of a loop are even, as many as are worth it, and one where there is no team") {
  Team team(3), alone(1);
  const auto shares = [](auto of, Index count, Index work) {
    std::vector<int> visits(static_cast<std::size_t>(count));
    std::mutex mutex;
    std::vector<Index> sizes;
    divide(of, count, work, [&](Index begin, Index end) {
      const std::lock_guard lock(mutex);
      sizes.push_back(end > count ? -1 : end - begin);
      for (Index i = begin; i < std::min(end, count); ++i) ++visits[static_cast<std::size_t>(i)];
    });
    for (const int visit : visits) CHECK(visit == 1);
    std::ranges::sort(sizes);
    return sizes;
  };
  using Sizes = std::vector<Index>;
  CHECK(shares(&team, 11, 3 * least_share) == Sizes{3, 4, 4});
  CHECK(shares(&team, 11, 100 * least_share) == Sizes{3, 4, 4});
  CHECK(shares(&team, 11, 3 * least_share - 1) == Sizes{5, 6});
  CHECK(shares(&team, 11, 2 * least_share - 1) == Sizes{11});
  CHECK(shares(&team, 11, 0) == Sizes{11});
  CHECK(shares(&team, 2, 9 * least_share) == Sizes{1, 1});
  CHECK(shares(&team, 1, 9 * least_share) == Sizes{1});
  CHECK(shares(&alone, 4, 9 * least_share) == Sizes{4});
  CHECK(shares(static_cast<Team*>(nullptr), 4, 9 * least_share) == Sizes{4});
  CHECK(shares(nullptr, 4, 9 * least_share) == Sizes{4});
}

TEST_CASE("a process that fork() made is told that it has none of the threads") {
  Team team(2), alone(1);
  const pid_t child = fork();
  if (child == 0) {
    bool told = false, ran = false;
    try {
      team.run([](int) {});
    } catch (const Error& error) {
      told = std::string(error.what()).find("before fork()") != std::string::npos;
    }
    alone.run([&](int) { ran = true; });
    _exit(told && ran ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_NOTHROW(team.run([](int) {}));
}

TEST_CASE("an exception of a member reaches the caller, and the team goes on") {
  Team team(3);
  CHECK_THROWS_WITH(team.run([](int member) {
    if (member == 2) throw Error("two fell over");
  }), "two fell over");
  CHECK_THROWS_AS(team.run([](int) { throw Error("all fell over"); }), Error);
  int ran = 0;
  CHECK_NOTHROW(team.run([&](int member) { ran += member == 0; }));
  CHECK(ran == 1);
}

TEST_CASE("a team that is moved has its threads, and those that it takes the place of end") {
  Team team(3), other(2);
  Team moved = std::move(team);
  team = std::move(moved);
  other = std::move(team);
  std::atomic<int> calls{0};
  other.run([&](int) { ++calls; });
  CHECK(calls == 3);
}

TEST_CASE("a team without threads is refused") { CHECK_THROWS_AS(Team(0), Error); }

TEST_CASE("a team that cannot start all its threads says so, and those that started end") {
  std::atomic<int> running{0};
  const auto three_at_most = [&, started = 0](auto work) mutable {
    if (started++ == 3) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::jthread([&running, work] {
      ++running;
      work();
      --running;
    });
  };
  CHECK(Team(4, three_at_most).size() == 4);
  CHECK_THROWS_WITH_AS(Team(6, three_at_most), doctest::Contains("cannot start thread 5 of 6: "), Error);
  CHECK(running == 0);
}

TEST_SUITE_END();
