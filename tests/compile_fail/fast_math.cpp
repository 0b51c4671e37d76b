// SPDX-License-Identifier: MIT
// chapter: Compiler flags
// doc: Fast mathematics lets the compiler assume that there are no infinities, which masks of attention need.
// flags: -ffast-math
// expect: simplx: compile without -ffast-math, -Ofast and -ffinite-math-only; use -O3 -march=native instead
#include <simplx/cpu/simd.hpp>
