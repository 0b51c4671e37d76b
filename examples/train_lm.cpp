// SPDX-License-Identifier: MIT
//
// Trains a small language model on the bytes of text files, or on the tokens that tools/prepare made of them: the block
// is chosen by name, the rest is a decoder of 6 layers, width 128, 4 heads, 128 tokens of context. How many tokens the
// models know is chosen by CMake's SIMPLX_VOCAB.
//
//     train_lm --block sas_p --text /usr/lib/python3.11 --minutes 3 --out runs/first
//
// Ctrl-C stops it, and the same command goes on; the result has the same bits as that of a run that was never stopped.
//
//     train_lm.cpp              the flags
//     train_lm/blocks.hpp       the table of blocks
//     train_lm/any_trainer.hpp  what the program asks of a model;  trainer_of.hpp, blocks/: the models
//     train_lm/text.cpp         the text
//     train_lm/training.cpp     the run

#include "flags.hpp"
#include "train_lm/blocks.hpp"

#include <simplx/core/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <thread>

namespace {

using namespace train_lm;
using simplx::Error;

/// "500" steps or "10m" minutes.
Interval interval_of(const std::string& text) {
  const char *begin = text.data(), *end = begin + text.size();
  long steps = 0;
  if (const auto read = std::from_chars(begin, end, steps); read.ec == std::errc() && read.ptr == end && steps > 0)
    return {.steps = steps};
  double minutes = 0;
  const auto read = std::from_chars(begin, end, minutes);
  if (read.ec == std::errc() && std::string(read.ptr, end) == "m" && minutes > 0 && std::isfinite(minutes))
    return {.minutes = minutes};
  throw Error("--checkpoint-every " + text + " is no interval",
              "give a number of steps such as 500, or minutes such as 10m");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string block = "sas_p", checkpoint_every = "5m";

  CLI::App app{"Trains a small transformer on text and shows what it learned.\n"
               "Ctrl-C stops it; the same command goes on where it stopped."};
  app.add_option("--block", block, "The transformer block")->check(CLI::IsMember(block_names()))->capture_default_str();
  app.add_option("--text", options.text,
                 "Text files or directories, or one file or directory of tools/prepare [the Python standard library]")
      ->type_name("PATH");
  app.add_option("--minutes", options.minutes,
                 "Train about that long: fixes the number of steps once, after a short calibration")
      ->check(flags::from_to(0.01, 100000.0))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Train exactly that many steps, whatever --minutes says")
      ->check(flags::from_to(1L, 1000000000L));
  app.add_option("--seed", options.seed, "Of initial values, order of the text and sample")
      ->check(flags::seed())->capture_default_str();
  flags::DeviceFlags device(app, "Where to train");
  app.add_option("--threads", options.threads, "Of the cpu; the result does not depend on it")
      ->check(flags::from_to(1, 1024))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences in a step")
      ->check(flags::from_to(1, 4096))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "Peak; warms up over 5 % of the steps and falls to zero")
      ->check(flags::from_to(1e-12, 1e30))->capture_default_str();
  app.add_option("--out", options.out, "Directory of the run; goes on with the run it holds")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--fresh", options.fresh, "Begin anew: an earlier run in --out is moved to DIR-1, DIR-2, ...");
  app.add_option("--checkpoint-every", checkpoint_every, "Steps such as 500, or minutes such as 10m")
      ->capture_default_str();
  app.add_option("--keep", options.keep, "Checkpoints to keep beside the best")
      ->check(flags::from_to(1, 1000000))
      ->capture_default_str();
  return flags::run(app, argc, argv, [&] {
    options.checkpoint_every = interval_of(checkpoint_every);
    options.block = block_named(block);
    options.device = device.device();
    return train(options);
  });
}
