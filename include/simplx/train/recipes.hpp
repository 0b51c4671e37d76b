// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/recipes.hpp
/// How the papers trained their models: optimiser, decay, clipping, size of a step and learning rate over a run.
///
/// | | optimiser (betas, epsilon, decay) | peak | schedule | clip | tokens of a step |
/// |---|---|---|---|---|---|
/// | code_parrot | AdamW (0.9, 0.999), 1e-8, 0.1 | 1e-3 | 5 % up, line to 1e-7 | 1 | 128 x 128 |
/// | crammed_bert | AdamW (0.9, 0.98), 1e-12, 0.1 | 3e-3 | triangle from 25 %, peak at 75 % | 0.5 | 64 .. 8192 x 128 |
/// | languini | AdamW (0.9, 0.95), 1e-8, 0.1 | 3e-3 | 500 steps up, line to 0 | off | 128 x 512 |
/// | norm_former | (0.9, 0.98), 1e-8, 0.01 of all | by size | 750 steps up, line to 0 | off | 0.5M, 1M |
/// | norm_former_mlm | (0.9, 0.98), 1e-6, 0.01 of all | 6e-4 | 24 000 steps up, line to 0 | off | 1M |
/// | crammed_bert_glue | AdamW (0.9, 0.98), 1e-6, 0 | 1.5e-4 | 10 % up, cosine to 0 | off | 32 sequences |
/// | norm_former_glue | (0.9, 0.98), 1e-6, 0.1 of all | tuned | 6 % up, line to 0 | off | 16 sequences |
///
/// Initial values are those of the models, laws of the first paper, and fairseq's for the decoders of NormFormer.
/// Blocks that learn best at another peak say so below: recipe.with_peak(3e-4).
///
///     Trainer<model> trainer(recipes::norm_former_125m.options({.batch = 8, .seed = 1}));

#include <simplx/train/adamw.hpp>
#include <simplx/train/fairseq.hpp>
#include <simplx/train/schedule.hpp>
#include <simplx/train/trainer_options.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Sequences of a step: grows from `first` to `last` by a line over the first `share` of a run.
struct BatchRamp {
  Index first = 128, last = 128;
  double share = 0;

  Index at(long step, long total) const {
    const double end = share * static_cast<double>(total);
    if (static_cast<double>(step) >= end) return last;
    return first + static_cast<Index>(static_cast<double>(last - first) * static_cast<double>(step) / end);
  }
};

/// How a paper trains a model: optimiser, clipping, sequences and schedule of the learning rate.
struct Recipe {
  AdamW optimiser{};  ///< its learning rate is the peak
  double clip = 1;    ///< 0 is off
  Index context = 128;
  BatchRamp sequences{};
  long warmup = 0;          ///< steps
  double warmup_share = 0;  ///< of all steps, rounded up, if that is more
  double start = 0;         ///< warm-up begins at that share of the peak
  double floor = 0;
  const char* also_decays = "";  ///< parameters that decay although they are gains or biases, as a group's name
  InitialLaws laws = nullptr;    ///< as in TrainerOptions

  /// Of a run of so many steps; of a run in time, give milliseconds for steps.
  LinearSchedule schedule(long total) const {
    const auto share = static_cast<long>(std::ceil(warmup_share * static_cast<double>(total)));
    const double peak = optimiser.learning_rate;
    return {.peak = peak, .warmup = std::max(warmup, share), .total = total, .floor = floor, .start = start * peak};
  }
  /// The same with half a cosine for the way down.
  CosineSchedule cosine_schedule(long total) const {
    const LinearSchedule line = schedule(total);
    return {line.peak, line.warmup, line.total, line.floor, line.start};
  }
  /// What a trainer is told: clipping, groups (in front of yours) and laws (unless you give some), beside sizes and a
  /// seed of your own. Another clipping than the recipe's is set in the result.
  TrainerOptions options(TrainerOptions options = {}) const {
    options.clip = clip;
    if (!options.laws) options.laws = laws;
    const std::vector<ParameterGroup> mine = groups();
    options.groups.insert(options.groups.begin(), mine.begin(), mine.end());
    return options;
  }
  std::vector<ParameterGroup> groups() const {
    if (!*also_decays) return {};
    return {{.name = also_decays, .decays = true, .optional = true}};
  }
  constexpr Recipe with_peak(double learning_rate) const {
    Recipe recipe = *this;
    recipe.optimiser.learning_rate = learning_rate;
    return recipe;
  }
  /// Of a step at the end of the run.
  constexpr Index tokens() const { return sequences.last * context; }
};

