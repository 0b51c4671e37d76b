// SPDX-License-Identifier: MIT
#include <simplx/blocks/shaped_reparam.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<ShapedReparam> fixed_gains{{2, {24}}};
inline constexpr test::ThreeLayers<ShapedReparam> trained{{2, {24}, {orthogonal, trainable(1), trainable(0.2)}}};
static_assert(same_graph<fixed_gains, test::token<shaped_reparam>>());
static_assert(same_graph<trained, test::token<shaped_reparam_trainable>>());
static_assert(parameters<trained> == parameters<fixed_gains> + 3 * 4);
static_assert(parameters<fixed_gains> == parameters<test::token<v_skip_init_shaped>>);  // the bases are not trained
}  // namespace

TEST_SUITE_BEGIN("blocks/shaped_reparam");

TEST_CASE("the bases are constants, orthogonal and different; the deltas are zero") {
  Evaluation<fixed_gains> run(Rows{.tokens = 4});
  CHECK(!has_parameter<fixed_gains>("blocks.0.attention.value.base"));
  CHECK(!has_parameter<fixed_gains>("blocks.0.attention.value.beta"));
  CHECK(has_parameter<trained>("blocks.0.attention.projection.beta"));
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.value.delta"), 0.0) == 16 * 16);
  const auto value = run.constant("blocks.0.attention.value.base"),
             projection = run.constant("blocks.0.attention.projection.base");
  CHECK(!std::ranges::equal(value, projection));
  CHECK(!std::ranges::equal(value, run.constant("blocks.1.attention.value.base")));
}

TEST_CASE("what was trained into D counts 0.2 times; a dense matrix W0 + 0.2 D gives the same block") {
  Evaluation<fixed_gains> apart(Rows{.tokens = 7}, 3);
  Evaluation<test::token<v_skip_init_shaped>> together(Rows{.tokens = 7}, 3);
  for (const TensorInfo& tensor : apart.tensors().parameters) {
    auto values = apart.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.2 * normal(key_of(1, tensor.name), i);
    if (!tensor.name.ends_with(".delta")) std::ranges::copy(values, together.parameter(tensor.name).begin());
  }
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
    for (const char* which : {".attention.value.", ".attention.projection."}) {
      const std::string name = std::string(layer) + which;
      const auto base = apart.constant(name + "base");
      for (std::size_t i = 0; i < base.size(); ++i) {
        together.parameter(name + "weight")[i] = base[i] + 0.2 * apart.parameter(name + "delta")[i];
      }
    }
  }
  test::fill_inputs(apart), test::fill_inputs(together);
  apart.forward(), together.forward();
  CHECK(test::largest_difference(apart.output(), together.output()) < 1e-13);
}

TEST_SUITE_END();
