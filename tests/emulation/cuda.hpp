// SPDX-License-Identifier: MIT
#pragma once

/// The names of CUDA that kernels use, and with runtime.hpp those of the host code around them, for plain g++ and
/// clang++: include it before headers of simplx/cuda.
///
/// They mean what the CUDA C++ Programming Guide says; where it leaves a value undefined (a shuffle from a lane that
/// does not take part) this gives a poisoned one.

#if defined(__CUDACC__)
#error "simplx: emulation/cuda.hpp takes the place of CUDA; nvcc has it"
#endif
#define SIMPLX_CUDA_EMULATION

#include "emulation/cublas_lt.hpp"
#include "emulation/executor.hpp"
#include "emulation/runtime.hpp"
#include "emulation/tensor_cores.hpp"
#include "emulation/warpgroups.hpp"

#include <atomic>
#include <bit>
#include <cmath>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

namespace emulation {

/// threadIdx.x and its like: empty, and asks the executor when it is read.
template <Extent (Block::*extent)() const, unsigned Extent::*coordinate>
struct Coordinate {
  EMULATION_UNCHECKED operator unsigned() const { return (Block::running()->*extent)().*coordinate; }
};
template <Extent (Block::*extent)() const>
struct Coordinates {
  Coordinate<extent, &Extent::x> x;
  Coordinate<extent, &Extent::y> y;
  Coordinate<extent, &Extent::z> z;
};

/// The value that a lane of the meeting left; poison if it did not come.
template <class T>
T deposit(const Meeting& meeting, unsigned lane) {
  T value;
  if (lane < warp_size && meeting.mask >> lane & 1) {
    std::memcpy(&value, meeting.deposits[lane], sizeof value);
  } else {
    std::memset(&value, 0xff, sizeof value);
  }
  return value;
}

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const Site& site) {
  return Block::running()->meet(mask, value, site, false, [&](const Meeting& m) { return deposit<T>(m, source); });
}

inline unsigned vote(unsigned mask, bool predicate, const Site& site) {
  return Block::running()->meet(mask, predicate, site, false, [](const Meeting& m) {
    unsigned result = 0;
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      if (m.mask >> lane & 1 && deposit<bool>(m, lane)) result |= 1u << lane;
    }
    return result;
  });
}

}  // namespace emulation

inline constexpr int warpSize = emulation::warp_size;
inline constexpr emulation::Coordinates<&emulation::Block::thread> threadIdx{};
inline constexpr emulation::Coordinates<&emulation::Block::block> blockIdx{};
inline constexpr emulation::Coordinates<&emulation::Block::block_size> blockDim{};
inline constexpr emulation::Coordinates<&emulation::Block::grid> gridDim{};

inline std::size_t __cvta_generic_to_shared(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

// Each operation knows where it is called.
#define EMULATION_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMULATION_PLACE) { emulation::Block::running()->barrier({"__syncthreads", file, line}); }

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_PLACE) {
  emulation::Block::running()->meet(mask, char{}, {"__syncwarp", file, line}, true,
                                    [](const emulation::Meeting&) { return 0; });
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, EMULATION_PLACE) {
  const auto lane = static_cast<int>(emulation::Block::running()->lane());
  const int from = lane / width * width + (source & (width - 1));
  return emulation::shuffle(mask, value, static_cast<unsigned>(from), {"__shfl_sync", file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize, EMULATION_PLACE) {
  const auto lane = static_cast<int>(emulation::Block::running()->lane());
  const int other = lane ^ bits, from = other / width > lane / width ? lane : other;
  return emulation::shuffle(mask, value, static_cast<unsigned>(from), {"__shfl_xor_sync", file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize, EMULATION_PLACE) {
  const auto lane = static_cast<int>(emulation::Block::running()->lane()), back = static_cast<int>(distance);
  const int from = lane % width < back ? lane : lane - back;
  return emulation::shuffle(mask, value, static_cast<unsigned>(from), {"__shfl_up_sync", file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize, EMULATION_PLACE) {
  const auto lane = static_cast<int>(emulation::Block::running()->lane()), ahead = static_cast<int>(distance);
  const int from = lane % width + ahead >= width ? lane : lane + ahead;
  return emulation::shuffle(mask, value, static_cast<unsigned>(from), {"__shfl_down_sync", file, line});
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATION_PLACE) {
  return emulation::vote(mask, predicate != 0, {"__ballot_sync", file, line});
}
inline int __any_sync(unsigned mask, int predicate, EMULATION_PLACE) {
  return emulation::vote(mask, predicate != 0, {"__any_sync", file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATION_PLACE) {
  return emulation::vote(mask, predicate != 0, {"__all_sync", file, line}) == mask;
}
#undef EMULATION_PLACE

template <class T>
T atomicAdd(T* place, T value) {
  return std::atomic_ref<T>(*place).fetch_add(value, std::memory_order_relaxed);
}
