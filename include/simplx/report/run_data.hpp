// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/run_data.hpp
/// What a run left behind: the options of run.json, the lines of log.jsonl, the sample and the block's picture, and
/// whether its final weights are there.

#include <simplx/core/error.hpp>
#include <simplx/io/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// One line of log.jsonl; what it does not contain is NaN.
struct LoggedStep {
  static constexpr double missing = std::numeric_limits<double>::quiet_NaN();
  long long step = 0;
  double tokens = missing;
  double seconds = missing;   ///< since training began, validation included
  double loss = missing;      ///< training loss, nats per token
  double val_loss = missing;  ///< held-out loss, nats per token; infinite where it was measured and no number
  double learning_rate = missing;
  double gradient_norm = missing;
  double tokens_per_second = missing;
  std::map<std::string, std::vector<double>> gains = {};  ///< name -> one number for each layer
  std::vector<double> gradient_norms = {};                ///< at the input of each block, root mean square per token
};

/// A run as it lies in its directory.
struct Run {
  std::filesystem::path directory = {};
  std::string name = {};                ///< the directory's own name, or what tells it from other runs; any bytes
  nlohmann::ordered_json options = {};  ///< run.json
  std::vector<LoggedStep> log = {};
  bool by_bytes = false;     ///< losses and counts of the log are by the byte, whatever its tokens are
  bool cut = false;          ///< the last line of the log was damaged and left out
  bool finished = false;     ///< its final weights are there (io/run.hpp)
  std::string sample = {};   ///< sample.txt, empty if there is none
  std::string picture = {};  ///< block.svg, empty if there is none

  /// An option as text, or what stands for it when it is missing.
  std::string option(const std::string& key, const std::string& otherwise = "") const {
    const auto found = options.find(key);
    if (found == options.end() || found->is_null()) return otherwise;
    return found->is_string() ? found->get<std::string>()
                              : found->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  double number(const std::string& key) const {
    const auto found = options.find(key);
    return found != options.end() && found->is_number() ? found->get<double>() : LoggedStep::missing;
  }
};

namespace detail {

inline std::string whole_file(const std::filesystem::path& path, const char* hint) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || std::filesystem::is_directory(path) || !(text << file.rdbuf() || file.peek() == EOF)) {
    throw Error("cannot read " + path.string(), hint);
  }
  return text.str();
}

inline std::string file_if_there(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? whole_file(path, "check who may read it") : std::string();
}

/// A line of the log; throws std::runtime_error with the reason alone.
inline LoggedStep logged_step(const nlohmann::json& line) {
  using Json = nlohmann::json;
  if (!line.is_object()) throw std::runtime_error("it is no object");
  const auto number = [](const Json& value, const std::string& name) {
    if (value.is_null()) return LoggedStep::missing;  // how JSON writes what is not finite, too
    if (!value.is_number()) throw std::runtime_error("'" + name + "' is no number");
    return value.get<double>();
  };
  const auto numbers = [&](const Json& values, const std::string& name) {
    std::vector<double> list;
    if (values.is_null()) return list;  // as early logs have an empty one
    if (!values.is_array()) throw std::runtime_error("'" + name + "' is no array");
    for (const Json& value : values) list.push_back(number(value, name));
    return list;
  };
  const auto field = [&](const char* name) {
    const auto found = line.find(name);
    return found == line.end() ? LoggedStep::missing : number(*found, name);
  };
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number_integer() || step->get<long long>() < 0) {
    throw std::runtime_error("'step' is missing or no whole number from 0");
  }
  LoggedStep entry{.step = step->get<long long>(),
                   .tokens = field("tokens"),
                   .seconds = field("seconds"),
                   .loss = field("train_loss"),
                   .val_loss = field("val_loss"),
                   .learning_rate = field("learning_rate"),
                   .gradient_norm = field("grad_norm"),
                   .tokens_per_second = field("tokens_per_second")};
  if (line.value("validated", Json(false)) == true && std::isnan(entry.val_loss)) entry.val_loss = HUGE_VAL;
  if (const auto gains = line.find("gains"); gains != line.end() && !gains->is_null()) {
    if (!gains->is_object()) throw std::runtime_error("'gains' is no object");
    for (const auto& [name, values] : gains->items()) entry.gains[name] = numbers(values, name);
  }
  if (const auto norms = line.find("gradient_norms"); norms != line.end()) {
    entry.gradient_norms = numbers(*norms, "gradient_norms");
  }
  return entry;
}

}  // namespace detail

