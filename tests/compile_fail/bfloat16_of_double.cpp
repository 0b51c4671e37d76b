// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Products that round to bfloat16 are asked for in double.
// expect: error: .*simplx: Path::bfloat16 and Path::int8 round the operands of products in float: use Cpu<float, path>
#include <simplx/cpu/cpu.hpp>

using namespace simplx;

#ifdef FIXED
constexpr bool fast = Cpu<float, Path::bfloat16>::vectorises(64);
#else
constexpr bool fast = Cpu<double, Path::bfloat16>::vectorises(64);
#endif
