// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/run_log.hpp
/// log.jsonl: one JSON object for each logged step, flushed line by line.

#include <simplx/core/error.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace simplx::inline SIMPLX_TARGET {

struct LogLine {
  long step = 0;
  long long tokens = 0;
  double seconds = 0;  ///< since training began, validation included
  double train_loss = 0;
  std::optional<double> val_loss;  ///< null between validations
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
};

/// Appends lines to a new file.
///
/// Errors  throws Error with the path if the file cannot be created or written
class RunLog {
 public:
  explicit RunLog(const std::filesystem::path& path) : path_(path.string()), file_(path) { check(); }

  void write(const LogLine& line) {
    nlohmann::ordered_json entry;
    entry["step"] = line.step;
    entry["tokens"] = line.tokens;
    entry["seconds"] = line.seconds;
    entry["train_loss"] = line.train_loss;
    entry["val_loss"] = line.val_loss ? nlohmann::ordered_json(*line.val_loss) : nlohmann::ordered_json(nullptr);
    entry["learning_rate"] = line.learning_rate;
    entry["grad_norm"] = line.grad_norm;
    entry["tokens_per_second"] = line.tokens_per_second;
    file_ << entry.dump() << std::endl;
    check();
  }

 private:
  void check() const {
    if (!file_) {
      throw Error("cannot write " + path_ + ": " + std::strerror(errno),
                  "check that the directory exists, is writable and has room");
    }
  }

  std::string path_;
  std::ofstream file_;
};

}  // namespace simplx
