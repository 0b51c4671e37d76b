// SPDX-License-Identifier: MIT
#pragma once

/// How often memory was asked for: tests/main.cpp replaces the global new.

#include <atomic>

namespace test {

extern std::atomic<bool> counting_allocations;
extern std::atomic<long> allocations;

/// Allocations of all threads while f runs.
template <class F>
long allocations_of(F f) {
  allocations = 0;
  counting_allocations = true;
  f();
  counting_allocations = false;
  return allocations;
}

}  // namespace test
