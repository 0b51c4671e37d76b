// SPDX-License-Identifier: MIT
//
// One run: from the first step to the last, or from the last checkpoint on.

#include "corpus.hpp"
#include "gains.hpp"
#include "text.hpp"

#include <simplx/simplx.hpp>

#include <simplx/cpu/peak.hpp>
#include <simplx/io/checkpoints.hpp>
#include <simplx/io/interrupt.hpp>
#include <simplx/io/run.hpp>
#include <simplx/io/training.hpp>
#include <simplx/report/page.hpp>
#include <simplx/report/picture.hpp>
#include <simplx/report/progress.hpp>
#include <simplx/report/run_log.hpp>

#include <fmt/format.h>

#include <chrono>
#include <fstream>

namespace train_lm {

using namespace simplx;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int validations = 10;  // in a run
constexpr const char* tokenizer_name = "tokenizer.json";

std::string build_type() {
  std::string text = SIMPLX_BUILD_TYPE;
#ifndef __OPTIMIZE__
  text += " (not optimised: expect a tenth of the speed; configure with -DCMAKE_BUILD_TYPE=Release)";
#elif !defined(NDEBUG)
  text += " (assertions on)";
#endif
  return fmt::format("{}, vectors of {} bytes", text, vector_bytes);
}

std::string version() {
  return fmt::format("{}.{}.{}", SIMPLX_VERSION_MAJOR, SIMPLX_VERSION_MINOR, SIMPLX_VERSION_PATCH);
}

/// A number in the metadata of a checkpoint; exactly what fmt wrote.
double number(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    throw Error(std::string("the checkpoint says no ") + key, "was it written by train_lm? --fresh begins anew");
  }
  return std::strtod(found->second.c_str(), nullptr);
}

class TrainingRun {
 public:
  TrainingRun(const Options& options, Text& text, RunDirectory& directory, Interrupt& interrupt)
      : options_(options),
        text_(text),
        directory_(directory),
        interrupt_(interrupt),
        trainer_(options.block.make(options.device, trainer_options())),
        checkpoints_(directory / "checkpoints", options.keep),
        batch_(make_batch(options.batch, context)),
        held_out_(make_batch(Text::held_out_batch, context)) {}

  int train() {
    if (const std::optional<int> status = begin()) return *status;
    RunLog log(directory_ / "log.jsonl", step_);
    const double peak = directory_.value("peak_gflops", 0.0);
    const LinearSchedule schedule{.peak = options_.learning_rate, .warmup = warmup(), .total = steps_};
    const double earlier = seconds_, flops = trainer_->facts().flops_per_token;
    const long first = step_;
    begin_ = Clock::now();
    const auto now = [&] { return earlier + since(begin_); };
    double window_loss = 0, window_begin = now(), saved_at = now();
    long window_steps = 0;
    bool stops = step_ == steps_ || interrupt_.poll(), saved = true;

    while (!stops) {
      text_.training.next(batch_);
      const AdamW optimiser{.learning_rate = schedule.at(step_)};
      const StepResult result = trainer_->step(batch_, optimiser);
      ++step_;
      if (!result.finite) throw not_finite("loss", fmt::format("first parameter concerned is {}", result.culprit));
      window_loss += result.loss;
      ++window_steps;

      stops = step_ == steps_ || interrupt_.poll();  // a signal from here on stops the next step, which is saved
      const bool validates = step_ * validations / steps_ != (step_ - 1) * validations / steps_;
      const bool saves =
          stops || (options_.checkpoint_every.steps ? step_ % options_.checkpoint_every.steps == 0
                                                    : now() - saved_at >= options_.checkpoint_every.minutes * 60);
      if (!validates && !saves && now() - window_begin < 0.5 && step_ != 1) continue;

      const double speed = static_cast<double>(window_steps * tokens_per_step()) / (now() - window_begin);
      LogLine line{.step = step_,
                   .tokens = static_cast<long long>(step_) * tokens_per_step(),
                   .seconds = 0,
                   .loss = window_loss / static_cast<double>(window_steps),
                   .val_loss = {},
                   .learning_rate = optimiser.learning_rate,
                   .gradient_norm = result.gradient_norm,
                   .tokens_per_second = speed};
      if (validates) validate(line);
      line.seconds = seconds_ = now();
      write(line, log);
      const double left = since(begin_) / static_cast<double>(step_ - first) * static_cast<double>(steps_ - step_);
      const std::string share =
          on_cpu() && peak > 0 ? fmt::format("  {:.0f} % of peak", 100 * speed * flops / (peak * 1e9)) : "";
      const std::string shown = fmt::format("step {:>6}/{}  loss {:.3f}  {:>7.0f} {}s/s{}  {} left", step_, steps_,
                                            line.loss, speed, text_.token_name(), share, readable_seconds(left));
      if (validates) {
        progress_.say(fmt::format("{}  held out {:.3f} nats/{}", shown, *line.val_loss, text_.token_name()));
      } else {
        progress_.update(shown, false);
      }
      const bool is_best = line.val_loss && (!checkpoints_.best() || *line.val_loss < checkpoints_.best()->loss);
      if (saves || is_best) {
        saved = save(is_best);
        saved_at = now();
      }
      window_loss = 0, window_steps = 0, window_begin = now();
    }
    return step_ < steps_ ? interrupted(saved) : finished();
  }

