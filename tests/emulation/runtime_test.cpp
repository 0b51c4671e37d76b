// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/port.cuh>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using emulation::device;
using emulation::Memory;

namespace {

__global__ void add_number(float* y, float number) { y[threadIdx.x] += number; }
__global__ void broken() {
  if (threadIdx.x == 0) __syncthreads();
}

constexpr int count = 8;
constexpr std::size_t bytes = count * sizeof(float);

/// A stream, and memory of both kinds; at the end nothing is left.
struct Machine {
  cudaStream_t stream = nullptr;
  float *on_device = nullptr, *pinned = nullptr;

  explicit Machine(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
    REQUIRE(cudaMalloc(&on_device, bytes) == cudaSuccess);
    REQUIRE(cudaMallocHost(&pinned, bytes) == cudaSuccess);
  }
  Machine(const Machine&) = delete;
  ~Machine() {
    CHECK(cudaFree(on_device) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(device().allocations.count(Memory::device) == 0);
    CHECK(device().allocations.count(Memory::pinned) == 0);
    CHECK(cudaGetLastError() == cudaSuccess);
  }

  void add(float number) const { simplx::gpu::launch(stream, add_number, 1, count, on_device, number); }
  cudaError_t clear() const { return cudaMemsetAsync(on_device, 0, bytes, stream); }
  std::vector<float> values() const {
    std::vector<float> all(count);
    REQUIRE(cudaMemcpyAsync(all.data(), on_device, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    return all;
  }
};

/// Whether the call was refused so, and CUDA's last error says the same.
bool refused(cudaError_t error, cudaError_t expected) {
  return error == expected && cudaPeekAtLastError() == expected && cudaGetLastError() == expected &&
         cudaGetLastError() == cudaSuccess;
}

std::vector<float> all(float value) { return std::vector<float>(count, value); }

}  // namespace

TEST_CASE("emulation/runtime: memory is poisoned, counted, aligned, and freed only by who allocated it") {
  const Machine machine;
  CHECK(std::isnan(machine.values()[count - 1]));
  CHECK(std::isnan(machine.pinned[0]));
  CHECK(reinterpret_cast<std::uintptr_t>(machine.on_device) % 256 == 0);
  CHECK(device().allocations.count(Memory::device) == 1);
  CHECK(device().allocations.bytes(Memory::device) == bytes);
  float number = 0, *none = machine.on_device;
  CHECK(refused(cudaFree(&number), cudaErrorInvalidValue));
  CHECK(refused(cudaFree(machine.pinned), cudaErrorInvalidValue));
  CHECK(refused(cudaFree(machine.on_device + 1), cudaErrorInvalidValue));
  CHECK(refused(cudaFreeHost(machine.on_device), cudaErrorInvalidValue));
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaMalloc(&none, 0) == cudaSuccess);
  CHECK(none == nullptr);
}

TEST_CASE("emulation/runtime: memory runs short where the test says, and a machine may have no GPU") {
  device().memory = 3000;
  std::byte *first = nullptr, *second = nullptr;
  std::size_t free_bytes = 0, total = 0;
  CHECK(cudaMalloc(&first, 2000) == cudaSuccess);
  CHECK(refused(cudaMalloc(&second, 1001), cudaErrorMemoryAllocation));
  CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess);
  CHECK(free_bytes == 1000);
  CHECK(total == 3000);
  CHECK(cudaFree(first) == cudaSuccess);
  CHECK(cudaMalloc(&second, 3000) == cudaSuccess);
  CHECK(cudaFree(second) == cudaSuccess);

  device() = {};
  int devices = 0;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceCount(&devices) == cudaSuccess);
  CHECK(devices == 1);
  CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(properties.totalGlobalMem == device().memory);
  CHECK(refused(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidValue));
  device().present = false;
  cudaStream_t stream = nullptr;
  CHECK(refused(cudaGetDeviceCount(&devices), cudaErrorNoDevice));
  CHECK(devices == 0);
  CHECK(refused(cudaMalloc(&first, 1), cudaErrorNoDevice));
  CHECK(refused(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaErrorNoDevice));
  CHECK_THROWS_WITH(simplx::gpu::launch(nullptr, broken, 1, 1),
                    "a kernel was not launched: no CUDA-capable device is detected\n"
                    "  hint: this machine has no GPU, or a driver older than the CUDA of this program");
  device().present = true;
  simplx::gpu::launch(nullptr, broken, 1, 1);  // the refusal is forgotten
}

