// SPDX-License-Identifier: MIT
#include <simplx/models/within.hpp>

#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

constexpr Rows rows = tokens{24};
inline constexpr Decoder whole{
    .block = v_skip_init, .vocab = 32, .width = 32, .heads = 2, .layers = 5, .context = 24, .dropout = 0.1,
    .attention_dropout = 0.2};
inline constexpr Encoder encoder{.block = pre_ln, .vocab = 32, .width = 32, .heads = 2, .layers = 3, .context = 24};

template <auto const& model>
constexpr Index bytes = arena_bytes_on<model, Cpu<float>>(rows);

constexpr Index least = bytes<with_recomputed<whole, 5>>;
static_assert(least < bytes<with_recomputed<whole, 3>> && bytes<with_recomputed<whole, 3>> < bytes<whole>);

inline constexpr auto& half = within<whole, (bytes<whole> + least) / 2, rows>;
static_assert(half.recomputed > 1 && half.recomputed < 5);
static_assert(bytes<half> <= (bytes<whole> + least) / 2);
static_assert(bytes<with_recomputed<whole, half.recomputed - 1>> > (bytes<whole> + least) / 2);  // no more than needed

static_assert(within<whole, bytes<whole>, rows>.recomputed == 0);
static_assert(within<whole, least, rows>.recomputed == 5);
static_assert(within<whole, bytes<with_recomputed<whole, 3>>, rows>.recomputed == 3);
static_assert(within<encoder, bytes<encoder> - 1, rows>.recomputed > 0);
static_assert(parameters<half> == parameters<whole>);
static_assert(has_parameter<half>("blocks.0.attention.query.weight") &&
              has_parameter<half>("blocks.4.attention.query.weight"));

TokenBatch some_batch() {
  TokenBatch batch;
  batch.offsets = {0, 24, 29};
  for (int i = 0; i < 29; ++i) batch.tokens.push_back(7 * i % 32), batch.labels.push_back((5 * i + 1) % 32);
  return batch;
}

template <auto const& model>
std::vector<float> after_three_steps() {
  Trainer<model> trainer({.batch = 2, .seed = 3, .threads = 2});
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(), AdamW{.learning_rate = 1e-2});
  return {trainer.parameters().begin(), trainer.parameters().end()};
}

}  // namespace

TEST_SUITE_BEGIN("models/within");

TEST_CASE("a model within fewer bytes trains as the whole one, bit for bit") {
  const auto expected = after_three_steps<whole>();
  CHECK(after_three_steps<half>() == expected);
  CHECK(after_three_steps<with_recomputed<whole, 5>>() == expected);
}

TEST_SUITE_END();
