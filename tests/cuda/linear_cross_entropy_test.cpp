// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/ops.cuh>

#include "cuda/on_device.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// A tile has 16 tile bytes of each column of logits: nine rows are in three tiles where it is 2, in double.
template <Index classes, Index tile, bool has_bias>
struct Tiled {
  constexpr Expr operator()(Expr x) const {
    const Expr table = weight("table", classes, width(x), normal(1)), labels = indices("labels", Axis::tokens);
    if (!has_bias) return linear_cross_entropy(x, table, labels, tile);
    return linear_cross_entropy(x, table, labels, vector("bias", classes, normal(1)), tile);
  }
};
/// A table that is computed, and x with another reader.
struct Computed {
  struct Results {
    Expr loss, x;
  };
  constexpr Results operator()(Expr x) const {
    const Expr table = tanh(weight("table", 7, width(x), normal(1)));
    return {linear_cross_entropy(x, table, indices("labels", Axis::tokens), 3), x * 2.0};
  }
};
template <Index classes, Index tile, bool has_bias = false>
inline constexpr test::OnTokens<Tiled<classes, tile, has_bias>> tiled{6};
// Names, because nvcc 13.0 does not see into all variables that are templates.
constexpr auto tiled_5_512 = tiled<5, 512>;
constexpr auto tiled_6_2 = tiled<6, 2>;
constexpr auto tiled_7_3 = tiled<7, 3>;
constexpr auto tiled_7_3_biased = tiled<7, 3, true>;
constexpr auto tiled_40_12 = tiled<40, 12>;
constexpr auto tiled_40_12_biased = tiled<40, 12, true>;
constexpr auto tiled_40_1_biased = tiled<40, 1, true>;
constexpr auto tiled_7_1_biased = tiled<7, 1, true>;
constexpr auto tiled_300_128_biased = tiled<300, 128, true>;
inline constexpr test::OnTokens<Computed> computed{6};
inline constexpr test::OnTokens<Tiled<5, 2, false>> of_one_column{1};
struct BehindANorm {
  constexpr Expr operator()(Expr x) const {
    return Tiled<40, 1, false>{}(rms_norm(x, vector("gain", 8, normal(1)), hyper("epsilon", 1e-6)));
  }
};
inline constexpr test::OnTokens<BehindANorm> behind_a_norm{8};
static_assert(std::ranges::count(bfloat16_values<GraphOf<behind_a_norm>>, true) == 1);

struct Held {
  constexpr Expr operator()(Expr x) const {
    return cross_entropy(x * weight("head", width(x), 40, normal(1)), indices("labels", Axis::tokens));
  }
};
inline constexpr test::OnTokens<Held> held{6};
/// Logits with another reader, whose gradient comes first.
struct AddedTo {
  struct Results {
    Expr loss, logits;
  };
  constexpr Results operator()(Expr x) const {
    const Expr logits = x * weight("head", width(x), 40, normal(1));
    return {cross_entropy(logits, indices("labels", Axis::tokens)), logits * 2.0};
  }
};
inline constexpr test::OnTokens<AddedTo> added_to{6};
struct Weighted {
  bool in_tiles;
  constexpr Expr operator()(Expr x) const {
    return (in_tiles ? Tiled<7, 3, true>{}(x) : Held{}(x)) * variable("importance", rows_of(Axis::tokens, 1));
  }
};
constexpr auto weighted = [] { return Weighted{false}(variable("x", rows_of(Axis::tokens, 6))); };
constexpr auto weighted_tiles = [] { return Weighted{true}(variable("x", rows_of(Axis::tokens, 6))); };

/// An evaluation whose results may come with backward.
template <auto const& model, Precision precision>
struct Late : Evaluation<model, Cuda<precision>> {
  Late() : Evaluation<model, Cuda<precision>>(Rows{.tokens = 9}, 1) {}
  void leave_results_to_backward() { this->device_.results_after_backward = true; }
};

