// SPDX-License-Identifier: MIT
//
// How long a training step takes, or a forward pass: alone, or taking turns with a rival (bench/compare). A program for
// each configuration and block, step-CONFIG-BLOCK, since the model is a constant of the program:
//
//     step-tiny-sas_p [--threads 1] [--mode train|infer] [--serve]
//
// With --serve: prints {"ready": true, ...}, then answers each line "run N" with the milliseconds of N steps.
// Method: the same batch of random tokens again and again; FLOPs are those that the causal mask leaves, backward
// counts twice the forward; the peak is measured in this process, on as many threads.

#include <simplx/simplx.hpp>

#include <simplx/cpu/peak.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

using namespace simplx;

namespace {

struct Config {
  Index vocab, width;
  int heads, layers;
  Index batch;
};
constexpr Config tiny{256, 128, 4, 6, 8}, small{1024, 256, 8, 8, 8}, paperlike{8192, 768, 12, 6, 4};
constexpr Index context = 128;

constexpr Config config = SIMPLX_CONFIG;
using Backend = Cpu<float, Path::SIMPLX_PATH>;
inline constexpr Decoder model{.block = SIMPLX_BLOCK, .vocab = config.vocab, .width = config.width,
                               .heads = config.heads, .layers = config.layers, .context = context};

int run(int threads, bool training, bool serve) {
  constexpr Index sequences = config.batch;
  Trainer<model, Backend> trainer{{.batch = sequences, .seed = 1, .threads = threads}};
  TokenBatch batch = make_batch(sequences, context);
  batch.offsets.push_back(0);
  for (Index i = 0; i < sequences * context; ++i) {
    batch.tokens.push_back(
        static_cast<std::int32_t>(bits(1, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(model.vocab)));
    batch.labels.push_back(
        static_cast<std::int32_t>(bits(2, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(model.vocab)));
    if ((i + 1) % context == 0) batch.offsets.push_back(i + 1);
  }
  const auto step = [&] {
    const auto begin = std::chrono::steady_clock::now();
    if (training) {
      trainer.step(batch, {});
    } else {
      trainer.loss(batch);
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  const double flops = causal_flops<model>(tokens{context}) * static_cast<double>(sequences) * (training ? 3 : 1);
  const double peak = measured_peak_gflops(threads);

  if (serve) {
    std::printf("{\"ready\": true, \"peak_gflops\": %.2f, \"flops_per_step\": %.0f, \"parameters\": %td}\n", peak,
                flops, parameters<model>);
    std::fflush(stdout);
    std::string word;
    long count = 0;
    while (std::cin >> word >> count) {
      std::printf("{\"ms\": [");
      for (long i = 0; i < count; ++i) std::printf("%s%.4f", i ? ", " : "", step());
      std::printf("]}\n");
      std::fflush(stdout);
    }
    return 0;
  }
  std::vector<double> times;
  for (int i = 0; i < 23; ++i) times.push_back(step());
  std::sort(times.begin() + 3, times.end());  // without the first three
  const double median = times[13];
  std::printf("%.2f ms per step, %.0f tokens/s, %.1f GFLOP/s, %.1f %% of the peak of %.1f GFLOP/s\n", median,
              static_cast<double>(sequences * context) / median * 1e3, flops / median * 1e-6,
              flops / median * 1e-4 / peak, peak);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::map<std::string, std::string> flags{{"--threads", "1"}, {"--mode", "train"}};
  bool serve = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--serve") {
      serve = true;
    } else if (flags.count(argv[i]) && i + 1 < argc) {
      flags[argv[i]] = argv[i + 1];
      ++i;
    } else {
      std::fprintf(stderr, "unknown flag %s; see the top of bench/step.cpp\n", argv[i]);
      return 1;
    }
  }
  const int threads = std::atoi(flags["--threads"].c_str());
  const bool training = flags["--mode"] == "train";
  if (!training && flags["--mode"] != "infer") {
    std::fprintf(stderr, "no such mode: %s; train and infer can be run\n", flags["--mode"].c_str());
    return 1;
  }
  return run(threads, training, serve);
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
