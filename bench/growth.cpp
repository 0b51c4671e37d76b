// SPDX-License-Identifier: MIT
//
// Time and memory of a training step at one point along an axis; bench/growth walks along all of them, a process for
// each point. The sizes of a model are constants, so there are four programs, all of SAS-P:
//
//     growth-depth --at 2 ... 64               layers of width 128, one sequence of 128 tokens
//     growth-width --at 64 ... 1024            the width of 2 layers, one sequence of 128 tokens
//     growth-vocabulary --at 256 ... 131072    tokens known to 1 layer of width 64, one sequence of 128 tokens
//     growth-sequences --at 128 [--by context|batch|threads]   2 layers of width 128: one sequence of so many tokens,
//                                              so many sequences of 128, or 8 of them on so many threads
// and [--json].
//
// Method: "ms" is the median of the steps of about two seconds, two before them; processor time, but by threads the
// wall clock. "limit_ms" is the arithmetic of the step at the speed of the machine, measured in this process: its
// products at the peak of multiply-adds, and for each parameter the 28 bytes that AdamW reads and writes, at the
// bandwidth of as much memory; "of_limit" is its share of the time. "arena_mb" is an evaluation of one sequence,
// "trainer_mb" all buffers, "resident_mb" the most that the process has had in RAM.

#include "batch.hpp"
#include "measure.hpp"

#include <utility>

using namespace simplx;

namespace {

enum class Along { depth, width, vocabulary, sequences };
constexpr Along along = Along::SIMPLX_ALONG;

constexpr Decoder of_size(Index size) {
  if (along == Along::depth) return {.block = sas_p, .layers = static_cast<int>(size)};
  if (along == Along::width) return {.block = sas_p, .width = size, .heads = static_cast<int>(size / 32), .layers = 2};
  if (along == Along::vocabulary) return {.block = sas_p, .vocab = size, .width = 64, .heads = 2, .layers = 1};
  return {.block = sas_p, .layers = 2, .context = size};
}
template <Index size>
inline constexpr Decoder model = of_size(size);

/// The sizes of models along the axis.
template <Index... size>
struct Sizes {};

/// What is trained in a step.
struct Work {
  Index context = 128, batch = 1;
  int threads = 1;
};

template <auto const& model>
void measure(const bench::Flags& flags, const std::string& axis, const Work& work) {
  Trainer<model> trainer{{.batch = work.batch, .context = work.context, .seed = 1, .threads = work.threads}};
  const TokenBatch batch = bench::random_batch(work.batch, work.context, model.vocab);
  const auto step = [&] { trainer.step(batch, {}); };
  step(), step();
  std::vector<double> times;
  for (double total = 0; times.size() < 5 || total < 2000; total += times.back()) {
    times.push_back(axis == "threads" ? bench::wall_milliseconds(step) : 1e-3 * bench::processor_microseconds(step, 1));
  }
  const double resident = bench::peak_resident_bytes();  // before the limits are measured, which takes memory too
  const double ms = bench::median(times), moved = 28 * static_cast<double>(parameters<model>);
  const double flops = 3 * causal_flops<model>(tokens{work.context}) * static_cast<double>(work.batch);
  const double limit =
      1e-6 * (flops / bench::peak_of<Cpu<float>>(work.threads) + moved / bench::measured_bandwidth(moved));
  bench::Rows(flags).add({{"axis", axis},
                          {"at", static_cast<double>(flags.number("--at"))},
                          {"ms", ms},
                          {"limit_ms", limit},
                          {"of_limit", limit / ms},
                          {"gflop", 1e-9 * flops},
                          {"parameters", static_cast<double>(parameters<model>)},
                          {"arena_mb", 1e-6 * static_cast<double>(arena_bytes<model>(tokens{work.context}))},
                          {"trainer_mb", 1e-6 * static_cast<double>(trainer.bytes())},
                          {"resident_mb", 1e-6 * resident}});
}

/// Measures the model of one of these sizes.
template <Index... size>
void measure_size(Sizes<size...>, const bench::Flags& flags, const char* axis) {
  const Index at = flags.number("--at");
  bool found = false;
  (..., (at == size ? found = true, measure<model<size>>(flags, axis, {}) : void()));
  if (!found) throw std::runtime_error("no model of the size --at; the top of the source lists them");
}

template <Index longest>
void measure_sequences(Sizes<longest>, const bench::Flags& flags) {
  const Index at = flags.number("--at");
  const std::string& by = flags.text("--by");
  Work work;
  if (by == "context") {
    work.context = at;
  } else if (by == "batch") {
    work.batch = at;
  } else if (by == "threads") {
    work.batch = 8, work.threads = static_cast<int>(at);
  } else {
    throw std::runtime_error("--by is context, batch or threads");
  }
  measure<model<longest>>(flags, by, work);
}

/// A template, so that models of other axes are not instantiated.
template <Along along>
void run(const bench::Flags& flags) {
  if constexpr (along == Along::depth) {
    measure_size(Sizes<2, 4, 8, 16, 32, 64>{}, flags, "depth");
  } else if constexpr (along == Along::width) {
    measure_size(Sizes<64, 128, 256, 512, 1024>{}, flags, "width");
  } else if constexpr (along == Along::vocabulary) {
    measure_size(Sizes<256, 1024, 4096, 16384, 65536, 131072>{}, flags, "vocabulary");
  } else {
    measure_sequences(Sizes<8192>{}, flags);  // one model for all shorter contexts
  }
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    run<Along::SIMPLX_ALONG>(bench::Flags(count, arguments, {{"--at", ""}, {"--by", "context"}}));
  });
}
