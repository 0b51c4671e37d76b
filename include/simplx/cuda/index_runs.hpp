// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/index_runs.hpp
/// Which rows look up the same index: what the pull-back of an embedding needs to add in order, without atomics.

#include <simplx/core/shape.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Rows [begin, end) of IndexRuns::rows() look up `index`.
struct IndexRun {
  std::int32_t index, begin, end;
};

/// The rows of a batch, sorted by what they look up; on the host, where tokens come from. Its memory is used again.
class IndexRuns {
 public:
  /// Cost    O(rows): a step waits for this. Allocates only for more rows than ever before
  void sort(std::span<const std::int32_t> indices) {
    const auto key = [&](std::int32_t row) {
      return static_cast<std::uint32_t>(indices[static_cast<std::size_t>(row)]);
    };
    rows_.resize(indices.size());
    std::iota(rows_.begin(), rows_.end(), 0);
    std::uint32_t largest = 0;
    for (const std::int32_t row : rows_) largest = std::max(largest, key(row));
    constexpr int bits = 9;  // two digits for any vocabulary of words; an even number of turns ends where it began
    for (int shift = 0; shift < 32 && largest >> shift != 0; shift += 2 * bits) {
      const auto digit = [&](int at) {
        return [&, at](std::int32_t row) { return at < 32 ? key(row) >> at & ((1u << bits) - 1) : 0u; };
      };
      count_into(rows_, other_rows_, 1u << bits, digit(shift));
      count_into(other_rows_, rows_, 1u << bits, digit(shift + bits));
    }
    found_.clear();
    std::uint32_t longest = 0;
    for (std::size_t place = 0; place < rows_.size(); ++place) {
      const auto index = static_cast<std::int32_t>(key(rows_[place])), begin = static_cast<std::int32_t>(place);
      if (found_.empty() || found_.back().index != index) found_.push_back({index, begin, begin});
      longest = std::max(longest, length(++found_.back().end, found_.back().begin));
    }
    count_into(found_, runs_, longest + 1, [&](const IndexRun& run) { return longest - length(run.end, run.begin); });
  }

  /// All rows by what they look up, those of an index ascending.
  std::span<const std::int32_t> rows() const { return rows_; }
  /// One for each index that occurs, the longest first, so that none starts last.
  std::span<const IndexRun> runs() const { return runs_; }

 private:
  static std::uint32_t length(std::int32_t end, std::int32_t begin) { return static_cast<std::uint32_t>(end - begin); }
  /// What has an equal key, below `keys`, stays in its order.
  template <class T, class Key>
  void count_into(const std::vector<T>& from, std::vector<T>& to, std::uint32_t keys, const Key& key) {
    places_.assign(keys + std::size_t(1), 0);
    for (const T& one : from) ++places_[key(one) + std::size_t(1)];
    std::partial_sum(places_.begin(), places_.end(), places_.begin());
    to.resize(from.size());
    for (const T& one : from) to[places_[key(one)]++] = one;
  }

  std::vector<std::int32_t> rows_, other_rows_;
  std::vector<IndexRun> found_, runs_;
  std::vector<std::size_t> places_;
};

}  // namespace simplx::gpu
