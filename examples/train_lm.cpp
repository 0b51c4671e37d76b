// SPDX-License-Identifier: MIT
//
// Trains a small language model on the bytes of text files: the block is chosen by name, the rest is a decoder
// of 6 layers, width 128, 4 heads, 128 bytes of context.
//
//     train_lm --block sas_p --text /usr/lib/python3.11 --minutes 3 --out runs/first

#include <simplx/simplx.hpp>

#include <simplx/cpu/peak.hpp>
#include <simplx/io/checkpoint.hpp>
#include <simplx/report/progress.hpp>
#include <simplx/report/run_log.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <thread>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

struct Options {
  std::string block = "sas_p";
  std::vector<fs::path> text;
  double minutes = 3;
  long steps = 0;  // 0: from the minutes
  std::uint64_t seed = 1;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Index batch = 2;  // small batches learn most from a byte, and this many keep two cores busy
  double learning_rate = 2e-3;
  fs::path out = "runs/train_lm";
};

inline constexpr Index context = 128;
inline constexpr Decoder pre_ln_model{.block = pre_ln, .context = context, .positions = Positions::learned};
inline constexpr Decoder sas_p_model{.block = sas_p, .context = context, .positions = Positions::learned};

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The sources of the Python standard library, as Debian installs them; this repository's own sources otherwise.
fs::path default_text() {
  const std::string prefix = "python3.";
  int newest = -1;  // as a number: 3.9 is older than 3.11
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/lib", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !fs::exists(entry.path() / "os.py")) continue;
    newest = std::max(newest, std::atoi(name.c_str() + prefix.size()));
  }
  if (newest >= 0) return fmt::format("/usr/lib/{}{}", prefix, newest);
  if (fs::exists(SIMPLX_SOURCE_DIR)) return SIMPLX_SOURCE_DIR;
  throw Error("no text was given, and the Python standard library is not installed", "name some with --text PATH");
}

std::string build_type() {
  std::string text = SIMPLX_BUILD_TYPE;
#ifndef __OPTIMIZE__
  text += " (not optimised: expect a tenth of the speed; configure with -DCMAKE_BUILD_TYPE=Release)";
#elif !defined(NDEBUG)
  text += " (assertions on)";
#endif
  return fmt::format("{}, vectors of {} bytes", text, vector_bytes);
}

/// Refuses text without a single window, and says how much would do.
void check_length(const std::vector<fs::path>& paths, const std::vector<Document>& documents, const char* purpose) {
  Index longest = 0;
  for (const Document& document : documents) longest = std::max(longest, document.end - document.begin);
  if (longest > context) return;
  throw Error(fmt::format("the text in {} is too short: its longest document {} has {} bytes, and a window takes {} bytes",
                          paths[0].string(), purpose, longest, context + 1),
              fmt::format("give a file of at least {} bytes, or more files", (context + 1) * TextOptions{}.held_out_one_in));
}

constexpr int validations = 10;  // in a run

/// Held-out loss in nats per token, over windows spread evenly over the held-out text.
template <class Trainer>
double validate(Trainer& trainer, const Batches& windows, TokenBatch& batch) {
  const Index batches = std::min<Index>(32, windows.windows());
  double total = 0;
  Index tokens = 0;
  for (Index i = 0; i < batches; ++i) {
    windows.at(i * windows.windows() / batches, batch);
    total += trainer.loss(batch) * static_cast<double>(batch.tokens.size());
    tokens += static_cast<Index>(batch.tokens.size());
  }
  return total / static_cast<double>(tokens);
}

/// How many steps fit in the time beside the validations, from the speed of a few on a copy that is thrown away.
template <auto const& model>
long calibrate(const Options& options, const TrainerOptions& trainer_options, Batches training, TokenBatch& batch,
               const Batches& validation, TokenBatch& held_out) {
  Trainer<model> trial(trainer_options);
  const auto step = [&] {
    training.next(batch);
    trial.step(batch, {});
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  long steps = 0;
  const auto begin = Clock::now();
  while (steps < 5 || since(begin) < 1.5) step(), ++steps;
  const double each = since(begin) / static_cast<double>(steps);

  const auto validation_begin = Clock::now();
  validate(trial, validation, held_out);
  const double validating = validations * since(validation_begin);
  const double available = options.minutes * 60 * 0.97;  // the rest is caution
  // However short the run, half of its time goes to training.
  return std::max(1L, static_cast<long>(std::max(available - validating, available / 2) / each));
}

/// The parameter with the largest value, NaN above all: where a network that overflows went wrong.
template <class Trainer>
std::string largest_parameter(Trainer& trainer) {
  std::string name;
  double largest = -1;
  for (const TensorInfo& tensor : trainer.tensors().parameters) {
    for (const float value : trainer.parameter(tensor.name)) {
      const double size = std::isnan(value) ? HUGE_VAL : std::abs(static_cast<double>(value));
      if (size > largest) largest = size, name = tensor.name;
    }
  }
  return name;
}

/// Printable text: what is no character of ASCII becomes a question mark.
std::string printable(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    text += token == '\n' || token == '\t' || (token >= 32 && token < 127) ? static_cast<char>(token) : '?';
  }
  return text;
}

