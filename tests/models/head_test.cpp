// SPDX-License-Identifier: MIT
#include <simplx/models/head.hpp>

#include <simplx/blocks/crammed_bert.hpp>
#include <simplx/blocks/sas_p.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/train/trainer.hpp>

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

inline constexpr Decoder decoder{.block = sas_p, .vocab = 600, .width = 32, .heads = 2, .layers = 2, .context = 16};
inline constexpr DecoderOf<SasP> equation{{{.heads = 2}, {}}, 600, 32, 2, 16};
inline constexpr EncoderOf<BertSasP> encoder_equation{
    {{.heads = 2, .mask = Mask::full}, {24}, {}, 0.05}, 600, 16, 2, 8};
template <auto const& model>
inline constexpr auto in_tiles = [] {
  auto copy = model;
  copy.tiled_loss = true;
  return copy;
}();
static_assert(same_graph<in_tiles<decoder>, in_tiles<equation>>());
static_assert(arena_bytes<in_tiles<decoder>>(tokens{16}) < arena_bytes<decoder>(tokens{16}));

/// Sequences of several lengths whose rows are labelled every so often.
TokenBatch some_batch(Index vocab, Index every) {
  TokenBatch batch;
  batch.offsets = {0};
  for (const Index length : {4, 1, 3, 4}) {
    for (Index i = 0; i < length; ++i) {
      const std::size_t place = batch.tokens.size();
      batch.tokens.push_back(static_cast<std::int32_t>((place * 37 + 5) % static_cast<std::size_t>(vocab)));
      const auto label = static_cast<std::int32_t>((place * 101 + 7) % static_cast<std::size_t>(vocab));
      batch.labels.push_back(place % static_cast<std::size_t>(every) == 0 ? label : ignored_label);
    }
    batch.offsets.push_back(static_cast<Index>(batch.tokens.size()));
  }
  return batch;
}

/// The loss in tiles trains the parameters that the held one does, by the same gradient, and with the same bits for
/// any number of threads.
template <auto const& model>
void check_tiled_training(Index every) {
  Trainer<model, Cpu<double>> held{{.batch = 4, .context = 4}};
  Trainer<in_tiles<model>, Cpu<double>> tiled{{.batch = 4, .context = 4}};
  Trainer<in_tiles<model>, Cpu<double>> on_three{{.batch = 4, .context = 4, .threads = 3}};
  const TokenBatch batch = some_batch(held.vocab(), every);
  REQUIRE(tiled.tensors().parameters.size() == held.tensors().parameters.size());
  for (std::size_t i = 0; i < held.tensors().parameters.size(); ++i) {
    CHECK(tiled.tensors().parameters[i].name == held.tensors().parameters[i].name);
  }
  CHECK(std::ranges::equal(tiled.parameters(), held.parameters()));
  CHECK(tiled.vocab() == held.vocab());
  std::vector<double> expected(held.parameters().size()), found = expected, found_on_three = expected;
  const double loss = held.loss_and_gradient(batch, expected).loss;
  CHECK(tiled.loss_and_gradient(batch, found).loss == doctest::Approx(loss).epsilon(1e-13));
  CHECK(tiled.loss(batch) == doctest::Approx(loss).epsilon(1e-13));
  on_three.loss_and_gradient(batch, found_on_three);
  CHECK(found == found_on_three);
  double farthest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) farthest = std::max(farthest, std::abs(found[i] - expected[i]));
  CHECK(farthest < 1e-13);
}
}  // namespace

TEST_SUITE_BEGIN("models/head");

TEST_CASE("a loss in tiles, of decoders, encoders and masked heads, with every and with few tokens labelled") {
  check_tiled_training<decoder>(1);
  check_tiled_training<encoder_equation>(3);
  check_tiled_training<plain>(3);
  check_tiled_training<with_head>(5);
}

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
