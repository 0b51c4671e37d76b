// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/batch.cuh
/// BatchUpload: a batch of sequences where a device reads it.

#include <simplx/cuda/labelled_rows.cuh>
#include <simplx/cuda/upload.cuh>
#include <simplx/train/batch.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// The tokens, labels and offsets of one batch after another, and which tokens a head computes (labelled_rows.cuh).
class BatchUpload {
 public:
  /// Room for so many rows, of which those of the axis `labelled` have labels. If it is to gather the labelled tokens,
  /// labels are those of what it gathers.
  BatchUpload(const Rows& capacity, Axis labelled, bool gathers = false)
      : labelled_(labelled),
        tokens_(capacity.tokens),
        labels_(capacity.count(labelled)),
        gathered_(gathers ? capacity.tokens : 0),
        offsets_(capacity.sequences + 1) {}

  /// Lays out a batch, which fits; the device has it after the next `send`. What was sent before must have arrived.
  /// Gathers head_rows(its labels, its tokens), or all tokens.
  void lay_out(const TokenBatch& batch, bool all = false) {
    const Index first = batch.offsets.front(), last = batch.offsets.back();
    rows_ = {.tokens = last - first, .sequences = batch.sequences(), .longest_sequence = 0};
    for (Index b = 0; b <= rows_.sequences; ++b) {
      offsets_.host()[b] = batch.offsets[b] - first;
      if (b > 0) rows_.longest_sequence = std::max(rows_.longest_sequence, batch.offsets[b] - batch.offsets[b - 1]);
    }
    std::ranges::copy(std::span(batch.tokens).subspan(first, rows_.tokens), tokens_.host().begin());
    const Index first_label = labelled_ == Axis::tokens ? first : 0;
    const auto labels = std::span(batch.labels).subspan(first_label, rows_.count(labelled_));
    if (gathered_.size()) {
      gather(labels, all);
    } else {
      std::ranges::copy(labels, labels_.host().begin());
    }
  }
  /// Copies it. Can be recorded: later runs copy what is laid out then, of the same sizes.
  void send(cudaStream_t stream) {
    tokens_.send(stream, rows_.tokens);
    labels_.send(stream, gathered_.size() ? rows_.labelled : rows_.count(labelled_));
    gathered_.send(stream, rows_.labelled);
    offsets_.send(stream, rows_.sequences + 1);
  }

  /// Of the batch that was laid out last.
  const Rows& rows() const { return rows_; }
  std::span<const std::int32_t> host_tokens() { return tokens_.host().first(static_cast<std::size_t>(rows_.tokens)); }
  std::span<const std::int32_t> host_labels() {
    return labels_.host().first(static_cast<std::size_t>(gathered_.size() ? rows_.labelled : rows_.count(labelled_)));
  }
  /// The tokens that are gathered: all labelled ones and, after them, as many others as there is room for.
  std::span<const std::int32_t> host_gathered() {
    return gathered_.host().first(static_cast<std::size_t>(rows_.labelled));
  }
  // On the device.
  const std::int32_t* tokens() const { return tokens_.data(); }
  const std::int32_t* labels() const { return labels_.data(); }
  const std::int32_t* gathered() const { return gathered_.data(); }
  Segments sequences() const { return {offsets_.data(), rows_.sequences}; }
  std::size_t bytes() const { return tokens_.bytes() + labels_.bytes() + gathered_.bytes() + offsets_.bytes(); }

 private:
  void gather(std::span<const std::int32_t> labels, bool all) {
    const Index tokens = std::ssize(labels);
    const Index labelled = tokens - std::ranges::count(labels, ignored_label);
    rows_.labelled = all ? tokens : head_rows(labelled, tokens);
    std::size_t places[] = {0, static_cast<std::size_t>(labelled)};  // of the labelled, of the others
    for (Index row = 0; row < tokens; ++row) {
      const std::int32_t label = labels[static_cast<std::size_t>(row)];
      const std::size_t place = places[label == ignored_label]++;
      if (place >= static_cast<std::size_t>(rows_.labelled)) continue;
      gathered_.host()[place] = static_cast<std::int32_t>(row);
      labels_.host()[place] = label;
    }
  }

  Axis labelled_;
  Rows rows_;
  Upload<std::int32_t> tokens_, labels_, gathered_;
  Upload<Index> offsets_;
};

}  // namespace simplx::gpu
