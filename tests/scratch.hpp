// SPDX-License-Identifier: MIT
#pragma once

/// A directory of its own for a test that writes files.

#include <simplx/core/error.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace test {

/// It goes away with the test.
struct Scratch {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("simplx_test_" + std::to_string(getpid()) + "_" + std::to_string(number()));
  Scratch() { std::filesystem::create_directories(path); }
  ~Scratch() { std::filesystem::remove_all(path); }
  Scratch(const Scratch&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << content;
    return path / name;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ostringstream content;
    content << std::ifstream(file, std::ios::binary).rdbuf();
    return content.str();
  }

 private:
  static int number() {
    static int last = 0;
    return ++last;
  }
};

/// The rights of nobody while it lives, also where the tests run as root, who may read everything.
struct Nobody {
  uid_t before = geteuid();
  bool succeeded = before != 0 || seteuid(65534) == 0;
  Nobody() = default;
  ~Nobody() {
    if (geteuid() != before && seteuid(before) != 0) std::abort();
  }
  Nobody(const Nobody&) = delete;
};

/// What an Error says, or "no error".
template <class Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const simplx::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace test
