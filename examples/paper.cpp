// SPDX-License-Identifier: MIT
//
// The experiments of "Simplifying Transformer Blocks" and of "NormFormer" in miniature, on a CPU.
//
//     paper list                       every experiment, and what of it was run
//     paper run                        all of them, one seed, at most 100 minutes
//     paper run s-f3 --seeds 3         one figure, three seeds
//     paper report                     one page: the papers' claims and figures beside what was seen
//
// Every finished run is a line under bench/results/paper; whatever ends the program, the same command goes on after the
// last line, and seeds accumulate. Arms that several figures share are run once.

#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <simplx/cpu/peak.hpp>
#include <simplx/io/file.hpp>
#include <thread>

#include "flags.hpp"
#include "paper/judge.hpp"
#include "paper/page.hpp"
#include "paper/training.hpp"
#include "train_lm/corpus.hpp"

namespace {

using namespace paper;
using simplx::Error;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> names;
  std::uint64_t seeds = 1;
  double minutes = 100;
  long steps = 0;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<fs::path> text;
  fs::path results = fs::path(SIMPLX_SOURCE_DIR) / "bench/results/paper";
  fs::path out = "runs/paper.html";
};

std::vector<const Experiment*> chosen(const Options& options) {
  std::vector<const Experiment*> list;
  for (const std::string& name : options.names) list.push_back(&experiment_named(name));
  if (list.empty()) {
    for (const Experiment& experiment : experiments()) list.push_back(&experiment);
  }
  return list;
}

/// The models of an experiment that this program was built without.
std::set<std::string> missing_models(const Experiment& experiment) {
  std::set<std::string> missing;
  for (const Arm& arm : experiment.arms) {
    if (!find_model(arm.model)) missing.insert(arm.model);
  }
  return missing;
}

/// Runs that belong together: one of training, or all models that take turns.
using Job = std::vector<Task>;

/// What is not run yet, in the order of the experiments, a seed after the other.
std::vector<Job> jobs_of(const std::vector<const Experiment*>& chosen, const Results& results, const Options& options) {
  std::vector<Job> jobs;
  std::set<std::string> wanted;
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    for (const Experiment* experiment : chosen) {
      Job turns;
      bool turns_done = true;
      for (const Arm& arm : experiment->arms) {
        for (const Task& task : tasks_of(arm, seed, options.steps)) {
          if (task.settings.turns) {
            turns.push_back(task);
            turns_done = turns_done && results.find(task);
          } else if (!results.find(task) && wanted.insert(json_of(task).dump()).second) {
            jobs.push_back({task});
          }
        }
      }
      if (!turns_done) jobs.push_back(std::move(turns));
    }
  }
  return jobs;
}

double flops_of(const Job& job) {
  double total = 0;
  for (const Task& task : job) total += paper::flops_of(*find_model(task.model), task.settings);
  return total;
}

/// FLOP/s that runs reach: what they did, or a fifth of the peak while there are none.
class Pace {
 public:
  explicit Pace(int threads) : guess_(2e8 * simplx::cpu::measured_peak_gflops(threads)) {}
  void add(double flops, double seconds) { flops_ += flops, seconds_ += seconds; }
  double seconds(double flops) const { return flops / (seconds_ > 0 ? flops_ / seconds_ : guess_); }

 private:
  double guess_, flops_ = 0, seconds_ = 0;
};

std::string label_of(const Job& job) {
  if (job.size() > 1) return fmt::format("{} models in turns, seed {}", job.size(), job[0].seed);
  return fmt::format("{}, seed {}, rate {:g}", job[0].model, job[0].seed, job[0].settings.rate);
}

void print_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  const auto width = [](const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  };
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - width(row[i]) + 3, ' ');
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

