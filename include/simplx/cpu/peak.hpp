// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/peak.hpp
/// The limit to hold a speed against: how many multiply-adds the cores do when nothing else is in their way.

#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/threads.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace simplx {

namespace detail {

/// Independent chains of fused multiply-adds, enough of them to hide the latency; returns FLOPs per second.
inline double fma_rate(double seconds) {
  using V = Vec<float>;
  constexpr int chains = 12, rounds = 4000;
  using Clock = std::chrono::steady_clock;
  V sums[chains]{};
  V factor = splat<V>(0.999f), term = splat<V>(1e-3f);
  double best = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + term;
      __asm__ volatile("" : "+m"(*const_cast<char*>(reinterpret_cast<const char*>(&factor))));  // keeps the loop honest
    }
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * lanes<float> * chains * rounds / took);
  } while (Clock::now() < end);
  float result = 0;
  for (const V& s : sums) result += sum(s);
  __asm__ volatile("" : : "g"(&result) : "memory");
  return best;
}

}  // namespace detail

/// Single-precision GFLOP/s that this build's vectors reach on that many threads at once; the best of 30 ms.
inline double measured_peak_gflops(int threads = 1) {
  Team team(threads);
  std::vector<double> rate(static_cast<std::size_t>(threads));
  team.run([&](int member) { rate[static_cast<std::size_t>(member)] = detail::fma_rate(0.03); });
  double total = 0;
  for (const double r : rate) total += r * 1e-9;
  return total;
}

}  // namespace simplx
