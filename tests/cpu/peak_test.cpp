// SPDX-License-Identifier: MIT
#include <simplx/cpu/peak.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::cpu;

TEST_CASE("cpu/peak: the chains compute, and their speed is that of some computer") {
  // x -> x f + t, from 2 in 12 chains: with f = 0 every chain is t after one round.
  CHECK(fma_chains(1, 0.0f) == doctest::Approx(12 * lanes<float> * 1e-3));
  // n (x x + x x) in every lane of 12.
  CHECK(pair_sums(3, 0.5f) == 3 * 0.5f * 12 * lanes<float>);
#if defined(SIMPLX_AMX)
  if (Amx::available()) CHECK(tile_sums(3, 0.5f) == 3 * 32 * 0.25f);
#endif
  for (const double peak : {measured_peak_gflops(1), measured_peak_gflops<Twin>(1)}) {
    CHECK(peak > 0.1);
    CHECK(peak < 10000);
  }
}