 private:
  TrainerOptions trainer_options() const {
    return {.batch = std::max(options_.batch, Text::held_out_batch), .seed = options_.seed, .threads = options_.threads,
            .sequences_per_step = options_.batch};
  }
  bool on_cpu() const { return options_.device == Device::cpu; }
  const char* device() const { return devices::name_of(options_.device); }
  bool has_tokenizer_file() const { return text_.corpus.tokenizer && !text_.of_bytes; }
  Index tokens_per_step() const { return options_.batch * context; }
  long warmup() const { return steps_ / 20; }

  // ------------------------------------------------------------------------------------- beginning and going on

  /// Begins the run, or goes on with it; an exit status if nothing is left to do, or a signal came early.
  std::optional<int> begin() {
    steps_ = options_.steps;
    if (!steps_ && directory_.begun()) steps_ = recorded_steps();
    if (!steps_) steps_ = calibrate();
    if (!steps_) return interrupt_.exit_status();
    const double peak = on_cpu() ? cpu::measured_peak_gflops(options_.threads) : 0;
    RunRecord record = make_record(peak);
    if (directory_.begun()) {
      check_same(record);
      if (directory_.finished()) {
        fmt::print("the run in {} is finished: {} steps\n"
                   "for a longer one give more --steps or --minutes, with another --out or with --fresh\n",
                   directory_.path().string(), steps_);
        return 0;
      }
      go_on();
    } else {
      directory_.begin(std::move(record));
    }
    if (has_tokenizer_file()) save_tokenizer(directory_ / tokenizer_name, *text_.corpus.tokenizer);
    describe(peak);
    return std::nullopt;
  }

  /// How many steps fit in the time beside the validations, from the speed of a few on a copy that is thrown away;
  /// 0 if a signal comes.
  long calibrate() {
    const auto trial = options_.block.make(options_.device, trainer_options());
    const auto step = [&] {
      text_.training.next(batch_);
      trial->step(batch_, {});
    };
    for (int warm_up = 0; warm_up < 3; ++warm_up) step();
    long steps = 0;
    const auto begin = Clock::now();
    while (steps < 5 || since(begin) < 1.5) {
      if (interrupt_.poll()) return 0;
      step(), ++steps;
    }
    const double each = since(begin) / static_cast<double>(steps);

    const auto validation_begin = Clock::now();
    text_.validate(*trial, held_out_);
    const double validating = validations * since(validation_begin);
    text_.training.seek(0);
    const double available = options_.minutes * 60 * 0.97;  // the rest is caution
    // However short the run, half of its time goes to training.
    return std::max(1L, static_cast<long>(std::max(available - validating, available / 2) / each));
  }

