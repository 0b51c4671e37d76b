// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/batch.cuh
/// BatchUpload: a batch of sequences where a device reads it.

#include <simplx/cuda/upload.cuh>
#include <simplx/train/batch.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// The tokens, labels and offsets of one batch after another.
class BatchUpload {
 public:
  /// Room for so many rows, of which those of the axis `labelled` have labels.
  BatchUpload(const Rows& capacity, Axis labelled)
      : labelled_(labelled),
        tokens_(capacity.tokens),
        labels_(capacity.count(labelled)),
        offsets_(capacity.sequences + 1) {}

  /// Lays out a batch, which fits; the device has it behind the next `send`. What was sent before must have arrived.
  void lay_out(const TokenBatch& batch) {
    const Index first = batch.offsets.front(), last = batch.offsets.back();
    rows_ = {.tokens = last - first, .sequences = batch.sequences(), .longest_sequence = 0};
    for (Index b = 0; b <= rows_.sequences; ++b) {
      offsets_.host()[b] = batch.offsets[b] - first;
      if (b > 0) rows_.longest_sequence = std::max(rows_.longest_sequence, batch.offsets[b] - batch.offsets[b - 1]);
    }
    std::ranges::copy(std::span(batch.tokens).subspan(first, rows_.tokens), tokens_.host().begin());
    const Index first_label = labelled_ == Axis::tokens ? first : 0;
    std::ranges::copy(std::span(batch.labels).subspan(first_label, rows_.count(labelled_)), labels_.host().begin());
  }
  /// Copies it. Can be recorded: later runs copy what is laid out then, of the same sizes.
  void send(cudaStream_t stream) {
    tokens_.send(stream, rows_.tokens);
    labels_.send(stream, rows_.count(labelled_));
    offsets_.send(stream, rows_.sequences + 1);
  }

  /// Of the batch that was laid out last.
  const Rows& rows() const { return rows_; }
  std::span<const std::int32_t> host_tokens() { return tokens_.host().first(static_cast<std::size_t>(rows_.tokens)); }
  // On the device.
  const std::int32_t* tokens() const { return tokens_.data(); }
  const std::int32_t* labels() const { return labels_.data(); }
  Segments sequences() const { return {offsets_.data(), rows_.sequences}; }
  std::size_t bytes() const { return tokens_.bytes() + labels_.bytes() + offsets_.bytes(); }

 private:
  Axis labelled_;
  Rows rows_;
  Upload<std::int32_t> tokens_, labels_;
  Upload<Index> offsets_;
};

}  // namespace simplx
