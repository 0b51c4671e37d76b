// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/index_runs.hpp
/// Which rows look up the same index: what the pull-back of an embedding needs to add in order, without atomics.

#include <simplx/core/shape.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Rows [begin, end) of IndexRuns::rows look up `index`.
struct IndexRun {
  std::int32_t index, begin, end;
};

struct IndexRuns {
  std::vector<std::int32_t> rows;  ///< all rows by what they look up, those of an index ascending
  std::vector<IndexRun> runs;      ///< one for each index that occurs, the longest first, so that none starts last
};

/// Sorts the rows of a batch; on the host, where tokens come from.
///
/// Cost    O(rows log rows)
inline IndexRuns index_runs(std::span<const std::int32_t> indices) {
  IndexRuns result;
  result.rows.resize(indices.size());
  std::iota(result.rows.begin(), result.rows.end(), 0);
  const auto of = [&](std::int32_t row) { return indices[static_cast<std::size_t>(row)]; };
  std::ranges::stable_sort(result.rows, {}, of);
  const auto count = static_cast<std::int32_t>(indices.size());
  for (std::int32_t begin = 0, end = 0; begin < count; begin = end) {
    const std::int32_t index = of(result.rows[static_cast<std::size_t>(begin)]);
    while (end < count && of(result.rows[static_cast<std::size_t>(end)]) == index) ++end;
    result.runs.push_back({index, begin, end});
  }
  std::ranges::stable_sort(result.runs, std::greater<>{}, [](const IndexRun& run) { return run.end - run.begin; });
  return result;
}

}  // namespace simplx