template <auto const& model>
int train(const Options& options) {
  // Everything that can go wrong with files goes wrong here, before any work is done.
  const std::vector<fs::path> paths = options.text.empty() ? std::vector{default_text()} : options.text;
  const Corpus corpus = read_text(paths, {.extensions = options.text.empty() ? std::vector<std::string>{".py", ".hpp", ".cpp"}
                                                                             : std::vector<std::string>{}});
  check_length(paths, corpus.training, "to learn from");
  check_length(paths, corpus.validation, "to hold out");
  Batches training(corpus, corpus.training, context, options.batch, options.seed);
  constexpr Index validation_batch = 8;
  const Batches validation(corpus, corpus.validation, context, validation_batch, options.seed);
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) throw Error("cannot create the directory " + options.out.string() + ": " + error.message(), "choose another with --out");
  RunLog log(options.out / "log.jsonl");

  const TrainerOptions trainer_options{.batch = std::max(options.batch, validation_batch), .seed = options.seed,
                                       .threads = options.threads, .sequences_per_step = options.batch};
  TokenBatch batch = make_batch(options.batch, context), held_out = make_batch(validation_batch, context);
  const long steps = options.steps ? options.steps : calibrate<model>(options, trainer_options, training, batch, validation, held_out);
  const Index tokens_per_step = options.batch * context;
  Trainer<model> trainer(trainer_options);
  const LinearSchedule schedule{.peak = options.learning_rate, .warmup = steps / 20, .total = steps};
  const double peak = measured_peak_gflops(options.threads);
  const double flops_per_token = 3 * causal_flops<model>(tokens{context}) / context;

  fmt::print("{}", table({
      {"block", options.block},
      {"parameters", grouped(parameters<model>)},
      {"memory", fmt::format("{} training state, {} of it for one sequence", readable_bytes(static_cast<double>(trainer.bytes())),
                             readable_bytes(static_cast<double>(arena_bytes<model>(tokens{context}))))},
      {"FLOPs", fmt::format("{:.2f} million per token, forward and backward", flops_per_token * 1e-6)},
      {"threads", fmt::format("{}, {} gradient slots, peak {:.0f} GFLOP/s", options.threads, trainer.slots(), peak)},
      {"build", build_type()},
      {"text", fmt::format("{}{}", paths[0].string(), paths.size() > 1 ? fmt::format(" and {} more", paths.size() - 1) : "")},
      {"documents", fmt::format("{} to learn from ({}), {} held out ({})", corpus.training.size(),
                                readable_bytes(static_cast<double>(Corpus::size_of(corpus.training))), corpus.validation.size(),
                                readable_bytes(static_cast<double>(Corpus::size_of(corpus.validation))))},
      {"steps", fmt::format("{} of {} bytes, {} in all", grouped(steps), grouped(tokens_per_step), grouped(steps * tokens_per_step))},
  }));

  nlohmann::ordered_json run{
      {"version", fmt::format("{}.{}.{}", SIMPLX_VERSION_MAJOR, SIMPLX_VERSION_MINOR, SIMPLX_VERSION_PATCH)},
      {"block", options.block}, {"parameters", parameters<model>}, {"vocab", model.vocab}, {"width", model.width},
      {"heads", model.heads}, {"layers", model.layers}, {"context", context}, {"positions", "learned"},
      {"seed", options.seed}, {"threads", options.threads}, {"slots", trainer.slots()}, {"batch", options.batch},
      {"steps", steps}, {"minutes", options.steps ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(options.minutes)},
      {"learning_rate", options.learning_rate}, {"warmup", schedule.warmup}, {"optimiser", AdamW::name},
      {"weight_decay", AdamW{}.weight_decay}, {"beta1", AdamW{}.beta1}, {"beta2", AdamW{}.beta2}, {"epsilon", AdamW{}.epsilon},
      {"clip", trainer_options.clip}, {"build", build_type()}, {"peak_gflops", peak},
      {"flops_per_token", flops_per_token}, {"out", options.out.string()}};
  for (const fs::path& path : paths) run["text"].push_back(path.string());
  for (const TensorInfo& constant : trainer.tensors().constants) {
    if (constant.rank == 0) run["hyper"][constant.name] = trainer.constants()[static_cast<std::size_t>(constant.offset)];
  }
  const auto bad_bytes = nlohmann::ordered_json::error_handler_t::replace;  // of paths, which need not be UTF-8
  write_file(options.out / "run.json", run.dump(2, ' ', false, bad_bytes) + "\n");

  ProgressLine progress;
  const auto begin = Clock::now();
  double window_loss = 0, window_begin = 0, last_validation = 0;
  long window_steps = 0;
  for (long step = 1; step <= steps; ++step) {
    training.next(batch);
    const AdamW optimiser{.learning_rate = schedule.at(step - 1)};
    const StepResult result = trainer.step(batch, optimiser);
    if (!result.finite) {
      throw Error(fmt::format("the loss is no longer finite at step {}; the first parameter concerned is {}", step, result.culprit),
                  "lower --learning-rate; no model was saved");
    }
    window_loss += result.loss;
    ++window_steps;
    const bool validates = step * validations / steps != (step - 1) * validations / steps;
    if (!validates && since(begin) - window_begin < 0.5 && step != 1) continue;

    const double now = since(begin), speed = static_cast<double>(window_steps * tokens_per_step) / (now - window_begin);
    std::optional<double> val_loss;
    if (validates) val_loss = last_validation = validate(trainer, validation, held_out);
    if (val_loss && !std::isfinite(*val_loss)) {
      throw Error(fmt::format("the held-out loss is no longer finite at step {}; the parameter concerned is {}", step,
                              largest_parameter(trainer)),
                  "lower --learning-rate; no model was saved");
    }
    log.write({step, static_cast<long long>(step) * tokens_per_step, since(begin), window_loss / static_cast<double>(window_steps),
               val_loss, optimiser.learning_rate, result.gradient_norm, speed});
    const std::string line = fmt::format("step {:>6}/{}  loss {:.3f}  {:>7.0f} bytes/s  {:.0f} % of peak  {} left", step, steps,
                                         window_loss / static_cast<double>(window_steps), speed,
                                         100 * speed * flops_per_token / (peak * 1e9),
                                         readable_seconds(now / static_cast<double>(step) * static_cast<double>(steps - step)));
    if (validates) {
      progress.say(fmt::format("{}  held out {:.3f} nats/byte", line, *val_loss));
    } else {
      progress.update(line, false);
    }
    window_loss = 0, window_steps = 0, window_begin = since(begin);
  }
  const double trained = since(begin);

  save_checkpoint(options.out / "model.safetensors", trainer.tensors().parameters,
                  std::span<const float>(trainer.parameters()), {{"block", options.block}, {"simplx", run["version"].get<std::string>()}});
  const std::string text = printable(sample(trainer, {'d', 'e', 'f', ' '}, 400, 0.8, options.seed));
  write_file(options.out / "sample.txt", text + "\n");
  fmt::print("\n{}\n\n{:.3f} nats per byte on held-out text after {} of training\n{}: run.json log.jsonl model.safetensors sample.txt\n",
             text, last_validation, readable_seconds(trained), options.out.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::vector<std::string> blocks{"pre_ln", "sas_p"};

  CLI::App app{"Trains a small transformer on the bytes of text and shows what it learned."};
  app.add_option("--block", options.block, "The transformer block")->check(CLI::IsMember(blocks))->capture_default_str();
  app.add_option("--text", options.text, "Text files or directories [the Python standard library]")->type_name("PATH");
  app.add_option("--minutes", options.minutes, "Train about that long: fixes the number of steps once, after a short calibration")
      ->check(CLI::Range(0.01, 100000.0))->capture_default_str();
  app.add_option("--steps", options.steps, "Train exactly that many steps, whatever --minutes says")->check(CLI::Range(1L, 1000000000L));
  app.add_option("--seed", options.seed, "Of initial values, order of the text and sample")
      ->check([](const std::string& text) { return std::string(text.starts_with('-') ? "a seed is a whole number from 0" : ""); })
      ->capture_default_str();
  app.add_option("--threads", options.threads, "The result does not depend on it")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences in a step")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "Peak; warms up over 5 % of the steps and falls to zero")
      ->check(CLI::Range(1e-12, 1e30))->capture_default_str();
  app.add_option("--out", options.out, "Directory of the run")->type_name("DIR")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    if (std::isnan(options.minutes)) throw Error("--minutes is not a number", "give one such as 3");
    if (std::isnan(options.learning_rate)) throw Error("--learning-rate is not a number", "give one such as 2e-3");
    return options.block == "pre_ln" ? train<pre_ln_model>(options) : train<sas_p_model>(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "\nerror: {}\n", error.what());
    return 1;
  }
}
