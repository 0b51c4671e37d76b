// SPDX-License-Identifier: MIT
#include <simplx/train/groups.hpp>

#include "support.hpp"

#include <simplx/train/trainer.hpp>

using namespace simplx;

namespace {

inline constexpr Decoder model{
    .block = sas_p, .vocab = 32, .width = 16, .heads = 2, .hidden = 32, .layers = 2, .context = 8};
using DoubleTrainer = Trainer<model, Cpu<double>>;

TokenBatch some_batch(int seed, bool labelled = true) {
  TokenBatch batch;
  batch.offsets = {0, 8, 13, 21};
  for (std::size_t i = 0; i < 21; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(seed), i) % 32));
    batch.labels.push_back(labelled && i % 5 != 3 ? (batch.tokens.back() * 5 + 3) % 32 : ignored_label);
  }
  return batch;
}

const std::vector<ParameterGroup> some_groups{
    {.name = "*", .weight_decay = 0.3},
    {.name = "*.mlp.*", .learning_rate_factor = 0.5, .epsilon = 1e-5, .momentum = 0.2},
    {.name = "*.mlp.up.weight", .learning_rate_factor = 2, .weight_decay = 0},
    {.name = "*.attention.key.weight", .learning_rate_factor = 0},
    {.name = "*.mlp.*", .epsilon = 1e-2},  // and nothing else of what was said before
};

std::vector<double> copy_of(DoubleTrainer& trainer) {
  return {trainer.parameters().begin(), trainer.parameters().end()};
}

}  // namespace

TEST_SUITE_BEGIN("train/groups");

TEST_CASE("runs cover the buffers in order; neighbours of equal settings are one") {
  const TensorList tensors = tensors_of<model>();
  for (const auto& groups : {std::vector<ParameterGroup>{}, some_groups}) {
    const auto runs = settings_runs(tensors.parameters, groups);
    CHECK(runs.size() < tensors.parameters.size());
    CHECK(runs.front().begin == 0);
    CHECK(runs.back().end == GraphOf<model>::layout.parameters);
    for (std::size_t i = 1; i < runs.size(); ++i) {
      CHECK(runs[i].begin == runs[i - 1].end);
      CHECK(!(runs[i].settings == runs[i - 1].settings));
    }
  }
  CHECK(settings_runs(tensors.parameters, {{.name = "*", .weight_decay = 0.1}}).size() >
        1);  // still told apart by `decays`
}

TEST_CASE("later groups win, field by field") {
  for (const SettingsRun& run : settings_runs(tensors_of<model>().parameters, some_groups)) {
    for (const TensorInfo& tensor : tensors_of<model>().parameters) {
      if (tensor.offset < run.begin || tensor.offset >= run.end) continue;
      CAPTURE(tensor.name);
      const bool up = tensor.name.ends_with("mlp.up.weight"), mlp = tensor.name.find(".mlp.") != std::string::npos;
      CHECK(run.settings.frozen() == tensor.name.ends_with("key.weight"));
      if (!run.settings.frozen()) CHECK(run.settings.learning_rate_factor == (up ? 2 : mlp ? 0.5 : 1));
      CHECK(run.settings.weight_decay == (up ? 0 : 0.3));
      CHECK(run.settings.epsilon.has_value() == mlp);
      CHECK(run.settings.momentum.has_value() == mlp);
      CHECK(run.settings.decays == tensor.decays);
    }
  }
}

TEST_CASE("each_run visits a range once, in parts that lie in one run") {
  const std::vector<SettingsRun> runs{{0, 16, {}}, {16, 48, {.decays = false}}, {48, 64, {.momentum = 0.5}}};
  for (Index begin = 0; begin < 64; begin += 4) {
    for (Index end = begin + 4; end <= 64; end += 4) {
      Index at = begin;
      each_run(runs, begin, end, [&](Index from, Index to, const ParameterSettings& settings) {
        CHECK(from == at);
        CHECK(to > from);
        CHECK(settings == runs[from < 16 ? 0 : from < 48 ? 1 : 2].settings);
        at = to;
      });
      REQUIRE(at == end);
    }
  }
}

