// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/peak.hpp
/// The limit to hold a speed against: how many multiply-adds the cores do when nothing else is in their way.

#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/threads.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// A run of independent chains of multiply-adds, enough of them to hide the latency; all stay in registers.
__attribute__((noinline)) inline float fma_chains(long rounds, float factor) {
  using V = Vec<float>;
  const V f = splat<V>(factor), t = splat<V>(1e-3f);
  const auto from = [](float start) { return splat<V>(start); };  // none begins at its fixed point 1, and no two alike
  V a = from(1.5f), b = from(2), c = from(3), d = from(4), e = from(5), g = from(6);
  V h = from(7), i = from(8), j = from(9), k = from(10), l = from(11), m = from(12);
  for (long r = 0; r < rounds; ++r) {
    a = a * f + t, b = b * f + t, c = c * f + t, d = d * f + t, e = e * f + t, g = g * f + t;
    h = h * f + t, i = i * f + t, j = j * f + t, k = k * f + t, l = l * f + t, m = m * f + t;
  }
  return sum(((a + b) + (c + d)) + ((e + g) + (h + i)) + ((j + k) + (l + m)));
}

/// FLOPs per second of the fastest of many runs.
inline double fma_rate(double seconds) {
  constexpr long rounds = 20000, chains = 12;
  volatile float factor = 0.999f;  // read anew, or one run would do for all
  using Clock = std::chrono::steady_clock;
  double best = 0;
  volatile float sink = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    sink = fma_chains(rounds, factor);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * lanes<float> * chains * rounds / took);
  } while (Clock::now() < end);
  (void)sink;
  return best;
}

}  // namespace detail

/// Single-precision GFLOP/s that this build's vectors reach on that many threads at once, the best of so many seconds.
/// Clocks change with what a machine and its neighbours do: what a limit is held against is measured beside it.
inline double measured_peak_gflops(int threads = 1, double seconds = 0.03) {
  Team team(threads);
  std::vector<double> rate(static_cast<std::size_t>(threads));
  team.run([&](int member) { rate[static_cast<std::size_t>(member)] = detail::fma_rate(seconds); });
  double total = 0;
  for (const double r : rate) total += r * 1e-9;
  return total;
}

}  // namespace simplx
