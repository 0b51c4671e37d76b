// SPDX-License-Identifier: MIT
#pragma once

/// Numbers of a CPU to compare with. nvcc takes no vectors: so a test that it compiles reads what the same test of g++
/// has written, call by call, SIMPLX_TELL=FILE there and SIMPLX_TOLD=FILE here.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace test {

/// The file that a variable names, open from the first call on; none if it is not set.
inline std::FILE* opened(const char* variable, const char* mode) {
  const char* const path = std::getenv(variable);
  return path ? std::fopen(path, mode) : nullptr;
}

inline void tell(const std::vector<double>& numbers) {
  static std::FILE* const file = opened("SIMPLX_TELL", "wb");
  if (!file) return;
  const std::uint64_t count = numbers.size();
  REQUIRE(std::fwrite(&count, sizeof count, 1, file) == 1);
  REQUIRE(std::fwrite(numbers.data(), sizeof(double), numbers.size(), file) == numbers.size());
  REQUIRE(std::fflush(file) == 0);
}

/// What was told by the same call.
inline std::vector<double> told() {
  static std::FILE* const file = opened("SIMPLX_TOLD", "rb");
  REQUIRE_MESSAGE(file, "SIMPLX_TOLD names no file of numbers from a CPU");
  std::uint64_t count = 0;
  REQUIRE(std::fread(&count, sizeof count, 1, file) == 1);
  REQUIRE(count < 1u << 28);
  std::vector<double> numbers(count);
  REQUIRE(std::fread(numbers.data(), sizeof(double), numbers.size(), file) == numbers.size());
  return numbers;
}

/// f(arguments...), numbers; f must be generic, for nvcc does not look into it.
template <class F, class... Arguments>
std::vector<double> on_cpu([[maybe_unused]] const F& f, [[maybe_unused]] const Arguments&... arguments) {
#if !defined(__CUDACC__)
  if (!std::getenv("SIMPLX_TOLD")) {
    const std::vector<double> numbers = f(arguments...);
    tell(numbers);
    return numbers;
  }
#endif
  return told();
}

}  // namespace test