void print_seen(const Experiment& experiment, const Results& results, long steps) {
  const std::vector<ArmSeen> arms = look(experiment, results, steps);
  fmt::print("\n{}  {} of {}: {}\n\n  claim      {}\n  miniature  {} {}\n\n", experiment.name, experiment.shows,
             experiment.source == "S" ? "Simplifying Transformer Blocks" : "NormFormer", experiment.title,
             experiment.claim, setting_of(experiment, steps), experiment.miniature);
  print_rows(table_of(experiment, arms));
  fmt::print("\n");
  for (const Verdict& verdict : judge(experiment, arms)) {
    const char* const words[] = {"open", "holds", "DOES NOT HOLD"};
    fmt::print("  {:<13}  {} ({})\n", words[static_cast<int>(verdict.is)], verdict.sentence, verdict.seen);
  }
  if (!experiment.reading.empty()) fmt::print("\n  reading    {}\n", experiment.reading);
}

/// What was run so far.
///
/// Errors  throws Error if there is no such directory, which may be one misspelt
Results finished_runs(const Options& options) {
  std::error_code ignored;
  if (fs::is_directory(options.results, ignored)) return Results(options.results);
  throw Error("there is no directory " + options.results.string(),
              "name that of the finished runs with --results DIR; paper run makes it");
}

int list(const Options& options) {
  const Results results = finished_runs(options);
  std::vector<std::vector<std::string>> rows{{"name", "shows", "title", "seeds", "orderings"}};
  std::set<std::string> missing;
  for (const Experiment& experiment : experiments()) {
    const std::vector<ArmSeen> arms = look(experiment, results, options.steps);
    std::size_t seeds = arms[0].seeds.size();
    for (const ArmSeen& seen : arms) seeds = std::min(seeds, seen.seeds.size());
    rows.push_back({experiment.name, fmt::format("{}: {}", experiment.source, experiment.shows), experiment.title,
                    fmt::format("{}", seeds), summary_of(judge(experiment, arms))});
    missing.merge(missing_models(experiment));
  }
  print_rows(rows);
  fmt::print("\nS: Simplifying Transformer Blocks, N: NormFormer. {} runs in {}.\n", results.size(),
             results.folder().string());
  if (missing.empty()) {
    const std::vector<Job> jobs = jobs_of(chosen(options), Results("", "none"), options);
    double flops = 0;
    for (const Job& job : jobs) flops += flops_of(job);
    fmt::print("A seed of all: {} runs, {:.0f} TFLOP.\n", jobs.size(), flops * 1e-12);
  } else {
    fmt::print("Built without the models {}: configure with -DSIMPLX_PAPER=ON for all.\n", fmt::join(missing, ", "));
  }
  return 0;
}

