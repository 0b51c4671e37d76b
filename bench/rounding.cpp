// SPDX-License-Identifier: MIT
//
// What a model loses whose weights are rounded after training: nats per byte of text that it has never seen, by each
// path of its products.
//
//     rounding [--text include] [--steps 600] [--json]
//
// Method: decoders of 6 layers, width 128, 4 heads, trained in float on windows of 128 bytes, 8 a step, AdamW from 2e-3
// down to 0; then the same weights on 256 windows of what read_text holds out. "bits" are those of a weight as
// products read it.

#include "measure.hpp"

#include <simplx/simplx.hpp>

#include <filesystem>

using namespace simplx;

namespace {

inline constexpr Index context = 128, sequences = 8;
inline constexpr Decoder pre_ln_model{.block = pre_ln, .context = context, .positions = Positions::learned};
inline constexpr Decoder sas_p_model{.block = sas_p, .context = context, .positions = Positions::learned};

/// The mean loss of batches by a path, with the weights of a trainer.
template <auto const& model, Path path>
double loss_of(Trainer<model>& trainer, const std::vector<TokenBatch>& batches) {
  Evaluation<model, Cpu<float, path>> evaluation({.tokens = sequences * context, .sequences = sequences});
  copy_parameters(trainer, evaluation);
  double sum = 0;
  for (const TokenBatch& batch : batches) {
    std::ranges::copy(batch.tokens, evaluation.indices("tokens").begin());
    std::ranges::copy(batch.labels, evaluation.indices("labels").begin());
    evaluation.forward();
    for (const float loss : evaluation.output()) sum += static_cast<double>(loss);
  }
  return sum / static_cast<double>(std::ssize(batches) * sequences * context);
}

template <auto const& model>
void run(bench::Rows& rows, const char* block, const Corpus& text, long steps) {
  Trainer<model> trainer({.batch = sequences, .seed = 1});
  Batches training(text.bytes, text.training, {.context = context, .sequences = sequences, .seed = 1});
  const Batches unseen(text.bytes, text.validation, {.context = context, .sequences = sequences, .seed = 1});
  TokenBatch batch = make_batch(sequences, context);
  const LinearSchedule rate{.peak = 2e-3, .warmup = steps / 20, .total = steps};
  for (long step = 0; step < steps; ++step) {
    training.next(batch);
    trainer.step(batch, AdamW{.learning_rate = rate.at(step)});
  }
  std::vector<TokenBatch> held_out;
  const Index batches = std::min<Index>(32, unseen.windows() / sequences);
  if (batches == 0) throw Error("too little text is held out", "give more by --text, of several files");
  for (Index i = 0; i < batches; ++i) {
    unseen.at(i * (unseen.windows() / batches), batch);
    held_out.push_back(batch);
  }
  const double exact = loss_of<model, Path::vectors>(trainer, held_out);
  const auto row = [&](const char* path, double bits, double loss) {
    rows.add({{"block", block}, {"path", path}, {"bits", bits}, {"steps", static_cast<double>(steps)},
              {"nats_per_byte", loss}, {"more_than_float", loss - exact}});
  };
  row("vectors", 32, exact);
  row("bfloat16", 16, loss_of<model, Path::bfloat16>(trainer, held_out));
  row("int8", 8, loss_of<model, Path::int8>(trainer, held_out));
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    const bench::Flags flags(count, arguments, {{"--text", "include"}, {"--steps", "600"}});
    bench::Rows rows(flags);
    const std::filesystem::path path = flags.text("--text");
    const Corpus text = read_text({&path, 1}, {.window = context + 1});
    run<pre_ln_model>(rows, "pre_ln", text, flags.number("--steps"));
    run<sas_p_model>(rows, "sas_p", text, flags.number("--steps"));
  });
}
