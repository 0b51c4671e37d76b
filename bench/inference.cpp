// SPDX-License-Identifier: MIT
//
// How long the forward pass of whole contexts takes, to the logits of every token. A program for each configuration and
// block, since the model is a constant of the program:
//
//     inference-tiny-sas_p [--threads 1] [--json | --serve]
//
// Method: the same batch of random tokens again and again, wall clock; bench/compare lets it take turns with a rival.
// At the end of a pass the logits of all tokens stand in one array, (batch, context, vocab), as a rival leaves them.
// Sequences run one at a time; each thread has weights of its own. "of_peak" is the share of the peak of multiply-adds,
// measured in this process on as many threads; FLOPs are those that the causal mask leaves.

#include "model.hpp"

int main(int count, char** arguments) {
  return bench::guarded([&] {
    using namespace simplx;
    using Net = Inference<logits_of<bench::model>, bench::Backend>;
    const bench::Flags flags(count, arguments, {{"--threads", "1"}, {"--serve", "no"}});
    const Index sequences = bench::config.batch, length = bench::context, size = length * Net::vocab();
    cpu::Team team(static_cast<int>(flags.number("--threads")));
    std::vector<Net> nets;
    for (int member = 0; member < team.size(); ++member) nets.emplace_back(InferenceOptions{.seed = 1});
    const TokenBatch batch = bench::random_batch(sequences, length, bench::config.vocab);
    cpu::Buffer<float> logits(sequences * size);
    const double flops = causal_flops<bench::model>(tokens{length}) * static_cast<double>(sequences);
    bench::measure_step(flags, flops, [&] {
      team.run([&](int member) {
        for (Index s = member; s < sequences; s += team.size()) {
          const std::span sequence(batch.tokens.data() + s * length, static_cast<std::size_t>(length));
          nets[static_cast<std::size_t>(member)].logits(sequence, logits.span().subspan(s * size, size));
        }
      });
    });
  });
}
