// SPDX-License-Identifier: MIT
//
// Signal propagation at initialisation: how alike tokens have become, as the mean cosine of all pairs of them.

#include <simplx/models/decoder.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

constexpr Index width = 64, length = 32;

struct Blocks {
  BlockConfig block;
  int layers;
  constexpr Expr operator()() const {
    return stack("blocks", layers, ConfiguredBlock{block, 4, 256}, variable("x", rows_of(Axis::tokens, width)));
  }
};

template <class Change>
constexpr Blocks changed(const BlockConfig& block, int layers, Change change) {
  BlockConfig config = block;
  change(config);
  return {config, layers};
}
// The skipless block of Value-SkipInit with a plain softmax matrix, which collapses.
inline constexpr Blocks plain = changed(v_skip_init, 12, [](BlockConfig& c) { c.matrix = AttentionMatrix::softmax; });
inline constexpr Blocks shaped{v_skip_init_shaped, 24}, sequential{sas, 24}, parallel_p{sas_p, 24},
    with_skips{pre_ln, 24};
inline constexpr Blocks loud = changed(sas_p, 24, [](BlockConfig& c) { c.mlp_gain = trainable(1); });

/// Mean cosine of pairs of tokens after all layers; weights, and the embedding x, of deviation 0.069.
template <auto const& blocks>
double similarity() {
  Evaluation<blocks> run(Rows{.tokens = length}, 4);
  for (std::size_t i = 0; i < run.input("x").size(); ++i) run.input("x")[i] = 0.069 * normal(key_of(9, "x"), i);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    if (tensor.init.law != Init::Law::normal) continue;
    for (double& w : run.parameter(tensor.name)) w *= 0.069 / 0.02;
  }
  run.forward();
  const Eigen::Map<Eigen::Matrix<double, length, width, Eigen::RowMajor>> y(run.output().data());
  const auto directions = y.rowwise().normalized().eval();
  const auto cosines = (directions * directions.transpose()).eval();
  return (cosines.sum() - length) / (length * (length - 1));
}

}  // namespace

TEST_CASE(
    "models/signal: plain skipless attention collapses, shaped attention does not; the louder the MLP the more alike") {
  const double quiet = similarity<parallel_p>(), louder = similarity<loud>(), skips = similarity<with_skips>();
  CAPTURE(quiet);
  CAPTURE(louder);
  CAPTURE(skips);
  CHECK(similarity<plain>() > 0.99);
  CHECK(similarity<shaped>() < 0.05);
  CHECK(similarity<sequential>() < 0.05);
  CHECK(quiet < 0.05);
  CHECK(quiet + 0.1 < louder);
  CHECK(louder < skips);
}
