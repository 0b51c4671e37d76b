// SPDX-License-Identifier: MIT
#include <simplx/io/file.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include <fstream>
#include <sstream>

using namespace simplx;
namespace fs = std::filesystem;

namespace {
std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
/// How many names of its directory begin with that of a path.
long names_of(const fs::path& path) {
  long count = 0;
  for (const auto& entry : fs::directory_iterator(path.parent_path())) {
    count += entry.path().filename().string().starts_with(path.filename().string());
  }
  return count;
}
}  // namespace

TEST_SUITE_BEGIN("io/file");

TEST_CASE("a file appears when it is complete, and replaces the old one then") {
  const fs::path path = fs::temp_directory_path() / "simplx_file_test.txt";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new, ");
    CHECK(content(path) == "old");
    file.write("complete");
    file.commit();
  }
  CHECK(content(path) == "new, complete");
  {
    AtomicFile abandoned(path);
    abandoned.write("half");
  }
  CHECK(content(path) == "new, complete");
  CHECK(names_of(path) == 1);
  fs::remove(path);
}

TEST_CASE("threads that write one file leave that of one of them, whole") {
  const fs::path path = fs::temp_directory_path() / "simplx_file_test.threads";
  std::atomic<int> failures{0};
  const auto write = [&](char letter) {
    for (int i = 0; i < 40; ++i) {
      try {
        write_file(path, std::string(100'000, letter));
      } catch (const Error&) {
        ++failures;
      }
    }
  };
  std::thread other([&] { write('a'); });
  write('b');
  other.join();
  CHECK(failures == 0);
  const std::string last = content(path);
  CHECK(last == std::string(100'000, last[0]));
  CHECK(names_of(path) == 1);
  fs::remove(path);
}

TEST_CASE("a name that a directory has is refused, and nothing is left behind") {
  const fs::path path = fs::temp_directory_path() / "simplx_file_test.dir";
  fs::create_directories(path / "inside");
  CHECK_THROWS_AS(write_file(path, "x"), Error);
  CHECK(names_of(path) == 1);
  CHECK(fs::is_directory(path / "inside"));
  fs::remove_all(path);
}

TEST_CASE("a directory that does not exist is named, with the reason and a hint") {
  CHECK_THROWS_WITH_AS(write_file("/nonexistent/simplx/file", "x"),
                       "cannot create /nonexistent/simplx/file: No such file or directory\n"
                       "  hint: check that the directory exists, is writable and has room",
                       Error);
}

TEST_CASE("a link leads to the file that is written, whose permissions stay; pipes and devices are refused") {
  const test::Scratch scratch;
  const fs::path file = scratch.write("file", "old"), link = scratch.path / "link", pipe = scratch.path / "pipe";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("file", link);
  fs::create_symlink("link", scratch.path / "link of the link");
  write_file(scratch.path / "link of the link", "new");
  CHECK(fs::is_symlink(link));
  CHECK(content(file) == "new");
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(write_file(pipe, "x"), doctest::Contains(": it is a pipe or a device"), Error);
  CHECK_THROWS_AS(write_file("/dev/null", "x"), Error);
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("what processes left that were killed while they wrote is removed, and nothing else") {
  const test::Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(scratch.path / "killed");
    file.write("half");
    std::_Exit(0);
  }
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);  // nobody has its number now
  const std::string gone = std::to_string(child), own = std::to_string(getpid());
  CHECK(names_of(scratch.path / "killed") == 1);
  write_file(scratch.path / "killed", "whole");
  CHECK(names_of(scratch.path / "killed") == 1);
  CHECK(content(scratch.path / "killed") == "whole");

  const std::string left = "file.partial-" + gone + "-140000000000000";
  const std::string others[]{"file.partial-" + own + "-1",         "file.partial-" + std::to_string(getppid()) + "-1",
                             "file.partial-" + gone,               "file.partial-" + gone + "-1x",
                             "file.partial-" + gone + "-",         "file.partial--1-1",
                             "file.partial-0-1",                   "file.partial-99999999999999999999-1",
                             "file.partial-0" + gone + "-1",       "another.partial-" + gone + "-1",
                             "file.partial-" + gone + "-1-1",      "file.txt.partial-" + gone + "-1"};
  scratch.write(left, "half");
  for (const std::string& name : others) scratch.write(name, "keep");
  const fs::path directory = scratch.path / ("file.partial-" + gone + "-2"), link = directory.string() + "2";
  fs::create_directories(directory);
  fs::create_symlink(others[0], link);
  write_file(scratch.path / "file", "whole");
  CHECK(!fs::exists(scratch.path / left));
  for (const std::string& name : others) {
    CAPTURE(name);
    CHECK(fs::exists(scratch.path / name));
  }
  CHECK(fs::is_directory(directory));
  CHECK(fs::is_symlink(link));
}

TEST_CASE("a file that is being written elsewhere, where processes are counted anew, stays") {
  const test::Scratch scratch;
  const pid_t child = fork();
  if (child == 0) std::_Exit(0);
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  AtomicFile file(scratch.path / "file");
  file.write("whole");
  fs::path partial;
  for (const auto& entry : fs::directory_iterator(scratch.path)) partial = entry.path();
  const fs::path foreign = scratch.path / ("file.partial-" + std::to_string(child) + "-1");
  fs::rename(partial, foreign);
  { const AtomicFile another(scratch.path / "file"); }
  CHECK(fs::exists(foreign));
  fs::rename(foreign, partial);
  file.commit();
  CHECK(content(scratch.path / "file") == "whole");
}

TEST_CASE("a file without a name is refused as such") {
  CHECK_THROWS_WITH_AS(write_file("", "x"), "cannot write a file: its path is empty\n  hint: name a file", Error);
}

TEST_CASE("a name may be as long as names may be, and a second commit has nothing to do") {
  const test::Scratch scratch;
  const fs::path path = scratch.path / std::string(255, 'n');
  AtomicFile file(path);
  file.write("x");
  file.commit(), file.commit();
  CHECK(content(path) == "x");
}

TEST_SUITE_END();
