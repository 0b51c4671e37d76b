// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: A matrix is packed whose width is no multiple of the vector.
// expect: error: .*simplx: the width of a packed matrix must be a multiple of the vector
#include <simplx/cpu/gemm.hpp>

using namespace simplx;

#ifdef FIXED
void run(const double* w, double* packed) { pack<64, 64>(w, packed); }
#else
void run(const double* w, double* packed) { pack<64, 71>(w, packed); }
#endif
