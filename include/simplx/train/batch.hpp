// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/batch.hpp
/// TokenBatch: packed sequences of tokens with their labels.

#include <simplx/core/shape.hpp>

#include <cstdint>
#include <vector>

namespace simplx {

/// Sequence s occupies [offsets[s], offsets[s + 1]) of both arrays; a label of -100 carries no loss.
struct TokenBatch {
  std::vector<std::int32_t> tokens, labels;
  std::vector<Index> offsets;
};

}  // namespace simplx
