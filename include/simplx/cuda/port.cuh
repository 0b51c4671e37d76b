// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/port.cuh
/// What a kernel needs beyond CUDA C++, so that one source runs on a GPU and under the executor of the tests.
///
///     SIMPLX_SHARED(partial, float[8][32]);       // __shared__ float partial[8][32];
///     launch(stream, kernel<float, 64>, blocks, threads, arguments...);
///
/// Kernels are plain CUDA C++ otherwise: threadIdx, __syncthreads, __shfl_xor_sync keep their names. Under nvcc they
/// are CUDA's own; in the tests, compiled by g++ or clang++ without any CUDA header, tests/emulation/cuda.hpp has them.

#if !defined(__CUDACC__) && !defined(SIMPLX_CUDA_EMULATION)
#error "simplx: simplx/cuda is device code; include it in a .cu file, which nvcc compiles"
#endif

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

#include <string>
#include <string_view>
#include <type_traits>

/// A variable of the block in shared memory, not initialised: its name, then its type. All of them take 48 KB at most;
/// SIMPLX_LARGE_SHARED is for one that may be larger, for which launch_with_shared makes room_for<type> bytes.
#if defined(__CUDACC__)
#define SIMPLX_SHARED(name, ...) __shared__ ::std::type_identity_t<__VA_ARGS__> name
#define SIMPLX_LARGE_SHARED(name, ...)   \
  extern __shared__ uint4 simplx_room[]; \
  auto& name = ::simplx::gpu::placed_in<::std::type_identity_t<__VA_ARGS__>>(simplx_room)
#else
#define SIMPLX_SHARED(name, ...)  \
  static const char name##_key{}; \
  auto& name =                    \
      ::emulation::Block::running()->shared<__VA_ARGS__>(&name##_key, {"shared memory", __FILE__, __LINE__})
#define SIMPLX_LARGE_SHARED(name, ...)                                        \
  auto& name = ::simplx::gpu::placed_in<::std::type_identity_t<__VA_ARGS__>>( \
      ::emulation::Block::running()->room(::simplx::gpu::room_for<__VA_ARGS__>, {"shared memory", __FILE__, __LINE__}))
#endif

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Bytes in which a T fits although dynamic shared memory surely begins on 16 only: with -G or -rdc=true nvcc drops a
/// stricter alignment without a word.
template <class T>
inline constexpr std::size_t room_for = sizeof(T) + (alignof(T) > 16 ? alignof(T) - 16 : 0);

/// The T in room_for<T> bytes of shared memory.
template <class T>
__device__ __forceinline__ T& placed_in(void* room) {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                "shared memory has no constructors");
  if constexpr (alignof(T) <= 16) {
    return *static_cast<T*>(room);
  } else {
    const std::size_t beyond = __cvta_generic_to_shared(room) % alignof(T);
    return *reinterpret_cast<T*>(static_cast<char*>(room) + (alignof(T) - beyond) % alignof(T));
  }
}

inline constexpr const char* no_device_hint =
    "this machine has no GPU, or a driver older than the CUDA of this program";
inline constexpr const char* no_kernel_hint = "compile it for the architecture of this GPU: nvcc -arch=native";

/// Takes the result of a call of CUDA; `what` says what has not been done if it is an error.
///
/// Errors  throws Error in CUDA's words
inline void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // CUDA keeps it; the next launch would be blamed
  const bool no_device = error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice;
  const char* const hint = no_device ? no_device_hint
                           : error == cudaErrorNoKernelImageForDevice ? no_kernel_hint : "";
  throw Error(std::string(what) + ": " + cudaGetErrorString(error), hint);
}

/// Starts a kernel over a grid of blocks, in the order of the stream, with so many bytes for what it declares as
/// SIMPLX_LARGE_SHARED. No blocks, no launch.
///
/// Errors  throws Error if the launch is refused; what goes wrong inside of the kernel shows later
template <class... Parameters, class... Arguments>
void launch_with_shared(std::size_t bytes, cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                        const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(__CUDACC__)
  if (bytes > std::size_t(48) << 10) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "a kernel got no shared memory");
  }
  kernel<<<grid, block, bytes, stream>>>(static_cast<Parameters>(arguments)...);
#else
  ::emulation::launch(bytes, stream, kernel, grid, block, static_cast<Parameters>(arguments)...);
#endif
  check(cudaGetLastError(), "a kernel was not launched");
}
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block, const Arguments&... arguments) {
  launch_with_shared(0, stream, kernel, grid, block, arguments...);
}

/// How many blocks of so many elements hold `count` of them.
constexpr unsigned blocks_for(Index count, Index each) { return static_cast<unsigned>((count + each - 1) / each); }

/// to = value, as it is or rounded to nearest.
template <class S>
__device__ __forceinline__ void store_as(S& to, S value) {
  to = value;
}
__device__ __forceinline__ void store_as(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }

__device__ __forceinline__ float wide(float value) { return value; }
__device__ __forceinline__ double wide(double value) { return value; }
__device__ __forceinline__ float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

/// So many numbers beside each other, which one request moves if they are 16 bytes or less.
template <class T, int count>
struct alignas(sizeof(T) * count < 16 ? sizeof(T) * count : 16) Neighbours {
  T of[count];
};
/// A place that begins on as many bytes as they take, 16 at the most, in such parts.
template <int count, class T>
__device__ __forceinline__ auto* neighbours(T* place) {
  using To = Neighbours<std::remove_const_t<T>, count>;
#if !defined(__CUDACC__)
  ::emulation::check_aligned(place, alignof(To));
#endif
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const To, To>*>(place);
}

/// What a gradient's mode says.
template <Write mode, class S>
__device__ __forceinline__ void write(S& place, S value) {
  if constexpr (mode == Write::store) place = value;
  if constexpr (mode == Write::accumulate) place += value;
}
/// What is stored as bfloat16 is never added to.
template <Write mode>
__device__ __forceinline__ void write(__nv_bfloat16& to, float value) {
  static_assert(mode == Write::store);
  store_as(to, value);
}

}  // namespace simplx::gpu
