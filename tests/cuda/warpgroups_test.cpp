// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/warpgroups.cuh>

#include "cuda/attention_bfloat16.hpp"
#include "cuda/tile_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

using Cores = Warpgroups;
using By = test::AttentionBy<Cores>;

namespace {

/// Of bfloat16, in roundings of float.
constexpr double bfloat16_roundings = 1 << 16;

}  // namespace

TEST_SUITE_BEGIN("cuda/warpgroups");

TEST_CASE("products of tiles, of few rows and of all, of one warpgroup and of two") {
  test::check_products<Cores, 64, 64, 64>(64, 64, bfloat16_roundings);
  test::check_products<Cores, 64, 64, 64>(3, 5, bfloat16_roundings);
  test::check_products<Cores, 128, 64, 64>(70, 64, bfloat16_roundings);
  test::check_products<Cores, 64, 64, 128>(50, 60, bfloat16_roundings);
  test::check_products<Cores, 64, 128, 64>(50, 120, bfloat16_roundings);
}

TEST_CASE("attention gives what the reference gives, and the same bits under every schedule") {
  const auto with = []<AttentionMatrix matrix, Mask mask, bool alibi>() {
    constexpr AttentionSize size{2, 64, 64, matrix, mask, alibi};
    By::check<size>(8);
    if constexpr (!test::sanitized) By::check_schedules<size>();  // sanitizers find the same under any
  };
  with.operator()<AttentionMatrix::shaped, Mask::causal, false>();
  if constexpr (!test::sanitized) {  // which takes long to compile
    with.operator()<AttentionMatrix::softmax, Mask::causal, true>();
    with.operator()<AttentionMatrix::skip_init, Mask::full, false>();
    with.operator()<AttentionMatrix::shaped, Mask::full, true>();
    By::check<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal, false, true}>(8);  // dropped weights
    By::check<AttentionSize{1, 128, 64, AttentionMatrix::softmax, Mask::causal}>(8);
    By::check<AttentionSize{1, 64, 128, AttentionMatrix::shaped, Mask::full}>(8);
    By::check<AttentionSize{1, 128, 128, AttentionMatrix::shaped, Mask::causal}>(8);
  }
}

TEST_CASE("windows: a warpgroup whose rows see nothing of a tile leaves it") {
  constexpr AttentionSize full{1, 64, 64, AttentionMatrix::softmax, Mask::full, false, false, 66};
  By::check<full>(8, test::Attention<float>(full, {270, 1}));
  if constexpr (!test::sanitized) {
    constexpr AttentionSize causal{1, 64, 64, AttentionMatrix::shaped, Mask::causal, false, false, 95};
    By::check_operands<causal>({290, 5});
    By::check<causal>(8, test::Attention<float>(causal, {270, 1}));
  }
}

TEST_CASE("operands of bfloat16, of several tiles; the identity at initialisation, bit for bit; scores that grow") {
  if constexpr (!test::sanitized) {
    By::check_identity<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal}>();
    By::check_growing<AttentionSize{1, 64, 64, AttentionMatrix::softmax, Mask::causal}>();
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::softmax, Mask::causal}>({290, 5});
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal}>({290, 5});
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full}, test::set, void>({70});
    By::check_identity<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full}>();
  }
}

#if !defined(__CUDACC__)

namespace {

enum class Left { nothing, writes_shown, registers_fenced, sums_awaited, a_warp_out, copies_awaited };

/// X X^T of (64, 64), of which a step is left out.
template <Left out, class In = __nv_bfloat16>
float first_of_product(const std::vector<In>& x) {
  float first = 0;
  const auto kernel = [&] {
    SIMPLX_SHARED(tile, Cores::Tile<64, 64>);
    Cores::load<128>(tile, x.data(), 0, 64, 64);
    if (out != Left::copies_awaited) await_copies();
    if (out != Left::writes_shown) show_writes();
    __syncthreads();
    if (out == Left::a_warp_out && Cores::warp_row() == 16) return;
    float sums[2][16] = {{1}, {1}};
    if (out != Left::registers_fenced) begin_products(sums);
    for (int k = 0; k < 64; k += 16) {
      begin_product(k > 0, sums, 0, tile.from(tile.lines(), 0, k), tile.from(tile.lines(), 0, k));
    }
    if (out != Left::sums_awaited) await_products(sums);
    if (threadIdx.x == 0) first = sums[0][0];
    if (out == Left::sums_awaited) await_products(sums);
    if (out == Left::copies_awaited) await_copies();
  };
  emulation::run({}, {128}, kernel);
  return first;
}

}  // namespace

TEST_CASE("each step of a product is needed: left out, it is noticed" * doctest::skip(emulation::thread_sanitized)) {
  const std::vector<__nv_bfloat16> ones(64 * 64, 1.0f);
  CHECK(first_of_product<Left::nothing>(ones) == 64);
  CHECK(std::isnan(first_of_product<Left::sums_awaited>(ones)));
  CHECK_THROWS_AS(first_of_product<Left::copies_awaited>(ones), emulation::Fault);
  CHECK_THROWS_AS(first_of_product<Left::writes_shown>(ones), emulation::Fault);
  CHECK_THROWS_AS(first_of_product<Left::registers_fenced>(ones), emulation::Fault);
  CHECK_THROWS_AS(first_of_product<Left::a_warp_out>(ones), emulation::Fault);
  const std::vector<float> floats(64 * 64, 1.0f);  // which are stored, not copied
  CHECK(first_of_product<Left::nothing>(floats) == 64);
  CHECK_THROWS_AS(first_of_product<Left::writes_shown>(floats), emulation::Fault);
  const auto half_a_group = [] {
    SIMPLX_SHARED(tile, Cores::Tile<64, 64>);
    float sums[2][16] = {};
    begin_products();
    begin_product(false, sums, 0, tile.lines(), tile.lines());
    await_products(sums);
  };
  CHECK_THROWS_AS(emulation::run({}, {64}, half_a_group), emulation::Fault);
}

TEST_CASE("sixteen bytes of a line are where an instruction looks for them, eight lines in different banks") {
  alignas(1024) Cores::Tile<16, 128> tile;
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 128; ++col) *tile.place(row, col) = static_cast<float>(row + 16 * (col % 16));
  }
  const Lines lines = tile.from(tile.lines(), 8, 80);
  for (unsigned row = 0; row < 8; ++row) {
    for (unsigned col = 0; col < 16; ++col) {
      CHECK(emulation::element(lines.matrix, false, row, col) == static_cast<float>(row + 8 + 16 * col));
    }
    const auto bank = [&](int of) { return reinterpret_cast<std::uintptr_t>(tile.place(of, 0)) / 16 % 8; };
    for (unsigned other = 0; other < row; ++other) CHECK(bank(static_cast<int>(other)) != bank(static_cast<int>(row)));
  }
}

#endif

TEST_SUITE_END();
