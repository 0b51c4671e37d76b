// SPDX-License-Identifier: MIT
//
// The experiments of "Simplifying Transformer Blocks" (He & Hofmann 2024) in miniature.
//
// One compiled model serves several of its figures: what a paper fixes is a parameter that keeps its first value
// (`factors` of 0). Eq. (4) is Eq. (5) without gamma, W0 = I is an orthogonal base overwritten, and a value matrix
// whose D keeps its zeros is the identity.

#include <fmt/format.h>

#include <simplx/train/recipes.hpp>

#include "quantities.hpp"

namespace paper {

namespace {

using namespace quantity;
using Kind = Drawing::Kind;

/// Models a tenth as wide bear more than the paper's 1e-3: Pre-LN is as good at 3e-3, SAS is not.
constexpr double usual_rate = 6e-3;
/// beta_FF = 0.1 at 18 layers and O(1 / sqrt(L)): the same for 6.
constexpr double mlp_gain = 0.1732;
const std::vector<double> tried{1e-3, 6e-3};

Settings settings_of(const simplx::Recipe& recipe, double rate) {
  return {.rate = rate,
          .warmup = recipe.warmup_share,
          .warmup_start = recipe.start,
          .clip = recipe.clip,
          .weight_decay = recipe.optimiser.weight_decay,
          .beta2 = recipe.optimiser.beta2,
          .epsilon = recipe.optimiser.epsilon};
}

/// The recipe of App. D.1.
Settings usual(double rate = usual_rate) { return settings_of(simplx::recipes::code_parrot, rate); }

/// The same for blocks without attention skips, with beta_FF at its first value.
Settings skipless(double first_mlp_gain = mlp_gain) {
  Settings settings = usual();
  settings.initial["blocks.*.mlp_gain"] = first_mlp_gain;
  return settings;
}

/// V and P of Eq. (6) around `base`, with alpha = 1 and beta as it is given for all of the run.
Settings fixed_ratio(double beta, Base base) {
  Settings settings = skipless();
  settings.base = base;
  for (const char* module : {"value", "projection"}) {
    const std::string name = fmt::format("blocks.*.attention.{}.", module);
    settings.initial[name + "beta"] = beta;
    settings.factors[name + "alpha"] = settings.factors[name + "beta"] = 0;
    if (beta == 0) settings.factors[name + "delta"] = 0;  // D has no gradient
  }
  return settings;
}

/// The same with a beta of one, where the rate of D is scaled instead: App. A.
Settings slower_projections(double factor, Base base) {
  Settings settings = fixed_ratio(1, base);
  if (factor != 1) settings.factors["blocks.*.delta"] = factor;
  return settings;
}

/// Eq. (4): alpha = 1, beta = 0 and no centring.
Settings without_centring() {
  Settings settings = skipless();
  settings.initial["blocks.*.attention.beta"] = settings.initial["blocks.*.attention.gamma"] = 0;
  settings.factors["blocks.*.attention.gamma"] = 0;
  return settings;
}

/// SAS with V = x in the first layer too.
Settings identity_first_value() {
  Settings settings = skipless();
  settings.factors["blocks.0.attention.value.*"] = 0;
  return settings;
}

/// V = P = I in a block with Eq. (6).
Settings identity_projections() {
  Settings settings = usual();
  for (const char* module : {"value", "projection"}) {
    const std::string name = fmt::format("blocks.*.attention.{}.", module);
    settings.factors[name + "alpha"] = settings.factors[name + "beta"] = settings.factors[name + "delta"] = 0;
  }
  return settings;
}

Settings longer(Settings settings) {
  settings.steps *= 3;
  return settings;
}

Settings cosine(Settings settings) {
  settings.schedule = Schedule::cosine;
  return settings;
}

/// The recipe of App. D.2, with beta_FF as above.
Settings masked(double rate = usual_rate) { return settings_of(simplx::recipes::crammed_bert, rate); }
Settings masked_skipless(double rate = usual_rate) {
  Settings settings = masked(rate);
  settings.initial["blocks.*.mlp_gain"] = 0.0816;  // 0.05 at 16 layers
  return settings;
}

/// The recipe of App. C, with as many tokens in a step as elsewhere.
Settings languini(double rate) {
  Settings settings = settings_of(simplx::recipes::languini, rate);
  settings.batch = 4, settings.warmup = 0.05;
  return settings;
}
Settings languini_skipless() {
  Settings settings = languini(usual_rate);
  settings.initial["blocks.*.mlp_gain"] = 0.1414;  // 0.1 at 12 layers
  return settings;
}

Settings timed(Settings settings) {
  settings.turns = 30;
  return settings;
}

const std::vector<Drawing> both_curves{{Kind::by_step, "Held-out loss by steps"},
                                       {Kind::by_time, "Held-out loss by time"}};

std::vector<Arm> gain_sweep() {
  std::vector<Arm> arms;
  for (const auto& [line, base] : {std::pair{"identity", Base::identity}, std::pair{"orthogonal", Base::own}}) {
    for (const double beta : {0.0, 0.05, 0.1, 0.2, 0.5, 1.0}) {
      arms.push_back({.name = fmt::format("{}, beta {}", line, beta),
                      .model = "shaped_reparam_trainable",
                      .settings = fixed_ratio(beta, base),
                      .line = line,
                      .x = beta});
    }
  }
  arms.push_back({.name = "Pre-LN", .model = "pre_ln", .settings = usual()});
  return arms;
}

std::vector<Arm> rate_sweep() {
  std::vector<Arm> arms;
  for (const auto& [line, base] : {std::pair{"identity", Base::identity}, std::pair{"orthogonal", Base::own}}) {
    for (const double factor : {0.1, 0.3, 1.0}) {
      arms.push_back({.name = fmt::format("{}, rate times {}", line, factor),
                      .model = "shaped_reparam_trainable",
                      .settings = slower_projections(factor, base),
                      .line = line,
                      .x = factor});
    }
  }
  return arms;
}

std::vector<Arm> mlp_gain_sweep() {
  std::vector<Arm> arms;
  for (const char* model : {"sas", "sas_p"}) {
    for (const double gain : {0.02, 0.05, 0.1, mlp_gain, 0.5, 1.0}) {
      arms.push_back({.name = fmt::format("{}, beta_FF {:.2g}", model, gain),
                      .model = model,
                      .settings = skipless(gain),
                      .line = model,
                      .x = gain});
    }
  }
  return arms;
}

// Arms of several experiments.
const Arm pre_ln{.name = "Pre-LN", .model = "pre_ln", .settings = usual()};
const Arm sas{.name = "SAS", .model = "sas", .settings = skipless()};
const Arm sas_p{.name = "SAS-P", .model = "sas_p", .settings = skipless()};
const Arm reparameterised{.name = "around the identity",
                          .model = "shaped_reparam_trainable",
                          .settings = skipless().with([](Settings& s) { s.base = Base::identity; })};

// The experiments, each by its name on the command line.

Experiment s_f2() {
  return {
      .name = "s-f2",
      .source = "S",
      .shows = "Figure 2",
      .title = "Without the attention skip training is slow",
      .claim =
          "A block without the attention skip, although its signal propagation at the start is good (V-SkipInit "
          "with shaped attention), trains clearly more slowly than Pre-LN; training and held-out loss agree.",
      .miniature = "Each of the two has the better of the learning rates 1e-3 and 6e-3.",
      .arms = {{.name = "Pre-LN", .model = "pre_ln", .settings = usual(), .rates = tried},
               {.name = "V-SkipInit", .model = "v_skip_init_shaped", .settings = skipless(), .rates = tried}},
      .measured = &held_out,
      .expected = {below("Pre-LN", "V-SkipInit")},
      .drawings = both_curves,
  };
}

Experiment s_f5() {
  return {
      .name = "s-f5",
      .source = "S",
      .shows = "Figures 5 and 26",
      .title = "Training speed by time and by steps",
      .claim =
          "By steps SAS, SAS-P, Pre-LN and the parallel block are alike, SAS-P without norms is slightly worse, "
          "V-SkipInit clearly; by time SAS-P leads.",
      .miniature = "V-SkipInit has the better of two learning rates, all others have 6e-3.",
      .reading =
          "Seeds of blocks without the attention skip are up to 6 % apart, those of the others 1 %: orders "
          "closer than that need more than three. SAS ends within 2 % of Pre-LN, SAS-P a little farther "
          "above; less of that is left after three times as many steps (s-f8), SAS leads in deeper models "
          "(s-f6), and both lead with ALiBi (s-f28) and with masked tokens (s-f7).",
      .arms = {pre_ln,
               {.name = "Parallel", .model = "parallel", .settings = usual()},
               {.name = "V-SkipInit", .model = "v_skip_init_shaped", .settings = skipless(), .rates = tried},
               sas,
               sas_p,
               {.name = "SAS-P, no norm", .model = "sas_p_no_norm", .settings = skipless()}},
      .measured = &held_out,
      .expected = {about("SAS", "Pre-LN"), about("SAS-P", "Pre-LN"), about("Parallel", "Pre-LN"),
                   below("SAS-P", "SAS-P, no norm"), below("SAS-P, no norm", "V-SkipInit"),
                   below("SAS-P", "SAS", &milliseconds), below("SAS", "Pre-LN", &milliseconds)},
      .drawings = both_curves,
  };
}

Experiment s_f3() {
  return {
      .name = "s-f3",
      .source = "S",
      .shows = "Figure 3",
      .title = "Smaller updates of V and P recover the speed",
      .claim =
          "Without the attention skip, the smaller beta_V = beta_P, the lower the loss, but that orthogonal matrices "
          "as W0 are best with a small one (Figure 15); the identity beats them at every beta, and with beta = 0 "
          "essentially matches Pre-LN.",
      .reading =
          "The trend over beta is the paper's down to 0.1, where both are as good as Pre-LN, and much is lost "
          "at 1. With beta = 0 both are a few percent above it, so that the smallest beta is not the best one "
          "here. The identity and orthogonal matrices differ by less than seeds do.",
      .arms = gain_sweep(),
      .measured = &held_out,
      .expected = {below("identity, beta 0.1", "identity, beta 1"), below("orthogonal, beta 0.1", "orthogonal, beta 1"),
                   below("identity, beta 0", "orthogonal, beta 0"), below("identity, beta 0.1", "orthogonal, beta 0.1"),
                   below("identity, beta 1", "orthogonal, beta 1"), below("orthogonal, beta 0.1", "orthogonal, beta 0"),
                   about("identity, beta 0", "Pre-LN")},
      .drawings = {{Kind::sweep, "Held-out loss by beta", "beta_V = beta_P"}},
  };
}

Experiment s_f9() {
  return {
      .name = "s-f9",
      .source = "S",
      .shows = "Figure 9",
      .title = "Smaller learning rates of V and P do the same",
      .claim =
          "Scaling the learning rate of V and P in place of beta gives the trend of Figure 3, as the duality of "
          "App. A says for Adam.",
      .miniature =
          "The rate of D in W0 + D is scaled, not that of a matrix W without W0: decay pulls to W0, and at the full "
          "rate this is the arm of s-f3 with a beta of 1.",
      .reading =
          "Agrees with s-f3 arm by arm, as the duality says; so does the order at the full rate, which is not "
          "the paper's.",
      .arms = rate_sweep(),
      .measured = &held_out,
      .expected = {below("identity, rate times 0.1", "identity, rate times 1"),
                   below("orthogonal, rate times 0.1", "orthogonal, rate times 1"),
                   below("identity, rate times 1", "orthogonal, rate times 1")},
      .drawings = {{Kind::sweep, "Held-out loss by the rate of V and P", "times the learning rate"}},
  };
}

Experiment s_f15() {
  return {
      .name = "s-f15",
      .source = "S",
      .shows = "Figure 15",
      .title = "Tied orthogonal matrices lie between",
      .claim =
          "At a small beta the identity is better than orthogonal V and P tied in every layer, these are better "
          "than those tied in the last layer alone, and these than independent ones.",
      .reading =
          "At beta 0.1 the identity and independent orthogonal matrices differ by less than seeds do (s-f3): "
          "not testable with one seed.",
      .arms = {{.name = "identity", .model = "shaped_reparam_trainable", .settings = fixed_ratio(0.1, Base::identity)},
               {.name = "all layers tied",
                .model = "shaped_reparam_trainable",
                .settings = fixed_ratio(0.1, Base::all_layers_tied)},
               {.name = "last layer tied",
                .model = "shaped_reparam_trainable",
                .settings = fixed_ratio(0.1, Base::last_layer_tied)},
               {.name = "orthogonal", .model = "shaped_reparam_trainable", .settings = fixed_ratio(0.1, Base::own)}},
      .measured = &held_out,
      .expected = {below("identity", "all layers tied"), below("all layers tied", "last layer tied"),
                   below("last layer tied", "orthogonal")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f4() {
  return {
      .name = "s-f4",
      .source = "S",
      .shows = "Figures 4, 16, 21 and 22",
      .title = "Trained ratios beta / alpha of V and P",
      .claim =
          "Trained from 0.2, the ratios beta / alpha of V and P fall to 0 in nearly all layers of blocks without "
          "the attention skip, the first layer's V alone stays above 0.05; with the skip many ratios grow. "
          "Trained V and P end with a worse loss than the identity.",
      .miniature = "A run of a twentieth of the paper's steps: ratios fall below their start, they do not reach 0.",
      .reading =
          "The ratios fall and, with the skip, grow, as in the paper. Which layer keeps the largest one shows "
          "when they have come to rest, after twenty times as many steps; here the layers still cross. "
          "Trained V and P and the identity are within a percent: less than seeds differ.",
      .arms = {published(reparameterised, "1.194"),
               {.name = "parallel", .model = "sas_p_reparam_trainable", .settings = skipless()},
               {.name = "around orthogonal matrices", .model = "shaped_reparam_trainable", .settings = skipless()},
               {.name = "Pre-LN with the skip", .model = "pre_ln_reparam_trainable", .settings = usual()},
               {.name = "V = P = I",
                .model = "shaped_reparam_trainable",
                .settings = fixed_ratio(0, Base::identity),
                .published = "1.178"}},
      .published_in = "nats per token",
      .measured = &held_out,
      .expected = {below_number("around the identity", median_ratio, 0.2), below_number("parallel", median_ratio, 0.2),
                   below_number("around orthogonal matrices", median_ratio, 0.2),
                   above_number("around the identity", first_value_ratio, 0),
                   above_number("parallel", first_value_ratio, 0),
                   above_number("Pre-LN with the skip", grown_ratios, 0.5), below("V = P = I", "around the identity")},
      .drawings = {{Kind::trajectories, "V without the skip: Figure 4", "attention.value.ratio", "around the identity"},
                   {Kind::trajectories, "P without the skip: Figure 4", "attention.projection.ratio",
                    "around the identity"},
                   {Kind::trajectories, "V, parallel: Figure 16", "attention.value.ratio", "parallel"},
                   {Kind::trajectories, "V around orthogonal matrices: Figure 21", "attention.value.ratio",
                    "around orthogonal matrices"},
                   {Kind::trajectories, "V with the skip: Figure 22", "attention.value.ratio", "Pre-LN with the skip"},
                   {Kind::trajectories, "How far V is from W0 in truth: beta |D| / (alpha |W0|)",
                    "attention.value.deviation", "around the identity"}},
  };
}

Experiment s_f17() {
  return {
      .name = "s-f17",
      .source = "S",
      .shows = "Figures 17 to 20",
      .title = "The other gains do not vanish",
      .claim = "Of the model of Figure 4 neither alpha, beta and gamma of shaped attention nor beta_FF go to 0.",
      .arms = {reparameterised},
      .measured = &held_out,
      .expected = {above_number("around the identity", least_gain, 0.1)},
      .drawings = {{Kind::trajectories, "alpha: Figure 17", "attention.alpha", "around the identity"},
                   {Kind::trajectories, "beta: Figure 18", "attention.beta", "around the identity"},
                   {Kind::trajectories, "gamma: Figure 19", "attention.gamma", "around the identity"},
                   {Kind::trajectories, "beta_FF: Figure 20", "mlp_gain", "around the identity"},
                   {Kind::trajectories, "deviation of alpha over the heads", "attention.alpha.deviation",
                    "around the identity"}},
  };
}

Experiment s_f14() {
  return {
      .name = "s-f14",
      .source = "S",
      .shows = "Figure 14",
      .title = "The first value of beta_FF",
      .claim =
          "The final loss depends on the first value of beta_FF, of which the paper draws the curve without numbers; "
          "it took 0.1 at 18 layers.",
      .miniature =
          "0.17 is the paper's 0.1 times sqrt(18 / 6). That values far below and far above it are worse is our "
          "reading of the text.",
      .arms = mlp_gain_sweep(),
      .measured = &held_out,
      .expected = {below("sas, beta_FF 0.17", "sas, beta_FF 0.02"), below("sas, beta_FF 0.17", "sas, beta_FF 1"),
                   below("sas_p, beta_FF 0.17", "sas_p, beta_FF 0.02"),
                   below("sas_p, beta_FF 0.17", "sas_p, beta_FF 1")},
      .drawings = {{Kind::sweep, "Held-out loss by the first beta_FF", "beta_FF"}},
  };
}

Experiment s_f24() {
  return {
      .name = "s-f24",
      .source = "S",
      .shows = "Figure 24",
      .title = "The value matrix of the first layer",
      .claim = "Training the value matrix of the first layer alone gives a very small gain.",
      .reading =
          "The paper's gain is very small, and SAS and SAS-P disagree about its sign: not testable without "
          "many seeds.",
      .arms = {sas,
               {.name = "SAS, identity everywhere", .model = "sas", .settings = identity_first_value()},
               sas_p,
               {.name = "SAS-P, identity everywhere", .model = "sas_p", .settings = identity_first_value()}},
      .measured = &held_out,
      .expected = {below("SAS", "SAS, identity everywhere"), below("SAS-P", "SAS-P, identity everywhere")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_t1() {
  return {
      .name = "s-t1",
      .source = "S",
      .shows = "Table 1",
      .title = "Speed and size",
      .claim =
          "SAS and SAS-P have 16 % fewer parameters and make 1.09 and 1.16 times as many steps as Pre-LN in the "
          "same time, SAS-P without norms 1.20; the parallel block 1.05, V-SkipInit 0.95.",
      .miniature =
          "The encoders of the miniature, whose table of embeddings weighs less and whose attention weighs "
          "more than the paper's; times of a step in turns. Of the GLUE tasks nothing is run: they need a "
          "pre-trained model.",
      .reading =
          "Ratios of a few milliseconds on a shared machine, known to some percent. At width 64 a norm costs "
          "so little that leaving it out shows less than in the paper.",
      .arms = {{.name = "Pre-LN", .model = "bert_pre_ln", .settings = timed(masked()), .published = "120M, 1"},
               {.name = "Parallel", .model = "bert_parallel", .settings = timed(masked()), .published = "120M, 1.05"},
               {.name = "V-SkipInit",
                .model = "bert_v_skip_init_shaped",
                .settings = timed(masked()),
                .published = "120M, 0.95"},
               {.name = "SAS", .model = "bert_sas", .settings = timed(masked()), .published = "101M, 1.09"},
               {.name = "SAS-P", .model = "bert_sas_p", .settings = timed(masked()), .published = "101M, 1.16"},
               {.name = "SAS-P, no norm",
                .model = "bert_sas_p_no_norm",
                .settings = timed(masked()),
                .published = "101M, 1.20"}},
      .published_in = "parameters and speed",
      .measured = &milliseconds,
      .expected = {below("SAS-P, no norm", "SAS-P"), below("SAS-P", "SAS"), below("SAS", "Pre-LN"),
                   below("Parallel", "Pre-LN"), below("Pre-LN", "V-SkipInit")},
  };
}

Experiment s_f6() {
  return {
      .name = "s-f6",
      .source = "S",
      .shows = "Figure 6",
      .title = "Depth",
      .claim = "SAS, SAS-P and Pre-LN are better with more layers; V-SkipInit is worse.",
      .miniature = "6 and 18 layers for the paper's 18 and 72; the MLP keeps its width of 4 d.",
      .reading =
          "Pre-LN alone is worse with more layers: it has the rate of the shallow model, and the same number "
          "of steps for three times as many layers. The paper gave it a day.",
      .arms =
          {pre_ln,
           sas,
           sas_p,
           {.name = "V-SkipInit", .model = "v_skip_init_shaped", .settings = skipless(), .rates = tried},
           {.name = "Pre-LN, deep", .model = "deep_pre_ln", .settings = usual()},
           {.name = "SAS, deep", .model = "deep_sas", .settings = skipless(0.1)},
           {.name = "SAS-P, deep", .model = "deep_sas_p", .settings = skipless(0.1)},
           {.name = "V-SkipInit, deep", .model = "deep_v_skip_init_shaped", .settings = skipless(0.1), .rates = tried}},
      .measured = &held_out,
      .expected = {below("Pre-LN, deep", "Pre-LN"), below("SAS, deep", "SAS"), below("SAS-P, deep", "SAS-P"),
                   below("V-SkipInit", "V-SkipInit, deep")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f7() {
  return {
      .name = "s-f7",
      .source = "S",
      .shows = "Figures 7 and 27",
      .title = "Masked language modelling",
      .claim =
          "In an encoder that predicts masked tokens SAS and SAS-P train as fast as Pre-LN, without norms they are "
          "slightly worse, and V-SkipInit is clearly the worst.",
      .miniature = "Exactly 16 of 64 bytes are predicted; all models make the same number of steps, of one size.",
      .reading =
          "Pre-LN, the parallel block and V-SkipInit have hardly left the plateau of guessing bytes by their "
          "frequency when the steps end. So this says that SAS and SAS-P leave it sooner, not that they end "
          "up better.",
      .arms = {{.name = "Pre-LN", .model = "bert_pre_ln", .settings = masked()},
               {.name = "Parallel", .model = "bert_parallel", .settings = masked()},
               {.name = "V-SkipInit", .model = "bert_v_skip_init_shaped", .settings = masked_skipless(1e-3)},
               {.name = "SAS", .model = "bert_sas", .settings = masked_skipless()},
               {.name = "SAS-P", .model = "bert_sas_p", .settings = masked_skipless()},
               {.name = "SAS-P, no norm", .model = "bert_sas_p_no_norm", .settings = masked_skipless(4e-3)}},
      .measured = &held_out,
      .expected = {about("SAS", "Pre-LN"), about("SAS-P", "Pre-LN"), below("SAS-P", "SAS-P, no norm"),
                   below("SAS-P, no norm", "V-SkipInit")},
      .drawings = both_curves,
  };
}

Experiment s_f8() {
  return {
      .name = "s-f8",
      .source = "S",
      .shows = "Figure 8",
      .title = "Three times as many tokens",
      .claim = "With three times as many tokens SAS and SAS-P still match Pre-LN.",
      .reading = "Most of the gap of s-f5 is gone; of SAS-P a little is left.",
      .arms = {{.name = "Pre-LN", .model = "pre_ln", .settings = longer(usual())},
               {.name = "SAS", .model = "sas", .settings = longer(skipless())},
               {.name = "SAS-P", .model = "sas_p", .settings = longer(skipless())}},
      .measured = &held_out,
      .expected = {about("SAS", "Pre-LN"), about("SAS-P", "Pre-LN")},
      .drawings = both_curves,
  };
}

Experiment s_f12() {
  return {
      .name = "s-f12",
      .source = "S",
      .shows = "Figure 12",
      .title = "Linear and cosine schedules",
      .claim = "Linear decay ends with a better loss than a cosine, although it trails for most of the steps.",
      .reading = "Halfway the schedules are a few tenths of a percent apart: not testable with one seed.",
      .arms = {pre_ln,
               {.name = "Pre-LN, cosine", .model = "pre_ln", .settings = cosine(usual())},
               sas,
               {.name = "SAS, cosine", .model = "sas", .settings = cosine(skipless())}},
      .measured = &held_out,
      .expected = {below("Pre-LN", "Pre-LN, cosine"), below("SAS", "SAS, cosine"),
                   below("Pre-LN, cosine", "Pre-LN", &halfway), below("SAS, cosine", "SAS", &halfway)},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f13() {
  return {
      .name = "s-f13",
      .source = "S",
      .shows = "Figure 13",
      .title = "Shaped attention, Eq. (5), and Eq. (4)",
      .claim = "Shaped attention is slightly better than the matrix of V-SkipInit in SAS and in SAS-P.",
      .miniature = "The gap of the paper is small: one seed says little.",
      .arms = {sas,
               {.name = "SAS, Eq. (4)", .model = "sas", .settings = without_centring()},
               sas_p,
               {.name = "SAS-P, Eq. (4)", .model = "sas_p", .settings = without_centring()}},
      .measured = &held_out,
      .expected = {below("SAS", "SAS, Eq. (4)"), below("SAS-P", "SAS-P, Eq. (4)")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f23() {
  return {
      .name = "s-f23",
      .source = "S",
      .shows = "Figure 23",
      .title = "Pre-LN without V and P",
      .claim =
          "With the attention skip the identity for V and P is slightly worse than trained matrices, the opposite "
          "of what holds without the skip.",
      .arms = {pre_ln,
               {.name = "Pre-LN, V = P = I", .model = "pre_ln_reparam_trainable", .settings = identity_projections()}},
      .measured = &held_out,
      .expected = {below("Pre-LN", "Pre-LN, V = P = I")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f25() {
  std::vector<Arm> arms{sas};
  for (const double slope : {0.0, 0.2, 0.8}) {
    Settings settings = usual(usual_rate / 10);
    settings.initial["blocks.*.mlp.slope"] = slope;
    settings.initial["blocks.*.mlp_gain"] = mlp_gain;
    arms.push_back(
        {.name = fmt::format("no MLP skip, slope {}", slope), .model = "sas_no_mlp_skip", .settings = settings});
  }
  arms.push_back(arms[1]);
  arms.back().name = "no MLP skip, slope 0, rate of SAS";
  arms.back().settings.rate = usual_rate;
  return {
      .name = "s-f25",
      .source = "S",
      .shows = "Figure 25",
      .title = "Without the MLP skip",
      .claim =
          "SAS without the MLP skip trains clearly more slowly, needs a learning rate ten times as small, and leaky "
          "ReLU of slope 0.2 or 0.8 is no better than ReLU.",
      .miniature = "The learning rate is 6e-4 for SAS's 6e-3.",
      .arms = std::move(arms),
      .measured = &held_out,
      .expected = {below("SAS", "no MLP skip, slope 0"), below("no MLP skip, slope 0", "no MLP skip, slope 0.2"),
                   below("no MLP skip, slope 0", "no MLP skip, slope 0.8"),
                   below("no MLP skip, slope 0", "no MLP skip, slope 0, rate of SAS")},
      .drawings = {{Kind::by_step, "Held-out loss by steps"}},
  };
}

Experiment s_f28() {
  return {
      .name = "s-f28",
      .source = "S",
      .shows = "Figure 28",
      .title = "A language model with ALiBi, by time",
      .claim =
          "On books, with ALiBi and longer sequences, SAS, SAS-P, the parallel block and Pre-LN come to the same "
          "perplexity: SAS 22.37, parallel 22.39.",
      .miniature =
          "Bytes of Python for books, 256 of them for 512 tokens; LayerNorm and GELU as in the paper. SAS and SAS-P "
          "have twice the learning rate of the others, where the paper has three times.",
      .arms = {{.name = "Pre-LN", .model = "languini_pre_ln", .settings = languini(usual_rate / 2)},
               {.name = "Parallel",
                .model = "languini_parallel",
                .settings = languini(usual_rate / 2),
                .published = "22.39"},
               {.name = "SAS", .model = "languini_sas", .settings = languini_skipless(), .published = "22.37"},
               {.name = "SAS-P", .model = "languini_sas_p", .settings = languini_skipless()}},
      .published_in = "perplexity",
      .measured = &held_out,
      .expected = {about("SAS", "Pre-LN"), about("SAS-P", "Pre-LN"), about("SAS", "Parallel")},
      .drawings = both_curves,
  };
}

}  // namespace

std::vector<Experiment> simplifying_experiments() {
  return {s_f2(), s_f5(), s_f3(), s_f9(), s_f15(), s_f4(),  s_f17(), s_f14(), s_f24(),
          s_t1(), s_f6(), s_f7(), s_f8(), s_f12(), s_f13(), s_f23(), s_f25(), s_f28()};
}

}  // namespace paper
