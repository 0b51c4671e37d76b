// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: Rows are transposed whose width is no multiple of the vector.
// expect: error: .*simplx: rows are transposed in whole vectors: width and group must be multiples of lanes<S>
#include <simplx/cpu/transpose.hpp>

using namespace simplx;

#ifdef FIXED
void run(const double* rows, double* columns) { cpu::transpose_group<16, 16>(4, 1.0, rows, 16, columns); }
#else
void run(const double* rows, double* columns) { cpu::transpose_group<11, 16>(4, 1.0, rows, 11, columns); }
#endif
