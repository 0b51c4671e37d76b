// SPDX-License-Identifier: MIT
#pragma once

/// What tests of kernels share: runs under every schedule, bits compared, and numbers to compute with.

#include "emulation/cuda.hpp"

#include <simplx/core/shape.hpp>
#include <simplx/cpu/random_numbers.hpp>
#include <simplx/cuda/port.cuh>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace test {

using namespace simplx;
using namespace simplx::gpu;

/// Standard normal numbers; the seed names them.
template <class S>
std::vector<S> numbers(Index count, std::uint64_t seed) {
  std::vector<S> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<S>(normal(seed, i));
  return values;
}

/// Memory that a kernel must write.
template <class S>
std::vector<S> unwritten(Index count) {
  return std::vector<S>(static_cast<std::size_t>(count), std::numeric_limits<S>::quiet_NaN());
}

/// The result of f, a vector, which must have the same bits under every schedule; one is enough for sanitizers, which
/// find the same under any.
template <class F>
auto same_bits(const F& f) {
  const emulation::Schedule own = emulation::schedule();
  const auto first = f();
  if (emulation::thread_sanitized || emulation::address_sanitized) return first;
  emulation::each_schedule([&] {
    if (emulation::schedule() == own) return;
    const auto other = f();
    CAPTURE(emulation::schedule().text());
    REQUIRE(other.size() == first.size());
    CHECK((first.empty() || std::memcmp(other.data(), first.data(), first.size() * sizeof first[0]) == 0));
  });
  return first;
}

template <class S>
inline constexpr double rounding = std::numeric_limits<S>::epsilon();

/// The largest difference, in units of the rounding of S times the largest exact number, or the size of the terms that
/// cancel in all of them; NaN counts as infinite.
template <class S>
double distance(const std::vector<S>& values, const std::vector<double>& exact, double terms = 0) {
  REQUIRE(values.size() == exact.size());
  double largest = terms, worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    const double difference = std::abs(static_cast<double>(values[i]) - exact[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst == 0 ? 0 : worst / (largest * rounding<S>);
}

/// Several vectors as one, for same_bits.
template <class S>
std::vector<S> joined(std::initializer_list<std::vector<S>> parts) {
  std::vector<S> all;
  for (const std::vector<S>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace test
