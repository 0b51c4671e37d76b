// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/run_log.hpp
/// log.jsonl: one JSON object for each logged step, flushed line by line; a run that goes on cuts what came after
/// its checkpoint, so that the file reads as that of one run.

#include <simplx/core/error.hpp>
#include <simplx/io/file.hpp>
#include <simplx/io/json.hpp>
#include <simplx/io/mapped_file.hpp>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A quantity of every layer; of layers that lack it there is none, null in the file.
struct LayerValues {
  std::string name;
  std::vector<std::optional<double>> values;
};

/// A line of a run's log: what has been measured since the line before.
struct LogLine {
  long step = 0;
  long long tokens = 0;
  double seconds = 0;  ///< since training began, validation included, pauses of the run not
  double loss = 0;     ///< mean over the steps since the line before, nats per token
  std::optional<double> val_loss = {};  ///< of held-out text; null between validations, which give gains and norms, too
  double learning_rate = 0;
  double gradient_norm = 0;  ///< of all parameters, before clipping
  double tokens_per_second = 0;
  std::vector<LayerValues> gains = {};      ///< trained gains; those of heads as their mean
  std::vector<double> gradient_norms = {};  ///< at the input of each block
};

/// Errors  throws Error with the path if the file cannot be read or written, and with the line if one is damaged that
///         stands before others; then the file is as it was
class RunLog {
 public:
  /// Begins a log, or goes on with the one that is there: its lines up to `last_step` stay.
  explicit RunLog(const std::filesystem::path& path, long last_step = 0) : path_(path) {
    const std::string kept = lines_until(last_step);
    write_file(path_, kept);
    good_bytes_ = kept.size();
    file_.open(path_, std::ios::app | std::ios::binary);
    if (!file_) throw cannot_write();
  }

  /// Appends a line. After an Error, of a full disk say, the file ends with a whole line still; the line waits for
  /// the next one.
  void write(const LogLine& line) {
    nlohmann::ordered_json entry;
    entry["step"] = line.step;
    entry["tokens"] = line.tokens;
    entry["seconds"] = line.seconds;
    entry["train_loss"] = line.loss;
    entry["val_loss"] = line.val_loss ? nlohmann::ordered_json(*line.val_loss) : nlohmann::ordered_json(nullptr);
    if (line.val_loss && !std::isfinite(*line.val_loss)) entry["validated"] = true;  // JSON has null for it, too
    entry["learning_rate"] = line.learning_rate;
    entry["grad_norm"] = line.gradient_norm;
    entry["tokens_per_second"] = line.tokens_per_second;
    for (const LayerValues& gain : line.gains) {
      auto& values = entry["gains"][gain.name] = nlohmann::ordered_json::array();
      for (const std::optional<double>& value : gain.values) {
        values.push_back(value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr));
      }
    }
    if (!line.gradient_norms.empty()) entry["gradient_norms"] = line.gradient_norms;
    waiting_ += entry.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    if (file_ << waiting_ << std::flush) {
      good_bytes_ += waiting_.size();
      waiting_.clear();
      return;
    }
    const Error error = cannot_write();
    file_.close();  // which may write a part of it
    file_.clear();
    std::error_code ignored;
    std::filesystem::resize_file(path_, good_bytes_, ignored);
    file_.open(path_, std::ios::app | std::ios::binary);
    throw error;
  }

 private:
  /// The lines up to that step, but for one that was cut off when the run was killed, the file's last.
  /// Steps rise, so what stands after that step is not looked at.
  std::string lines_until(long last_step) const {
    std::string kept;
    std::error_code error;
    const bool there = std::filesystem::status(path_, error).type() != std::filesystem::file_type::not_found;
    if (last_step == 0 || !there) return kept;
    const MappedFile file(path_);  // which tells a file that cannot be read from an empty one
    std::string_view rest = file.text();
    long damaged = 0;
    for (long number = 1; !rest.empty(); ++number) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      const bool ended = line.size() < rest.size();
      rest.remove_prefix(line.size() + (ended ? 1 : 0));
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      if (damaged != 0) {
        throw Error(path_.string() + ", line " + std::to_string(damaged) +
                        ": it is no JSON object with a step, and others follow",
                    "remove that line if the rest can be trusted, or take the file from a copy");
      }
      const auto entry = parse_json(line);
      if (!ended || !entry.is_object() || !entry.contains("step") || !entry["step"].is_number()) {
        damaged = number;
        continue;
      }
      if (entry["step"] > last_step) break;
      kept.append(line).append("\n");
      if (entry["step"] == last_step) break;
    }
    return kept;
  }
  Error cannot_write() const {
    return Error("cannot write " + path_.string() + ": " + std::strerror(errno),
                 "check that the directory exists, is writable and has room");
  }

  std::filesystem::path path_;
  std::ofstream file_;
  std::uintmax_t good_bytes_ = 0;  // of whole lines in the file
  std::string waiting_;            // lines that the disk did not take
};

}  // namespace simplx
