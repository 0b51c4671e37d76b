// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/tensor_cores.cuh>

#include "cuda/tile_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

using Cores = TensorCores<>;

namespace {

/// Of bfloat16, in roundings of float.
constexpr double bfloat16_roundings = 1 << 16;

/// A lane's registers of four matrices, each two numbers, and the sums of one instruction of which all factors are
/// numbered.
__global__ void registers(const __nv_bfloat16* numbers, float* loaded, float* transposed, float* sums) {
  const int lane = Cores::lane();
  SIMPLX_SHARED(matrices, __nv_bfloat16[32][8]);
  for (int i = 0; i < 8; ++i) matrices[lane][i] = numbers[8 * lane + i];
  __syncwarp();
  BfloatPair direct[4], turned[4];
  load_matrices<false>(direct, matrices[lane]);
  load_matrices<true>(turned, matrices[lane]);
  for (int m = 0; m < 4; ++m) {
    for (int e = 0; e < 2; ++e) {
      loaded[(lane * 4 + m) * 2 + e] = emulation::half_of(direct[m], e);
      transposed[(lane * 4 + m) * 2 + e] = emulation::half_of(turned[m], e);
    }
  }
  float own[4] = {};
  multiply_fragments(own[0], own[1], own[2], own[3], direct, turned[0], turned[1]);
  for (int i = 0; i < 4; ++i) sums[lane * 4 + i] = own[i];
}

}  // namespace

TEST_SUITE_BEGIN("cuda/tensor_cores");

TEST_CASE("fragments are laid out as PTX says") {
  // Matrix m is rows 8 m .. 8 m + 7; as factors: a has matrices 0 and 1 below one another, 2 and 3 right of them.
  std::vector<__nv_bfloat16> numbers;
  for (int i = 0; i < 256; ++i) numbers.push_back(static_cast<float>(i % 8 + 8 * (i / 8 % 8) - 10 * (i / 64)));
  std::vector<float> loaded(256), transposed(256), sums(128);
  launch(nullptr, registers, 1, 32, numbers.data(), loaded.data(), transposed.data(), sums.data());
  const auto of = [&](int m, int row, int col) {
    return float(numbers[static_cast<std::size_t>(64 * m + 8 * row + col)]);
  };
  for (int lane = 0; lane < 32; ++lane) {
    CAPTURE(lane);
    const int slow = lane / 4, fast = lane % 4 * 2;
    for (int m = 0; m < 4; ++m) {
      for (int e = 0; e < 2; ++e) {
        const auto at = static_cast<std::size_t>((lane * 4 + m) * 2 + e);
        CHECK(loaded[at] == of(m, slow, fast + e));
        CHECK(transposed[at] == of(m, fast + e, slow));
      }
    }
    const auto a = [&](int row, int k) { return of(row / 8 + 2 * (k / 8), row % 8, k % 8); };
    const auto b = [&](int k, int col) { return of(k / 8, k % 8, col); };
    for (int i = 0; i < 4; ++i) {
      const int row = slow + i / 2 * 8, col = fast + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a(row, k) * b(k, col);
      CHECK(sums[static_cast<std::size_t>(lane * 4 + i)] == sum);
    }
  }
}

TEST_CASE("products of tiles, of few rows and of all, at odd widths") {
  test::check_products<Cores, 16, 16, 1>(16, 8, bfloat16_roundings);
  test::check_products<Cores, 16, 16, 33>(3, 5, bfloat16_roundings);
  test::check_products<Cores, 32, 16, 5>(32, 9, bfloat16_roundings);
  test::check_products<Cores, 64, 64, 64>(50, 60, bfloat16_roundings);
  test::check_products<Cores::Wide, 32, 16, 33>(20, 5, bfloat16_roundings);
  test::check_products<Cores::Wide, 64, 32, 64>(50, 32, bfloat16_roundings);
}

TEST_CASE("eight rows below one another begin in different banks, whatever the width") {
  CHECK(test::banks_differ(Cores::Tile<8, 1>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 16>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 64>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 77>{}));
}

#if !defined(__CUDACC__)
TEST_CASE("a row that is not on 16 bytes is refused") {
  const auto crooked = [] {
    SIMPLX_SHARED(row, __nv_bfloat16[16]);
    BfloatPair pairs[4];
    load_matrices<false>(pairs, row + 1);
  };
  CHECK_THROWS_AS(emulation::run({}, {32}, crooked), emulation::Fault);
}
#endif

TEST_SUITE_END();
