// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/for_this_cpu.hpp
/// One binary for several instruction sets: the same source compiled once for each, and this to choose among them.
///
/// The CMake function simplx_add_variants(program net.cpp) compiles net.cpp for sse2, avx2_fma, avx512, avx512_bf16 and
/// amx_bf16. What net.cpp defines in `namespace app::SIMPLX_TARGET` then exists five times, and the rest of the
/// program, compiled without -m flags, declares the five and takes the best:
///
///     auto net = simplx::for_this_cpu(app::sse2::make_net, app::avx2_fma::make_net, app::avx512::make_net,
///                                     app::avx512_bf16::make_net, app::amx_bf16::make_net)();
///
/// Between the units only types cross that are not the library's (core/target.hpp). examples/any_cpu is a program.

#include <simplx/core/target.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

/// Whether this CPU runs what was compiled for the instruction sets of simplx_add_variants beyond the plain one.
struct InstructionSets {
  bool avx2_fma = false, avx512 = false, avx512_bf16 = false, amx_bf16 = false;

  static InstructionSets of_this_cpu() {
    InstructionSets sets;
#if defined(__x86_64__)
    sets.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    sets.avx512 = sets.avx2_fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    sets.avx512_bf16 = sets.avx512 && __builtin_cpu_supports("avx512bf16");
    unsigned a = 0, b = 0, c = 0, d = 0;  // compilers have no name for tiles of bfloat16
    constexpr unsigned tiles_of_bfloat16 = 1u << 22 | 1u << 24;
    sets.amx_bf16 = sets.avx512_bf16 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                    (d & tiles_of_bfloat16) == tiles_of_bfloat16;
#endif
    return sets;
  }
};

/// The last of the functions that this CPU can run.
///
/// Cost    asks the CPU; call it once
template <class F>
F* for_this_cpu(F* plain, F* avx2_fma, F* avx512, F* avx512_bf16, F* amx_bf16,
                InstructionSets sets = InstructionSets::of_this_cpu()) {
  if (sets.amx_bf16) return amx_bf16;
  if (sets.avx512_bf16) return avx512_bf16;
  if (sets.avx512) return avx512;
  return sets.avx2_fma ? avx2_fma : plain;
}

}  // namespace simplx
