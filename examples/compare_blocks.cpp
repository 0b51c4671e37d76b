// SPDX-License-Identifier: MIT
//
// Trains several blocks on the same data with the same budget, of tokens or of time, and lays them side by side:
// Fig. 5 and Table 1 of "Simplifying Transformer Blocks" in miniature.
//
//     compare_blocks --blocks pre_ln parallel sas_p --minutes 2 --out runs/compare     the same time for each
//     compare_blocks --blocks pre_ln sas_p --steps 2000 --out runs/compare             the same tokens for each
//
// Every block is a run of train_lm in a directory of its own, so that a comparison that was stopped goes on with the
// same command, and `tools/report` shows any of the runs. The table and compare.html are written at the end, of the
// blocks that did not diverge.

#include "flags.hpp"
#include "train_lm/blocks.hpp"

#include <simplx/core/error.hpp>
#include <simplx/report/figures.hpp>
#include <simplx/report/page.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <thread>

namespace {

using namespace train_lm;
using simplx::Error;
namespace fs = std::filesystem;

/// "1.13x", of a number and what it is compared with.
std::string times(double number, double first) {
  return std::isfinite(number / first) ? fmt::format("{:.2f}x", number / first) : std::string("-");
}

/// The table of the terminal; ratios are to the first block.
void print_table(const std::vector<simplx::Run>& runs) {
  const simplx::RunSummary first = simplx::summary_of(runs[0]);
  const std::string token = simplx::token_name(runs);
  const auto whole = [](double number) { return simplx::grouped(static_cast<long long>(number)); };
  fmt::print("\n{:<20}{:>12}{:>16}{:>10}{:>14}{:>9}{:>13}{:>11}{:>10}\n", "block", "parameters", "training state",
             "ms/step", token + "s/s", "speed", token + "s read", "train loss", "held out");
  for (const simplx::Run& run : runs) {
    const simplx::RunSummary sum = simplx::summary_of(run);
    fmt::print("{:<20}{:>12}{:>16}{:>10.2f}{:>14}{:>9}{:>13}{:>11.3f}{:>10.3f}\n", run.option("block"),
               whole(run.number("parameters")),
               simplx::readable_bytes(run.number("bytes")), sum.milliseconds,
               whole(sum.speed), times(sum.speed, first.speed),
               token == "byte" ? simplx::readable_bytes(sum.tokens) : whole(sum.tokens), sum.training, sum.best);
  }
  fmt::print("\nLosses are nats per {}. One seed, a small model: an indication, not a result.\n", token);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.out = "runs/compare";
  std::vector<std::string> names{"pre_ln", "parallel", "sas", "sas_p"};

  CLI::App app{"Trains several blocks on the same data with the same budget and lays them side by side.\n"
               "Ctrl-C stops it; the same command goes on, without --fresh."};
  app.add_option("--blocks", names, "Which, in which order; ratios are to the first")
      ->check(CLI::IsMember(block_names()))
      ->capture_default_str();
  app.add_option("--text", options.text, "As train_lm's [the Python standard library]")->type_name("PATH");
  auto* minutes = app.add_option("--minutes", options.minutes, "Equal time: each block trains about that long");
  minutes->check(flags::from_to(0.01, 100000.0))->capture_default_str();
  app.add_option("--steps", options.steps, "Equal tokens: each block trains exactly that many steps")
      ->check(flags::from_to(1L, 1000000000L))->excludes(minutes);
  app.add_option("--seed", options.seed, "Of initial values and order of the text, the same for all")
      ->check(flags::seed())->capture_default_str();
  app.add_option("--threads", options.threads)->check(flags::from_to(1, 1024))->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences in a step")
      ->check(flags::from_to(1, 4096))->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "Peak, the same for all")
      ->check(flags::from_to(1e-12, 1e30))->capture_default_str();
  app.add_option("--out", options.out, "Directory of the comparison: a run for each block, and compare.html")
      ->type_name("DIR")->capture_default_str();
  app.add_flag("--fresh", options.fresh, "Begin anew: earlier runs are moved aside");
  return flags::run(app, argc, argv, [&] {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i)) {
        throw Error("--blocks names " + names[i] + " twice", "name each block once");
      }
    }
    const fs::path folder = options.results = options.out;
    std::vector<fs::path> directories;
    std::vector<std::string> diverged;
    for (const std::string& name : names) {
      options.block = block_named(name);
      options.out = folder / name;
      try {
        if (const int status = train(options); status != 0) return status;
        directories.push_back(options.out);
      } catch (const Diverged& error) {
        const std::string what = error.what();  // its hint is for a run alone: --fresh would begin all of them anew
        std::fflush(stdout);
        fmt::print(stderr, "\n{} diverged: {}\n", name, what.substr(0, what.find("\n  hint:")));
        diverged.push_back(name);
      }
    }
    if (!directories.empty()) {
      const std::vector<simplx::Run> runs = simplx::read_runs(directories);
      simplx::write_report(folder / "compare.html", runs);
      print_table(runs);
      fmt::print("{}\n", (folder / "compare.html").string());
    }
    if (diverged.empty()) return 0;
    throw Error(fmt::format("not compared, because they diverged: {}", fmt::join(diverged, ", ")),
                "lower --learning-rate, with another --out");
  });
}
