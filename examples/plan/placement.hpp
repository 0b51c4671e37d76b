// SPDX-License-Identifier: MIT
#pragma once

// How a model lies on devices, and the time below which no step falls.

#include "preset.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace plan {

struct Devices {
  double flops = 1e14;      ///< per second, of each
  double bandwidth = 2e12;  ///< bytes per second to its memory
  double memory = 80e9;     ///< bytes
  int count = 1;
  int node = 8;             ///< devices that are close enough to share the matrices of a layer
  int bytes_per_number = 4; ///< of activations; parameters, gradients and AdamW's moments take 16 bytes in any case
};

/// `tensor` devices share every matrix, `pipeline` of such groups share the layers, `data` of those the sequences.
struct Placement {
  int data, tensor, pipeline;
  Index micro_batch;     ///< sequences at a time: of those that fit the most that take the least time
  Index tokens;          ///< of a step
  double seconds;        ///< the floor of a step; what goes between devices is not counted
  bool bound_by_memory;  ///< that floor is the memory's, not the arithmetic's
};

namespace detail {

/// Bytes for each parameter: itself, its gradient, two moments.
inline constexpr double state_bytes = 16;
/// What the update moves for each: it reads the four, writes them, and clears the gradient on the way.
inline constexpr double update_bytes = 32;

/// Bytes that a sequence in flight takes on a device. With a pipeline a device has that share of the layers, but as
/// many sequences in flight as the pipeline is long.
inline double kept_of_sequence(const Preset& preset, const Devices& devices, int tensor) {
  return preset.kept_bytes_per_token / 4 * devices.bytes_per_number * static_cast<double>(preset.context) / tensor;
}

inline Placement timed(const Preset& preset, const Devices& devices, Index sequences, int tensor, int pipeline,
                       Index fits) {
  const int data = static_cast<int>(std::min<Index>(devices.count / (tensor * pipeline), sequences));
  const Index replica = (sequences + data - 1) / data;  // sequences of the busiest one
  const Index most = std::min(fits, replica);
  const double tokens = static_cast<double>(replica * preset.context), share = 1.0 / (tensor * pipeline);
  const auto parameters = static_cast<double>(preset.parameters);
  const auto parts = [&](Index at_a_time) { return static_cast<double>((replica + at_a_time - 1) / at_a_time); };

  const auto arithmetic = [&](Index at_a_time) {
    const double bubble = (parts(at_a_time) + pipeline - 1) / parts(at_a_time);  // the pipeline fills and empties
    return 3 * preset.flops_per_token_causal * tokens * share / devices.flops * bubble;
  };
  const auto memory = [&](Index at_a_time) {
    const double kept = preset.kept_bytes_per_token / 4 * devices.bytes_per_number * tokens * share;
    const double weights = parts(at_a_time) * parameters * share * devices.bytes_per_number;
    const double traffic = update_bytes * parameters * share + 2 * kept + 2 * weights;  // forward and backward
    return traffic / devices.bandwidth;
  };
  const auto seconds = [&](Index at_a_time) { return std::max(arithmetic(at_a_time), memory(at_a_time)); };
  // More at a time read the weights less often and lengthen the bubble: the least is where these meet, or beside it.
  const auto last_with = [most](Index from, auto holds) {
    Index low = from, high = most;
    while (low < high) {
      const Index middle = high - (high - low) / 2;
      holds(middle) ? low = middle : high = middle - 1;
    }
    return low;
  };
  Index micro_batch = last_with(1, [&](Index n) { return memory(n) >= arithmetic(n); });
  if (micro_batch < most && seconds(micro_batch + 1) < seconds(micro_batch)) ++micro_batch;
  micro_batch = last_with(micro_batch, [&, least = seconds(micro_batch)](Index n) { return seconds(n) <= least; });
  return {.data = data,
          .tensor = tensor,
          .pipeline = pipeline,
          .micro_batch = micro_batch,
          .tokens = sequences * preset.context,
          .seconds = seconds(micro_batch),
          .bound_by_memory = memory(micro_batch) > arithmetic(micro_batch)};
}

}  // namespace detail

/// The placement of the fewest devices to a model, of those the one with the shortest pipeline; nothing where even all
/// of them are too few. `tokens` of a step are rounded to whole sequences.
inline std::optional<Placement> place(const Preset& preset, const Devices& devices, double tokens) {
  const auto sequences = std::max<Index>(1, std::llround(tokens / static_cast<double>(preset.context)));
  for (int devices_each = 1; devices_each <= devices.count; ++devices_each) {
    const double state = detail::state_bytes * static_cast<double>(preset.parameters) / devices_each;
    for (auto tensor = static_cast<int>(std::bit_floor(static_cast<unsigned>(devices.node))); tensor > 0; tensor /= 2) {
      const int pipeline = devices_each / tensor;
      if (devices_each % tensor || preset.heads % tensor || pipeline > preset.layers) continue;
      const double fits = (devices.memory - state) / detail::kept_of_sequence(preset, devices, tensor);
      if (fits < 1) continue;
      const auto whole = static_cast<Index>(std::min(fits, 1e15));
      return detail::timed(preset, devices, sequences, tensor, pipeline, whole);
    }
  }
  return std::nullopt;
}

}  // namespace plan
