// SPDX-License-Identifier: MIT
//
// How long a training step takes: forward, backward, clip and AdamW over a batch. A program for each configuration and
// block, since the model is a constant of the program:
//
//     step-tiny-sas_p [--threads 1] [--json | --serve]
//
// Method: the same batch of random tokens again and again, wall clock; bench/compare lets it take turns with a rival.
// FLOPs are those that the causal mask leaves, backward counts twice the forward; "of_peak" is their share of the peak
// of multiply-adds, measured in this process on as many threads right behind the steps.

#include "model.hpp"

int main(int count, char** arguments) {
  return bench::guarded([&] {
    using namespace simplx;
    const bench::Flags flags(count, arguments, {{"--threads", "1"}, {"--serve", "no"}});
    const Index sequences = bench::config.batch;
    const int threads = static_cast<int>(flags.number("--threads"));
    Trainer<bench::model, bench::Backend> trainer{{.batch = sequences, .seed = 1, .threads = threads}};
    const TokenBatch batch = bench::random_batch(sequences, bench::context, bench::config.vocab);
    const double flops = 3 * causal_flops<bench::model>(tokens{bench::context}) * static_cast<double>(sequences);
    bench::measure_step(flags, flops, [&] { trainer.step(batch, {}); });
  });
}
