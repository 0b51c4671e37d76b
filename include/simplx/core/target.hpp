// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/target.hpp
/// The inline namespace that holds the library: one name for each instruction set it can be compiled for.
///
/// The kernels are inline functions. Were two translation units with different -march flags to share their names,
/// the linker would keep one of the two at random, and a program meant for every machine would stop at the first
/// instruction that is missing. With the set in every symbol both live in one binary, each its own:
///
///     simplx::Trainer<model>                 what one writes
///     simplx::avx512::Trainer<model>         what the linker sees
///
/// Objects of the library cannot cross between such units; the linker names the function that is missing. What is not
/// of the library has one name for all of them, of which the linker keeps the first. Therefore such a program
///
/// - links the plainest unit first,
/// - defines EIGEN_MAX_ALIGN_BYTES=64 for all units, since Eigen allocates by the alignment of the flags, and memory
///   that it takes in one unit's way and frees in another's is lost (clang -O2: a crash),
/// - opens a namespace of its own inline functions and models with `inline SIMPLX_TARGET`, as the library does.
///
/// tests/consumer/mixed_targets is one. The name follows the widest vectors; flags that differ in less (-mbmi2, -mtune)
/// give one name, so such units must run on the same machines.

// Up to and including C++17: g++ 10 calls its C++20 201709L. A file that is not there ends the compilation, or
// thousands of errors would follow the one that tells.
#if __cplusplus <= 201703L
#error "simplx: the library needs C++20; compile with -std=c++20"
#include "simplx needs -std=c++20"
#endif

#if defined(SIMPLX_SINGLE_INCLUDE)
#error "simplx: single_include/simplx.hpp is the whole library; include either it or include/simplx, not both"
#endif

#if defined(__AVX512BF16__) && defined(__AMX_BF16__)
#define SIMPLX_TARGET amx_bf16
#elif defined(__AVX512BF16__)
#define SIMPLX_TARGET avx512_bf16
#elif defined(__AVX512F__)
#define SIMPLX_TARGET avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define SIMPLX_TARGET avx2_fma
#elif defined(__AVX2__)
#define SIMPLX_TARGET avx2
#elif defined(__AVX__)
#define SIMPLX_TARGET avx
#elif defined(__SSE2__)
#define SIMPLX_TARGET sse2
#elif defined(__ARM_FEATURE_SVE)
#define SIMPLX_TARGET sve
#elif defined(__ARM_NEON)
#define SIMPLX_TARGET neon
#else
#define SIMPLX_TARGET portable
#endif

/// What kernels on a GPU use as well. Between BEGIN and END such templates run wherever their arguments do (a rule over
/// numbers on the device, over expressions on the host), so nvcc need not ask that each works on both.
#if defined(__CUDACC__)
#define SIMPLX_HD __host__ __device__
#define SIMPLX_HD_BEGIN _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 20011,20013,20014,20015")
#define SIMPLX_HD_END _Pragma("nv_diagnostic pop")
#else
#define SIMPLX_HD
#define SIMPLX_HD_BEGIN
#define SIMPLX_HD_END
#endif

/// Before a short loop over an array, which then stays in registers. What nvcc passes on to the host's compiler it
/// leaves alone: only kernels count there.
#if defined(__CUDA_ARCH__)
#define SIMPLX_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define SIMPLX_UNROLL
#else
#define SIMPLX_UNROLL _Pragma("GCC unroll 16")
#endif

/// Before a loop whose body is as long as it should be.
#if defined(__clang__)
#define SIMPLX_ROLLED _Pragma("unroll 1")
#elif defined(__CUDACC__)
#define SIMPLX_ROLLED
#else
#define SIMPLX_ROLLED _Pragma("GCC unroll 1")
#endif

namespace simplx::inline SIMPLX_TARGET {}
