// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/recorded.cuh
/// Recorded: work of a stream that runs again with one call, without the host starting each kernel anew. Repeated: work
/// that is recorded when it comes a second time, if it can be.

#include <simplx/cuda/memory.cuh>

#include <optional>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

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

/// Work of one kind or another, which a Kind tells apart: what comes again in turn differs in nothing that is recorded.
template <class Kind>
class Repeated {
 public:
  /// Runs work as it is the first time, when products choose their algorithms, and recorded if the next is the same.
  /// What CUDA does not record, or finds no memory for, is slower but right: it runs as it is until another kind comes.
  ///
  /// Errors  throws what `work` throws when it is not being recorded, and Error if recorded work does not start
  template <class F>
  void run(const GpuStream& stream, const Kind& kind, const F& work) {
    if (kind != last_) {
      forget();
      last_ = kind;
      return work();
    }
    if (!recorded_ && !refusal_) record(stream, work);
    if (!recorded_) return work();
    recorded_->run(stream);
  }
  /// What was recorded no longer holds.
  void forget() {
    recorded_.reset();
    refusal_.reset();
    last_.reset();
  }
  /// Why the last kind of work was not recorded when it came again; empty if nothing was refused.
  std::string refusal() const { return refusal_.value_or(""); }

 private:
  template <class F>
  void record(const GpuStream& stream, const F& work) {
    try {
      recorded_.emplace(stream, work);
    } catch (const Error& error) {
      refusal_ = error.what();
    }
  }

  std::optional<Kind> last_;
  std::optional<Recorded> recorded_;
  std::optional<std::string> refusal_;
};

}  // namespace simplx
