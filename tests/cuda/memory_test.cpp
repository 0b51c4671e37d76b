// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/memory.cuh>

#include "cuda/kernels.hpp"

#include <type_traits>

using namespace simplx;
using namespace simplx::gpu;
using emulation::device;
using emulation::Memory;

static_assert(!std::is_copy_constructible_v<GpuStream> && !std::is_copy_assignable_v<GpuStream>);
static_assert(!std::is_copy_constructible_v<DeviceBuffer<int>> && !std::is_copy_assignable_v<DeviceBuffer<int>>);

namespace {

__global__ void twice(double* x) { x[threadIdx.x] *= 2; }

/// What the device says when a call fails.
template <class F>
std::string said(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cuda/memory: values go to the device and back, in the order of the stream") {
  const auto x = test::numbers<double>(32, 1);
  {
    const GpuStream stream;
    DeviceBuffer<double> buffer(32);
    CHECK(buffer.size() == 32);
    CHECK(buffer.bytes() == 256);
    auto y = test::unwritten<double>(32), part = test::unwritten<double>(3);
    buffer.copy_from(x, stream);
    launch(stream, twice, 1, 32, buffer.data());
    buffer.copy_from(std::span(x).first(2), stream, 30);
    buffer.copy_to(y, stream);
    buffer.copy_to(part, stream, 5);
    stream.synchronize();
    for (std::size_t i = 0; i < 30; ++i) CHECK(y[i] == 2 * x[i]);
    CHECK(y[30] == x[0]);
    CHECK(y[31] == x[1]);
    CHECK(part == std::vector(y.begin() + 5, y.begin() + 8));
    buffer.fill_with_zero(stream);
    buffer.copy_to(y, stream);
    stream.synchronize();
    CHECK(y == std::vector<double>(32));
  }
  CHECK(device().allocations.count(Memory::device) == 0);
  CHECK(device().streams.empty());
}

TEST_CASE("cuda/memory: buffers and streams move, and are freed once") {
  {
    GpuStream first, second;
    const cudaStream_t before = first;
    const GpuStream third = std::move(first);
    CHECK(cudaStream_t(third) == before);
    CHECK(cudaStream_t(first) == nullptr);
    second = GpuStream();
    CHECK(device().streams.size() == 2);

    DeviceBuffer<float> buffer(7), other;
    CHECK(other.data() == nullptr);
    CHECK(DeviceBuffer<float>(0).data() == nullptr);
    const float* place = buffer.data();
    other = std::move(buffer);
    const DeviceBuffer<float> last = std::move(other);
    CHECK(last.data() == place);
    CHECK(last.size() == 7);
    CHECK(other.data() == nullptr);
    CHECK(other.size() == 0);
    CHECK(device().allocations.count(Memory::device) == 1);
  }
  CHECK(device().allocations.count(Memory::device) == 0);
  CHECK(device().streams.empty());
}

TEST_CASE("cuda/memory: nothing to copy is no error, too much is") {
  const GpuStream stream;
  DeviceBuffer<int> empty, buffer(4);
  std::vector<int> values(3), none;
  empty.copy_from(none, stream);
  empty.copy_to(none, stream);
  empty.fill_with_zero(stream);
  buffer.copy_from(none, stream, 4);
  CHECK(said([&] { buffer.copy_from(values, stream, 2); }) ==
        "the elements from 2 to 5 of a buffer of 4 are copied into");
  CHECK(said([&] { buffer.copy_to(values, stream, -1); }) ==
        "the elements from -1 to 2 of a buffer of 4 are copied from");
  CHECK(said([&] { empty.copy_to(values, stream); }) == "the elements from 0 to 3 of a buffer of 0 are copied from");
}

TEST_CASE("cuda/memory: what cannot be had is said with numbers and a hint") {
  device().memory = 1000;
  const DeviceBuffer<float> first(100);
  CHECK(said([] { DeviceBuffer<float>(151); }) ==
        "the device is short of memory: 604 bytes are needed at once, 600 of 1000 are free\n"
        "  hint: take a smaller batch or a shorter context");
  CHECK(DeviceBuffer<float>(150).size() == 150);
  CHECK(cudaGetLastError() == cudaSuccess);  // a launch after it is not blamed
  device().memory = emulation::Device{}.memory;

  device().present = false;
  const std::string hint = "\n  hint: this machine has no GPU, or a driver older than the CUDA of this program";
  CHECK(said([] { GpuStream(); }) == "no stream was created: no CUDA-capable device is detected" + hint);
  CHECK(said([] { DeviceBuffer<float>(1); }) == "no memory was allocated: no CUDA-capable device is detected" + hint);
  device().present = true;
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(said([] { check(cudaErrorNoKernelImageForDevice, "a kernel was not started"); }).ends_with(
      "\n  hint: compile it for the architecture of this GPU: nvcc -arch=native"));
}

TEST_CASE("cuda/memory: what a capture forbids is an error") {
  const GpuStream stream;
  DeviceBuffer<float> buffer(4);
  std::vector<float> values(4);
  const auto in_capture = [&](const auto& f) {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    const std::string text = said(f);
    cudaStreamEndCapture(stream, &graph);
    static_cast<void>(cudaGetLastError());
    return text;
  };
  const std::string words = ": operation not permitted when stream is capturing";
  CHECK(in_capture([&] { stream.synchronize(); }) == "the work of a stream has failed" + words);
  CHECK(in_capture([&] { DeviceBuffer<float>(4); }) == "no memory was allocated" + words);
  CHECK(in_capture([&] { buffer.copy_from(values, stream); }) == "nothing was copied to the device" + words);
  CHECK(in_capture([&] { buffer.copy_to(values, stream); }) == "nothing was copied from the device" + words);
}
