// SPDX-License-Identifier: MIT
#pragma once

#include <simplx/simplx.hpp>

namespace bench {

using simplx::Index;

/// Sequences of random tokens and labels.
inline simplx::TokenBatch random_batch(Index sequences, Index length, Index vocab) {
  simplx::TokenBatch batch = simplx::make_batch(sequences, length);
  const auto draw = [&](std::uint64_t key, Index i) {
    const std::uint64_t number = simplx::bits(key, static_cast<std::uint64_t>(i));
    return static_cast<std::int32_t>(number % static_cast<std::uint64_t>(vocab));
  };
  batch.offsets.push_back(0);
  for (Index i = 0; i < sequences * length; ++i) {
    batch.tokens.push_back(draw(1, i));
    batch.labels.push_back(draw(2, i));
    if ((i + 1) % length == 0) batch.offsets.push_back(i + 1);
  }
  return batch;
}

}  // namespace bench
