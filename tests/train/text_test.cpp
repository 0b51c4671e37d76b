// SPDX-License-Identifier: MIT
#include <simplx/train/text.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

#include <sys/stat.h>

using namespace simplx;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

Corpus read(const fs::path& path, const TextOptions& options = {}) { return read_text(std::span(&path, 1), options); }

std::string message_of(const fs::path& path) {
  return test::message_of([&] { read(path); });
}

}  // namespace

TEST_SUITE_BEGIN("train/text");

TEST_CASE("directories are read in the order of their paths, and split by document") {
  Scratch scratch;
  for (int i = 0; i < 60; ++i) {
    scratch.write('d' + std::to_string(i % 7) + "/f" + std::to_string(i) + ".py", "text " + std::to_string(i));
  }
  scratch.write("skip.bin", std::string("\0\1\2", 3));
  const Corpus corpus = read(scratch.path);
  CHECK(corpus.training.size() + corpus.validation.size() == 60);
  CHECK(corpus.skipped == 1);
  CHECK(!corpus.validation.empty());
  CHECK(std::is_sorted(corpus.training.begin(), corpus.training.end(),
                       [](const Document& a, const Document& b) { return a.path < b.path; }));
  for (const Document& d : corpus.validation) CHECK(held_out(d.path, 10));
  for (const Document& d : corpus.training) CHECK(!held_out(d.path, 10));
  CHECK(Corpus::size_of(corpus.training) + Corpus::size_of(corpus.validation) ==
        static_cast<Index>(corpus.bytes.size()));
  const Document& first = corpus.training[0];
  CHECK(std::string(corpus.bytes.begin() + first.begin, corpus.bytes.begin() + first.end).starts_with("text "));
}

TEST_CASE("extensions choose files of directories, not files that are named") {
  Scratch scratch;
  scratch.write("a.py", "python here");
  const fs::path other = scratch.write("b.txt", "a text of some other kind");
  const TextOptions python{.extensions = {".py"}};
  CHECK(read(scratch.path, python).bytes.size() == 11);
  CHECK(read(other, python).bytes.size() == 25);
}

TEST_CASE("a single document gives its last tenth") {
  Scratch scratch;
  const Corpus corpus = read(scratch.write("one.txt", std::string(1000, 'x')));
  REQUIRE(corpus.training.size() == 1);
  CHECK(corpus.training[0].end == 900);
  CHECK(corpus.validation[0].begin == 900);
  CHECK(corpus.validation[0].end == 1000);
}

TEST_CASE("what cannot be used is named, with a hint") {
  Scratch scratch;
  CHECK(
      message_of(scratch.path / "nowhere").find("no such file or directory: " + (scratch.path / "nowhere").string()) ==
      0);
  CHECK(message_of(scratch.write("empty.txt", "")).find("the file is empty") == 0);
  CHECK(message_of(scratch.write("binary.txt", std::string("ab\0cd", 5))).find("the file is binary") == 0);
  fs::create_directories(scratch.path / "hollow");
  CHECK(message_of(scratch.path / "hollow").find("no text found") == 0);
  CHECK(message_of(scratch.path / "nowhere").find("hint: ") != std::string::npos);
}

