// SPDX-License-Identifier: MIT
#include "emulation/fiber.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using emulation::Fiber;

TEST_SUITE_BEGIN("emulation/fiber");

TEST_CASE("two fibers take turns and keep their locals") {
  std::string trace;
  const auto count = [&](char name) {
    return [&trace, name] {
      double sum = 0;  // in a register or on the fiber's stack
      for (int i = 1; i <= 3; ++i) {
        sum += i;
        trace += name + std::to_string(static_cast<int>(sum)) + ' ';
        Fiber::suspend();
      }
    };
  };
  Fiber a(count('a')), b(count('b'));
  while (!a.ended() || !b.ended()) {
    if (!a.ended()) a.resume();
    if (!b.ended()) b.resume();
  }
  CHECK(trace == "a1 b1 a3 b3 a6 b6 ");
}

TEST_CASE("an exception leaves through resume, and others are caught inside") {
  bool caught = false;
  Fiber fiber([&] {
    try {
      Fiber::suspend();
      throw 1;
    } catch (int) {
      caught = true;
    }
    Fiber::suspend();
    throw std::runtime_error("out");
  });
  fiber.resume();
  fiber.resume();
  CHECK(caught);
  CHECK_THROWS_WITH(fiber.resume(), "out");
  CHECK(fiber.ended());
}

TEST_CASE("a fiber can resume another") {
  int depth = 0;
  Fiber outer([&] {
    Fiber inner([&] {
      ++depth;
      Fiber::suspend();
      ++depth;
    });
    inner.resume();
    Fiber::suspend();
    inner.resume();
  });
  outer.resume();
  CHECK(depth == 1);
  outer.resume();
  CHECK(depth == 2);
  CHECK(outer.ended());
}

TEST_CASE("the stack is aligned for vectors") {
  Fiber fiber([] {
    alignas(64) volatile char line[64];
    line[0] = 1;
    CHECK(reinterpret_cast<std::uintptr_t>(&line[0]) % 64 == 0);
    double values[4] = {1, 2, 3, 4};
    CHECK(std::to_string(values[2] / 2) == "1.500000");  // printf saves vector registers, aligned
  });
  fiber.resume();
}

#if !defined(EMULATION_ASAN)  // which has the array elsewhere, and sees such a write itself
TEST_CASE("a stack that is almost too small is reported") {
  Fiber fiber([] {
    auto* far_end = static_cast<char*>(__builtin_alloca(Fiber::stack_bytes - 3072));
    asm volatile("" : : "r"(far_end) : "memory");  // read by somebody: else one byte of it is all there is
    far_end[0] = 1;
    asm volatile("" : : "r"(far_end) : "memory");
  });
  CHECK_THROWS_WITH(fiber.resume(), "a fiber needs more stack than it has");
}
#endif

TEST_SUITE_END();