/// Losses and gradients with results that wait for backward are those of results that do not.
template <auto const& model, Precision precision, bool waits = true>
void same_by_backward() {
  Late<model, precision> usual, late;
  late.leave_results_to_backward();
  for (auto* run : {&usual, &late}) {
    std::ranges::fill(run->memory(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t k = 0; k < 6; ++k) run->input("x")[i * 6 + k] = 0.1f * static_cast<float>((i * 7 + k * 5) % 11);
      run->indices("labels")[i] = i == 4 ? ignored_label : static_cast<std::int32_t>(i % 5);
      if constexpr (!waits) run->input("importance")[i] = 0.5f;
    }
    run->forward();
    CHECK((run->output()[0] == 0) == (waits && run == &late));
    for (int k = 0; k < Late<model, precision>::G::layout.outputs; ++k) std::ranges::fill(run->output_gradient(k), 0.25f);
    run->backward();
  }
  CHECK(std::ranges::equal(usual.output(), late.output()));
  CHECK(std::ranges::equal(usual.gradients(), late.gradients()));
  CHECK(std::ranges::equal(usual.input_gradient("x"), late.input_gradient("x")));
  CHECK(usual.output()[4] == 0);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/linear_cross_entropy");

TEST_CASE("losses and gradients of tiles of any width are those of the CPU") {
  test::same_on_device<tiled_6_2>(9);
  test::same_on_device<tiled_7_3>(9);
  test::same_on_device<tiled_5_512>(9);
  test::same_on_device<tiled_300_128_biased>(5);
  test::same_on_device<tiled_7_3_biased>(9);
  test::same_on_device<computed>(9);
  test::float_on_device<tiled_7_3_biased>(9);
  test::float_on_device<tiled_7_1_biased>(9);
}

/// The norm's value is stored in bfloat16, x is rounded; rows of 7 logits lie 8 apart.
TEST_CASE("in bfloat16 they are those of the CPU to its rounding") {
  test::bfloat16_on_device<tiled_40_12>(9, 0.03);
  test::bfloat16_on_device<tiled_40_12_biased>(9, 0.03);
  test::bfloat16_on_device<tiled_40_1_biased>(9, 0.03);
  test::bfloat16_on_device<tiled_7_1_biased>(9, 0.03);
  test::bfloat16_on_device<behind_a_norm>(9, 0.03);
}

/// Of more classes sums are those of more threads, and differ by a rounding.
TEST_CASE("losses that nobody reads before backward are backward's, of few classes with the same bits") {
  same_by_backward<tiled_7_3_biased, Precision::float64>();
  same_by_backward<tiled_40_1_biased, Precision::bfloat16>();
  same_by_backward<added_to, Precision::float64>();
  same_by_backward<held, Precision::float64>();
  same_by_backward<held, Precision::bfloat16>();
}

TEST_CASE("losses that an op reads are not left to backward") {
  same_by_backward<weighted, Precision::float64, false>();
  same_by_backward<weighted_tiles, Precision::float64, false>();
}

TEST_CASE("huge logits stay finite, and what has no likelihood at all adds nothing") {
  Evaluation<of_one_column, Cuda<Precision::float64>> run(Rows{.tokens = 2}, 1);
  std::ranges::fill(run.parameter("table"), 0.0);
  run.parameter("table")[3] = 1.0;
  std::ranges::copy(std::array{1e4, -1e4}, run.input("x").begin());
  std::ranges::copy(std::array{3, 0}, run.indices("labels").begin());
  run.forward();
  CHECK(run.output()[0] == 0);
  CHECK(run.output()[1] == doctest::Approx(std::log(4)));
  run.parameter("table")[0] = run.parameter("table")[1] = -std::numeric_limits<double>::infinity();
  std::ranges::copy(std::array{1.0, 1.0}, run.input("x").begin());
  std::ranges::copy(std::array{3, 2}, run.indices("labels").begin());
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(std::log(1 + 2 / std::exp(1.0))));
}

TEST_SUITE_END();
