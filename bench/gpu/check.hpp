// SPDX-License-Identifier: MIT
#pragma once

/// \file bench/gpu/check.hpp
/// The models of check.cu, and what is computed of them: on a GPU by check.cu, on the CPU by check_on_cpu.cpp, because
/// nvcc has no vectors.

#include <simplx/blocks/tokens.hpp>
#include <simplx/core/random.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/train/evaluation.hpp>
#include <simplx/train/trainer.hpp>

#include <type_traits>
#include <vector>

namespace bench {

using namespace simplx;

constexpr Decoder around(const BlockConfig& block) {
  return {.block = block, .vocab = 61, .width = 64, .heads = 4, .layers = 3, .context = 64,
          .positions = Positions::learned};
}
inline constexpr Decoder pre_ln_model = around(pre_ln), parallel_model = around(parallel), sas_model = around(sas),
                         sas_p_model = around(sas_p), norm_free_model = around(sas_p_norm_free),
                         skip_init_model = around(v_skip_init_shaped);

/// What must be masked to be predicted: few tokens have labels, and a GPU computes the head of those alone.
constexpr Encoder masked_around(const BlockConfig& block, bool tiled_loss) {
  return {.block = block, .vocab = 61, .width = 64, .heads = 4, .hidden = 256, .layers = 3, .context = 64,
          .masked_head = true, .tiled_loss = tiled_loss};
}
inline constexpr Encoder masked_pre_ln_model = masked_around(bert_pre_ln, false),
                         masked_sas_p_model = masked_around(bert_sas_p, true);

/// Heads of 64, which warpgroups take, contexts of more rows than two of them have, and as many classes as let logits be
/// stored as bfloat16.
constexpr Decoder wide_around(const BlockConfig& block, bool tiled_loss) {
  return {.block = block, .vocab = 64, .width = 128, .heads = 2, .layers = 2, .context = 200,
          .positions = Positions::learned, .tiled_loss = tiled_loss};
}
inline constexpr Decoder wide_pre_ln_model = wide_around(pre_ln, false), wide_sas_p_model = wide_around(sas_p, false),
                         wide_tiled_model = wide_around(sas_p, true);

inline constexpr int steps = 60;

/// All results and gradients of a model over a packed batch, as double.
template <class Run>
std::vector<double> all_of(Run run) {
  using S = typename Run::S;
  const auto fill = [&](std::span<std::int32_t> to, std::uint64_t seed) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::int32_t>(bits(seed, i) % 61);
  };
  fill(run.indices("tokens"), 1), fill(run.indices("labels"), 2);
  for (S& parameter : run.parameters()) parameter *= S(3);  // so that attention prefers something
  run.forward();
  std::vector<double> all(run.output().begin(), run.output().end());
  std::ranges::fill(run.output_gradient(), S(1));
  run.backward();
  all.insert(all.end(), run.gradients().begin(), run.gradients().end());
  return all;
}
/// A packed batch for it.
template <auto const& model>
std::vector<Index> lengths() {
  return {model.context, 1, model.context - 3, model.context};
}
template <auto const& model>
inline constexpr Rows rows{.tokens = 3 * model.context - 2};

/// The losses of a training, and the parameters after it. Of an encoder's tokens one in seven has a label.
template <auto const& model, class Backend>
std::vector<double> losses_of(Trainer<model, Backend> trainer) {
  constexpr bool masked = std::is_same_v<std::remove_cvref_t<decltype(model)>, Encoder>;
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    TokenBatch batch;
    batch.offsets.push_back(0);
    for (Index i = 0; i < 4 * model.context; ++i) {
      const auto draw = [&](std::uint64_t which) {
        return static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(step % 8) + which, i) % 61);
      };
      batch.tokens.push_back(draw(0)), batch.labels.push_back(masked && draw(200) % 7 ? ignored_label : draw(100));
      if ((i + 1) % model.context == 0) batch.offsets.push_back(i + 1);
    }
    all.push_back(trainer.step(batch, AdamW{.learning_rate = 1e-3}).loss);
  }
  for (const auto parameter : trainer.parameters()) all.push_back(static_cast<double>(parameter));
  return all;
}
inline const TrainerOptions options{.batch = 4, .seed = 1};

/// On the CPU: in double by the reference path, and of a training in float.
template <auto const& model>
std::vector<double> exact_on_cpu();
template <auto const& model>
std::vector<double> losses_on_cpu();

}  // namespace bench
