// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: Panels of whole vectors are asked for where the width is no multiple of one.
// expect: error: .*simplx: the width of a packed matrix must be a multiple of the vector
#include <simplx/cpu/panels.hpp>

using namespace simplx;

Index columns() {
  Index count = 0;
#ifdef FIXED
  cpu::each_panel<64, double>([&](auto width, Index) { count += width; });
#else
  cpu::each_panel<71, double>([&](auto width, Index) { count += width; });
#endif
  return count;
}
