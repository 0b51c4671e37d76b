// SPDX-License-Identifier: MIT
//
// How large the gradients of the MLPs' second matrices are from the first block to the last, at initialisation: with
// skips they shrink with depth, without them the profile is flat.

#include <simplx/models/decoder.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

template <auto const& block>
inline constexpr Decoder model{.block = block, .vocab = 64, .width = 64, .heads = 4, .layers = 12, .context = 32,
                               .positions = Positions::learned};

/// Mean |dW2| of the first block over that of the last.
template <auto const& block>
double first_over_last() {
  Evaluation<model<block>> run(Rows{.tokens = 128, .sequences = 4}, 3);
  test::fill_inputs(run, 64);
  for (const TensorInfo& tensor : run.tensors().parameters) {  // at width 64 what 0.02 is at 768
    if (tensor.name.starts_with("blocks") && tensor.init.law == Init::Law::normal) {
      for (double& w : run.parameter(tensor.name)) w *= 0.069 / 0.02;
    }
  }
  run.forward();
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  const auto size = [&](int layer) {
    double total = 0;
    const auto gradient = run.gradient("blocks." + std::to_string(layer) + ".mlp.down.weight");
    for (const double g : gradient) total += std::abs(g);
    return total / static_cast<double>(gradient.size());
  };
  return size(0) / size(11);
}

}  // namespace

TEST_CASE(
    "models/gradient_profile: Pre-LN and Parallel have larger gradients in early blocks, SAS and SAS-P equal ones") {
  const double with_skips = first_over_last<pre_ln>(), side_by_side = first_over_last<parallel>();
  const double simplified = first_over_last<sas>(), simplified_parallel = first_over_last<sas_p>();
  CAPTURE(with_skips);
  CAPTURE(side_by_side);
  CAPTURE(simplified);
  CAPTURE(simplified_parallel);
  CHECK(with_skips > 1.8);
  CHECK(side_by_side > 1.8);
  CHECK(simplified == doctest::Approx(1).epsilon(0.15));
  CHECK(simplified_parallel == doctest::Approx(1).epsilon(0.15));
}
