// SPDX-License-Identifier: MIT
//
// How long a token of a stream takes once nearly a context has been seen, and the prompt before it; then a token of each
// of 32 sequences at once. Shape, block and precision are constants of the program: -DSHAPE=gpt2 -DBLOCK=sas_p
// -DPRECISION=bfloat16.

#include "shapes.cuh"

#include <simplx/cuda/stream.cuh>

#include <chrono>

using namespace bench;

namespace {

/// Of a call that waits for the device.
template <class Work>
double ms_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

using Backend = Cuda<Precision::PRECISION>;
using Net = Inference<logits_of<model>, Backend>;

/// So many sequences at once, which all go on one prompt.
void tell(Net& net, Index sequences, double copy_rate) {
  constexpr Index single = 32, prompt = shape.context - single;  // tokens one by one, after so many
  Stream<logits_of<model>, Backend> writer(net, {.sequences = sequences});
  const std::vector<std::int32_t> tokens = random_batch(1, shape.context, shape.vocab).tokens;
  TokenBatch seen{.tokens = tokens, .offsets = std::vector<Index>(static_cast<std::size_t>(sequences) + 1, prompt)};
  seen.offsets[0] = 0;
  TokenBatch next{.tokens = std::vector<std::int32_t>(static_cast<std::size_t>(sequences))};
  for (Index s = 0; s <= sequences; ++s) next.offsets.push_back(s);
  std::vector<double> prompts, each;
  for (int round = 0; round < 7; ++round) {  // the first chooses algorithms, the second records
    writer.reset();
    const double before = ms_of([&] { writer.feed(seen); });
    for (Index s = 1; s < sequences; ++s) writer.copy(0, s);
    const double after = ms_of([&] {
      for (Index i = prompt; i < shape.context; ++i) {
        std::ranges::fill(next.tokens, tokens[static_cast<std::size_t>(i)]);
        writer.feed(next);
      }
    });
    if (round >= 2) prompts.push_back(before), each.push_back(after / single);
  }
  // Each weight is read once, and what was seen; a copy reads as much as it writes.
  const double weights = static_cast<double>(parameters<model>) * (Backend::rounds_values ? 2 : 4);
  const double floor_ms = (weights + static_cast<double>(writer.cache_bytes())) / copy_rate * 1e3;
  const double ms = median(each);
  Row row;
  row.add("generation", NAME(SHAPE)).add("block", NAME(BLOCK)).add("precision", NAME(PRECISION));
  if (!writer.not_recorded().empty()) row.add("not_recorded", writer.not_recorded());
  if (!writer.not_fused().empty()) row.add("not_fused", writer.not_fused());
  row.add("sequences", static_cast<double>(sequences)).add("ms", ms)
      .add("tokens_per_s", static_cast<double>(sequences) * 1e3 / ms).add("floor_ms", floor_ms)
      .add("of_floor", floor_ms / ms).add("prompt_ms", median(prompts))
      .add("cache_mb", static_cast<double>(writer.cache_bytes()) * 1e-6);
}

}  // namespace

int main() {
  return guarded([] {
    const GpuStream stream;
    const double copy_rate = measured_copy_rate(stream);
    Net net({.seed = 1});
    for (const Index sequences : {1, 32}) tell(net, sequences, copy_rate);
  });
}
