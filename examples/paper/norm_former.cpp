// SPDX-License-Identifier: MIT
//
// The experiments of "NormFormer" (Shleifer et al. 2021) in miniature.
//
// NormFormer is NormFormer with residual scales that keep their ones, and so for the scales of the heads.

#include <simplx/train/recipes.hpp>

#include "quantities.hpp"

namespace paper {

namespace {

using namespace quantity;
using Kind = Drawing::Kind;

/// The recipe of Table 7; its 500 of 100 000 steps of warm-up would be 5 steps here.
Settings ablation(double rate = 3e-3) {
  const simplx::Recipe& recipe = simplx::recipes::norm_former_ablations;
  return {.rate = rate,
          .clip = recipe.clip,
          .weight_decay = recipe.optimiser.weight_decay,
          .beta2 = recipe.optimiser.beta2,
          .epsilon = recipe.optimiser.epsilon,
          .all_decay = true,
          .fairseq_init = true};
}

Settings without_residual_scale(Settings settings) {
  settings.factors["blocks.*.mlp_residual_scale"] = 0;
  return settings;
}
Settings without_head_scale(Settings settings) {
  settings.factors["blocks.*.attention.head_scale"] = 0;
  return settings;
}

Settings ramp() {
  Settings settings = ablation(5e-5);
  settings.steps = 6000, settings.batch = 4;
  settings.schedule = Schedule::ramp;
  return settings;
}

// Arms of several experiments.
const Arm baseline{.name = "baseline", .model = "pre_ln_biased", .settings = ablation()};
const Arm norm_former{
    .name = "NormFormer", .model = "norm_former_resscale", .settings = without_residual_scale(ablation())};
const Arm full{.name = "NormFormer + ResScale", .model = "norm_former_resscale", .settings = ablation()};

// The experiments, each by its name on the command line.

Experiment n_t2() {
  return {
      .name = "n-t2",
      .source = "N",
      .shows = "Table 2 and Figure 2, left",
      .title = "Perplexity of language models",
      .claim =
          "At equal compute NormFormer has a lower perplexity than the baseline, and with residual scales a lower "
          "one still while models are small; its steps take 2 to 6 % longer.",
      .miniature =
          "Equal steps, as one curve by steps and one by time; perplexities of the paper are of 125M models. Its "
          "masked models (Table 3, and Figure 2, right) and WikiText-103 (Table 6) are left out.",
      .arms = {published(baseline, "21.09"), published(norm_former, "20.34"), published(full, "20.11")},
      .published_in = "perplexity",
      .measured = &held_out,
      .expected = {below("NormFormer", "baseline"), below("NormFormer + ResScale", "NormFormer"),
                   below("baseline", "NormFormer", &milliseconds)},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}, {Kind::by_time, "Held-out loss by time"}},
  };
}

