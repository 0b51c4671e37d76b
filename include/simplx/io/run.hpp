// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/run.hpp
/// The directory of a run, and how the command that began it goes on with it.
///
///     run.json            the options, written before the first step
///     log.jsonl           a line for each logged step
///     checkpoints/        where to go on (io/checkpoints.hpp)
///     model.safetensors   the final weights: the run is finished
///
/// One process at a time works in a directory; the lock ends with the process, however it ends.

#include <simplx/io/file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

using RunRecord = nlohmann::ordered_json;

/// The entries of two records that differ, as a table: name, earlier value, present value. Empty if none does.
/// Names in `free` may differ.
inline std::string differences(const RunRecord& earlier, const RunRecord& now, const std::set<std::string>& free = {}) {
  std::vector<std::array<std::string, 3>> rows{{"", "the run", "now"}};
  const auto value = [](const RunRecord& record, const std::string& name) {
    return record.contains(name) ? record[name].dump(-1, ' ', false, RunRecord::error_handler_t::replace) : "-";
  };
  const auto compare = [&](const std::string& name) {
    const std::string there = value(earlier, name), here = value(now, name);
    if (there != here) rows.push_back({name, there, here});
  };
  for (const auto& entry : earlier.items()) {
    if (!free.count(entry.key())) compare(entry.key());
  }
  for (const auto& entry : now.items()) {
    if (!free.count(entry.key()) && !earlier.contains(entry.key())) compare(entry.key());
  }
  if (rows.size() == 1) return {};
  std::array<std::size_t, 2> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < 2; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += "\n  ";
    for (std::size_t i = 0; i < 2; ++i) text += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += row[2];
  }
  return text;
}

/// A directory that belongs to this process while this object lives.
class RunDirectory {
 public:
  /// Opens the directory, made if need be.
  ///
  /// Errors  throws Error if it cannot be made, another process works in it, or its run.json cannot be understood
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) throw Error("cannot create the directory " + path_.string() + ": " + error.message(), "choose another");
    lock();
    try {
      read();
    } catch (...) {
      unlock();
      throw;
    }
  }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory() { unlock(); }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  /// Whether a run began here, and whether it came to its end.
  bool begun() const { return !record_.is_null(); }
  bool finished() const { return begun() && std::filesystem::exists(path_ / "model.safetensors"); }
  /// What run.json says; null before the run begins.
  const RunRecord& record() const { return record_; }

  /// Writes run.json; the run has begun.
  void begin(RunRecord record) {
    const auto bad_bytes = RunRecord::error_handler_t::replace;  // of paths, which need not be UTF-8
    write_file(path_ / "run.json", record.dump(2, ' ', false, bad_bytes) + "\n");
    record_ = std::move(record);
  }

  /// Moves what is here to the first free of path-1, path-2, ... and begins with an empty directory; returns where
  /// the earlier run is now.
  ///
  /// Errors  throws Error if the directory cannot be renamed; then nothing has changed
  std::filesystem::path move_aside() {
    std::string name = std::filesystem::absolute(path_).lexically_normal().string();
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    std::filesystem::path aside;
    for (int number = 1; aside.empty() || std::filesystem::exists(aside); ++number) {
      aside = name + "-" + std::to_string(number);
    }
    std::error_code error;
    std::filesystem::rename(name, aside, error);
    if (!error) std::filesystem::create_directories(path_, error);
    if (error) {
      throw Error("cannot move " + name + " to " + aside.string() + ": " + error.message(), "choose another directory");
    }
    unlock();
    lock();
    record_ = nullptr;
    return aside;
  }

 private:
  void read() {
    const std::filesystem::path file = path_ / "run.json";
    if (!std::filesystem::exists(file)) return;
    std::ifstream stream(file, std::ios::binary);
    record_ = RunRecord::parse(stream, nullptr, false);
    if (record_.is_object()) return;
    throw Error(file.string() + " is no JSON object", "move the directory away, or choose another");
  }
  void lock() {
#if defined(__unix__) || defined(__APPLE__)
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (locked || errno != EWOULDBLOCK) return;  // some file systems have no locks
    unlock();
    throw Error("another process is working in " + path_.string(), "wait until it ends, or choose another directory");
#endif
  }
  void unlock() {
#if defined(__unix__) || defined(__APPLE__)
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
#endif
  }

  std::filesystem::path path_;
  RunRecord record_;
  [[maybe_unused]] int descriptor_ = -1;
};

}  // namespace simplx
