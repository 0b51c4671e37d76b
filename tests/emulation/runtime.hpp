// SPDX-License-Identifier: MIT
#pragma once

/// CUDA's runtime for host code in tests: memory, streams, events, and graphs captured from streams.
///
/// Stricter than CUDA: new memory is poisoned, copies are checked against what is allocated where, work is late (see
/// device.hpp), and what CUDA calls undefined is refused. While a stream captures, launches, copies, memsets and
/// products on it are recorded, with their arguments by value; what CUDA forbids meanwhile invalidates the capture.

#include "emulation/device.hpp"
#include "emulation/executor.hpp"

#include <string>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
};

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureImplicit = 906,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

struct CUevent_st {
  std::shared_ptr<emulation::Queue> queue;  // none: not recorded, or on the default stream, which has nothing to do
  std::uint64_t place = 0;
};
struct CUgraph_st {
  std::vector<emulation::Work> records;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulation::Work>> records;
};
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem, sharedMemPerBlock;
  int major, minor, multiProcessorCount;
};

namespace emulation {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
inline ErrorText text_of(cudaError_t error) {
  static constexpr ErrorText texts[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
       "CUDA driver version is insufficient for CUDA runtime version"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
      {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
       "no kernel image is available for execution on the device"},
      {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
      {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
      {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
       "operation not permitted when stream is capturing"},
      {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
       "operation failed due to a previous error during capture"},
      {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
       "operation would make the legacy stream depend on a capturing blocking stream"}};
  for (const ErrorText& one : texts) {
    if (one.error == error) return one;
  }
  return {error, "cudaErrorUnknown", "unrecognized error code"};
}

inline cudaError_t& last_error() {
  static cudaError_t error = cudaSuccess;
  return error;
}
/// The result of a call; CUDA remembers the last one that failed.
inline cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

/// Whether a call can be made on the stream at all.
inline cudaError_t usable(cudaStream_t stream) {
  if (!device().present) return cudaErrorNoDevice;
  return !stream || device().streams.contains(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
/// Of what no stream may do while it captures: it ends the capture.
inline cudaError_t forbidden_in(cudaStream_t stream) {
  if (const cudaError_t error = usable(stream)) return error;
  if (!stream || !stream->capture) return cudaSuccess;
  stream->capture->valid = false;
  return cudaErrorStreamCaptureUnsupported;
}
/// Of what nobody may do while any stream captures, such as to allocate.
inline cudaError_t forbidden_in_captures() {
  if (!device().present) return cudaErrorNoDevice;
  if (!device().captures()) return cudaSuccess;
  device().spoil_captures();
  return cudaErrorStreamCaptureUnsupported;
}

/// Gives work to a stream: recorded if it captures, done at once on the default stream, else when somebody waits.
inline cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (const cudaError_t error = usable(stream)) return returned(error);
  if (!stream) {
    for (const cudaStream_t other : device().streams) {
      if (!other->blocking) continue;
      if (other->capture) return other->capture->valid = false, returned(cudaErrorStreamCaptureImplicit);
      device().run(*other->queue);
    }
    work();
  } else if (stream->capture) {
    if (!stream->capture->valid) return returned(cudaErrorStreamCaptureInvalidated);
    stream->capture->records.push_back(std::move(work));
  } else {
    stream->queue->push(std::move(work));
  }
  return cudaSuccess;
}

/// What kernel<<<grid, block, shared_bytes, stream>>>(arguments...) does; cudaGetLastError() says whether.
template <class... Parameters>
void launch(std::size_t shared_bytes, cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::type_identity_t<Parameters>... arguments) {
  const Call call("launch");
  enqueue(stream, [=] {
    run({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, [&] { kernel(arguments...); }, shared_bytes);
  });
}

/// Whether the two ends of a copy are what its kind says, and each within one allocation.
inline bool copies(cudaMemcpyKind kind, Memory to, Memory from) {
  if (to == Memory::torn || from == Memory::torn) return false;
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return to_device == (to == Memory::device) && from_device == (from == Memory::device);
}

template <class T>
cudaError_t allocate(T** place, Memory kind, std::size_t bytes) {
  const Call call("allocate");
  if (const cudaError_t error = forbidden_in_captures()) return returned(error);
  Allocations& all = device().allocations;
  if (kind == Memory::device && bytes > device().memory - all.bytes(kind)) return returned(cudaErrorMemoryAllocation);
  *place = static_cast<T*>(bytes ? all.allocate(kind, bytes) : nullptr);
  return cudaSuccess;
}
inline cudaError_t release(void* place, Memory kind) {
  const Call call("release");
  if (!place) return cudaSuccess;
  if (const cudaError_t error = forbidden_in_captures()) return returned(error);
  device().run_all_quietly();  // it waits for the device
  return returned(device().allocations.release(kind, place) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace emulation

inline const char* cudaGetErrorName(cudaError_t error) { return emulation::text_of(error).name; }
inline const char* cudaGetErrorString(cudaError_t error) { return emulation::text_of(error).text; }
inline cudaError_t cudaGetLastError() { return std::exchange(emulation::last_error(), cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return emulation::last_error(); }

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulation::device().present;
  return emulation::returned(*count ? cudaSuccess : cudaErrorNoDevice);
}
inline cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return emulation::returned(emulation::usable(nullptr));
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (const cudaError_t error = emulation::usable(nullptr)) return emulation::returned(error);
  if (number != 0) return emulation::returned(cudaErrorInvalidValue);
  *properties = {"emulation", emulation::device().memory, emulation::most_shared, 8, 0, 1};
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const cudaError_t error = emulation::usable(nullptr)) return emulation::returned(error);
  *total = emulation::device().memory;
  *free = *total - emulation::device().allocations.bytes(emulation::Memory::device);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = emulation::forbidden_in_captures()) return emulation::returned(error);
  emulation::device().run_all();
  return cudaSuccess;
}

template <class T>
cudaError_t cudaMalloc(T** place, std::size_t bytes) {
  return emulation::allocate(place, emulation::Memory::device, bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** place, std::size_t bytes) {
  return emulation::allocate(place, emulation::Memory::pinned, bytes);
}
inline cudaError_t cudaFree(void* place) { return emulation::release(place, emulation::Memory::device); }
inline cudaError_t cudaFreeHost(void* place) { return emulation::release(place, emulation::Memory::pinned); }

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const emulation::Call call("cudaStreamSynchronize");
  if (const cudaError_t error = emulation::forbidden_in(stream)) return emulation::returned(error);
  if (!stream) return emulation::enqueue(stream, [] {});  // waits for all blocking streams
  emulation::device().run(*stream->queue);
  return cudaSuccess;
}

namespace emulation {
/// Whether the device reaches pageable memory itself, as that of a GH200 does: it then is read and written late.
inline bool coherent_memory = false;
}  // namespace emulation

/// Pinned memory is read and written late; pageable memory is read before the call returns, and written by then.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
  using emulation::Memory;
  const emulation::Call call("cudaMemcpyAsync");
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  if (bytes == 0) return cudaSuccess;
  const Memory target = emulation::device().allocations.kind_of(to, bytes);
  const Memory source = emulation::device().allocations.kind_of(from, bytes);
  if (!emulation::copies(kind, target, source)) return emulation::returned(cudaErrorInvalidValue);
  if (target == Memory::pageable || source == Memory::pageable) {
    if (const cudaError_t error = emulation::forbidden_in(stream)) return emulation::returned(error);
  }
  emulation::Work work = [=] { std::memmove(to, from, bytes); };
  if (emulation::coherent_memory) return emulation::enqueue(stream, std::move(work));
  if (source == Memory::pageable) {
    const auto* first = static_cast<const std::byte*>(from);
    work = [to, values = std::vector(first, first + bytes)] { std::memcpy(to, values.data(), values.size()); };
  }
  const cudaError_t error = emulation::enqueue(stream, std::move(work));
  return error || target != Memory::pageable ? error : cudaStreamSynchronize(stream);
}
/// Waits for blocking streams alone, as CUDA's does.
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = emulation::forbidden_in_captures()) return emulation::returned(error);
  return cudaMemcpyAsync(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr) {
  const emulation::Call call("cudaMemsetAsync");
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  if (bytes == 0) return cudaSuccess;
  if (emulation::device().allocations.kind_of(to, bytes) != emulation::Memory::device) {
    return emulation::returned(cudaErrorInvalidValue);
  }
  return emulation::enqueue(stream, [=] { std::memset(to, value, bytes); });
}
inline cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                                     cudaStream_t stream = nullptr) {
  const emulation::Call call("cudaMemset2DAsync");
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  if (width == 0 || height == 0) return cudaSuccess;
  const emulation::Memory kind = emulation::device().allocations.kind_of(to, pitch * (height - 1) + width);
  if (pitch < width || kind != emulation::Memory::device) return emulation::returned(cudaErrorInvalidValue);
  return emulation::enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
  });
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t error = emulation::usable(nullptr)) return emulation::returned(error);
  *stream = new CUstream_st;
  (*stream)->blocking = flags != cudaStreamNonBlocking;
  emulation::device().streams.insert(*stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream || !emulation::device().streams.contains(stream)) {
    return emulation::returned(cudaErrorInvalidResourceHandle);
  }
  emulation::device().run_all_quietly();  // CUDA finishes its work later
  emulation::device().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = emulation::usable(nullptr)) return emulation::returned(error);
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
/// In a capture CUDA would fork the graph; this refuses.
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  if (const cudaError_t error = emulation::forbidden_in(stream)) return emulation::returned(error);
  event->queue = stream ? stream->queue : nullptr;
  event->place = stream ? stream->queue->end() : 0;
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->queue) event->queue->run_until(event->place);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  if (const cudaError_t error = emulation::forbidden_in(stream)) return emulation::returned(error);
  return emulation::enqueue(stream, [recorded = *event]() mutable { cudaEventSynchronize(&recorded); });
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  if (!stream) return emulation::returned(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return emulation::returned(cudaErrorIllegalState);
  stream->capture.emplace().relaxed = mode == cudaStreamCaptureModeRelaxed;
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  *status = !stream || !stream->capture ? cudaStreamCaptureStatusNone
            : stream->capture->valid    ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (const cudaError_t error = emulation::usable(stream)) return emulation::returned(error);
  if (!stream || !stream->capture) return emulation::returned(cudaErrorIllegalState);
  const auto capture = std::exchange(stream->capture, std::nullopt);
  if (!capture->valid) return emulation::returned(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{capture->records};
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
  if (!graph) return emulation::returned(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{std::make_shared<const std::vector<emulation::Work>>(graph->records)};
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const emulation::Call call("cudaGraphLaunch");
  if (!exec) return emulation::returned(cudaErrorInvalidValue);
  return emulation::enqueue(stream, [records = exec->records] {
    for (const emulation::Work& record : *records) record();
  });
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