  RunRecord make_record(double peak) {
    const ModelFacts facts = trainer_->facts();
    const AdamW optimiser;
    RunRecord record{{"version", version()},
                     {"block", options_.block.name},
                     {"parameters", facts.parameters},
                     {"vocab", facts.vocab},
                     {"width", facts.width},
                     {"heads", facts.heads},
                     {"layers", facts.layers},
                     {"context", context},
                     {"bytes", trainer_->bytes()},
                     {"arena_bytes", facts.arena_bytes},
                     {"positions", "learned"},
                     {"seed", options_.seed},
                     {"device", device()},
                     {"threads", options_.threads},
                     {"batch", options_.batch},
                     {"steps", steps_},
                     {"minutes", options_.steps ? RunRecord(nullptr) : RunRecord(options_.minutes)},
                     {"learning_rate", options_.learning_rate},
                     {"warmup", warmup()},
                     {"optimiser", AdamW::name},
                     {"weight_decay", optimiser.weight_decay},
                     {"beta1", optimiser.beta1},
                     {"beta2", optimiser.beta2},
                     {"epsilon", optimiser.epsilon},
                     {"clip", trainer_->options().clip},
                     {"build", build_type()},
                     {"peak_gflops", peak},
                     {"flops_per_token", facts.flops_per_token},
                     {"out", options_.out.string()}};
    for (const fs::path& path : text_.paths) record["text"].push_back(path.string());
    const Index size = text_.corpus.training.size() + text_.corpus.validation.size();
    record[text_.of_bytes ? "text_bytes" : "text_tokens"] = size;
    record["tokenizer"] = nullptr;  // nobody knows
    if (text_.corpus.tokenizer) record["tokenizer"] = text_.of_bytes ? "bytes" : tokenizer_name;
    if (const double bytes = text_.bytes_per_token(held_out_); !std::isnan(bytes)) record["bytes_per_token"] = bytes;
    record["text_fingerprint"] = fingerprint(text_.corpus);
    for (const TensorInfo& constant : trainer_->tensors().constants) {
      if (constant.rank == 0)
        record["hyper"][constant.name] = trainer_->constants()[static_cast<std::size_t>(constant.offset)];
    }
    return record;
  }

  /// Those that the run began with; 0 where its record does not say.
  long recorded_steps() const {
    const auto found = directory_.record().find("steps");
    return found != directory_.record().end() && found->is_number_integer() ? found->get<long>() : 0;
  }
  /// Refuses to go on with a run of other options; text may have moved, but not changed.
  void check_same(const RunRecord& now) const {
    const RunRecord& run = directory_.record();
    const std::string table = differences(
        run, now, {"version", "build", "device", "threads", "bytes", "arena_bytes",  // which follows the vectors' width
                   "peak_gflops", "flops_per_token", "out", "text",
                   // In the text's fingerprint; an earlier version, which began the run, may not say them.
                   "tokenizer", "bytes_per_token"});
    if (table.empty()) return;
    const bool longer = recorded_steps() != steps_;
    throw Error(
        fmt::format("{} holds a run with other options:{}", directory_.path().string(), table),
        fmt::format(
            "{}give the options of that run, another --out, or --fresh to move it aside and begin anew",
            longer ? "the learning rate falls to zero at the last step, so that a run has the length it began with; "
                   : ""));
  }

