// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: The fast product of any strides is called for a width that is no multiple of the vector.
// expect: error: .*simplx: the fast product needs a width that is a multiple of the vector
#include <simplx/cpu/gemm.hpp>

using namespace simplx;

void run(const double* a, const double* b, double* c) {
  const cpu::Static<1> next;
#ifdef FIXED
  cpu::gemm_strided<64, Write::store>(128, 32, a, cpu::Static<32>{}, next, b, cpu::Static<64>{}, c, cpu::Static<64>{});
#else
  cpu::gemm_strided<71, Write::store>(128, 32, a, cpu::Static<32>{}, next, b, cpu::Static<71>{}, c, cpu::Static<71>{});
#endif
}
