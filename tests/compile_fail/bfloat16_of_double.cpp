// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Products that round to bfloat16, or to bytes, are asked for in double.
// expect: error: .*simplx: Path::bfloat16 and Path::int8 round what products read of floats: use Cpu<float, Path::bfloat16> or Cpu<float, Path::int8>
#include <simplx/cpu/cpu.hpp>

using namespace simplx;

#ifdef FIXED
constexpr bool fast = Cpu<float, Path::bfloat16>::vectorises(64);
#else
constexpr bool fast = Cpu<double, Path::bfloat16>::vectorises(64);
#endif
