// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: The fast product is called for a width that is no multiple of the vector.
// expect: error: .*simplx: the fast product needs a width that is a multiple of the vector
#include <simplx/cpu/gemm.hpp>

using namespace simplx;

void run(const double* x, const double* dy, double* dw, double* scratch) {
#ifdef FIXED
  gemm_gradient<64, 64>(128, x, dy, dw, scratch);
#else
  gemm_gradient<64, 71>(128, x, dy, dw, scratch);
#endif
}
