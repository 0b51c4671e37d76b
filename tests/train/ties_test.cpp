// SPDX-License-Identifier: MIT
#include <simplx/train/ties.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Stacked {
  BlockConfig block;
  constexpr Expr operator()() const {
    return stack("blocks", 4, ConfiguredBlock{block, 2, 8}, variable("x", rows_of(Axis::tokens, 8)));
  }
};
constexpr BlockConfig norm_free = [] {
  BlockConfig config = shaped_reparam;
  config.norm = Norm::none;
  return config;
}();
inline constexpr Stacked orthogonal_bases{norm_free}, identity_bases{pre_ln_reparam_trainable};

using Square = Eigen::Matrix<double, 8, 8, Eigen::RowMajor>;
Square base(Evaluation<orthogonal_bases>& run, int layer, const char* which) {
  return Eigen::Map<Square>(run.constant("blocks." + std::to_string(layer) + ".attention." + which + ".base").data());
}
double from_identity(const Square& a) { return (a - Square::Identity()).cwiseAbs().maxCoeff(); }

/// The largest deviations from the identity: of the product over all layers, and of those of single layers.
std::pair<double, double> deviations(Evaluation<orthogonal_bases>& run) {
  Square product = Square::Identity();
  double single = 0;
  for (int layer = 0; layer < 4; ++layer) {
    const Square both = base(run, layer, "value") * base(run, layer, "projection");
    product *= both;
    single = std::max(single, from_identity(both));
  }
  return {from_identity(product), single};
}

/// Ties, without MLPs: how far the network is from the identity.
double network(Evaluation<orthogonal_bases>& run) {
  for (int layer = 0; layer < 4; ++layer) run.parameter("blocks." + std::to_string(layer) + ".mlp_gain")[0] = 0;
  test::fill_inputs(run);
  run.forward();
  double worst = 0;
  for (std::size_t i = 0; i < run.output().size(); ++i) {
    worst = std::max(worst, std::abs(run.output()[i] - run.input("x")[i]));
  }
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("train/ties");

TEST_CASE("untied, neither the layers' products nor the whole are the identity") {
  Evaluation<orthogonal_bases> run(Rows{.tokens = 5}, 3);
  tie_projections(run.tensors().constants, Ties::none, run.constants().data());
  CHECK(deviations(run).first > 0.5);
  CHECK(deviations(run).second > 0.5);
  CHECK(network(run) > 0.5);
}

TEST_CASE("tied in the last layer, the product over all layers is the identity, and so is the network without MLPs") {
  Evaluation<orthogonal_bases> run(Rows{.tokens = 5}, 3), untied(Rows{.tokens = 5}, 3);
  tie_projections(run.tensors().constants, Ties::last_layer, run.constants().data());
  CHECK(deviations(run).first < 1e-12);
  CHECK(deviations(run).second > 0.5);
  CHECK(base(run, 2, "projection") == base(untied, 2, "projection"));  // only the last one has changed
  CHECK(base(run, 3, "value") == base(untied, 3, "value"));
  CHECK(network(run) < 1e-12);
}

TEST_CASE("tied in all layers, each layer's product is the identity") {
  Evaluation<orthogonal_bases> run(Rows{.tokens = 5}, 3);
  tie_projections(run.tensors().constants, Ties::all_layers, run.constants().data());
  CHECK(deviations(run).second < 1e-12);
  CHECK(network(run) < 1e-12);
}

TEST_CASE("a model without bases cannot be tied") {
  Evaluation<identity_bases> run(Rows{.tokens = 5}, 3);
  CHECK_THROWS_WITH_AS(tie_projections(run.tensors().constants, Ties::all_layers, run.constants().data()),
                       doctest::Contains("blocks.0.attention.value.base"), Error);
  CHECK_THROWS_AS(tie_projections(run.tensors().constants, Ties::last_layer, run.constants().data()), Error);
}

TEST_SUITE_END();
