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
#include <simplx/io/json.hpp>
#include <simplx/io/mapped_file.hpp>
#include <simplx/io/text_table.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

using RunRecord = nlohmann::ordered_json;

namespace detail {

/// The values of a record by their names, those within a value by both: "hyper.alpha".
inline void list_values(const RunRecord& record, const std::string& prefix,
                        std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& entry : record.items()) {
    const std::string name = prefix + entry.key();
    if (entry.value().is_object() && !entry.value().empty()) {
      list_values(entry.value(), name + ".", values);
    } else {
      values.emplace_back(name, entry.value().dump(-1, ' ', false, RunRecord::error_handler_t::replace));
    }
  }
}

}  // namespace detail

/// The entries of two records that differ, as a table: name, earlier value, present value. Empty if none does.
/// Names in `free`, as the table has them, may differ, and all within them.
inline std::string differences(const RunRecord& earlier, const RunRecord& now, const std::set<std::string>& free = {}) {
  std::vector<std::pair<std::string, std::string>> there, here;
  detail::list_values(earlier, "", there), detail::list_values(now, "", here);
  for (const std::string& name : free) {
    const auto is_free = [&](const auto& value) { return value.first == name || value.first.starts_with(name + "."); };
    std::erase_if(there, is_free), std::erase_if(here, is_free);
  }
  const auto value = [](const auto& values, const std::string& name) -> std::string {
    const auto found = std::ranges::find(values, name, &std::pair<std::string, std::string>::first);
    return found == values.end() ? "-" : found->second;
  };
  std::vector<std::array<std::string, 3>> rows{{"", "the run", "now"}};
  for (const auto& [name, earlier_value] : there) {
    const std::string now_value = value(here, name);
    if (earlier_value != now_value) rows.push_back({name, earlier_value, now_value});
  }
  for (const auto& [name, now_value] : here) {
    if (value(there, name) == "-" && now_value != "-") rows.push_back({name, "-", now_value});
  }
  if (rows.size() == 1) return {};
  return detail::text_table(rows);
}

namespace detail {

/// A whole number of JSON; none if it is no such number, or T does not hold it.
template <class T>
std::optional<T> whole_number(const RunRecord& value) {
  const auto held = [](auto number) -> std::optional<T> {
    if (!std::in_range<T>(number)) return {};
    return static_cast<T>(number);
  };
  if (value.is_number_unsigned()) return held(value.get<std::uint64_t>());
  return value.is_number_integer() ? held(value.get<std::int64_t>()) : std::nullopt;
}

}  // namespace detail

/// A directory that belongs to this process while this object lives.
class RunDirectory {
 public:
  /// Opens the directory, made if need be.
  ///
  /// Errors  throws Error if it cannot be made, another process works in it, or its run.json cannot be read or
  ///         understood
  explicit RunDirectory(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!error) path_ = std::filesystem::canonical(path, error);
    if (error) throw Error("cannot create the directory " + path.string() + ": " + error.message(), "choose another");
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

  /// Absolute and without links: so it stays the same directory where `path` was ".", or a link that is set anew.
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  /// Whether a run began here, and whether it came to its end.
  bool begun() const { return !record_.is_null(); }
  bool finished() const { return begun() && std::filesystem::exists(path_ / "model.safetensors"); }
  /// Whether files of a run are here; without run.json nobody knows of which.
  bool occupied() const { return begun() || !left_over().empty(); }
  /// What run.json says; null before the run begins.
  const RunRecord& record() const { return record_; }
  /// A number or text of run.json, or what stands for it where it has none of that name.
  ///
  /// Errors  throws Error with the file and the name if it is of another type, or does not fit into T
  template <class T>
  T value(const char* name, T otherwise) const {
    constexpr bool truth = std::is_same_v<T, bool>, whole = std::is_integral_v<T> && !truth;
    constexpr bool number = std::is_arithmetic_v<T>;
    static_assert(number || std::is_same_v<T, std::string>);
    const auto found = record_.find(name);
    if (found == record_.end()) return otherwise;
    if constexpr (whole) {
      if (const std::optional<T> held = detail::whole_number<T>(*found)) return *held;
    } else if (truth ? found->is_boolean() : number ? found->is_number() : found->is_string()) {
      return found->template get<T>();
    }
    const bool too_large = whole && found->is_number_integer();
    throw Error((path_ / "run.json").string() + ": '" + name + "' is " +
                    (too_large ? found->dump() + ", more than this program holds"
                               : std::string("of type ") + found->type_name() + ", not a " +
                                     (truth    ? "truth value"
                                      : whole  ? "whole number"
                                      : number ? "number"
                                               : "text")),
                "was it changed by hand? Give it the value that the run began with");
  }

  /// Errors  throws Error if files of a run are here, but no run.json, which would say of which
  void check_free() const {
    if (begun() || left_over().empty()) return;
    throw Error(path_.string() + " has " + left_over() + " of a run, but no run.json that says of which",
                "move the directory away, or choose another");
  }

  /// Writes run.json; the run has begun.
  ///
  /// Errors  throws Error as check_free does, or if it cannot be written
  void begin(RunRecord record) {
    check_free();
    const auto bad_bytes = RunRecord::error_handler_t::replace;  // of paths, which need not be UTF-8
    write_file(path_ / "run.json", record.dump(2, ' ', false, bad_bytes) + "\n");
    record_ = std::move(record);
  }

  /// Moves what is here to the first free of path-1, path-2, ... and begins with an empty directory; returns where
  /// the earlier run is now.
  ///
  /// Errors  throws Error if the directory cannot be renamed; then nothing has changed
  std::filesystem::path move_aside() {
    const std::string name = path_.string();
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
    std::error_code error;
    const std::filesystem::file_type type = std::filesystem::status(file, error).type();
    if (type == std::filesystem::file_type::not_found) return;
    if (type != std::filesystem::file_type::directory) {
      const MappedFile content(file);  // which tells why it cannot be read
      record_ = parse_json<RunRecord>(content.text());
    }
    if (record_.is_object()) return;
    throw Error(file.string() + " is no JSON object", "move the directory away, or choose another");
  }
  /// The first of the files that a run writes; empty if there is none.
  std::string left_over() const {
    for (const char* name : {"log.jsonl", "checkpoints", "model.safetensors"}) {
      if (std::filesystem::exists(path_ / name)) return name;
    }
    return {};
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