int run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const std::vector<const Experiment*> experiments = chosen(options);
  for (const Experiment* experiment : experiments) {
    const std::set<std::string> missing = missing_models(*experiment);
    if (missing.empty()) continue;
    throw Error(fmt::format("{} needs the models {}, which this program was built without", experiment->name,
                            fmt::join(missing, ", ")),
                "configure with -DSIMPLX_PAPER=ON, or use tools/paper");
  }
  simplx::Interrupt interrupt;
  std::error_code error;
  fs::create_directories(options.results, error);
  if (error || access(options.results.c_str(), W_OK) != 0) {  // now, not after the first run
    throw Error(fmt::format("cannot write into {}: {}", options.results.string(),
                            error ? error.message() : std::strerror(errno)),
                "give another directory with --results DIR");
  }
  const simplx::TokenCorpus corpus = train_lm::open_text(options.text, {.text = {.except = options.results}});
  Results results(options.results, train_lm::fingerprint(corpus));
  if (results.broken_lines()) {
    fmt::print("note: {} lines in {} are no finished runs and do not count\n", results.broken_lines(),
               options.results.string());
  }
  if (results.other_texts()) {
    fmt::print("note: {} runs on another text do not count here\n", results.other_texts());
  }
  simplx::ProgressLine progress;
  Setup setup{corpus, results.text(), options.threads, interrupt, progress};
  Pace pace(options.threads);
  const std::vector<Job> jobs = jobs_of(experiments, results, options);
  double left = 0;
  for (const Job& job : jobs) left += flops_of(job);
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::size_t done = 0, skipped = 0;
  for (const Job& job : jobs) {
    const double flops = flops_of(job);
    if (elapsed() + pace.seconds(flops) > options.minutes * 60 && done) {
      ++skipped;  // a shorter one may still fit
      continue;
    }
    const double job_begin = elapsed();
    std::vector<Json> records;
    if (job[0].settings.turns) {
      std::optional<std::vector<Json>> timed = take_turns(job, setup);
      if (timed) records = std::move(*timed);
    } else if (std::optional<Json> trained = train(*find_model(job[0].model), job[0], setup)) {
      records.push_back(std::move(*trained));
    }
    if (records.empty()) break;  // interrupted
    for (std::size_t i = 0; i < job.size(); ++i) results.add(job[i], std::move(records[i]));
    pace.add(flops, elapsed() - job_begin);
    left -= flops;
    ++done;
    progress.say(fmt::format("run {:>3}/{}  {}  {}, about {} left", done + skipped, jobs.size(), label_of(job),
                             simplx::readable_seconds(elapsed() - job_begin),
                             simplx::readable_seconds(pace.seconds(left))));
  }
  if (interrupt.poll()) {
    progress.say(fmt::format("stopped after {} of {} runs; the same command goes on", done, jobs.size()));
    return interrupt.exit_status();
  }
  for (const Experiment* experiment : experiments) print_seen(*experiment, results, options.steps);
  fmt::print("\n{} runs now, {} in all; one seed is an indication, not a result.\n", done, results.size());
  if (skipped) fmt::print("{} runs did not fit in {:g} minutes; the same command goes on.\n", skipped, options.minutes);
  return 0;
}

int report(const Options& options) {
  const Results results = finished_runs(options);
  std::error_code error;
  if (options.out.has_parent_path()) fs::create_directories(options.out.parent_path(), error);
  if (error) {
    throw Error(fmt::format("cannot make {}: {}", options.out.parent_path().string(), error.message()),
                "give another file with --out FILE");
  }
  simplx::write_file(options.out, page_of(results, options.steps));
  fmt::print("{}\n", options.out.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"The experiments of two papers in miniature. Ctrl-C stops a suite; the same command goes on."};
  app.require_subcommand(1);
  const auto shared = [&](CLI::App* command) {
    command->add_option("--results", options.results, "Directory of the finished runs")
        ->type_name("DIR")
        ->capture_default_str();
    command->add_option("--steps", options.steps, "Of a usual run, to try things out: such runs count for themselves")
        ->check(flags::from_to(1L, 1000000000L));
  };
  CLI::App* listing = app.add_subcommand("list", "Every experiment, and what of it was run");
  shared(listing);
  CLI::App* running = app.add_subcommand("run", "Runs what is missing, and says whether the papers' orderings hold");
  running->add_option("names", options.names, "Experiments, as list names them [all]");
  running->add_option("--seeds", options.seeds, "How many; those that were run count")
      ->check(flags::from_to(1, 999))
      ->capture_default_str();
  running->add_option("--minutes", options.minutes, "No run is begun that would end later")
      ->check(flags::from_to(0.01, 100000.0))
      ->capture_default_str();
  running->add_option("--threads", options.threads)->check(flags::from_to(1, 1024))->capture_default_str();
  running->add_option("--text", options.text, "To learn from [the Python standard library]")->type_name("PATH");
  shared(running);
  CLI::App* reporting = app.add_subcommand("report", "One page of all that was run");
  reporting->add_option("--out", options.out)->type_name("FILE")->capture_default_str();
  shared(reporting);
  return flags::run(app, argc, argv, [&] {
    return listing->parsed() ? list(options) : running->parsed() ? run(options) : report(options);
  });
}
