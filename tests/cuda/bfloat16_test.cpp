// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/bfloat16.cuh>

#include <simplx/cuda/trainer.cuh>

#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

namespace {

constexpr Decoder decoder{
    .block = sas_p, .vocab = 11, .width = 16, .heads = 2, .layers = 2, .context = 9, .positions = Positions::learned};

}  // namespace

TEST_SUITE_BEGIN("cuda/bfloat16");

TEST_CASE("a model: products and attention are rounded, and every gradient is near that of the CPU") {
  const std::vector<Index> lengths{4, 9, 2};
  constexpr auto stirred = test::Parameters::stirred;
  const auto on_cpu = test::expected<decoder>(15, lengths, {}, stirred);
  const auto rounded =
      test::same_bits([&] { return test::all_of<decoder, Cuda<Precision::bfloat16>>(15, lengths, {}, stirred); });
  test::check_close(rounded, on_cpu, 0.03);
  CHECK(test::farthest(rounded, on_cpu) > 1e-4);  // it was rounded
}

#if !defined(__CUDACC__)  // bench/gpu/check.cu has it
TEST_CASE("a training: losses fall as those of the CPU, and its state goes on in float") {
  TokenBatch batch;
  for (int i = 0; i < 18; ++i) {
    batch.tokens.push_back(i % 9);
    batch.labels.push_back((i % 9 * 5 + 3) % 11);
  }
  batch.offsets = {0, 9, 18};
  const TrainerOptions options{.batch = 2, .seed = 3};
  Trainer<decoder, Cuda<Precision::bfloat16>> rounded(options);
  Trainer<decoder, Cpu<double>> exact(options);
  const AdamW adamw{.learning_rate = 1e-2};
  double first = 0, mine = 0, its = 0;
  for (int step = 0; step < 12; ++step) {
    mine = rounded.step(batch, adamw).loss, its = exact.step(batch, adamw).loss;
    CHECK(std::abs(mine - its) < 0.02);
    if (step == 0) first = mine;
  }
  CHECK(mine < first - 0.5);
  Trainer<decoder, Cpu<float>> goes_on(options);
  goes_on.restore(rounded.state());
  CHECK(std::abs(goes_on.step(batch, adamw).loss - exact.step(batch, adamw).loss) < 0.02);
}
#endif

TEST_SUITE_END();