TEST_CASE("a pattern that matches nothing is refused with the nearest names, and so are numbers that make no sense") {
  CHECK_THROWS_WITH_AS(
      DoubleTrainer({.groups = {{.name = "*.attention.qery.weight"}}}),
      doctest::Contains("no parameter matches the group '*.attention.qery.weight'\n  hint: the nearest names "
                        "are blocks.0.attention.query.weight, "),
      Error);
  CHECK_NOTHROW(DoubleTrainer({.groups = {{.name = "*.attention.qery.weight", .optional = true}}}));
  const auto refused = [](const ParameterGroup& group, const char* words) {
    CHECK_THROWS_WITH_AS(DoubleTrainer({.groups = {group}}), doctest::Contains(words), Error);
  };
  refused({.learning_rate_factor = -1.0}, "learning_rate_factor of the parameter group '*' is -1");
  refused({.learning_rate_factor = INFINITY}, "is inf");
  refused({.weight_decay = -0.1}, "weight_decay");
  refused({.epsilon = 0.0}, "epsilon");
  refused({.momentum = std::nan("")}, "momentum");
  refused({.momentum = 1.0}, "must be a number from 0 on, below 1");
}

TEST_CASE("an update is the plain loop over tensors with the numbers of their groups, after clipping") {
  for (const bool adam : {true, false}) {
    DoubleTrainer trainer({.batch = 3, .threads = 2, .clip = 0.05, .groups = some_groups});
    std::vector<double> p = copy_of(trainer), g(p.size()), m(p.size()), v(p.size());
    for (long step = 1; step <= 4; ++step) {
      const double rate = 0.02 / static_cast<double>(step);
      trainer.loss_and_gradient(some_batch(static_cast<int>(step)), g);
      double squared = 0;
      for (const TensorInfo& tensor : trainer.tensors().parameters) {
        if (tensor.name.ends_with("key.weight")) continue;
        for (auto i = static_cast<std::size_t>(tensor.offset);
             i < static_cast<std::size_t>(tensor.offset + tensor.size()); ++i) {
          squared += g[i] * g[i];
        }
      }
      const double scale = std::min(1.0, 0.05 / (std::sqrt(squared) + 1e-6));
      REQUIRE(scale < 1);
      for (const TensorInfo& tensor : trainer.tensors().parameters) {
        if (tensor.name.ends_with("key.weight")) continue;
        const bool up = tensor.name.ends_with("mlp.up.weight"), mlp = tensor.name.find(".mlp.") != std::string::npos;
        const double lr = rate * (up ? 2 : mlp ? 0.5 : 1), decay = up ? 0 : 0.3, momentum = mlp ? 0.2 : 0.9;
        for (auto i = static_cast<std::size_t>(tensor.offset);
             i < static_cast<std::size_t>(tensor.offset + tensor.size()); ++i) {
          if (adam) {
            m[i] = 0.9 * m[i] + 0.1 * scale * g[i];
            v[i] = 0.999 * v[i] + 0.001 * scale * scale * g[i] * g[i];
            const double root = std::sqrt(v[i] / (1 - std::pow(0.999, step))), mean = m[i] / (1 - std::pow(0.9, step));
            p[i] = p[i] * (1 - lr * decay) - lr * mean / (root + (mlp ? 1e-2 : 1e-3));
          } else {
            m[i] = momentum * m[i] + scale * g[i] + decay * p[i];
            p[i] -= lr * m[i];
          }
        }
      }
      const StepResult result =
          adam ? trainer.step(some_batch(static_cast<int>(step)), AdamW{.learning_rate = rate, .epsilon = 1e-3})
               : trainer.step(some_batch(static_cast<int>(step)), Sgd{.learning_rate = rate, .momentum = 0.9});
      CHECK(result.gradient_norm == doctest::Approx(std::sqrt(squared)).epsilon(1e-12));
      for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(std::abs(trainer.parameters()[i] - p[i]) < 1e-13);
    }
  }
}

