// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/inference.cuh>
#include <simplx/cuda/trainer.cuh>

#include "cuda/kernels.hpp"
#include "generate/streams.hpp"

#include <simplx/train/copy_parameters.hpp>

using namespace simplx;

namespace {

inline constexpr Decoder model{.block = sas_p, .vocab = 13, .width = 8, .heads = 2, .hidden = 16, .layers = 2,
                               .context = 200, .positions = Positions::learned};
using OnCpu = Inference<logits_of<model>, Cpu<double>>;
template <Precision precision>
using OnDevice = Inference<logits_of<model>, Cuda<precision>>;

/// The largest difference, in parts of the largest logit.
template <class S>
double distance(std::span<const S> found, std::span<const double> exact) {
  REQUIRE(found.size() == exact.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(static_cast<double>(found[i]) - exact[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
    largest = std::max(largest, std::abs(exact[i]));
  }
  return worst / largest;
}

/// Of sequences of some lengths, the later ones beyond the room that the first made.
template <Precision precision>
double worst_distance() {
  OnCpu exact({.seed = 4});
  OnDevice<precision> net({.seed = 4});
  test::stir(exact.tensors(), exact.parameters());
  test::stir(net.tensors(), net.parameters());
  const auto tokens = test::some_tokens(200, 13);
  double worst = 0;
  for (const std::size_t length : {3, 1, 130, 200, 17}) {
    const auto some = std::span(tokens).first(length);
    worst = std::max(worst, distance(net.logits(some), exact.logits(some)));
  }
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/inference");

TEST_CASE("it gives the logits of the CPU, for sequences of any length in any order") {
  CHECK(worst_distance<Precision::float64>() < 1e-12);
  CHECK(worst_distance<Precision::float32>() < 1e-5);
  const double rounded = worst_distance<Precision::bfloat16>();
  CHECK(rounded < 0.05);
  CHECK(rounded > 1e-5);
}

TEST_CASE("weights that are written count from the next call on, also those of a trainer") {
  OnDevice<Precision::float64> net;
  const auto tokens = test::some_tokens(5, 13);
  const auto logits = [&](auto& from) {
    const auto found = from.logits(tokens);
    return std::vector<double>(found.begin(), found.end());
  };
  const auto before = logits(net);
  CHECK(logits(net) == before);
  Trainer<model, Cuda<Precision::float64>> trainer({.batch = 1, .seed = 4});
  test::stir(trainer.tensors(), trainer.parameters());
  copy_parameters(trainer, net);
  CHECK(logits(net) != before);
  CHECK(distance<double>(logits(net), logits(trainer)) < 1e-12);
}

TEST_CASE("it computes logits into memory of the caller, and writes nothing else") {
  OnDevice<Precision::float32> net;
  const auto tokens = test::some_tokens(7, 13);
  std::vector<float> memory(7 * 13 + 2, -1.0f);
  net.logits(tokens, std::span(memory).subspan(1, 7 * 13));
  CHECK(std::ranges::equal(std::span(memory).subspan(1, 7 * 13), net.logits(tokens)));
  CHECK(memory.front() == -1.0f);
  CHECK(memory.back() == -1.0f);
  CHECK_THROWS_WITH_AS(net.logits(tokens, memory), doctest::Contains("room for 93 logits of 7 tokens"), Error);
}

inline constexpr auto over_rows = [] {
  return mean(embedding(weight("table", 13, 8, normal(1)), indices("tokens", Axis::tokens)), Over::rows);
};

/// Of a batch, whose sequences begin behind a token of none, from those of each alone.
template <auto const& net_model>
double worst_of_batch() {
  using S = double;
  Inference<net_model, Cuda<Precision::float64>> net({.seed = 4});
  Inference<net_model, Cpu<double>> exact({.seed = 4});
  test::stir(exact.tensors(), exact.parameters());
  test::stir(net.tensors(), net.parameters());
  TokenBatch batch{.tokens = test::some_tokens(161, 13), .labels = {}, .offsets = {1, 4, 5, 135, 160}};
  batch.tokens.push_back(-1);
  const std::vector<S> found = [&] {
    const auto logits = net.logits(batch);
    return std::vector<S>(logits.begin(), logits.end());
  }();
  const auto wanted = exact.logits(batch);
  std::vector<S> memory(found.size());
  net.logits(batch, memory);
  CHECK(memory == found);
  CHECK_THROWS_WITH_AS(net.logits(batch, std::span(memory).first(1)), doctest::Contains("room for 1 logits"), Error);
  return distance<S>(found, wanted);
}

TEST_CASE("sequences of a batch have the logits of the CPU, evaluated together if their rows do not meet") {
  CHECK(worst_of_batch<logits_of<model>>() < 1e-12);
  CHECK(worst_of_batch<over_rows>() < 1e-12);
  OnDevice<Precision::float32> net;
  CHECK_THROWS_WITH_AS(net.logits(TokenBatch{{1, 2}, {}, {0, 2, 2}}), doctest::Contains("has no token"), Error);
}

TEST_CASE("it refuses sequences that the model does not know, and goes on") {
  OnDevice<Precision::float32> net;
  CHECK_THROWS_WITH_AS(net.logits(test::some_tokens(201, 13)), doctest::Contains("positions end at 200"), Error);
  CHECK_THROWS_WITH_AS(net.logits({}), doctest::Contains("no token"), Error);
  CHECK_THROWS_WITH_AS(net.logits(std::vector<std::int32_t>{-1}), doctest::Contains("token -1"), Error);
  CHECK(net.logits(test::some_tokens(2, 13)).size() == 26);
}

TEST_CASE("without initial values parameters are zeros, and constants what they are with them") {
  test::check_without_initial_values<Inference<logits_of<test::with_bases>, Cuda<Precision::float32>>>();
}

TEST_SUITE_END();
