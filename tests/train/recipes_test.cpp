// SPDX-License-Identifier: MIT
#include <simplx/train/recipes.hpp>

#include <simplx/models/encoder.hpp>
#include <simplx/train/batches.hpp>
#include <simplx/train/masking.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
/// A masked model of bytes; token 256 stands where one is hidden.
inline constexpr Encoder masked_model{
    .block = bert_sas_p, .vocab = 257, .width = 32, .heads = 2, .hidden = 64, .layers = 2, .context = 32};
}  // namespace

static_assert(recipes::code_parrot.tokens() == 16'384 && recipes::languini.tokens() == 65'536);
static_assert(recipes::norm_former_125m.tokens() == 524'288 && recipes::norm_former_2700m.tokens() == 1'048'576);
static_assert(recipes::norm_former_ablations.tokens() == 524'288);
static_assert(recipes::norm_former_mlm.tokens() == 1'048'576);

TEST_SUITE_BEGIN("train/recipes");

TEST_CASE("CodeParrot: up over 5 % of the steps, rounded up, down to 1e-7") {
  const LinearSchedule s = recipes::code_parrot.schedule(41'001);
  CHECK(s.warmup == 2051);
  CHECK(s.at(2050) == 1e-3);
  CHECK(s.at(0) == doctest::Approx(1e-3 / 2051));
  CHECK(s.at(41'001) == doctest::Approx(1e-7));
  CHECK(recipes::code_parrot.groups().empty());
  CHECK(recipes::code_parrot.sequences.at(0, 100) == 128);
}

TEST_CASE("crammed BERT: a triangle from a quarter of the peak at 75 %, and batches that grow to 60 %") {
  const Recipe recipe = recipes::crammed_bert.with_peak(2e-3);
  const LinearSchedule s = recipe.schedule(1000);
  CHECK(s.start == doctest::Approx(0.5e-3));
  CHECK(s.at(0) == doctest::Approx(0.5e-3 + 1.5e-3 / 750));
  CHECK(s.at(749) == doctest::Approx(2e-3));
  CHECK(s.at(750) == doctest::Approx(2e-3));
  CHECK(s.at(875) == doctest::Approx(1e-3));
  CHECK(s.at(1000) == 0);
  CHECK(recipe.sequences.at(0, 1000) == 64);
  CHECK(recipe.sequences.at(300, 1000) == 64 + (8192 - 64) / 2);
  CHECK(recipe.sequences.at(599, 1000) < 8192);
  CHECK(recipe.sequences.at(600, 1000) == 8192);
  CHECK(recipe.sequences.at(999, 1000) == 8192);
  CHECK(recipe.groups().at(0).optional);  // an encoder may have ALiBi in place of scaled sinusoids
}

TEST_CASE("NormFormer's decoders begin as in fairseq and decay everything; their groups stand in front of yours") {
  CHECK((recipes::norm_former_125m.laws == as_in_fairseq));
  CHECK((recipes::norm_former_ablations.laws == as_in_fairseq));
  CHECK((recipes::code_parrot.laws == nullptr));
  CHECK((recipes::norm_former_mlm.laws == nullptr));
  CHECK(recipes::norm_former_mlm.schedule(2'000'000).at(23'999) == 6e-4);
  CHECK((recipes::norm_former_glue(1e-4).laws == nullptr));  // the values of a checkpoint
  const TrainerOptions options = recipes::norm_former_125m.options(
      {.batch = 3, .seed = 7, .groups = {{.name = "embedding.*", .weight_decay = 0.0}}});
  CHECK(options.batch == 3);
  CHECK(options.seed == 7);
  CHECK(options.clip == 0);
  CHECK((options.laws == as_in_fairseq));
  REQUIRE(options.groups.size() == 2);
  CHECK(options.groups[0].name == "*");
  CHECK(options.groups[0].decays == true);
  CHECK(options.groups[1].name == "embedding.*");
  CHECK(recipes::crammed_bert.options().clip == 0.5);
  CHECK((recipes::crammed_bert.options({.laws = as_in_fairseq}).laws == as_in_fairseq));
}

TEST_CASE("GLUE: up over a tenth of the steps and down a cosine, or 6 % and a line") {
  const CosineSchedule s = recipes::crammed_bert_glue.cosine_schedule(1000);
  CHECK(s.at(0) == doctest::Approx(1.5e-6));
  CHECK(s.at(99) == 1.5e-4);
  CHECK(s.at(550) == doctest::Approx(0.75e-4));  // half way down
  CHECK(s.at(325) > 1.25e-4);                     // flat at first: a line would be at 1.125e-4
  CHECK(s.at(1000) == doctest::Approx(0));
  CHECK(recipes::crammed_bert_glue.optimiser.weight_decay == 0);
  CHECK(recipes::crammed_bert_glue.tokens() == 32 * 128);
  const Recipe recipe = recipes::norm_former_glue(3e-5);
  CHECK(recipe.schedule(1000).at(59) == 3e-5);
  CHECK(recipe.schedule(1000).at(530) == doctest::Approx(1.5e-5));
  CHECK(recipe.optimiser.weight_decay == 0.1);
  CHECK(recipe.clip == 0);
}

TEST_CASE("what decays: matrices and tables; with the encoder the factor of positions, with NormFormer everything") {
  const std::vector<TensorInfo> tensors{
      {.name = "embedding.weight", .shape = fixed_shape(4, 4), .offset = 0, .init = {}, .decays = true},
      {.name = "position.scale", .shape = fixed_shape(1, 1), .rank = 0, .offset = 16, .init = {}},
      {.name = "final_norm.gain", .shape = fixed_shape(1, 4), .rank = 1, .offset = 32, .init = {}}};
  const auto decay = [&](const Recipe& recipe) {
    std::vector<double> decays;
    for (const TensorInfo& tensor : tensors) {
      const ParameterSettings settings = detail::settings_of(tensor, recipe.groups());
      decays.push_back(settings.weight_decay_or(recipe.optimiser.weight_decay));
    }
    return decays;
  };
  CHECK(decay(recipes::code_parrot) == std::vector{0.1, 0.0, 0.0});
  CHECK(decay(recipes::crammed_bert) == std::vector{0.1, 0.1, 0.0});
  CHECK(decay(recipes::norm_former_355m) == std::vector{0.01, 0.01, 0.01});
  CHECK(decay(recipes::norm_former_mlm) == std::vector{0.01, 0.01, 0.01});
  Recipe other = recipes::norm_former_355m;
  other.optimiser.weight_decay = 0.5;  // or that of the optimiser that a step is given
  CHECK(settings_runs(tensors, recipes::norm_former_355m.groups()).size() == 1);
  CHECK(decay(other) == std::vector{0.5, 0.5, 0.5});
  CHECK(AdamW{.weight_decay = 0}.with(detail::settings_of(tensors[2], other.groups())).weight_decay == 0);
}

TEST_CASE("a masked model learns by a recipe, in its batches and rates") {
  Corpus corpus;
  for (int i = 0; i < 4096; ++i) corpus.bytes.push_back(static_cast<std::uint8_t>('a' + i % 7));
  corpus.training = {{"letters", 0, 4096}};
  constexpr long total = 40;
  double loss = 0;

  const Recipe recipe = recipes::crammed_bert.with_peak(1e-2);
  Trainer<masked_model> trainer(recipe.options({.batch = 8, .seed = 1}));  // its clip and groups
  Batches batches(corpus, corpus.training, {.context = 32, .sequences = 8, .seed = 1});
  TokenBatch batch = make_batch(8, 32);
  for (long step = 0; step < total; ++step) {
    const Index first = batches.position();
    batches.next(batch);
    mask_tokens(batch, {.share = 0.25, .mask_token = 256, .words = 256}, first);
    AdamW optimiser = recipe.optimiser;
    optimiser.learning_rate = recipe.schedule(total).at(step);
    loss = trainer.step(batch, optimiser).loss;
  }

  CHECK(loss < 4);  // log 257 at first
}

TEST_SUITE_END();
