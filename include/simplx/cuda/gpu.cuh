// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/gpu.cuh
/// Gpu: what the kernels of a model share on a device: the stream they run on, matrix products, which rows look up the
/// same index, what dropout draws from, and rounded parameters. Whatever evaluates a model on a GPU has one.

#include <simplx/core/context.hpp>
#include <simplx/core/random.hpp>
#include <simplx/cuda/index_runs.hpp>
#include <simplx/cuda/memory.cuh>
#include <simplx/cuda/products.cuh>
#include <simplx/cuda/upload.cuh>

namespace simplx::inline SIMPLX_TARGET {

class Gpu {
 public:
  /// Errors  throws Error if there is no GPU, or if its memory is short
  Gpu() = default;

  /// The runs of an input's indices: as many as there are rows, those after the last one empty.
  struct Runs {
    gpu::Upload<std::int32_t> rows;
    gpu::Upload<gpu::IndexRun> runs;
    Index count = 0;
  };

  const GpuStream& stream() const { return stream_; }
  gpu::Products& products() { return products_; }
  const gpu::Products& products() const { return products_; }
  const Runs& runs(int input) const { return runs_[input]; }
  // On the device.
  const detail::Draw* draw() const { return draw_.data(); }

  /// Where parameters lie, and what products of bfloat16 take them as.
  void take_parameters(const void* parameters, const __nv_bfloat16* rounded) {
    parameters_ = static_cast<const float*>(parameters), rounded_ = rounded;
  }
  /// Those at a place of parameters, rounded.
  const __nv_bfloat16* rounded(const float* place) const { return rounded_ + (place - parameters_); }

  /// Room for the indices of an input.
  void reserve(int input, Index rows) {
    runs_[input] = {gpu::Upload<std::int32_t>(rows), gpu::Upload<gpu::IndexRun>(rows)};
  }
  /// Sorts the indices that an input is given, for the pull-backs of those who look them up. The device has them after
  /// the next `send`; what was sent before must have arrived.
  ///
  /// Errors  throws Error if there are more than `reserve` was told
  /// Cost    O(rows) on the host
  void sort(int input, std::span<const std::int32_t> indices) {
    Runs& own = runs_for(input, indices);
    sorted_.sort(indices);
    std::ranges::copy(sorted_.rows(), own.rows.host().begin());
    const auto after = std::ranges::copy(sorted_.runs(), own.runs.host().begin()).out;
    std::fill(after, own.runs.host().begin() + own.count, gpu::IndexRun{});
  }
  /// The same for indices that all differ, which need no sorting.
  void take_distinct(int input, std::span<const std::int32_t> indices) {
    Runs& own = runs_for(input, indices);
    for (std::int32_t row = 0; row < own.count; ++row) {
      const auto at = static_cast<std::size_t>(row);
      own.rows.host()[at] = row;
      own.runs.host()[at] = {indices[at], row, row + 1};
    }
  }
  /// Says what dropout draws from after the next `send`; what was sent before must have arrived.
  void draw_from(const Randomness& random) { draw_.host()[0] = {random.key, random.first_sequence}; }

  /// Copies what was sorted and what is drawn from to the device. Can be recorded: later runs copy what is there then,
  /// as many rows.
  void send() {
    draw_.send(stream());
    for (Runs& own : runs_) {
      own.rows.send(stream(), own.count);
      own.runs.send(stream(), own.count);
    }
  }

  /// Of all buffers on the device.
  std::size_t bytes() const {
    std::size_t sum = products_.bytes() + draw_.bytes();
    for (const Runs& own : runs_) sum += own.rows.bytes() + own.runs.bytes();
    return sum;
  }

  /// Waits for all kernels.
  void synchronize() { stream_.synchronize(); }

 private:
  Runs& runs_for(int input, std::span<const std::int32_t> indices) {
    Runs& own = runs_[input];
    if (std::ssize(indices) > own.rows.size()) {
      throw Error(std::to_string(indices.size()) + " indices where there is room for " +
                  std::to_string(own.rows.size()));
    }
    own.count = std::ssize(indices);
    return own;
  }

  GpuStream stream_;
  gpu::Products products_;
  gpu::Upload<detail::Draw> draw_{1};
  const float* parameters_ = nullptr;
  const __nv_bfloat16* rounded_ = nullptr;
  gpu::IndexRuns sorted_;
  Runs runs_[max_inputs];
};

}  // namespace simplx
