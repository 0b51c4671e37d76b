// SPDX-License-Identifier: MIT
#include <simplx/models/head.hpp>

#include <simplx/models/encoder.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Masked {
  constexpr Expr operator()() const {
    return MaskedTokenHead{}(variable("x", rows_of(Axis::tokens, 6)), weight("embedding.weight", 5, 6, normal(1)));
  }
};
inline constexpr Masked masked{};
static_assert(parameters<masked> == 6 * 6 + 6 + 2 * 6 + 5 * 6 + 5);

inline constexpr Encoder plain{.block = pre_ln_biased, .vocab = 9, .width = 8, .heads = 2, .layers = 1, .context = 4,
                               .positions = Positions::learned, .position_rows = 6, .embedding_norm = false},
    with_head = [] {
      Encoder model = plain;
      model.masked_head = true;
      return model;
    }();
static_assert(parameters<with_head> == parameters<plain> + (8 * 8 + 8) + 2 * 8 + 9);
static_assert(!has_parameter<plain>("embedding_norm.gain") &&
              parameter_shape<plain>("position.weight") == fixed_shape(6, 8));
static_assert(parameter_shape<with_head>("head.dense.weight") == fixed_shape(8, 8));
static_assert(has_parameter<with_head>("head.norm.gain") && !has_parameter<plain>("head.bias"));
}  // namespace

TEST_SUITE_BEGIN("models/head");

TEST_CASE("LayerNorm(gelu(x W + b)) E^T + c, by hand") {
  Evaluation<masked> run(Rows{.tokens = 3});
  test::fill_inputs(run);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    auto values = run.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.5 * normal(key_of(2, tensor.name), i);
  }
  run.forward();
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto matrix = [](std::span<const double> values, Eigen::Index rows) {
    return Matrix(Eigen::Map<const Matrix>(values.data(), rows, static_cast<Eigen::Index>(values.size()) / rows));
  };
  const auto of = [&](const char* name, Eigen::Index rows) { return matrix(run.parameter(name), rows); };
  Matrix h = matrix(run.input("x"), 3) * of("head.dense.weight", 6);
  h.rowwise() += of("head.dense.bias", 1).row(0);
  h = h.unaryExpr([](double z) { return z * (1 + std::erf(z / std::sqrt(2.0))) / 2; });
  for (auto row : h.rowwise()) {
    const double mean = row.mean();
    const double variance = (row.array() - mean).square().mean();
    row = ((row.array() - mean) / std::sqrt(variance + 1e-5) * of("head.norm.gain", 1).row(0).array() +
           of("head.norm.bias", 1).row(0).array()).matrix().eval();
  }
  Matrix logits = h * of("embedding.weight", 5).transpose();
  logits.rowwise() += of("head.bias", 1).row(0);
  for (Eigen::Index i = 0; i < logits.size(); ++i) {
    CHECK(run.output()[static_cast<std::size_t>(i)] == doctest::Approx(logits.data()[i]).epsilon(1e-12));
  }
}

TEST_CASE("gradients through the head, and through a model that ends with it") {
  test::check_model<masked>();
  test::check_model<with_head>({.gradient = 1e-6}, {3, 1, 4});
}

TEST_SUITE_END();