  /// Takes up the latest checkpoint, if there is one.
  void go_on() {
    const auto recorded = [&](const char* name, const char* otherwise) {
      return directory_.value<std::string>(name, otherwise);
    };
    const std::string began_on = recorded("device", "cpu");
    const std::string its_version = recorded("version", "unknown"), its_build = recorded("build", "unknown");
    if (its_version != version() || its_build != build_type() || began_on != device()) {
      fmt::print("note: another build or device began this run ({}, {}, {}); it goes on, but not bit for bit\n",
                 its_version, its_build, began_on);
    }
    const std::optional<long> latest = checkpoints_.latest();
    if (!latest) return;
    const Metadata saved = load_latest(*latest);
    step_ = trainer_->state().count.steps;
    text_.training.seek(static_cast<Index>(number(saved, "position")));
    seconds_ = number(saved, "seconds");
    if (saved.count("best_step"))
      checkpoints_.set_best(
          Checkpoints::Best{static_cast<long>(number(saved, "best_step")), number(saved, "best_val_loss")});
    if (saved.count("val_loss")) val_loss_ = number(saved, "val_loss");
    checkpoints_.write_index();  // it may have been killed before it was written
  }

  Metadata load_latest(long step) {
    try {
      return load_training(checkpoints_.path(step), *trainer_);
    } catch (const Error& error) {
      const bool others = checkpoints_.steps().size() > 1;
      throw Error(error.what(), fmt::format("without the directory {} the same command {}",
                                            checkpoints_.path(step).string(),
                                            others ? "goes on from the checkpoint before" : "begins anew"));
    }
  }

  void describe(double peak) const {
    const ModelFacts facts = trainer_->facts();
    const TokenDocuments &training = text_.corpus.training, &held_out = text_.corpus.validation;
    const auto readable_size = [&](const TokenDocuments& part) {
      return text_.of_bytes ? readable_bytes(static_cast<double>(part.size())) : grouped(part.size()) + " tokens";
    };
    fmt::print(
        "{}",
        table({
            {"block", options_.block.name},
            {"parameters", grouped(facts.parameters)},
            {"memory", fmt::format("{} training state, {} of it for one sequence",
                                   readable_bytes(static_cast<double>(trainer_->bytes())),
                                   readable_bytes(static_cast<double>(facts.arena_bytes)))},
            {"FLOPs", fmt::format("{:.2f} million per token, forward and backward", facts.flops_per_token * 1e-6)},
            {"device",
             on_cpu() ? fmt::format("cpu, {} threads, peak {:.0f} GFLOP/s", options_.threads, peak) : device()},
            {"build", build_type()},
            {"text", text_.paths[0].string() +
                         (text_.paths.size() > 1 ? fmt::format(" and {} more", text_.paths.size() - 1) : "")},
            {"documents", fmt::format("{} to learn from ({}), {} held out ({})", training.documents.size(),
                                      readable_size(training), held_out.documents.size(), readable_size(held_out))},
            {"steps", fmt::format("{} of {} {}s, {} in all", grouped(steps_), grouped(tokens_per_step()),
                                  text_.token_name(), grouped(steps_ * tokens_per_step()))},
        }));
    if (step_) fmt::print("{}", table({{"goes on", fmt::format("from {}", checkpoints_.path(step_).string())}}));
    std::fflush(stdout);
  }

  // ------------------------------------------------------------------------------------------------- on the way

  /// Adds what is known on validation lines only: the held-out loss, gains and gradients of the layers.
  void validate(LogLine& line) {
    const double loss = text_.validate(*trainer_, held_out_);
    if (!std::isfinite(loss))
      throw not_finite("held-out loss",
                       fmt::format("parameter concerned is {}", largest_parameter(*trainer_).parameter));
    line.val_loss = val_loss_ = loss;
    line.gains = gains(*trainer_);
    text_.held_out.at(0, held_out_);
    line.gradient_norms = trainer_->gradient_norms(held_out_);
  }

  /// A disk that is full is told once and survived: the log holds its lines until there is room.
  void write(const LogLine& line, RunLog& log) {
    try {
      log.write(line);
      log_waits_ = false;
    } catch (const Error& error) {
      if (!log_waits_) progress_.say(fmt::format("no line of the log at step {}: {}", step_, error.what()));
      log_waits_ = true;
    }
  }