/// Reads log.jsonl. A process that is killed leaves its last line unfinished: `cut` tells that it was left out.
///
/// Errors  throws Error with path and line number where any other line is damaged or a step does not follow the last
inline std::vector<LoggedStep> read_log(const std::filesystem::path& path, bool& cut) {
  std::istringstream text(detail::whole_file(path, "a run writes it from its first step on"));
  std::vector<LoggedStep> log;
  std::string line;
  long damaged = 0;
  const auto refuse = [&](long number, const char* reason) {
    throw Error(fmt::format("{}, line {}: {}", path.string(), number, reason),
                "remove that line if the rest can be trusted, or take the file from a copy");
  };
  for (long number = 1; std::getline(text, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (damaged) refuse(damaged, "it is not JSON, and others follow");
    const auto json = parse_json(line);
    if (json.is_discarded()) {
      damaged = number;
      continue;
    }
    try {
      LoggedStep entry = detail::logged_step(json);
      if (!log.empty() && entry.step <= log.back().step) {
        throw std::runtime_error(fmt::format("step {} does not follow step {}", entry.step, log.back().step));
      }
      log.push_back(std::move(entry));
    } catch (const std::runtime_error& error) {
      refuse(number, error.what());
    }
  }
  cut = damaged != 0;
  return log;
}

/// Reads the directory of a run.
///
/// Errors  throws Error with the path if run.json or log.jsonl is missing or damaged
inline Run read_run(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw Error("no directory " + directory.string(), "name the directory of a run, the one that train_lm --out made");
  }
  Run run{.directory = directory};
  const fs::path real = fs::canonical(directory);
  run.name = real.has_filename() ? real.filename().string() : real.string();
  const fs::path options = directory / "run.json";
  run.options = parse_json<nlohmann::ordered_json>(
      detail::whole_file(options, "name the directory of a run, the one that train_lm --out made"));
  if (!run.options.is_object()) {
    throw Error(options.string() + " is " + (run.options.is_discarded() ? "not JSON" : "no object"),
                "the file is damaged; train anew or take it from a copy");
  }
  run.log = read_log(directory / "log.jsonl", run.cut);
  run.finished = fs::exists(directory / "model.safetensors", error);
  run.sample = detail::file_if_there(directory / "sample.txt");
  run.picture = detail::file_if_there(directory / "block.svg");
  return run;
}

/// Bytes of a token on average, as the record says; NaN where it does not.
inline double bytes_per_token(const Run& run) { return run.number("vocab") == 256 ? 1 : run.number("bytes_per_token"); }

/// The runs by the byte, where their tokens differ and all records say how long these are.
///
/// Shapes  a loss of x nats per token of n bytes is one of x / n nats per byte; its tokens are n times as many bytes
inline std::vector<Run> comparable(std::span<const Run> of_tokens) {
  std::vector<Run> runs(of_tokens.begin(), of_tokens.end());
  const auto differs = [&](const Run& run) { return bytes_per_token(run) != bytes_per_token(runs[0]); };
  const auto is_known = [](const Run& run) { return bytes_per_token(run) > 0; };
  if (!std::ranges::any_of(runs, differs) || !std::ranges::all_of(runs, is_known)) return runs;
  for (Run& run : runs) {
    const double bytes = bytes_per_token(run);
    for (LoggedStep& step : run.log) {
      step.loss /= bytes, step.val_loss /= bytes, step.tokens *= bytes, step.tokens_per_second *= bytes;
    }
    run.by_bytes = true;
  }
  return runs;
}

/// Reads several runs and gives those of one name as much of their path as tells them apart.
inline std::vector<Run> read_runs(const std::vector<std::filesystem::path>& directories) {
  std::vector<Run> runs;
  for (const auto& directory : directories) runs.push_back(read_run(directory));
  std::map<std::string, int> namesakes;
  for (const Run& run : runs) ++namesakes[run.name];
  for (Run& run : runs) {
    if (namesakes[run.name] > 1) run.name = run.directory.string();
  }
  return runs;
}

}  // namespace simplx
