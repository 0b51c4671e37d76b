// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/recorded.cuh
/// Recorded: work of a stream that runs again with one call, without the host starting each kernel anew. Repeated: work
/// that is recorded when it comes a second time, if it can be.

#include <simplx/cuda/memory.cuh>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace simplx::inline SIMPLX_TARGET::gpu {

class Recorded {
 public:
  /// Records what `work` gives to the stream, and runs none of it. Addresses and numbers stay as they are; what changes
  /// from run to run must be read from the device's memory.
  ///
  /// Errors  throws Error if something cannot be recorded, such as a wait for the stream or an allocation
  template <class F>
  Recorded(const GpuStream& stream, const F& work) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "nothing can be recorded");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      static_cast<void>(cudaGetLastError());  // CUDA keeps that the capture failed; the next launch would be blamed
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "the recording was given up");
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "what was recorded cannot run");
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { cudaGraphExecDestroy(graph_); }

  void run(const GpuStream& stream) const { check(cudaGraphLaunch(graph_, stream), "recorded work was not started"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// Work of one kind or another, which a Kind tells apart: what comes again differs in nothing that is recorded.
template <class Kind>
class Repeated {
 public:
  /// Kinds that are remembered: of more, each takes the place of the one that was not used for longest.
  static constexpr std::size_t kinds = 4;

  /// Runs work as it is the first time, when products choose their algorithms, and recorded from the second time on.
  /// What CUDA does not record, or finds no memory for, is slower but right: it runs as it is, and is not tried again.
  ///
  /// Errors  throws what `work` throws when it is not being recorded, and Error if recorded work does not start
  template <class F>
  void run(const GpuStream& stream, const Kind& kind, const F& work) {
    const auto known = std::ranges::find(known_, kind, &Known::kind);
    const bool is_new = known == known_.end();
    const auto place = is_new ? std::ranges::min_element(known_, {}, &Known::used) : known;
    last_ = static_cast<std::size_t>(place - known_.begin());
    place->used = ++uses_;
    if (is_new) {
      clear(*place);
      place->kind = kind;
      return work();
    }
    if (!known->recorded && !known->refusal) record(stream, *known, work);
    if (!known->recorded) return work();
    known->recorded->run(stream);
  }
  /// What was recorded no longer holds.
  void forget() {
    for (Known& known : known_) clear(known);
  }
  /// Why the last work was not recorded when it came again; empty if it was not refused.
  std::string refusal() const { return known_[last_].refusal.value_or(""); }

 private:
  struct Known {
    std::optional<Kind> kind{};
    std::optional<Recorded> recorded{};
    std::optional<std::string> refusal{};
    long used = 0;  ///< when, counted in uses
  };

  static void clear(Known& known) {
    known.recorded.reset();
    known.refusal.reset();
    known.kind.reset();
  }
  template <class F>
  static void record(const GpuStream& stream, Known& known, const F& work) {
    try {
      known.recorded.emplace(stream, work);
    } catch (const Error& error) {
      known.refusal = error.what();
    }
  }

  std::array<Known, kinds> known_{};
  std::size_t last_ = 0;
  long uses_ = 0;
};

}  // namespace simplx::gpu