  /// Writes a checkpoint; a disk that is full is told and survived.
  bool save(bool is_best) {
    if (const Largest largest = largest_parameter(*trainer_); !std::isfinite(largest.size)) {
      throw not_finite("network", fmt::format("parameter concerned is {}", largest.parameter));
    }
    const auto best = checkpoints_.best();
    if (is_best) checkpoints_.set_best(Checkpoints::Best{step_, *val_loss_});
    try {
      checkpoints_.write(step_, [&](const fs::path& directory) {
        Metadata position{{"position", fmt::format("{}", text_.training.position())},
                          {"seconds", fmt::format("{}", seconds_)}};
        if (val_loss_) position["val_loss"] = fmt::format("{}", *val_loss_);
        if (const auto& now = checkpoints_.best()) {
          position["best_step"] = fmt::format("{}", now->step);
          position["best_val_loss"] = fmt::format("{}", now->loss);
        }
        save_training(directory, *trainer_, model_metadata(), position);  // adds the step
      });
      return true;
    } catch (const Error& error) {
      checkpoints_.set_best(best);
      progress_.say(fmt::format("no checkpoint at step {}: {}\n  {}", step_, error.what(), last_good()));
      return false;
    }
  }

  Metadata model_metadata() const {
    return {{"block", options_.block.name}, {"simplx", version()}};
  }

  std::string last_good() const {
    const std::optional<long> latest = checkpoints_.latest();
    return latest ? "the last good checkpoint is " + checkpoints_.path(*latest).string() : "there is no checkpoint yet";
  }

  Diverged not_finite(const char* what, const std::string& where) const {
    return Diverged(fmt::format("the {} is no longer finite at step {}; the {}; {}", what, step_, where, last_good()),
                    "lower --learning-rate, with another --out or with --fresh");
  }

  // --------------------------------------------------------------------------------------------------- the end

  /// What the model writes; in numbers, where the bytes of its tokens are not known.
  std::string make_sample() {
    const std::optional<Tokenizer>& tokenizer = text_.corpus.tokenizer;
    const TokenDocuments& held_out = text_.corpus.validation;
    // Tokens have the space before a word, not behind it.
    const std::vector<std::int32_t> tokens =
        sample(*trainer_,
               tokenizer ? tokenizer->encode(text_.of_bytes ? "def " : "def")
                         : std::vector{held_out.tokens[held_out.documents[0].begin]},
               text_.of_bytes ? 400 : 150, {.temperature = 0.8, .seed = options_.seed});
    if (!tokenizer) return fmt::format("{}", fmt::join(tokens, " "));
    Utf8 characters;
    std::string text;
    for (const std::int32_t token : tokens) text += token_text::shown(token, *tokenizer, characters);
    return text + characters.end();
  }

  /// The held-out loss, and what it is by the byte.
  std::string readable_loss() {
    const double loss = val_loss_.value_or(0), bytes = text_.bytes_per_token(held_out_);
    if (text_.of_bytes || std::isnan(bytes)) return fmt::format("{:.3f} nats per {}", loss, text_.token_name());
    return fmt::format("{:.3f} nats per token, {:.3f} nats per byte,", loss, loss / bytes);
  }

  /// What people look at, of a run that ends or pauses. What cannot be written is told, and the rest is written;
  /// whether all of it is.
  bool write_results(const std::string& text) {
    bool all = true;
    const auto attempt = [&](const char* name, const auto& write) {
      try {
        write(directory_ / name);
      } catch (const std::exception& error) {
        std::fflush(stdout);
        fmt::print(stderr, "\nerror: no {}: {}\n", name, error.what());
        all = false;
      }
    };
    attempt("sample.txt", [&](const fs::path& path) { write_file(path, text + "\n"); });
    attempt("block.svg", [&](const fs::path& path) {
      write_file(path, picture_of_ops(trainer_->layer(), options_.block.name));
    });
    attempt("report.html", [&](const fs::path&) { write_report(directory_.path()); });
    return all;
  }

