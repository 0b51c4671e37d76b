// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/gpu.cuh
/// Gpu: what the kernels of a model share on a device: the stream they run on, matrix products, and which rows look up
/// the same index. Each Trainer and each Evaluation on a GPU has one.

#include <simplx/core/context.hpp>
#include <simplx/cuda/index_runs.hpp>
#include <simplx/cuda/memory.cuh>
#include <simplx/cuda/products.cuh>

namespace simplx::inline SIMPLX_TARGET {

class Gpu {
 public:
  /// The runs of an input's indices, on the device: as many as there are rows, those behind the last one empty.
  struct Runs {
    DeviceBuffer<std::int32_t> rows;
    DeviceBuffer<IndexRun> runs;
  };

  const GpuStream& stream() const { return stream_; }
  Products& products() { return products_; }
  const Runs& runs(int input) const { return runs_[input]; }

  /// Room for the indices of an input.
  void reserve(int input, Index rows) {
    runs_[input] = {DeviceBuffer<std::int32_t>(rows), DeviceBuffer<IndexRun>(rows)};
  }
  /// Sorts the indices that an input is given, for the pull-backs of those who look them up.
  ///
  /// Errors  throws Error if there are more than `reserve` was told
  /// Cost    O(rows log rows) on the host and a copy
  void sort(int input, std::span<const std::int32_t> indices) {
    IndexRuns sorted = index_runs(indices);
    sorted.runs.resize(indices.size());
    runs_[input].rows.copy_from(sorted.rows, stream());
    runs_[input].runs.copy_from(sorted.runs, stream());
  }

  /// Waits for all kernels.
  void synchronize() { stream_.synchronize(); }

 private:
  GpuStream stream_;
  Products products_;
  Runs runs_[max_inputs];
};

}  // namespace simplx
