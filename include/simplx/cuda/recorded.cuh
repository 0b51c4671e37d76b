// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/recorded.cuh
/// Recorded: work of a stream that runs again with one call, without the host starting each kernel anew.

#include <simplx/cuda/memory.cuh>

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

}  // namespace simplx
