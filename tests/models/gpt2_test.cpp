// SPDX-License-Identifier: MIT
#include <simplx/models/gpt2.hpp>

#include "golden.hpp"

#include <simplx/core/counts.hpp>

#include <set>
#include <string>

using namespace simplx;

namespace {

inline constexpr Gpt2 small{.vocab = 31, .width = 16, .heads = 2, .layers = 2, .context = 16};

// Radford et al. 2019, Table 2, says 117M, 345M, 762M and 1542M; these are the parameters of what was released.
static_assert(parameters<presets::gpt2> == 124'439'808 && parameters<presets::gpt2_medium> == 354'823'168 &&
              parameters<presets::gpt2_large> == 774'030'080 && parameters<presets::gpt2_xl> == 1'557'611'200);
static_assert(parameter_shape<presets::gpt2>("h.11.attn.c_attn.weight") == fixed_shape(768, 2304));

}  // namespace

TEST_SUITE_BEGIN("models/gpt2");

TEST_CASE("logits, loss and every gradient agree with Hugging Face's transformers") {
  test::agrees_with<small, Cpu<double>>("gpt2_small");
  test::agrees_with<small, Cpu<double, Path::reference>>("gpt2_small");
}

TEST_CASE("the last matrices of branches begin smaller, by the root of the number of branches") {
  static constexpr Gpt2 wider{.vocab = 31, .width = 64, .heads = 2, .layers = 3, .context = 16};
  Evaluation<wider, Cpu<double>> run(tokens{16}, /*seed*/ 1);
  const auto deviation = [&](const char* name) {
    double squares = 0;
    for (const double w : run.parameter(name)) squares += w * w;
    return std::sqrt(squares / static_cast<double>(run.parameter(name).size()));
  };
  CHECK(deviation("h.1.mlp.c_fc.weight") / 0.02 == doctest::Approx(1).epsilon(0.02));
  CHECK(deviation("h.1.mlp.c_proj.weight") / 0.02 == doctest::Approx(1 / std::sqrt(6)).epsilon(0.02));
  CHECK(deviation("h.2.attn.c_proj.weight") / 0.02 == doctest::Approx(1 / std::sqrt(6)).epsilon(0.02));
}

TEST_CASE("dropout is where Hugging Face's has it: of the embedding, of weights, and of branches") {
  Evaluation<small, Cpu<double>> run(tokens{16}, /*seed*/ 1);
  std::set<std::string> rates;
  for (const TensorInfo& constant : run.tensors().constants) {
    if (!constant.name.ends_with("dropout.rate")) continue;
    rates.insert(constant.name);
    CHECK(run.constant(constant.name)[0] == 0.1);
  }
  CHECK(rates == std::set<std::string>{"embedding_dropout.rate", "h.0.attn.dropout.rate", "h.1.attn.dropout.rate",
                                       "h.0.attn.resid_dropout.rate", "h.1.attn.resid_dropout.rate",
                                       "h.0.mlp.resid_dropout.rate", "h.1.mlp.resid_dropout.rate"});
}

TEST_SUITE_END();
