// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/dropout.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/dropout.hpp>
#include <simplx/train/hyper.hpp>

using namespace simplx;

namespace {

const std::vector<Index> packed{5, 0, 1, 13, 2};
const Randomness training{.training = true, .key = 7, .scope = 3, .first_sequence = 11};

struct Layer {
  constexpr Expr operator()(Expr x) const { return dropout("a", x, 0.5) + dropout("b", x, hyper("rate", 0.5)); }
};
constexpr auto dropped = [] { return stack("blocks", 2, Layer{}, variable("x", rows_of(Axis::tokens, 37))); };
constexpr auto dropped_by_fours = [] { return stack("blocks", 2, Layer{}, variable("x", rows_of(Axis::tokens, 20))); };
/// More columns than a warp takes.
constexpr auto dropped_wide = [] { return dropout("drop", variable("x", rows_of(Axis::tokens, 2084)), 0.5); };
struct Results {
  Expr samples, weights;
};
/// Each row of a batch draws for itself, a matrix of weights as a whole.
constexpr auto of_samples = [] {
  return Results{dropout("drop", variable("x", rows_of(Axis::batch, 5)), 0.5),
                 dropout("connections", weight("w", 3, 5, normal(1)), 0.5)};
};
constexpr auto nothing = [] { return dropout("drop", variable("x", rows_of(Axis::tokens, 3)), 0.0); };
constexpr auto of_a_rate = [] {
  return dropout("drop", variable("x", rows_of(Axis::tokens, 3)), hyper("rate", 0.25));
};
constexpr auto everything = [] { return dropout("drop", variable("x", rows_of(Axis::tokens, 3)), 1.0); };

/// Factors are powers of two and nothing is rounded, so that all numbers have the same bits if the masks do.
template <auto const& model, Precision precision>
void check_masks(Index tokens, const std::vector<Index>& lengths, const Randomness& random) {
  using S = typename Cuda<precision>::Scalar;
  const auto on_cpu = test::expected<model, S>(tokens, lengths, random);
  CHECK(test::same_bits([&] { return test::all_of<model, Cuda<precision>>(tokens, lengths, random); }) == on_cpu);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/dropout");

TEST_CASE("masks are those of the CPU, in double and in float") {
  check_masks<dropped, Precision::float64>(21, packed, training);
  check_masks<dropped, Precision::float32>(21, packed, training);
  check_masks<dropped, Precision::float64>(21, packed, {});
  check_masks<dropped_by_fours, Precision::float64>(21, packed, training);
  check_masks<dropped_by_fours, Precision::float32>(21, packed, training);
  check_masks<dropped_wide, Precision::float64>(5, {2, 3}, training);
  check_masks<of_samples, Precision::float64>(21, packed, training);
  check_masks<nothing, Precision::float32>(9, {}, training);
  check_masks<everything, Precision::float32>(9, {}, training);
}

TEST_CASE("a rate below 0 counts as 0, above 1 as 1") {
  Evaluation<of_a_rate, Cuda<Precision::float64>> run(Rows{.tokens = 9});
  std::ranges::fill(run.input("x"), 1.0);
  run.random() = training;
  for (const auto& [rate, kept] : {std::pair(-0.5, 1.0), {1.5, 0.0}}) {
    set_hyper(run, "rate", rate);
    run.forward();
    for (const double y : run.output()) CHECK(y == kept);
  }
}

TEST_SUITE_END();