TEST_CASE("what is frozen keeps its bits, and its gradient is no part of the norm") {
  DoubleTrainer trainer({.batch = 3, .groups = {{.name = "embedding.*", .learning_rate_factor = 0}}});
  DoubleTrainer free({.batch = 3});
  auto table = trainer.parameter("embedding.weight");
  table[3] = -0.0;
  const std::vector<double> before(table.begin(), table.end());
  const StepResult frozen = trainer.step(some_batch(1), AdamW{.learning_rate = 0.1, .epsilon = 1e-300});
  CHECK(std::memcmp(before.data(), table.data(), before.size() * sizeof(double)) == 0);
  CHECK(frozen.gradient_norm < free.step(some_batch(1), {}).gradient_norm);
}

TEST_CASE(
    "weight decay alone: with zero gradients exactly what decays shrinks by 1 - lr wd, everything else keeps its "
    "bits") {
  const TokenBatch nothing = some_batch(1, false);
  const auto check = [&](const std::vector<ParameterGroup>& groups, auto optimiser, auto decay_of) {
    DoubleTrainer trainer({.batch = 3, .groups = groups});
    const std::vector<double> before = copy_of(trainer);
    trainer.step(nothing, optimiser);
    for (const TensorInfo& tensor : trainer.tensors().parameters) {
      CAPTURE(tensor.name);
      const double decay = decay_of(tensor.name);
      for (auto i = static_cast<std::size_t>(tensor.offset);
           i < static_cast<std::size_t>(tensor.offset + tensor.size()); ++i) {
        const double expected = std::is_same_v<decltype(optimiser), AdamW> ? before[i] * (1 - 0.01 * decay)
                                                                           : before[i] - 0.01 * (decay * before[i]);
        REQUIRE(std::abs(trainer.parameters()[i] - expected) <= (decay ? 1e-16 * std::abs(before[i]) : 0));
      }
    }
  };
  const auto paper = [](const std::string& name) {  // [He & Hofmann's code]: embeddings and matrices
    for (const char* decays :
         {"embedding.weight", "query.weight", "key.weight", "value.delta", "up.weight", "down.weight"}) {
      if (name.ends_with(decays)) return 0.1;
    }
    return 0.0;
  };
  check({}, AdamW{.learning_rate = 0.01, .weight_decay = 0.1}, paper);
  check({}, Sgd{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1}, paper);
  check({{.weight_decay = 0.2}}, AdamW{.learning_rate = 0.01},
        [](const std::string&) { return 0.2; });  // as fairseq does
  check({{.name = "*", .decays = true}, {.name = "*.gain", .decays = false}, {.name = "embedding.*", .weight_decay = 0.3}},
        AdamW{.learning_rate = 0.01, .weight_decay = 0.1}, [&](const std::string& name) {
          return name.ends_with(".gain") ? 0.0 : name == "embedding.weight" ? 0.3 : 0.1;
        });
  check({{.name = "*.gain", .weight_decay = 0.4}, {.name = "embedding.*", .weight_decay = 0}},
        AdamW{.learning_rate = 0.01, .weight_decay = 0.1}, [&](const std::string& name) {
          return name.ends_with(".gain") ? 0.4 : name == "embedding.weight" ? 0.0 : paper(name);
        });
}

TEST_CASE("what a group makes of an optimiser must be numbers of the parameters' type") {
  const std::vector<TensorInfo> tensors = tensors_of<model>().parameters;
  const auto check = [&](const ParameterGroup& group) { check_optimiser<float>(AdamW{}, settings_runs(tensors, {group})); };
  CHECK_NOTHROW(check({.name = "*", .epsilon = 1e-6}));
  CHECK_THROWS_WITH_AS(check({.name = "*", .epsilon = 1e-60}), doctest::Contains("AdamW's epsilon is 1e-60"), Error);
  CHECK_THROWS_WITH_AS(check({.name = "*", .learning_rate_factor = 1e300}), doctest::Contains("AdamW's learning_rate"),
                       Error);
}

TEST_SUITE_END();
