// SPDX-License-Identifier: MIT
#pragma once

// Finished runs: one line of JSON each, in a file for each model, which is only ever appended to.

#include <filesystem>
#include <map>
#include <simplx/core/error.hpp>
#include <span>
#include <string>
#include <vector>

#include "settings.hpp"

namespace paper {

class Results {
 public:
  /// Reads what is there; a line that is no finished run, as one of which only a part was written, does not count.
  /// Runs count that learned from the text with that fingerprint; without any, from the text of most runs.
  ///
  /// Errors  throws Error if a file cannot be read
  explicit Results(std::filesystem::path folder, std::string text = {});

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& text() const { return text_; }
  std::size_t size() const { return runs_.size(); }
  /// Lines that were no finished runs, and runs on other texts.
  long broken_lines() const { return broken_; }
  long other_texts() const { return other_texts_; }

  /// Null if it was not run yet.
  const Json* find(const Task& task) const;
  const std::map<std::string, Json>& runs() const { return runs_; }

  /// Appends a finished run; of several programs that do at the same time each waits for the others.
  ///
  /// Errors  throws Error with path and reason; what was there stays
  void add(const Task& task, Json run);

 private:
  std::filesystem::path path_of(const std::string& model) const { return folder_ / (model + ".jsonl"); }

  std::filesystem::path folder_;
  std::string text_;
  std::map<std::string, Json> runs_;
  long broken_ = 0, other_texts_ = 0;
};

}  // namespace paper
