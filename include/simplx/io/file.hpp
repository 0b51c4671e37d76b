// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/file.hpp
/// Files that are either there or not: written under a new name, flushed to the disk, then renamed.

#include <simplx/core/error.hpp>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Removes the files PARTIAL-PROCESS-NUMBER that processes left when they were killed: nobody has that number now, nor
/// the lock that is held while a file is written, maybe in another container or on another machine. Others stay, and
/// so does what cannot be removed.
inline void remove_left_over([[maybe_unused]] const std::filesystem::path& partial) {
#if defined(__unix__) || defined(__APPLE__)
  const std::string begin = partial.filename().string() + '-';
  std::error_code error;
  std::filesystem::directory_iterator entry(partial.has_parent_path() ? partial.parent_path() : ".", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const char* last = name.data() + name.size();
    pid_t process = 0;
    std::uintptr_t number = 0;
    const auto first = std::from_chars(name.data() + begin.size(), last, process);
    if (first.ec != std::errc() || first.ptr == last) continue;
    std::from_chars(first.ptr + 1, last, number);
    if (process <= 0 || name != begin + std::to_string(process) + '-' + std::to_string(number)) continue;
    if (kill(process, 0) == 0 || errno != ESRCH) continue;
    const int file = open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status = {};
    const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (regular && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(entry->path().c_str());
    close(file);
  }
#endif
}

}  // namespace detail

/// A file that takes its name only when it is complete. One that was there leaves it its permissions; through a
/// symbolic link the file it points to is written. What is left of a process that was killed while it wrote goes when
/// the file is written again.
///
/// Errors  throws Error with the path and the system's reason, or where a directory, a pipe or a device has the name; a
///         file of that name stays as it was
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
    if (path_.empty()) throw Error("cannot write a file: its path is empty", "name a file");
    std::error_code error;
    const std::filesystem::file_status earlier = std::filesystem::status(path_, error);
    const bool there = std::filesystem::exists(earlier);
    if (there && !std::filesystem::is_regular_file(earlier)) {
      const bool directory = std::filesystem::is_directory(earlier);
      throw Error("cannot write " + path_.string() + ": it is a " + (directory ? "directory" : "pipe or a device"),
                  "name a file");
    }
    target_ = path_;
    for (int link = 0; link < 40 && std::filesystem::is_symlink(target_, error); ++link) {
      target_ = target_.parent_path() / std::filesystem::read_symlink(target_, error);
    }
    // Of a long name the beginning: with what follows it could be longer than names may be.
    partial_ = (target_.parent_path() / target_.filename().string().substr(0, 180)).string() + ".partial";
    detail::remove_left_over(partial_);
#if defined(__unix__) || defined(__APPLE__)
    partial_ += '-' + std::to_string(getpid());  // another program may write the same file
#endif
    partial_ += '-' + std::to_string(reinterpret_cast<std::uintptr_t>(this));  // or another thread of this one
    file_ = std::fopen(partial_.c_str(), "wb");
    if (!file_) fail("create");
#if defined(__unix__) || defined(__APPLE__)
    flock(fileno(file_), LOCK_EX | LOCK_NB);  // see remove_left_over; some file systems have no locks
#endif
    if (there) std::filesystem::permissions(partial_, earlier.permissions(), error);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() {
    if (!file_) return;
    std::fclose(file_);
    std::remove(partial_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // fwrite must not see the null pointer of an empty span
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("write");
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  const std::filesystem::path& path() const { return path_; }

  /// Writes all of it to the disk, so that commit has little left that can fail.
  void flush() {
    bool good = std::fflush(file_) == 0;
#if defined(__unix__) || defined(__APPLE__)
    good = good && fsync(fileno(file_)) == 0;
#endif
    if (!good) fail("write");
  }

  /// Makes the file appear under its name; what is written is complete then.
  void commit() {
    if (!file_) return;
    flush();
    std::FILE* file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0 || std::rename(partial_.c_str(), target_.c_str()) != 0) {
      const int reason = errno;
      std::remove(partial_.c_str());
      errno = reason;
      fail("finish");
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int reason = errno;
    throw Error("cannot " + std::string(what) + " " + path_.string() + ": " + std::strerror(reason),
                "check that the directory exists, is writable and has room");
  }

  std::filesystem::path path_, target_;  // as it was named; where its links lead
  std::string partial_;
  std::FILE* file_ = nullptr;
};

/// Writes a whole file at once.
inline void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace simplx
