// SPDX-License-Identifier: MIT
#pragma once

/// \file bench/model.hpp
/// The model of a program, a constant of it: SIMPLX_CONFIG, SIMPLX_BLOCK and SIMPLX_PATH are given by the
/// build. And how such a program is measured, alone or by turns with a rival (bench/compare).

#include "batch.hpp"
#include "measure.hpp"

#include <simplx/simplx.hpp>

#include <iostream>

namespace bench {

struct Config {
  Index vocab, width;
  int heads, layers;
  Index batch;
};
inline constexpr Config tiny{256, 128, 4, 6, 8}, small{1024, 256, 8, 8, 8}, paperlike{8192, 768, 12, 6, 4};
inline constexpr Index context = 128;

using Backend = simplx::Cpu<float, simplx::Path::SIMPLX_PATH>;
inline constexpr Config config = SIMPLX_CONFIG;
inline constexpr simplx::Decoder model{.block = simplx::SIMPLX_BLOCK, .vocab = config.vocab, .width = config.width,
                                       .heads = config.heads, .layers = config.layers, .context = context};
#define SIMPLX_WORD(name) #name
#define SIMPLX_NAME(name) SIMPLX_WORD(name)
inline constexpr const char *config_name = SIMPLX_NAME(SIMPLX_CONFIG), *block_name = SIMPLX_NAME(SIMPLX_BLOCK);

/// Measures a step of `flops` over the whole batch: 20 steps after three, the median. With --serve it prints
/// {"ready": true, ...} and then answers each line "run N" with the milliseconds of N steps and the peak right behind
/// them: clocks drift by a tenth within minutes.
template <class Step>
void measure_step(const Flags& flags, double flops, Step step) {
  const int threads = static_cast<int>(flags.number("--threads"));
  const auto peak = [&] { return peak_of<Backend>(threads, 0.0005); };
  if (flags.given("--serve")) {
    std::printf("{\"ready\": true, \"flops_per_step\": %.0f, \"parameters\": %td, \"peak_of\": \"%s\"}\n", flops,
                simplx::parameters<model>, multiplied<Backend>());
    std::fflush(stdout);
    std::string word;
    for (long count = 0; std::cin >> word >> count;) {
      std::printf("{\"ms\": [");
      for (long i = 0; i < count; ++i) std::printf("%s%.4f", i ? ", " : "", wall_milliseconds(step));
      std::printf("], \"peak_gflops\": %.2f}\n", peak());
      std::fflush(stdout);
    }
    return;
  }
  std::vector<double> times;
  for (int i = 0; i < 23; ++i) {
    const double ms = wall_milliseconds(step);
    if (i >= 3) times.push_back(ms);
  }
  const double ms = median(times);
  const double tokens = static_cast<double>(config.batch * context), gflops = flops / ms * 1e-6;
  Rows(flags).add({{"config", config_name}, {"block", block_name}, {"threads", static_cast<double>(threads)},
                   {"ms", ms}, {"tokens_per_s", tokens / ms * 1e3}, {"gflops", gflops}, {"of_peak", gflops / peak()}});
}

}  // namespace bench