  int interrupted(bool saved) {
    progress_.say(fmt::format("\nstopped by a signal after step {} of {}; {}", step_, steps_, last_good()));
    const bool written = !step_ || write_results(make_sample());
    fmt::print("the same command{} goes on from there\n", options_.fresh ? ", but without --fresh," : "");
    return saved && written ? interrupt_.exit_status() : 1;
  }

  /// The weights first: all else can be made again from them.
  int finished() {
    const fs::path last = checkpoints_.path(step_) / "model.safetensors";  // the same file, unless the disk was full
    Metadata metadata = fs::exists(last) ? SafetensorsFile::read(last).metadata() : model_metadata();
    metadata["steps"] = std::to_string(step_);
    save_checkpoint(directory_ / "model.safetensors", *trainer_, metadata);
    const std::string text = make_sample();
    const bool written = write_results(text);
    fmt::print("\n{}\n\n{} on held-out text after {} of training\n{}: run.json log.jsonl checkpoints "
               "model.safetensors{}{}\n",
               text, readable_loss(), readable_seconds(seconds_), directory_.path().string(),
               has_tokenizer_file() ? " tokenizer.json" : "",
               written ? " sample.txt block.svg report.html" : "; tools/report writes its page anew");
    for (const std::string& refusal : trainer_->refusals()) fmt::print("slower than it should be: {}\n", refusal);
    return written ? 0 : 1;
  }

  const Options& options_;
  Text& text_;
  RunDirectory& directory_;
  Interrupt& interrupt_;
  std::unique_ptr<AnyTrainer> trainer_;
  Checkpoints checkpoints_;
  TokenBatch batch_, held_out_;
  ProgressLine progress_;
  Clock::time_point begin_;
  long steps_ = 0, step_ = 0;       // in all; taken
  double seconds_ = 0;              // of training, at the last line of the log
  std::optional<double> val_loss_;  // the last one
  bool log_waits_ = false;          // for room on the disk
};

/// Renames a record that cannot be understood, for which a RunDirectory would refuse its directory, so that --fresh may
/// move all of that aside. No program works there: what one has written is whole.
void disown_damaged(const fs::path& record) {
  std::ifstream file(record, std::ios::binary);
  if (!file || parse_json<RunRecord>(std::string(std::istreambuf_iterator<char>(file), {})).is_object()) return;
  const fs::path damaged = record.string() + ".damaged";
  fs::rename(record, damaged);
  fmt::print("{} is damaged and now {}\n", record.string(), damaged.filename().string());
}

/// Refuses a directory where a file of the run could not be written, by what can be known of that before it is.
void check_writable(const RunDirectory& directory) {
  for (const char* name : {"run.json", "log.jsonl", "model.safetensors", "sample.txt", "block.svg", "report.html",
                           tokenizer_name}) {
    AtomicFile(directory / name);  // never committed: nothing is left of it
  }
  const fs::path checkpoints = directory / "checkpoints";
  if (fs::exists(fs::symlink_status(checkpoints))) AtomicFile(checkpoints / "index.json");
}

}  // namespace

int train(const Options& options) {
  // What is wrong with paths is found here, before any work is done; a disk may be full later.
  Text text(options);
  if (options.fresh) disown_damaged(options.out / "run.json");
  RunDirectory directory(options.out);
  if (options.fresh && directory.occupied()) {
    fmt::print("the earlier run is now {}\n", directory.move_aside().string());
  }
  directory.check_free();
  if (!directory.finished()) check_writable(directory);
  Interrupt interrupt;  // before the threads of the trainer
  TrainingRun run(options, text, directory, interrupt);
  return run.train();
}

}  // namespace train_lm
