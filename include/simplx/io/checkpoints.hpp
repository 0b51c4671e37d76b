// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/checkpoints.hpp
/// The checkpoints of a run: directories that are whole or not there, the last few of them and the best.
///
///     checkpoints/step-00000100/   whatever the caller writes there
///     checkpoints/index.json       {"latest": "step-00000100", "best": "step-00000080", "best_val_loss": 1.43}
///     checkpoints/.partial-*       one that is being written or removed; the next write removes what a killed run left
///     checkpoints/.replaced-*      one of a step that is written again; a killed run gets it back
///
/// A checkpoint is filled under a name that does not count, flushed to the disk and renamed: from that moment it is
/// the latest, whatever the index says, which is for readers and follows. Removing goes the same way backwards.

#include <simplx/io/file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Makes the names in a directory outlive a loss of power.
inline void flush_directory(const std::filesystem::path& directory) {
#if defined(__unix__) || defined(__APPLE__)
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
  const bool good = descriptor >= 0 && fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!good && reason != EINVAL) {  // of file systems that cannot flush a directory
    throw Error("cannot flush " + directory.string() + ": " + std::strerror(reason), "check the disk");
  }
#else
  (void)directory;
#endif
}

}  // namespace detail

/// The checkpoints of a run in a directory: each is whole or not there; keeps the last few and the best. Others may
/// look at them while one process writes.
class Checkpoints {
 public:
  struct Best {
    long step = 0;
    double loss = 0;  ///< held out, nats per token
  };

  /// The checkpoints in a directory, which need not exist; the last `keep` and the best stay.
  ///
  /// Errors  throws Error if `keep` is less than one
  explicit Checkpoints(std::filesystem::path directory, int keep = 3) : directory_(std::move(directory)), keep_(keep) {
    if (keep < 1) throw Error("the number of checkpoints to keep is " + std::to_string(keep), "keep at least one");
  }

  /// The steps that have a checkpoint, in order.
  ///
  /// Errors  throws Error, as all that look into it, if the directory is there and cannot be read
  std::vector<long> steps() const {
    std::vector<long> found;
    for (const auto& entry : entries()) {
      std::string name = entry.filename().string();
      if (name.starts_with(replaced)) name.erase(0, replaced.size());
      if (!name.starts_with(prefix)) continue;
      const long step = std::atol(name.c_str() + prefix.size());
      if (step >= 0 && name == name_of(step)) found.push_back(step);
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
  std::optional<long> latest() const {
    const std::vector<long> found = steps();
    return found.empty() ? std::nullopt : std::optional(found.back());
  }
  /// Where it is: under another name if the process that wrote it again was killed between the two.
  std::filesystem::path path(long step) const {
    std::error_code error;
    const std::filesystem::path whole = directory_ / name_of(step), earlier = earlier_of(step);
    return !std::filesystem::exists(whole, error) && std::filesystem::exists(earlier, error) ? earlier : whole;
  }

  const std::optional<Best>& best() const { return best_; }
  /// The best so far, whose checkpoint is never removed; a run that goes on says it again.
  void set_best(std::optional<Best> best) { best_ = best; }

  /// Calls fill(directory) for a new directory, which then becomes the checkpoint of `step`.
  ///
  /// Errors  throws what `fill` throws, and Error with path and reason, or where a later step has a checkpoint; then
  ///         the earlier checkpoints are as they were
  template <class Fill>
  void write(long step, Fill fill) {
    if (step < 0) throw Error("a checkpoint of step " + std::to_string(step), "steps count from 0");
    if (const std::optional<long> last = latest(); last && *last > step) {
      throw Error("a checkpoint of step " + std::to_string(step) + " after one of step " + std::to_string(*last) +
                      " in " + directory_.string(),
                  "a run that goes back needs another directory, or has to remove the later ones");
    }
    for (const auto& entry : entries()) {  // what a process left that was killed
      const std::string name = entry.filename().string();
      if (name.starts_with(partial)) remove(entry);
      if (name.starts_with(replaced)) put_back(entry, directory_ / name.substr(replaced.size()));
    }
    const std::filesystem::path whole = directory_ / name_of(step), earlier = earlier_of(step),
                                unfinished = directory_ / (std::string(partial) + name_of(step));
    create(unfinished);
    try {
      fill(unfinished);
      detail::flush_directory(unfinished);
    } catch (...) {
      remove(unfinished);
      throw;
    }
    try {
      if (std::filesystem::exists(whole)) std::filesystem::rename(whole, earlier);
      std::filesystem::rename(unfinished, whole);
      remove(earlier);
    } catch (const std::filesystem::filesystem_error& error) {
      put_back(earlier, whole);
      remove(unfinished);
      throw Error("cannot finish " + whole.string() + ": " + error.code().message(), "check that the disk is writable");
    }
    detail::flush_directory(directory_);
    write_index();
    remove_old();
  }

  /// Writes the index anew, as after a write.
  void write_index() const {
    const std::optional<long> last = latest();
    if (!last) return;
    nlohmann::ordered_json index;
    index["latest"] = name_of(*last);
    index["best"] = best_ ? nlohmann::ordered_json(name_of(best_->step)) : nlohmann::ordered_json(nullptr);
    index["best_val_loss"] = best_ ? nlohmann::ordered_json(best_->loss) : nlohmann::ordered_json(nullptr);
    write_file(directory_ / "index.json", index.dump(2) + "\n");
  }

 private:
  static constexpr std::string_view prefix = "step-", partial = ".partial-", replaced = ".replaced-";

  static std::string name_of(long step) {
    const std::string digits = std::to_string(step);
    return std::string(prefix) + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
  }
  std::filesystem::path earlier_of(long step) const { return directory_ / (std::string(replaced) + name_of(step)); }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(directory_, error);
    if (std::filesystem::status_known(status) && !std::filesystem::is_directory(status)) return found;
    std::filesystem::directory_iterator entry(directory_, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      found.push_back(entry->path());
    }
    if (error) {  // a run that took it for empty would begin anew
      throw Error("cannot read the directory " + directory_.string() + ": " + error.message(), "check its permissions");
    }
    return found;
  }
  void create(const std::filesystem::path& unfinished) const {
    std::error_code error;
    remove(unfinished);
    std::filesystem::create_directories(unfinished, error);
    if (error) {
      throw Error("cannot create the directory " + unfinished.string() + ": " + error.message(),
                  "check that the disk is writable and has room");
    }
  }
  /// Takes the name away first: what is killed in between leaves no half of a checkpoint. What cannot be removed stays.
  void remove(const std::filesystem::path& path) const {
    std::error_code error;
    std::filesystem::path doomed = path;
    if (const std::string name = path.filename().string(); name.starts_with(prefix)) {
      doomed = directory_ / (std::string(partial) + name + "-old");
      std::filesystem::rename(path, doomed, error);
    }
    if (!error) std::filesystem::remove_all(doomed, error);
  }
  /// A checkpoint whose successor of the same step did not come to be.
  void put_back(const std::filesystem::path& earlier, const std::filesystem::path& whole) const {
    std::error_code error;
    if (std::filesystem::exists(whole, error)) return remove(earlier);
    std::filesystem::rename(earlier, whole, error);
  }
  void remove_old() const {
    std::vector<long> found = steps();
    for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < found.size(); ++i) {
      if (!best_ || found[i] != best_->step) remove(path(found[i]));
    }
  }

  std::filesystem::path directory_;
  int keep_;
  std::optional<Best> best_;
};

}  // namespace simplx