Experiment n_t4() {
  return {
      .name = "n-t4",
      .source = "N",
      .shows = "Table 4",
      .title = "What each addition is worth",
      .claim =
          "Without any one of its additions NormFormer with residual scales is worse, least so without the norm "
          "after the attention, most without the scales of the heads; three more norms change nothing.",
      .miniature = "The paper's gaps are below 3 %: one seed of a small model cannot order them.",
      .reading =
          "As small as expected: arms differ by one or two percent, and the norm after the attention is not "
          "missed here.",
      .arms = {published(full, "15.88"),
               {.name = "- post-attention norm",
                .model = "norm_former_resscale_no_post_attention_norm",
                .settings = ablation(),
                .published = "15.92"},
               {.name = "- FFN norm",
                .model = "norm_former_resscale_no_ffn_norm",
                .settings = ablation(),
                .published = "16.14"},
               {.name = "- HeadScale",
                .model = "norm_former_resscale",
                .settings = without_head_scale(ablation()),
                .published = "16.22"},
               {.name = "- ResScale",
                .model = "norm_former_resscale",
                .settings = without_residual_scale(ablation()),
                .published = "16.20"},
               {.name = "+ 3 norms",
                .model = "norm_former_resscale_qkv_norm",
                .settings = ablation(),
                .published = "15.88"},
               published(baseline, "16.37")},
      .published_in = "perplexity",
      .measured = &held_out,
      .expected = {below("NormFormer + ResScale", "- post-attention norm"),
                   below("NormFormer + ResScale", "- FFN norm"), below("NormFormer + ResScale", "- HeadScale"),
                   below("NormFormer + ResScale", "- ResScale"), about("+ 3 norms", "NormFormer + ResScale", 0.005),
                   below("NormFormer + ResScale", "baseline"), below("- HeadScale", "baseline")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment n_t5() {
  struct Setting {
    const char *name, *baseline, *norm_former;
    Settings settings;
  };
  std::vector<Arm> arms;
  for (const Setting& s :
       {Setting{"rate 1e-3", "16.80", "16.33", ablation(1e-3)}, Setting{"rate 3e-3", "16.37", "15.88", ablation()},
        Setting{"rate 6e-3", "16.58", "16.22", ablation(6e-3)},
        Setting{"long warm-up", "16.50", "16.06", ablation().with([](Settings& c) { c.warmup = 0.2; })},
        Setting{"clipped at 0.1", "16.46", "16.14", ablation().with([](Settings& c) { c.clip = 0.1; })}}) {
    arms.push_back({.name = fmt::format("baseline, {}", s.name),
                    .model = "pre_ln_biased",
                    .settings = s.settings,
                    .published = s.baseline});
    arms.push_back({.name = fmt::format("NormFormer, {}", s.name),
                    .model = "norm_former_resscale",
                    .settings = s.settings,
                    .published = s.norm_former});
  }
  return {
      .name = "n-t5",
      .source = "N",
      .shows = "Table 5",
      .title = "Other learning rates, warm-up and clipping",
      .claim = "NormFormer is better than the baseline in every setting that was tried.",
      .miniature =
          "The longer warm-up has a fifth of the steps; the setting of GPT-3 (longer sequences, dropout) is "
          "left out.",
      .reading = "At the highest rate, at which both are best, the baseline is a percent ahead.",
      .arms = std::move(arms),
      .published_in = "perplexity",
      .measured = &held_out,
      .expected = {below("NormFormer, rate 1e-3", "baseline, rate 1e-3"),
                   below("NormFormer, rate 3e-3", "baseline, rate 3e-3"),
                   below("NormFormer, rate 6e-3", "baseline, rate 6e-3"),
                   below("NormFormer, long warm-up", "baseline, long warm-up"),
                   below("NormFormer, clipped at 0.1", "baseline, clipped at 0.1")},
  };
}

Experiment n_f3() {
  return {
      .name = "n-f3",
      .source = "N",
      .shows = "Figure 3",
      .title = "Gradients by depth, early in training",
      .claim =
          "Gradients of the MLP's second matrix are much larger in late layers of Post-LN and in early layers of "
          "Pre-LN; NormFormer brings them closer together.",
      .miniature =
          "The mean absolute gradient after a fifth of the steps. In networks this narrow Post-LN is nearly "
          "level, so that its part need not show.",
      .reading =
          "Six layers spread the baseline's gradients by a factor of three, and after a fifth of the steps "
          "there is little for NormFormer to bring together; longer stacks were not run.",
      .arms = {{.name = "Post-LN", .model = "post_ln", .settings = ablation()}, baseline, norm_former},
      .measured = &first_to_last_gradient,
      .expected = {below_number("Post-LN", first_to_last_gradient, 1),
                   above_number("baseline", first_to_last_gradient, 1), below("NormFormer", "baseline")},
      .drawings = {{Kind::profile, "At the start", "gradient.mlp.down.weight", "", 0},
                   {Kind::profile, "After a fifth of the steps", "gradient.mlp.down.weight", "", 0.2}},
  };
}

Experiment n_f4() {
  return {
      .name = "n-f4",
      .source = "N",
      .shows = "Figures 4 and 6",
      .title = "What the scales learn",
      .claim =
          "Gains of the FFN norm are smaller in early layers, those of the norm after the attention below 1 in "
          "all, scales of the heads have no trend, and residual scales of small models are smaller in late layers.",
      .reading =
          "Gains have moved by some percent from 1 within these steps, down in most layers, so that the "
          "largest of them says little.",
      .arms = {full, norm_former},
      .measured = &held_out,
      .expected = {above_number("NormFormer", ffn_norm_depth, 0), below_number("NormFormer", largest_attention_norm, 1),
                   below_number("NormFormer + ResScale", residual_scale_depth, 0)},
      .drawings = {{Kind::profile, "Gain of the FFN norm", "mlp.norm.gain"},
                   {Kind::profile, "Gain of the norm after the attention", "attention.norm.gain"},
                   {Kind::profile, "Scales of the heads", "attention.head_scale"},
                   {Kind::profile, "Residual scale: Figure 6", "mlp_residual_scale"}},
  };
}

Experiment n_f5() {
  return {
      .name = "n-f5",
      .source = "N",
      .shows = "Figure 5",
      .title = "How far the learning rate can rise",
      .claim =
          "While the learning rate rises by 5e-5 at every step, NormFormer survives to higher rates than the "
          "baseline; residual scales reduce that.",
      .miniature =
          "Small batches, and float where the paper's baseline overflows in half precision: the loss has "
          "exploded when the mean of ten steps is a nat above the lowest such mean, and what survives all "
          "steps counts with its last rate. The paper's points are medians of 3 runs, so ask for --seeds 3.",
      .reading =
          "With and without residual scales the loss explodes at the same step: what is reduced in the paper "
          "does not show.",
      .arms = {{.name = "baseline", .model = "pre_ln_biased", .settings = ramp()},
               {.name = "NormFormer", .model = "norm_former_resscale", .settings = without_residual_scale(ramp())},
               {.name = "NormFormer + ResScale", .model = "norm_former_resscale", .settings = ramp()}},
      .measured = &explodes_at,
      .expected = {below("baseline", "NormFormer"), below("NormFormer + ResScale", "NormFormer")},
  };
}

Experiment n_f7() {
  return {
      .name = "n-f7",
      .source = "N",
      .shows = "Figure 7",
      .title = "Gradients of NormFormer beside the baseline's",
      .claim =
          "The norms of NormFormer lower the gradients of the attention in every layer, and raise those of late "
          "MLPs.",
      .miniature = "Mean absolute gradients halfway through the run.",
      .arms = {baseline, norm_former},
      .measured = &attention_gradient,
      .expected = {below("NormFormer", "baseline"), below("baseline", "NormFormer", &late_ffn_gradient)},
      .drawings = {{Kind::profile, "Query", "gradient.attention.query.weight", "", 0.5},
                   {Kind::profile, "Value", "gradient.attention.value.weight", "", 0.5},
                   {Kind::profile, "Projection", "gradient.attention.projection.weight", "", 0.5},
                   {Kind::profile, "MLP, second matrix", "gradient.mlp.down.weight", "", 0.5}},
  };
}

}  // namespace

std::vector<Experiment> norm_former_experiments() { return {n_t2(), n_t4(), n_t5(), n_f3(), n_f4(), n_f5(), n_f7()}; }

}  // namespace paper
