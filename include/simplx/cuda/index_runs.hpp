// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/index_runs.hpp
/// Which rows look up the same index: what the pull-back of an embedding needs to add in order, without atomics.

#include <simplx/core/shape.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Rows [begin, end) of IndexRuns::rows() look up `index`.
struct IndexRun {
  std::int32_t index, begin, end;
};

/// The rows of a batch, sorted by what they look up; on the host, where tokens come from. Its memory is used again.
class IndexRuns {
 public:
  /// Cost    O(rows log rows); allocates only for more rows than ever before
  void sort(std::span<const std::int32_t> indices) {
    keys_.clear(), rows_.clear(), runs_.clear();
    std::uint64_t row = 0;
    for (const std::int32_t index : indices) keys_.push_back(std::uint64_t(std::uint32_t(index)) << 32 | row++);
    std::ranges::sort(keys_);
    for (const std::uint64_t key : keys_) {
      const auto index = static_cast<std::int32_t>(key >> 32), place = static_cast<std::int32_t>(rows_.size());
      if (runs_.empty() || runs_.back().index != index) runs_.push_back({index, place, place});
      ++runs_.back().end;
      rows_.push_back(static_cast<std::int32_t>(key));
    }
    std::ranges::sort(runs_, [](const IndexRun& a, const IndexRun& b) {
      const auto length = [](const IndexRun& run) { return run.end - run.begin; };
      return length(a) != length(b) ? length(a) > length(b) : a.begin < b.begin;
    });
  }

  /// All rows by what they look up, those of an index ascending.
  std::span<const std::int32_t> rows() const { return rows_; }
  /// One for each index that occurs, the longest first, so that none starts last.
  std::span<const IndexRun> runs() const { return runs_; }

 private:
  std::vector<std::uint64_t> keys_;  // index, row
  std::vector<std::int32_t> rows_;
  std::vector<IndexRun> runs_;
};

}  // namespace simplx