TEST_CASE("emulation/runtime: a copy between wrong kinds of memory, or over an end, is refused") {
  const Machine machine;
  std::vector<float> host = all(1);
  const auto copy = [&](void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, size, kind, machine.stream);
    CHECK(cudaGetLastError() == error);
    return error;
  };
  float *const gpu = machine.on_device, *const pinned = machine.pinned, *const plain = host.data();
  CHECK(copy(gpu, plain, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(copy(gpu, plain, bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(copy(pinned, gpu, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(copy(pinned, plain, bytes, cudaMemcpyHostToHost) == cudaSuccess);
  CHECK(copy(gpu + 1, gpu, bytes - 4, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(copy(gpu, plain, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(gpu, plain, bytes, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
  CHECK(copy(plain, gpu, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(plain, pinned, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(plain, plain, bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(gpu + 1, plain, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(plain, gpu, bytes + 1, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(plain, gpu - 1, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(gpu, pinned + 1, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(nullptr, nullptr, 0, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(refused(cudaMemsetAsync(plain, 0, bytes, machine.stream), cudaErrorInvalidValue));
  CHECK(refused(cudaMemsetAsync(gpu, 0, bytes + 1, machine.stream), cudaErrorInvalidValue));
}

TEST_CASE("emulation/runtime: a stream is late: pinned memory is read and written when somebody waits") {
  const Machine machine;
  std::vector<float> host = all(1);
  cudaMemcpyAsync(machine.on_device, host.data(), bytes, cudaMemcpyHostToDevice, machine.stream);
  host = all(100);  // pageable memory has been read
  machine.add(2);
  cudaMemcpyAsync(machine.pinned, machine.on_device, bytes, cudaMemcpyDeviceToHost, machine.stream);
  CHECK(std::isnan(machine.pinned[0]));
  CHECK(cudaStreamSynchronize(machine.stream) == cudaSuccess);
  CHECK(machine.pinned[0] == 3);
  cudaMemcpyAsync(machine.on_device, machine.pinned, bytes, cudaMemcpyHostToDevice, machine.stream);
  machine.pinned[0] = 7;  // too early, and so seen
  CHECK(machine.values()[0] == 7);
  CHECK(machine.values()[1] == 3);
  const cudaStream_t unknown = reinterpret_cast<cudaStream_t>(machine.pinned);
  CHECK(refused(cudaStreamSynchronize(unknown), cudaErrorInvalidResourceHandle));
  CHECK(refused(cudaStreamDestroy(unknown), cudaErrorInvalidResourceHandle));
  CHECK(refused(cudaMemsetAsync(machine.on_device, 0, bytes, unknown), cudaErrorInvalidResourceHandle));
}

TEST_CASE("emulation/runtime: the default stream works at once, after blocking streams and not after others") {
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    const Machine machine(flags);
    machine.clear();
    std::vector<float> host(count);
    CHECK(cudaMemcpy(host.data(), machine.on_device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(std::isnan(host[0]) == (flags == cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    cudaMemcpy(host.data(), machine.on_device, bytes, cudaMemcpyDeviceToHost);
    CHECK(host == all(0));
  }
}

TEST_CASE("emulation/runtime: events are places in the work of a stream") {
  const Machine machine;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);  // not recorded
  machine.clear();
  CHECK(cudaEventRecord(event, machine.stream) == cudaSuccess);
  machine.add(1);
  const auto seen_by_other = [&] {
    cudaMemcpyAsync(machine.pinned, machine.on_device, bytes, cudaMemcpyDeviceToHost, other);
    cudaStreamSynchronize(other);
    return machine.pinned[0];
  };
  CHECK(std::isnan(seen_by_other()));
  CHECK(cudaStreamWaitEvent(other, event) == cudaSuccess);
  CHECK(seen_by_other() == 0);
  cudaEventRecord(event, machine.stream);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(seen_by_other() == 1);
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
}

TEST_CASE("emulation/runtime: what goes wrong in a kernel is thrown when somebody waits, if not in a destructor") {
  Machine machine;
  simplx::gpu::launch(machine.stream, broken, 1, 2);
  CHECK_THROWS_AS(cudaStreamSynchronize(machine.stream), emulation::Fault);
  CHECK(cudaStreamSynchronize(machine.stream) == cudaSuccess);
  simplx::gpu::launch(machine.stream, broken, 1, 2);
  machine.add(1);  // never runs
  CHECK(cudaFree(std::exchange(machine.on_device, nullptr)) == cudaSuccess);
  CHECK_THROWS_AS(cudaStreamSynchronize(machine.stream), emulation::Fault);
}

TEST_CASE("emulation/runtime: a captured graph runs as often as it is launched, with the arguments of then") {
  const Machine machine;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  CHECK(cudaStreamIsCapturing(machine.stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  machine.clear();
  CHECK(machine.values() == all(0));
  CHECK(cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  cudaStreamIsCapturing(machine.stream, &status);
  CHECK(status == cudaStreamCaptureStatusActive);
  {
    float number = 1;
    machine.add(number);
    number = 10;
    machine.add(number);
  }
  CHECK(cudaMemcpyAsync(machine.pinned, machine.on_device, bytes, cudaMemcpyDeviceToHost, machine.stream) ==
        cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaStreamEndCapture(machine.stream, &graph) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(machine.values() == all(0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, machine.stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);  // what was launched still runs
  CHECK(machine.values() == all(33));
  CHECK(machine.pinned[0] == 33);
}

TEST_CASE("emulation/runtime: what a capture forbids is refused, and spoils it") {
  const Machine machine;
  std::vector<float> host(count);
  float* memory = nullptr;
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDefault);
  const auto spoils = [&](const auto& call, cudaError_t expected = cudaErrorStreamCaptureUnsupported) {
    REQUIRE(cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(refused(call(), expected));
    CHECK(refused(machine.clear(), cudaErrorStreamCaptureInvalidated));
    cudaStreamCaptureStatus status;
    cudaStreamIsCapturing(machine.stream, &status);
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK_THROWS_WITH(machine.add(1),
                      "a kernel was not launched: operation failed due to a previous error during capture");
    cudaGraph_t graph = nullptr;
    CHECK(refused(cudaStreamEndCapture(machine.stream, &graph), cudaErrorStreamCaptureInvalidated));
    CHECK(graph == nullptr);
  };
  spoils([&] { return cudaStreamSynchronize(machine.stream); });
  spoils([&] { return cudaDeviceSynchronize(); });
  spoils([&] { return cudaMalloc(&memory, 8); });
  spoils([&] { return cudaMallocHost(&memory, 8); });
  spoils([&] { return cudaFree(machine.on_device); });
  spoils([&] { return cudaFreeHost(machine.pinned); });
  spoils([&] { return cudaEventRecord(event, machine.stream); });
  spoils([&] { return cudaMemcpy(host.data(), machine.on_device, bytes, cudaMemcpyDeviceToHost); });
  float* const gpu = machine.on_device;
  spoils([&] { return cudaMemcpyAsync(host.data(), gpu, bytes, cudaMemcpyDeviceToHost, machine.stream); });
  spoils([&] { return cudaMemcpyAsync(gpu, host.data(), bytes, cudaMemcpyHostToDevice, machine.stream); });
  cudaEventDestroy(event);

  cudaGraph_t graph = nullptr;
  CHECK(refused(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported));
  CHECK(refused(cudaStreamEndCapture(machine.stream, &graph), cudaErrorIllegalState));
  CHECK(cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(refused(cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState));
  CHECK(cudaMalloc(&memory, 8) == cudaSuccess);  // a relaxed capture does not mind
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaMemsetAsync(machine.on_device, 0, bytes, nullptr) == cudaSuccess);  // nor one of a non-blocking stream this
  CHECK(cudaStreamEndCapture(machine.stream, &graph) == cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_CASE("emulation/runtime: the default stream waits for no capture of a blocking stream") {
  const Machine machine(cudaStreamDefault);
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeRelaxed);
  CHECK(refused(cudaMemsetAsync(machine.on_device, 0, bytes, nullptr), cudaErrorStreamCaptureImplicit));
  CHECK(refused(cudaStreamEndCapture(machine.stream, &graph), cudaErrorStreamCaptureInvalidated));
}
