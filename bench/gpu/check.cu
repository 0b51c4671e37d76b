// SPDX-License-Identifier: MIT
//
// Whether a GPU gives what the CPU gives: results and every gradient of small models in double and float, the losses of
// a training, and the same bits twice. A line for each comparison; status 1 if one fails.

#include "device.cuh"

#include <simplx/cuda/evaluation.cuh>

using namespace bench;

namespace {

bool all_hold = true;

void compare(const char* what, const char* model, double error, double bound) {
  const bool holds = error <= bound;
  all_hold = all_hold && holds;
  Row().add("check", what).add("model", model).add("error", error).add("bound", bound)
      .add("holds", holds ? "yes" : "no");
}

/// All results and gradients of a model over a packed batch, as double.
template <auto const& model, class Backend>
std::vector<double> all_of() {
  Evaluation<model, Backend> run(Rows{.tokens = 190}, 1, {64, 1, 61, 64});
  using S = typename Backend::Scalar;
  const auto fill = [&](std::span<std::int32_t> to, std::uint64_t seed) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::int32_t>(bits(seed, i) % 61);
  };
  fill(run.indices("tokens"), 1), fill(run.indices("labels"), 2);
  for (S& parameter : run.parameters()) parameter *= S(3);  // so that attention prefers something
  run.forward();
  std::vector<double> all(run.output().begin(), run.output().end());
  std::ranges::fill(run.seed(), S(1));
  run.backward();
  all.insert(all.end(), run.gradients().begin(), run.gradients().end());
  return all;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
    largest = std::max(largest, std::abs(a[i]));
  }
  return worst / largest;
}

/// The losses of a training; the last parameter stands for all bits.
template <auto const& model, class Backend>
std::vector<double> losses(int steps) {
  Trainer<model, Backend> trainer({.batch = 4, .seed = 1});
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    const TokenBatch batch = random_batch(4, 64, 61, static_cast<std::uint64_t>(step % 8));
    all.push_back(trainer.step(batch, AdamW{.learning_rate = 1e-3}).loss);
  }
  for (const auto parameter : trainer.parameters()) all.push_back(static_cast<double>(parameter));
  return all;
}

template <auto const& model>
void check_model(const char* name) {
  const auto exact = all_of<model, Cpu<double, Path::reference>>();
  compare("double", name, farthest(exact, all_of<model, Cuda<Precision::float64>>()), 1e-10);
  compare("float", name, farthest(exact, all_of<model, Cuda<>>()), 2e-4);
  compare("tf32", name, farthest(exact, all_of<model, Cuda<Precision::tf32>>()), 2e-2);
  constexpr int steps = 60;
  const auto here = losses<model, Cuda<>>(steps), again = losses<model, Cuda<>>(steps);
  compare("the same bits twice", name, here == again ? 0 : 1, 0);
  auto on_cpu = losses<model, Cpu<float>>(steps);
  double worst = 0;
  for (std::size_t i = 0; i < steps; ++i) worst = std::max(worst, std::abs(here[i] - on_cpu[i]));
  compare("losses of 60 steps against the CPU", name, worst, 5e-3);
}

constexpr Decoder around(const BlockConfig& block) {
  return {.block = block, .vocab = 61, .width = 64, .heads = 4, .layers = 3, .context = 64,
          .positions = Positions::learned};
}
inline constexpr Decoder pre_ln_model = around(pre_ln), parallel_model = around(parallel), sas_model = around(sas),
                         sas_p_model = around(sas_p), norm_free_model = around(sas_p_norm_free),
                         skip_init_model = around(v_skip_init_shaped);

}  // namespace

int main() {
  return guarded([] {
    check_model<pre_ln_model>("pre_ln");
    check_model<parallel_model>("parallel");
    check_model<sas_model>("sas");
    check_model<sas_p_model>("sas_p");
    check_model<norm_free_model>("sas_p_norm_free");
    check_model<skip_init_model>("v_skip_init_shaped");
    if (!all_hold) throw Error("some comparisons do not hold");
  });
}
