// SPDX-License-Identifier: MIT
#include "results.hpp"

#include <simplx/io/json.hpp>

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace paper {

using simplx::Error;
namespace fs = std::filesystem;

namespace {

/// The run of a line; null if it is none.
Json parsed(const std::string& line) {
  Json run = simplx::parse_json<Json>(line);
  const auto has = [&](const char* key, bool (Json::*is)() const noexcept) {
    return run.contains(key) && (run[key].*is)();
  };
  const bool whole = run.is_object() && has("task", &Json::is_object) && has("text", &Json::is_string) &&
                     run["task"].contains("model") && run["task"].contains("settings") &&
                     run["task"].contains("seed") && has("seconds", &Json::is_number) &&
                     has("parameters", &Json::is_number) &&
                     (run["task"]["settings"].contains("turns") || has("log", &Json::is_array));
  return whole ? run : Json();
}

bool ends_in_newline(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() == 0) return true;
  file.seekg(-1, std::ios::end);
  return file.get() == '\n';
}

}  // namespace

Results::Results(fs::path folder, std::string text) : folder_(std::move(folder)), text_(std::move(text)) {
  std::vector<Json> found;
  std::map<std::string, long> texts;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    std::ifstream file(path);
    if (!file) throw Error("cannot read " + path.string(), "check its permissions");
    for (std::string line; std::getline(file, line);) {
      if (line.empty()) continue;
      Json run = parsed(line);
      if (run.is_null()) {
        ++broken_;
        continue;
      }
      ++texts[run["text"]];
      found.push_back(std::move(run));
    }
  }
  if (text_.empty() && !texts.empty()) {
    text_ = std::ranges::max_element(texts, {}, &std::pair<const std::string, long>::second)->first;
  }
  for (Json& run : found) {
    if (run["text"] != text_) {
      ++other_texts_;
    } else {
      runs_.try_emplace(run["task"].dump(), std::move(run));  // the first of two counts
    }
  }
}

const Json* Results::find(const Task& task) const {
  const auto found = runs_.find(json_of(task).dump());
  return found == runs_.end() ? nullptr : &found->second;
}

void Results::add(const Task& task, Json run) {
  const fs::path path = path_of(task.model);
  const auto fail = [&](const char* what) {
    throw Error(std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno),
                "check that the directory is writable and has room, or give another with --results DIR");
  };
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (!file) fail("open");
  // A long line takes several writes, between which another program's could come. Some file systems have no locks.
  while (flock(fileno(file), LOCK_EX) != 0 && errno == EINTR) continue;
  const std::string line = (ends_in_newline(path) ? "" : "\n") + run.dump() + "\n";  // after a line that broke off
  const bool written = std::fwrite(line.data(), 1, line.size(), file) == line.size() && std::fflush(file) == 0 &&
                       fsync(fileno(file)) == 0;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) fail("write");
  runs_.try_emplace(json_of(task).dump(), std::move(run));
}

}  // namespace paper
