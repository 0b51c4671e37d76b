// SPDX-License-Identifier: MIT
#pragma once

// How many texts the programs write, and how they draw their tokens.

#include "flags.hpp"

#include <simplx/train/sampler.hpp>

#include <vector>

namespace flags {

/// --temperature, --top-k, --top-p and --seed; what `sampling` has is their default.
inline void add_sampling(CLI::App& app, simplx::Sampling& sampling) {
  app.add_option("--temperature", sampling.temperature, "0 takes the most probable token, 1 draws as the model says")
      ->check(from_to(0.0, 1e30))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Draw from so many of the most probable tokens; 0: from all")
      ->check(from_to(0, 1000000000))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Draw from the fewest tokens of this probability together")
      ->check(from_to(1e-12, 1.0))
      ->capture_default_str();
  app.add_option("--seed", sampling.seed, "Of the draws")->check(seed())->capture_default_str();
}
/// --samples.
inline void add_samples(CLI::App& app, long& samples) {
  app.add_option("--samples", samples, "So many texts at once, shown when all have ended; each has the next seed")
      ->check(from_to(1L, 4096L))
      ->capture_default_str();
}
/// One for each text.
inline std::vector<simplx::Sampler> samplers(simplx::Sampling sampling, long samples) {
  std::vector<simplx::Sampler> draws;
  for (long s = 0; s < samples; ++s, ++sampling.seed) draws.emplace_back(sampling);
  return draws;
}

}  // namespace flags
