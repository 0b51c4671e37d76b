// SPDX-License-Identifier: MIT
#include <simplx/cpu/peak.hpp>

#include <doctest/doctest.h>

TEST_CASE("cpu/peak: the chains compute, and their speed is that of some computer") {
  // x -> x f + t, from 2 in 12 chains: with f = 0 every chain is t after one round.
  CHECK(simplx::detail::fma_chains(1, 0.0f) == doctest::Approx(12 * simplx::lanes<float> * 1e-3));
  const double peak = simplx::measured_peak_gflops(1);
  CHECK(peak > 0.1);
  CHECK(peak < 10000);
}
