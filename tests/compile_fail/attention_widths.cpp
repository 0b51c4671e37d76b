// SPDX-License-Identifier: MIT
// chapter: Kernels of your own
// doc: The vector kernels of attention are called for heads whose width is no multiple of the vector.
// expect: error: .*simplx: the vector kernels of attention need key_width and value_width to be multiples of
#include <simplx/cpu/attention.hpp>

using namespace simplx;

#ifdef FIXED
constexpr AttentionSize size{.heads = 4, .key_width = 16, .value_width = 16};
#else
constexpr AttentionSize size{.heads = 4, .key_width = 11, .value_width = 16};
#endif
void run(Segments sequences, const AttentionOperands<double>& in, double* out, double* log_sum_exp, double* scratch) {
  attention_forward<size>(sequences, in, out, log_sum_exp, scratch);
}
