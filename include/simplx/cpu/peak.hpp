// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/peak.hpp
/// The limit to hold a speed against: how many multiply-adds the cores do when nothing else is in their way.

#include <simplx/cpu/amx.hpp>
#include <simplx/cpu/bfloat16.hpp>
#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/threads.hpp>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::cpu {

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

/// Independent sums of products of pairs of bfloat16, in registers as well.
__attribute__((noinline)) inline float pair_sums(long rounds, float number) {
  using V = Vec<float>;
  const Vec<Twin> pairs = pairs_of(splat<V>(number), splat<V>(number));
  V sums[12]{};
  for (long r = 0; r < rounds; ++r) {
    SIMPLX_UNROLL
    for (V& each : sums) each = multiply_add(each, pairs, pairs);
  }
  float total = 0;
  for (const V& each : sums) total += sum(each);
  return total;
}

#if defined(SIMPLX_AMX)
/// The same in tiles: four sums, of the products of two tiles and two.
SIMPLX_AMX __attribute__((noinline)) inline float tile_sums(long rounds, float number) {
  const Amx unit;
  Vec<Twin> tile[tile_side];
  for (Vec<Twin>& row : tile) row = pairs_of(splat<Vec<float>>(number), splat<Vec<float>>(number));
  asm volatile("" ::"r"(tile) : "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, tile, 64);
  _tile_loadd(5, tile, 64);
  _tile_loadd(6, tile, 64);
  _tile_loadd(7, tile, 64);
  for (long r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float sums[tile_words];
  _tile_stored(0, sums, 64);
  return sums[0];
}
#endif

/// FLOPs per second of the fastest of many runs; run(rounds, number) does `flops` in each round.
template <class Run>
double best_rate(double seconds, double flops, Run run) {
  constexpr long rounds = 20000;
  volatile float number = 0.999f;  // read anew, or one run would do for all
  using Clock = std::chrono::steady_clock;
  double best = 0;
  volatile float sink = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    sink = run(rounds, number);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, flops * rounds / took);
  } while (Clock::now() < end);
  (void)sink;
  return best;
}

template <class Word>
double peak_rate(double seconds) {
  constexpr double chains = 12, of_vectors = 2 * lanes<float> * chains;
  if constexpr (std::is_same_v<Word, float>) {
    return best_rate(seconds, of_vectors, fma_chains);
  } else {
#if defined(SIMPLX_AMX)
    constexpr double of_tiles = 4 * 2 * 2 * tile_side * tile_words;  // pairs, each a product and a sum
    if (Amx::available()) return best_rate(seconds, of_tiles, tile_sums);
#endif
    return best_rate(seconds, 2 * of_vectors, pair_sums);
  }
}

/// GFLOP/s that this CPU reaches on that many threads at once, the best of so many seconds: of floats with this build's
/// vectors, or with Twin of products in bfloat16, by its matrix unit if there is one (amx.hpp). Clocks change with what
/// a machine and its neighbours do: what a limit is held against is measured beside it.
template <class Word = float>
double measured_peak_gflops(int threads = 1, double seconds = 0.03) {
  Team team(threads);
  std::vector<double> rate(static_cast<std::size_t>(threads));
  team.run([&](int member) { rate[static_cast<std::size_t>(member)] = peak_rate<Word>(seconds); });
  double total = 0;
  for (const double r : rate) total += r * 1e-9;
  return total;
}

}  // namespace simplx::cpu