namespace recipes {

/// He & Hofmann 2024, App. D.1, and their code. Value-SkipInit: 3e-4, with 72 layers 1e-4; SAS without MLP skip: 1e-4.
inline constexpr Recipe code_parrot{
    .optimiser = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
    .clip = 1,
    .context = 128,
    .sequences = {128, 128},
    .warmup_share = 0.05,
    .floor = 1e-7,
};

/// App. D.2 and the code of Geiping & Goldstein 2023, for a budget of time. The rate is that of SAS and SAS-P; without
/// norms: 2e-3; of the others the paper states none, and the code has 1e-3 for Pre-LN.
inline constexpr Recipe crammed_bert{
    .optimiser = {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-12, .weight_decay = 0.1},
    .clip = 0.5,
    .context = 128,
    .sequences = {64, 8192, 0.6},
    .warmup_share = 0.75,
    .start = 0.25,
    .also_decays = "position.scale",
};

/// App. C, 19 000 steps; betas and clipping of the benchmark's code. Pre-LN and parallel: 1e-3.
inline constexpr Recipe languini{
    .optimiser = {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
    .clip = 0,
    .context = 512,
    .sequences = {128, 128},
    .warmup = 500,
};

/// Fine-tuning a Classifier on the tasks of GLUE for 5 epochs: App. D.2 and the code of Geiping & Goldstein 2023, with
/// cosine_schedule and without decay.
inline constexpr Recipe crammed_bert_glue{
    .optimiser = {.learning_rate = 1.5e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0},
    .clip = 0,
    .context = 128,
    .sequences = {32, 32},
    .warmup_share = 0.1,
};

/// The same for 10 epochs: Shleifer et al. 2021, Sec. 2.2, who try peaks from 1e-5 to 6e-3 for each task, otherwise as
/// Liu et al. 2019, Table 10, where steps are of 16 sequences or of 32.
constexpr Recipe norm_former_glue(double peak) {
  return {
      .optimiser = {.learning_rate = peak, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.1},
      .clip = 0,
      .context = 512,
      .sequences = {16, 16},
      .warmup_share = 0.06,
      .also_decays = "*",
  };
}

/// Shleifer et al. 2021, Sec. 3 and Table 2, and their code, where decay is applied to every parameter. Baselines of
/// 2.7B: 1.6e-4, for with 6e-4 they diverged.
constexpr Recipe norm_former(double peak, Index tokens) {
  return {
      .optimiser = {.learning_rate = peak, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .weight_decay = 0.01},
      .clip = 0,
      .context = 2048,
      .sequences = {tokens / 2048, tokens / 2048},
      .warmup = 750,
      .also_decays = "*",
      .laws = as_in_fairseq,
  };
}
inline constexpr Recipe norm_former_125m = norm_former(3e-3, 1 << 19), norm_former_355m = norm_former(1e-3, 1 << 19),
                        norm_former_1300m = norm_former(6e-4, 1 << 20), norm_former_2700m = norm_former(6e-4, 1 << 20);

/// Its masked model (Sec. 2.2), "hyperparameters used in Liu et al. (2019)": 2 million steps of a million tokens, of
/// which 15 % are predicted (Masking::share).
inline constexpr Recipe norm_former_mlm{
    .optimiser = {.learning_rate = 6e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.01},
    .clip = 0,
    .context = 512,
    .sequences = {2048, 2048},
    .warmup = 24'000,
    .also_decays = "*",
};

/// Its ablations (Table 7): 100 000 steps of 524K tokens in shorter sequences, without dropout.
inline constexpr Recipe norm_former_ablations = [] {
  Recipe recipe = norm_former_125m;
  recipe.context = 1024;
  recipe.sequences = {512, 512};
  recipe.warmup = 500;
  return recipe;
}();

}  // namespace recipes
}  // namespace simplx
