// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/adamw.cuh
/// The update of train/adamw.hpp over the flat buffers, all tensors in one launch, and the gradient's norm before it.
///
///     squared_norm     parts[b] = the squares of every so many chunks               (one launch)
///     adamw            norm = sqrt(sum of parts), factor = min(1, limit / norm), then each element (one launch)
///
/// Settings of tensors are a table of segments. The host need not know the norm in between: each block adds up the
/// parts by itself, and if the norm is not finite, parameters and moments stay and the gradient is cleared, as in
/// Trainer. The host then reads the norm, and counts the step only if it is finite.

#include <simplx/cuda/reduce.cuh>
#include <simplx/train/adamw.hpp>
#include <simplx/train/clip.hpp>
#include <simplx/train/groups.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Elements [begin, end) of the flat buffers; their chunks are those from first_chunk on.
template <class S>
struct AdamWSegment {
  Index begin, end, first_chunk;
  AdamWStep<S> by;
  bool frozen;  ///< the gradient is cleared, and is no part of the norm
};

/// Squares of the gradient are summed in so many parts.
SIMPLX_HD constexpr int squared_norm_parts(Index chunks) { return static_cast<int>(chunks < 512 ? chunks : 512); }

namespace detail {

inline constexpr int adamw_threads = 256, adamw_each = 8, adamw_chunk = adamw_threads * adamw_each;
inline constexpr unsigned adamw_blocks = 4096;

/// Calls f(segment, begin, end) for the chunks of this block: those of its number, one grid apart.
template <class S, class F>
__device__ void each_chunk(const AdamWSegment<S>* segments, int count, Index chunks, const F& f) {
  for (Index chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    int low = 0;
    for (int high = count; high - low > 1;) {  // the last segment that begins at or before the chunk
      const int middle = (low + high) / 2;
      (segments[middle].first_chunk <= chunk ? low : high) = middle;
    }
    const AdamWSegment<S>& segment = segments[low];
    const Index begin = segment.begin + (chunk - segment.first_chunk) * adamw_chunk;
    f(segment, begin, begin + adamw_chunk < segment.end ? begin + adamw_chunk : segment.end);
  }
}

template <class S>
__global__ void __launch_bounds__(adamw_threads)
    squared_norm_kernel(const AdamWSegment<S>* segments, int count, Index chunks, const S* gradients, double* parts) {
  double total = 0;
  each_chunk(segments, count, chunks, [&](const AdamWSegment<S>& segment, Index begin, Index end) {
    if (segment.frozen) return;
    S squares = 0;
    for (Index i = begin + threadIdx.x; i < end; i += adamw_threads) squares += gradients[i] * gradients[i];
    total += static_cast<double>(squares);
  });
  total = block_sum<adamw_threads>(total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

template <class S>
__global__ void __launch_bounds__(adamw_threads)
    adamw_kernel(const AdamWSegment<S>* segments, int count, Index chunks, UpdateBuffers<S> buffers,
                 const double* parts, double limit, double* norm) {
  double squared = 0;
  for (int i = static_cast<int>(threadIdx.x); i < squared_norm_parts(chunks); i += adamw_threads) squared += parts[i];
  squared = std::sqrt(block_sum<adamw_threads>(squared));
  if (blockIdx.x == 0 && threadIdx.x == 0) *norm = squared;
  const bool finite = squared - squared == 0;
  const S scale = static_cast<S>(clip_factor(squared, limit));
  each_chunk(segments, count, chunks, [&](const AdamWSegment<S>& segment, Index begin, Index end) {
    const AdamWStep<S> by = segment.by;
    const bool updates = finite && !segment.frozen;
    for (Index i = begin + threadIdx.x; i < end; i += adamw_threads) {
      if (updates) {
        const S g = buffers.gradients[i] * scale;
        const S m = by.beta1 * buffers.first_moments[i] + by.rest1 * g;
        const S v = by.beta2 * buffers.second_moments[i] + by.rest2 * (g * g);
        buffers.first_moments[i] = m;
        buffers.second_moments[i] = v;
        buffers.parameters[i] =
            buffers.parameters[i] * by.keep - by.rate * m / (std::sqrt(v) * by.root + by.epsilon);
      }
      buffers.gradients[i] = 0;
    }
  });
}

template <class S>
Index chunks_of(const AdamWSegment<S>& segment) {
  return blocks_for(segment.end - segment.begin, adamw_chunk);
}

}  // namespace detail

/// The table of a step, from what groups of parameters are trained with; it is copied to the device for each step.
template <class S>
std::vector<AdamWSegment<S>> adamw_segments(const std::vector<SettingsRun>& runs, const AdamW& optimiser, long step) {
  std::vector<AdamWSegment<S>> segments;
  Index chunk = 0;
  for (const SettingsRun& run : runs) {
    segments.push_back({run.begin, run.end, chunk, optimiser.with(run.settings).at<S>(step), run.settings.frozen()});
    chunk += detail::chunks_of(segments.back());
  }
  return segments;
}

/// The chunks of a table on the host.
template <class S>
Index adamw_chunks(const std::vector<AdamWSegment<S>>& segments) {
  return segments.empty() ? 0 : segments.back().first_chunk + detail::chunks_of(segments.back());
}

/// parts = sums of squares of the gradient, without what is frozen.
///
/// Shapes  segments (count), on the device; parts (squared_norm_parts(chunks))
template <class S>
void squared_norm(cudaStream_t stream, const AdamWSegment<S>* segments, int count, Index chunks, const S* gradients,
                  double* parts) {
  launch(stream, detail::squared_norm_kernel<S>, static_cast<unsigned>(squared_norm_parts(chunks)),
         detail::adamw_threads, segments, count, chunks, gradients, parts);
}

/// One step of all segments, the gradient clipped to `limit` (0: not), then cleared.
///
/// Shapes  segments (count), on the device; parts (squared_norm_parts(chunks)), of squared_norm; norm (1)
/// Cost    32 bytes of memory traffic for each float parameter
template <class S>
void adamw(cudaStream_t stream, const AdamWSegment<S>* segments, int count, Index chunks,
           const UpdateBuffers<S>& buffers, const double* parts, double limit, double* norm) {
  const auto blocks = static_cast<unsigned>(chunks < detail::adamw_blocks ? chunks : detail::adamw_blocks);
  launch(stream, detail::adamw_kernel<S>, blocks, detail::adamw_threads, segments, count, chunks, buffers, parts, limit,
         norm);
}

}  // namespace simplx
