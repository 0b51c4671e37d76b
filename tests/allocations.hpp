// SPDX-License-Identifier: MIT
#pragma once

/// How often memory was asked for, and what happens without: tests/main.cpp replaces the global new.

#include <atomic>
#include <cstddef>
#include <exception>

namespace test {

extern std::atomic<bool> counting_allocations;
extern std::atomic<long> allocations;
extern std::atomic<std::size_t> allocated_bytes;
extern std::atomic<long> without;  ///< the allocation, counted from 0, that finds no memory; -1: none

/// Allocations of all threads while f runs.
template <class F>
long allocations_of(F f) {
  allocations = 0;
  counting_allocations = true;
  f();
  counting_allocations = false;
  return allocations;
}

/// Bytes that all threads ask for while f runs.
template <class F>
std::size_t bytes_of(F f) {
  allocated_bytes = 0;
  allocations_of(f);
  return allocated_bytes;
}

/// Runs f once for each of its allocations, which finds no memory, and check() after each time; then f itself. Returns
/// how many allocations there were.
template <class F, class Check>
long without_memory(F f, Check check) {
  for (long number = 0;; ++number) {
    without = number;
    const bool reached = allocations_of([&] {
      try {
        f();
      } catch (const std::exception&) {
      }
    }) > number;
    without = -1;
    if (!reached) return number;
    check();
  }
}

}  // namespace test
