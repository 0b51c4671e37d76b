// SPDX-License-Identifier: MIT
// flags: -ffast-math
// expect: simplx: compile without -ffast-math, -Ofast and -ffinite-math-only; use -O3 -march=native instead
#include <simplx/simplx.hpp>
