// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_head.cuh>

#include "cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;
using namespace simplx::gpu;

namespace {

struct NoCores {};
template <AttentionSize size>
using Head = HeadOfBlock<Fixed<size>, NoCores, double>;

/// The sum of exp(-slope |i - j|) over the keys that query i sees.
double sum_of_biases(const AttentionSize& size, double slope, int i, int rows) {
  double sum = 0;
  for (int j = 0; j < rows; ++j) sum += size.sees(i, j) ? std::exp(-slope * std::abs(i - j)) : 0;
  return sum;
}

template <Mask mask, int window>
inline constexpr AttentionSize shaped{1, 4, 4, AttentionMatrix::shaped, mask, true, false, window};

template <Mask mask, int window>
__global__ void sum_kernel(double slope, int i, int rows, double* sum) {
  *sum = Head<shaped<mask, window>>::mean_sum(slope, i, rows);
}
template <Mask mask, int window = 0>
void check_sums() {
  for (const double slope : {0.0, 1e-9, 1.0 / 256, 0.5, 60.0}) {
    for (const int i : {0, 1, 17, 36}) {
      std::vector<double> found(1);
      launch(nullptr, sum_kernel<mask, window>, 1, 1, slope, i, 37, found.data());
      CHECK(found[0] == doctest::Approx(sum_of_biases(shaped<mask, window>, slope, i, 37)).epsilon(1e-13));
    }
  }
}

template <Mask mask, int window>
inline constexpr AttentionSize seen{1, 4, 4, AttentionMatrix::softmax, mask, false, false, window};

/// How often a head says another thing of queries and keys, and of tiles of them, than what each query sees.
template <Mask mask, int window>
__global__ void sight_kernel(const Index* offsets, int rows, int* wrong) {
  constexpr AttentionSize size = seen<mask, window>;
  const Head<size> head(offsets, 1, AttentionOperands<double>());
  const auto tells = [&](int i, int queries, int j, int keys) {
    bool all = j + keys <= rows, some = false;
    for (int query = i; query < i + queries; ++query) {
      for (int key = j; key < j + keys && key < rows; ++key) {
        all = all && size.sees(query, key);
        some = some || (query < rows && size.sees(query, key));
      }
    }
    const bool whole = i + queries <= rows && j + keys <= rows;  // else it may be too careful
    const bool found = head.some_see(i, queries, j, keys);
    return head.all_see(i, queries, j, keys) == all && (whole ? found == some : found || !some);
  };
  for (int i = 0; i < rows; ++i) {
    const int queries_end = window == 0 || rows - i <= window ? rows : i + window;
    *wrong += head.keys_end(i + 1) != static_cast<int>(size.keys_end(i + 1, rows));
    *wrong += head.queries_end(i + 1) != queries_end;
    if constexpr (window > 0) *wrong += head.near_begin(i, 4) != size.first_key(i) / 4 * 4;
    for (int j = 0; j < rows; ++j) {
      *wrong += head.sees(i, j) != size.sees(i, j);
      *wrong += !tells(i, 1, j, 6) + !tells(i, 4, j, 1) + !tells(i, 4, j, 6);
    }
  }
}
template <Mask mask, int window>
void check_sight() {
  const std::vector<Index> offsets{0, 23};
  std::vector<int> wrong(1);
  launch(nullptr, sight_kernel<mask, window>, 1, 1, offsets.data(), 23, wrong.data());
  CHECK(wrong[0] == 0);
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
  static_assert(Fixed<AttentionSize{2, 4, 4, AttentionMatrix::skip_init}>::gains == 2 && Plain::window == 0);
  static_assert(Fixed<AttentionSize{2, 4, 4, AttentionMatrix::softmax, Mask::full, false, true, 9}>::window == 9);
  static_assert(Fixed<AttentionSize{2, 4, 4}>::gains == 0 && Fixed<AttentionSize{2, 4, 4}>::causal);
}

TEST_CASE("the sums that C divides by, for all slopes, causal and full, in a window and without") {
  check_sums<Mask::causal>();
  check_sums<Mask::full>();
  check_sums<Mask::causal, 18>();
  check_sums<Mask::full, 18>();
}

TEST_CASE("tiles that are seen whole, or in part, and where they begin and end: with windows and without") {
  check_sight<Mask::causal, 0>();
  check_sight<Mask::full, 0>();
  check_sight<Mask::causal, 1>();
  check_sight<Mask::full, 1>();
  check_sight<Mask::causal, 7>();
  check_sight<Mask::full, 7>();
  check_sight<Mask::full, std::numeric_limits<int>::max()>();
}

TEST_SUITE_END();
