// SPDX-License-Identifier: MIT
#pragma once

// How the programs that write text draw its tokens.

#include "flags.hpp"

#include <simplx/train/sampler.hpp>

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

}  // namespace flags
