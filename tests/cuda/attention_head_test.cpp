// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_head.cuh>

#include "cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace simplx;
using namespace simplx::gpu;

namespace {

struct NoCores {};
template <AttentionSize size>
using Head = HeadOfBlock<Fixed<size>, NoCores, double>;

/// The sum of exp(-slope |i - j|) over the keys that query i sees.
double sum_of_biases(Mask mask, double slope, int i, int rows) {
  double sum = 0;
  for (int j = 0; j < (mask == Mask::causal ? i + 1 : rows); ++j) sum += std::exp(-slope * std::abs(i - j));
  return sum;
}

template <Mask mask>
__global__ void sum_kernel(double slope, int i, int rows, double* sum) {
  *sum = Head<AttentionSize{1, 4, 4, AttentionMatrix::shaped, mask, true}>::mean_sum(slope, i, rows);
}
template <Mask mask>
void check_sums() {
  for (const double slope : {0.0, 1e-9, 1.0 / 256, 0.5, 60.0}) {
    for (const int i : {0, 1, 17, 36}) {
      std::vector<double> found(1);
      launch(nullptr, sum_kernel<mask>, 1, 1, slope, i, 37, found.data());
      CHECK(found[0] == doctest::Approx(sum_of_biases(mask, slope, i, 37)).epsilon(1e-13));
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_head");

TEST_CASE("a size as a type says all that the size says, and one that drops is another") {
  using Plain = Fixed<AttentionSize{3, 5, 7, AttentionMatrix::shaped, Mask::full, true}>;
  static_assert(Plain::heads == 3 && Plain::key_width == 5 && Plain::value_width == 7 && Plain::gains == 3);
  static_assert(!Plain::causal && Plain::alibi && Plain::centred && !Plain::drops);
  static_assert(Plain::key_stride == 15 && Plain::value_stride == 21);
  using Dropping = Fixed<AttentionSize{3, 5, 7, AttentionMatrix::shaped, Mask::full, true, true}>;
  static_assert(Dropping::drops && Dropping::key_stride == 15 && Dropping::gains == 3);
  static_assert(Fixed<AttentionSize{2, 4, 4, AttentionMatrix::skip_init}>::gains == 2);
  static_assert(Fixed<AttentionSize{2, 4, 4}>::gains == 0 && Fixed<AttentionSize{2, 4, 4}>::causal);
}

TEST_CASE("the sums that C divides by, for all slopes, causal and full") {
  check_sums<Mask::causal>();
  check_sums<Mask::full>();
}

TEST_SUITE_END();