TEST_CASE("less than one document in one cannot be held out; of more than there are tokens none is") {
  Scratch scratch;
  const fs::path file = scratch.write("one.txt", std::string(1000, 'x'));
  for (const int none : {0, -1}) {
    const std::string words = "held_out_one_in is " + std::to_string(none) + "\n  hint: ";
    CHECK(test::message_of([&] { read(file, {.held_out_one_in = none}); }).find(words) == 0);
    CHECK(test::message_of([&] { held_out("one.txt", none); }).find(words) == 0);
    std::vector<Document> training, validation;
    const auto tails = [&] { detail::hold_out_tails({{"a", 0, 9}}, none, training, validation); };
    CHECK(test::message_of(tails).find(words) == 0);
  }
  const Corpus all = read(file, {.held_out_one_in = 1'000'000'000});
  CHECK(Corpus::size_of(all.training) == 1000);
  CHECK(Corpus::size_of(all.validation) == 0);
}

TEST_CASE("a pipe is refused, not waited for, and passed over in a directory") {
  Scratch scratch;
  const fs::path pipe = scratch.path / "pipe.txt";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of(pipe).find("cannot read " + pipe.string() + ": it is a pipe or a device\n  hint: ") == 0);
  CHECK(message_of("/dev/null").find("cannot read /dev/null: it is") == 0);
  scratch.write("one.txt", "some text");
  CHECK(Corpus::size_of(read(scratch.path).training) == 9);
}

TEST_CASE("a file that is found twice is read once, and results are no text") {
  Scratch scratch;
  scratch.write("a/one.txt", "1234567890"), scratch.write("a/b/two.txt", "12345"), scratch.write("a/out/log", "123");
  const std::vector<fs::path> paths{scratch.path / "a", scratch.path / "a/b", scratch.path / "a/b/two.txt"};
  CHECK(read_text(paths, {.held_out_one_in = 1000}).bytes.size() == 18);
  CHECK(read_text(paths, {.except = scratch.path / "a/out"}).bytes.size() == 15);
  CHECK(read_text(paths, {.except = scratch.path / "none"}).bytes.size() == 18);
  fs::create_symlink(scratch.path / "a/one.txt", scratch.path / "a/the_same.txt");  // it could be held out, too
  CHECK(read_text(std::vector{scratch.path / "a"}, {.held_out_one_in = 1000}).bytes.size() == 18);
}

TEST_CASE("directories of runs are no text") {
  Scratch scratch;
  scratch.write("one.txt", "12345"), scratch.write("runs/sums.txt", "123");
  scratch.write("runs/a/run.json", "{}"), scratch.write("runs/a/log.jsonl", "{}"), scratch.write("runs/a/page/x", "x");
  scratch.write("runs/b/run.json", "{}"), scratch.write("runs/b/checkpoints/index.json", "{}");
  scratch.write("runs/c/run.json", "1234567");  // beside nothing that a run writes
  CHECK(read(scratch.path, {.held_out_one_in = 1000}).bytes.size() == 15);
  CHECK(read(scratch.path / "runs/a", {.held_out_one_in = 1000}).bytes.size() == 5);  // it is named itself
}

TEST_CASE("prepared token files are no text, wherever they are; files of their names alone are") {
  Scratch scratch;
  const std::string meta = "{\n \"format\": \"bytes\"\n}\n";
  for (const std::string folder : {"", "one/"}) {
    scratch.write(folder + "train.bin", "123"), scratch.write(folder + "val.bin", "123");
    scratch.write(folder + "meta.json", meta), scratch.write(folder + "text.txt", "12345");
  }
  scratch.write("two/train.bin", "1234567"), scratch.write("two/val.bin", "1"), scratch.write("two/meta.json", "{}");
  scratch.write("three/train.bin", "1"), scratch.write("three/meta.json", meta);
  const Index there = 5 + 5 + 10 + 1 + std::ssize(meta);
  CHECK(std::ssize(read(scratch.path, {.held_out_one_in = 1000}).bytes) == there);
  CHECK(read(scratch.path / "one", {.held_out_one_in = 1000}).bytes.size() == 5);
  CHECK(read(scratch.path / "one/train.bin", {.held_out_one_in = 1000}).bytes.size() == 3);  // it is named itself
  // What a writer that was killed left in its directory is no text either.
  scratch.write("two/more.txt", "1234");
  CHECK(read(scratch.path / "two", {.held_out_one_in = 1000, .except = scratch.path / "two"}).bytes.size() == 4);
}

TEST_CASE("an extension is given with its dot or without") {
  Scratch scratch;
  scratch.write("one.py", "12345"), scratch.write("py", "123");
  for (const char* extension : {".py", "py"}) CHECK(read(scratch.path, {.extensions = {extension}}).bytes.size() == 5);
}

TEST_CASE("where one part has no document of a window, each document gives its last tenth") {
  Scratch scratch;
  int short_ones = 0;
  for (int i = 0; i < 40; ++i) {  // short files are held out
    const std::string name = 'f' + std::to_string(i);
    short_ones += held_out(name, 10);
    scratch.write(name, std::string(held_out(name, 10) ? 5 : 1000, 'x'));
  }
  REQUIRE(short_ones > 0);
  CHECK(read(scratch.path, {.window = 5}).validation.size() == static_cast<std::size_t>(short_ones));
  CHECK(read(scratch.path, {.window = 6}).validation.size() == 40);
}

TEST_CASE("what may not be read is counted apart") {
  if (geteuid() == 0) return;  // who may read everything
  Scratch scratch;
  scratch.write("one.txt", "12345"), scratch.write("closed/two.txt", "123"), scratch.write("three.txt", "1");
  fs::permissions(scratch.path / "closed", fs::perms::none), fs::permissions(scratch.path / "three.txt", fs::perms::none);
  const Corpus corpus = read(scratch.path);
  CHECK(corpus.unreadable == 2);
  CHECK(corpus.skipped == 0);
  CHECK(message_of(scratch.path / "closed").find("cannot read the directory") == 0);
  fs::permissions(scratch.path / "closed", fs::perms::owner_all);
}

TEST_SUITE_END();
