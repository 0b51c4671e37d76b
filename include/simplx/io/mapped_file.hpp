// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/mapped_file.hpp
/// A file's bytes without a copy of them: the system reads a page when it is looked at, and may forget it again.

#include <simplx/core/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// The bytes of a file, as long as this object lives. Moving it moves none of them. A file that is replaced by renaming
/// (AtomicFile) stays as it was; one that is cut while it is mapped ends the program that looks past its new end.
///
/// Errors  throws Error with path and reason for what is missing, no regular file, or may not be read
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path) {
    // Without O_NONBLOCK the open of a pipe would wait for somebody who writes.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    if (file < 0 || fstat(file, &status) != 0) fail(path, file, std::strerror(errno));
    if (S_ISDIR(status.st_mode)) fail(path, file, std::strerror(EISDIR));
    if (!S_ISREG(status.st_mode)) fail(path, file, "it is a pipe or a device");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > 0) {  // no bytes cannot be mapped
      bytes_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (bytes_ == MAP_FAILED) fail(path, file, std::strerror(errno));
    }
    close(file);  // the mapping stays
  }
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile() {
    if (bytes_) munmap(bytes_, size_);
  }

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(bytes_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(bytes_), size_}; }

 private:
  [[noreturn]] void fail(const std::filesystem::path& path, int file, const std::string& reason) {
    if (file >= 0) close(file);
    throw Error("cannot read " + path.string() + ": " + reason, "check that it is a file and may be read");
  }

  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace simplx
