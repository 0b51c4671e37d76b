// SPDX-License-Identifier: MIT
#include <simplx/io/mapped_file.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

using namespace simplx;

namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TEST_SUITE_BEGIN("io/mapped_file");

TEST_CASE("the bytes are those of the file, and stay where they are when the object moves") {
  test::Scratch scratch;
  const std::string content(10000, 'x');
  MappedFile file(scratch.write("a", content));
  CHECK(text_of(file) == content);
  const std::byte* where = file.bytes().data();
  MappedFile moved(std::move(file));
  CHECK(moved.bytes().data() == where);
  CHECK(file.bytes().empty());
  MappedFile assigned(scratch.write("b", "other"));
  assigned = std::move(moved);
  CHECK(assigned.bytes().data() == where);
  CHECK(text_of(assigned) == content);
}

TEST_CASE("an empty file has no bytes") {
  test::Scratch scratch;
  CHECK(MappedFile(scratch.write("empty", "")).bytes().empty());
  CHECK(MappedFile().bytes().empty());
}

TEST_CASE("a file that is replaced by another stays as it was") {
  test::Scratch scratch;
  const MappedFile file(scratch.write("a", "before"));
  std::filesystem::rename(scratch.write("b", "after."), scratch.path / "a");
  CHECK(text_of(file) == "before");
  CHECK(text_of(MappedFile(scratch.path / "a")) == "after.");
}

TEST_CASE("no file stays open after its mapping, also not one that was refused") {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  if (!std::filesystem::exists("/proc/self/fd")) return;
  test::Scratch scratch;
  const auto before = open_files();
  const MappedFile file(scratch.write("a", "text"));
  CHECK_THROWS_AS(MappedFile{scratch.path}, Error);
  CHECK(open_files() == before);
}

TEST_CASE("what is no file is refused with its path and the reason, and without waiting") {
  test::Scratch scratch;
  const auto message = [](const std::filesystem::path& path) { return test::message_of([&] { MappedFile{path}; }); };
  const std::string hint = "\n  hint: check that it is a file and may be read";
  CHECK(message(scratch.path / "nowhere") ==
        "cannot read " + (scratch.path / "nowhere").string() + ": No such file or directory" + hint);
  CHECK(message(scratch.path) == "cannot read " + scratch.path.string() + ": Is a directory" + hint);
  const std::string pipe = (scratch.path / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message(pipe) == "cannot read " + pipe + ": it is a pipe or a device" + hint);
}

TEST_SUITE_END();
