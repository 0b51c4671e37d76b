// SPDX-License-Identifier: MIT
//
// How long a token of a stream takes once nearly a context has been seen, and the prompt before it; shape, block and
// precision are constants of the program: -DSHAPE=gpt2 -DBLOCK=sas_p -DPRECISION=bfloat16.

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

}  // namespace

int main() {
  return guarded([] {
    using Backend = Cuda<Precision::PRECISION>;
    constexpr Index single = 32, prompt = shape.context - single;  // tokens one by one, after so many
    const GpuStream stream;
    const double copy_rate = measured_copy_rate(stream);
    Inference<logits_of<model>, Backend> net({.seed = 1});
    Stream<logits_of<model>, Backend> writer(net);
    const std::vector<std::int32_t> tokens = random_batch(1, shape.context, shape.vocab).tokens;
    std::vector<double> prompts, each;
    for (int round = 0; round < 7; ++round) {  // the first chooses algorithms, the second records
      writer.reset();
      const double before = ms_of([&] { writer.feed(std::span(tokens).first(prompt)); });
      const double after = ms_of([&] {
        for (Index i = 0; i < single; ++i) writer.feed(std::span(tokens).subspan(static_cast<std::size_t>(prompt + i), 1));
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
    row.add("ms", ms).add("tokens_per_s", 1e3 / ms).add("floor_ms", floor_ms).add("of_floor", floor_ms / ms)
        .add("prompt_ms", median(prompts)).add("cache_mb", static_cast<double>(writer.cache_bytes()) * 1e-6);
  });
}
