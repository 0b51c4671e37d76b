// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/update.cuh
/// The step of an optimiser over the flat buffers, all tensors in one launch, and the gradient's norm before it.
///
///     squared_norm     parts[b] = the squares of every so many chunks               (one launch)
///     update           norm = sqrt(sum of parts), factor = min(1, limit / norm), then each element (one launch)
///
/// Settings of tensors are a table of segments. The host need not know the norm in between: each block adds up the
/// parts by itself, and if the norm or the loss is not finite, everything stays as it is. The host then reads both, and
/// counts the step only if they are finite.

#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>
#include <simplx/train/clip.hpp>
#include <simplx/train/groups.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Elements [begin, end) of the flat buffers, whose next state `by` gives; their chunks are those from first_chunk on.
template <class Step>
struct UpdateSegment {
  Index begin, end, first_chunk;
  Step by;
  bool frozen;  ///< the gradient is cleared, and is no part of the norm
  bool begins;  ///< the moments count as zero, whatever another optimiser has left there
};

/// Of an optimiser, which says by `at<S>(step)` how an element goes on.
template <class S, class Optimiser>
using UpdateSegmentOf = UpdateSegment<decltype(std::declval<const Optimiser&>().template at<S>(0L))>;

/// Squares of the gradient are summed in so many parts.
SIMPLX_HD constexpr int squared_norm_parts(Index chunks) { return static_cast<int>(chunks < 512 ? chunks : 512); }

inline constexpr int update_threads = 256, update_each = 8, update_chunk = update_threads * update_each;
inline constexpr unsigned update_blocks = 4096;

/// Chunks begin where memory is read in whole lines, and so may the first one of a segment before it.
template <class Step>
SIMPLX_HD Index begin_of_chunks(const UpdateSegment<Step>& segment) {
  return segment.begin / warp_lanes * warp_lanes;
}

/// Calls f(segment, first, end) for the thread's elements, update_threads apart, of each chunk of this block: those of
/// its number, one grid apart. A chunk is of the last segment that begins at or before it: lanes look at many at once,
/// where a search would wait for each in turn.
template <class Step, class F>
__device__ void each_chunk(const UpdateSegment<Step>* segments, int count, Index chunks, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  for (Index chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    int begun = 0;
    for (int i = 0; i < count; i += warp_lanes) {
      const bool begins = i + lane < count && segments[i + lane].first_chunk <= chunk;
      begun += __popc(__ballot_sync(whole_warp, begins));
    }
    const UpdateSegment<Step>& segment = segments[begun - 1];
    const Index begin = begin_of_chunks(segment) + (chunk - segment.first_chunk) * update_chunk;
    const Index end = begin + update_chunk < segment.end ? begin + update_chunk : segment.end;
    Index first = begin + threadIdx.x;
    if (first < segment.begin) first += update_threads;
    f(segment, first, end);
  }
}

template <class Step, class S>
__global__ void __launch_bounds__(update_threads)
    squared_norm_kernel(const UpdateSegment<Step>* segments, int count, Index chunks, const S* gradients,
                        double* parts) {
  double total = 0;
  each_chunk(segments, count, chunks, [&](const UpdateSegment<Step>& segment, Index first, Index end) {
    if (segment.frozen) return;
    S squares = 0;
    for (Index i = first; i < end; i += update_threads) squares += gradients[i] * gradients[i];
    total += static_cast<double>(squares);
  });
  total = block_sum<update_threads>(total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

template <bool rounds, class Step, class S>
__global__ void __launch_bounds__(update_threads)
    update_kernel(const UpdateSegment<Step>* segments, int count, Index chunks, UpdateBuffers<S> buffers,
                  __nv_bfloat16* rounded, const double* parts, double limit, const double* loss, double* norm) {
  double squared = 0;
  for (int i = static_cast<int>(threadIdx.x); i < squared_norm_parts(chunks); i += update_threads) squared += parts[i];
  squared = std::sqrt(block_sum<update_threads>(squared));
  if (blockIdx.x == 0 && threadIdx.x == 0) *norm = squared;
  if (squared - squared != 0 || *loss - *loss != 0) return;  // not finite
  const S scale = static_cast<S>(clip_factor(squared, limit));
  each_chunk(segments, count, chunks, [&](const UpdateSegment<Step>& segment, Index first, Index end) {
    const Step by = segment.by;
    const bool frozen = segment.frozen, begins = segment.begins;
    for (Index i = first; i < end; i += update_threads) {
      Number<S> p = buffers.parameters[i], m, v;
      if (!begins) m = buffers.first_moments[i];
      if (Step::second_moment && !begins) v = buffers.second_moments[i];
      if (!frozen) {
        by(p, Number<S>(buffers.gradients[i] * scale), m, v);
        buffers.parameters[i] = p.value;
        if constexpr (rounds) store_as(rounded[i], static_cast<float>(p.value));
      }
      buffers.gradients[i] = 0;
      buffers.first_moments[i] = m.value;
      if (Step::second_moment || begins) buffers.second_moments[i] = v.value;
    }
  });
}

template <class Step>
Index chunks_of(const UpdateSegment<Step>& segment) {
  return blocks_for(segment.end - begin_of_chunks(segment), update_chunk);
}

/// The table of step `step`, counted from 1, of what groups of parameters are trained with; it is copied to the device
/// for each step. `segments` is memory for as many of them as there are runs. Returns their chunks.
template <class S, class Optimiser>
Index update_segments(const std::vector<SettingsRun>& runs, const Optimiser& optimiser, long step,
                      UpdateSegmentOf<S, Optimiser>* segments) {
  Index chunks = 0;
  for (const SettingsRun& run : runs) {
    chunks += chunks_of(*std::construct_at(
        segments++,
        UpdateSegmentOf<S, Optimiser>{run.begin, run.end, chunks, optimiser.with(run.settings).template at<S>(step),
                                      run.settings.frozen(), step == 1}));
  }
  return chunks;
}

/// parts = sums of squares of the gradient, without what is frozen.
///
/// Shapes  segments (count), on the device; parts (squared_norm_parts(chunks))
template <class Step, class S>
void squared_norm(cudaStream_t stream, const UpdateSegment<Step>* segments, int count, Index chunks, const S* gradients,
                  double* parts) {
  launch(stream, squared_norm_kernel<Step, S>, static_cast<unsigned>(squared_norm_parts(chunks)), update_threads,
         segments, count, chunks, gradients, parts);
}

/// One step of all segments, the gradient clipped to `limit` (0: not), then cleared; nothing unless norm and loss are
/// finite.
///
/// Shapes  segments (count), on the device; rounded as parameters: what they become, in bfloat16, or null;
///         parts (squared_norm_parts(chunks)), of squared_norm; loss, norm (1)
/// Cost    32 bytes of memory traffic for each float parameter by AdamW, 24 by Sgd, 2 more if it is rounded
template <class Step, class S>
void update(cudaStream_t stream, const UpdateSegment<Step>* segments, int count, Index chunks,
            const UpdateBuffers<S>& buffers, __nv_bfloat16* rounded, const double* parts, double limit,
            const double* loss, double* norm) {
  const auto blocks = static_cast<unsigned>(chunks < update_blocks ? chunks : update_blocks);
  const auto kernel = rounded ? update_kernel<true, Step, S> : update_kernel<false, Step, S>;
  launch(stream, kernel, blocks, update_threads, segments, count, chunks, buffers, rounded, parts, limit, loss, norm);
}

}  // namespace simplx::gpu
