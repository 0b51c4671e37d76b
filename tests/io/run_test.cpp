// SPDX-License-Identifier: MIT
#include <simplx/io/run.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

#include <optional>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("simplx_run_test_" + std::to_string(getpid()));
  Folder() { clear(); }
  ~Folder() { clear(); }
  void clear() const {
    for (const char* end : {"", "-1", "-2"}) fs::remove_all(path.string() + end);
  }
};

}  // namespace

TEST_SUITE_BEGIN("io/run");

TEST_CASE("a run begins with run.json and is finished with its model") {
  const Folder folder;
  {
    RunDirectory run(folder.path / "deep");
    CHECK(!run.begun());
    CHECK(!run.finished());
    run.begin({{"steps", 30}, {"learning_rate", 0.002}, {"text", "\xff"}});  // a path need not be UTF-8
    CHECK(run.begun());
  }
  {
    RunDirectory run(folder.path / "deep");
    CHECK(run.begun());
    CHECK(!run.finished());
    CHECK(run.record()["steps"] == 30);
    write_file(run / "model.safetensors", "");
    CHECK(run.finished());
  }
  write_file(folder.path / "deep" / "run.json", "{\"steps\":");
  CHECK_THROWS_WITH_AS(RunDirectory(folder.path / "deep"), doctest::Contains("run.json is no JSON object"), Error);
  CHECK_THROWS_WITH_AS(RunDirectory("/proc/nowhere"), doctest::Contains("/proc/nowhere"), Error);
}

TEST_CASE("one process at a time") {
  const Folder folder;
  std::optional<RunDirectory> run(folder.path);
  CHECK_THROWS_WITH_AS(RunDirectory{folder.path}, doctest::Contains("another process is working in"), Error);
  run.reset();
  run.emplace(folder.path);
  run->begin({{"steps", 1}});
  run->move_aside();
  CHECK_THROWS_WITH_AS(RunDirectory{folder.path}, doctest::Contains("another process is working in"), Error);
  CHECK_NOTHROW(RunDirectory{folder.path.string() + "-1"});
}

TEST_CASE("an earlier run is moved aside, never over another") {
  const Folder folder;
  RunDirectory run(folder.path.string() + "/");  // as a shell completes it
  for (const int number : {1, 2}) {
    run.begin({{"number", number}});
    CHECK(run.move_aside() == folder.path.string() + "-" + std::to_string(number));
    CHECK(!run.begun());
    CHECK(fs::is_empty(folder.path));
  }
  CHECK(RunDirectory(folder.path.string() + "-1").record()["number"] == 1);
  CHECK(RunDirectory(folder.path.string() + "-2").record()["number"] == 2);
}

TEST_CASE("all differences of two records in a table, but for those that may differ") {
  const RunRecord earlier{{"block", "sas"}, {"steps", 30}, {"minutes", nullptr}, {"threads", 2}, {"lost", 1}};
  const RunRecord now{{"block", "pre_ln"}, {"steps", 30}, {"minutes", 3.0}, {"threads", 4}, {"found", 2}};
  CHECK(differences(earlier, earlier).empty());
  CHECK(differences(earlier, now, {"threads"}) ==
        "\n           the run  now"
        "\n  block    \"sas\"    \"pre_ln\""
        "\n  minutes  null     3.0"
        "\n  lost     1        -"
        "\n  found    -        2");
  CHECK(differences(earlier, now).find("threads") != std::string::npos);
  const RunRecord some{{"hyper", {{"alpha", 1}, {"beta", 2}}}}, others{{"hyper", {{"alpha", 3}, {"beta", 2}}}};
  CHECK(differences(some, others).find("hyper.alpha") != std::string::npos);
  CHECK(differences(some, others, {"hyper.alpha"}).empty());
  CHECK(differences(some, others, {"hyper"}).empty());
  CHECK(!differences(RunRecord{}, some, {"none"}).empty());
}

TEST_CASE("within a record each value has a line of its own") {
  const RunRecord earlier{{"hyper", {{"alpha", 1}, {"beta", 2}}}}, now{{"hyper", {{"alpha", 1}, {"gamma", 3}}}};
  CHECK(differences(earlier, now) ==
        "\n               the run  now"
        "\n  hyper.beta   2        -"
        "\n  hyper.gamma  -        3");
}

TEST_CASE("a directory stays the same, wherever the process goes and links lead") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder.path);
  fs::current_path(folder.path);
  RunDirectory run(".");
  run.begin({{"number", 1}});
  CHECK(run.move_aside().filename() == folder.path.filename().string() + "-1");
  run.begin({{"number", 2}});
  fs::current_path(before);
  CHECK(run.move_aside().filename() == folder.path.filename().string() + "-2");
  CHECK(fs::exists(folder.path.string() + "-1/run.json"));
}

TEST_CASE("files of a run without its run.json are neither gone on with nor written over") {
  for (const char* name : {"log.jsonl", "checkpoints", "model.safetensors"}) {
    const Folder folder;
    fs::create_directories(folder.path);
    write_file(folder.path / name, "precious");
    RunDirectory run(folder.path);
    CHECK(run.occupied());
    CHECK(!run.finished());
    CHECK_THROWS_WITH_AS(run.begin({{"number", 1}}),
                         doctest::Contains((" has " + std::string(name) + " of a run, but no run.json").c_str()), Error);
    CHECK(!fs::exists(folder.path / "run.json"));
    run.move_aside();
    CHECK(!run.occupied());
    CHECK_NOTHROW(run.begin({{"number", 1}}));
  }
}

TEST_CASE("a run.json that is a directory, or deep, is no record") {
  const Folder folder;
  fs::create_directories(folder.path / "run.json");
  CHECK_THROWS_WITH_AS(RunDirectory{folder.path}, doctest::Contains("is no JSON object"), Error);
  fs::remove(folder.path / "run.json");
  write_file(folder.path / "run.json", "{\"a\":" + std::string(20'000, '[') + std::string(20'000, ']') + "}");
  CHECK_THROWS_WITH_AS(RunDirectory{folder.path}, doctest::Contains("is no JSON object"), Error);
}

TEST_CASE("a run.json that may not be read says so") {
  const Folder folder;
  const fs::path file = folder.path / "run.json";
  fs::create_directories(folder.path);
  write_file(file, "{}");
  fs::permissions(folder.path, fs::perms::all);
  const std::string denied = "cannot read " + file.string() + ": Permission denied\n  hint: ";
  for (const fs::path& closed : {file, folder.path}) {  // the second may be listed, but nothing in it looked at
    const fs::perms before = fs::status(closed).permissions();
    fs::permissions(closed, closed == file ? fs::perms::none : fs::perms::owner_read | fs::perms::others_read);
    {
      const test::Nobody nobody;
      if (nobody.succeeded) CHECK(test::message_of([&] { RunDirectory{folder.path}; }).find(denied) == 0);
    }
    fs::permissions(closed, before);
  }
}

TEST_CASE("a value of the record is of the type that is asked for, or refused with file and key") {
  const Folder folder;
  RunDirectory run(folder.path);
  CHECK(run.value("peak_gflops", 1.5) == 1.5);  // not begun
  run.begin({{"steps", 3}, {"device", "cpu"}, {"peak_gflops", "fast"}, {"version", nullptr}, {"build", 7},
             {"tokens", 5'000'000'000}, {"before", -1}, {"fresh", true}});
  CHECK(run.value("steps", 0L) == 3);
  CHECK(run.value("steps", 0.0) == 3);
  CHECK(run.value("threads", 4) == 4);
  CHECK(run.value<std::string>("device", "") == "cpu");
  const std::string file = (run / "run.json").string();
  CHECK_THROWS_WITH_AS(run.value("peak_gflops", 0.0),
                       (file + ": 'peak_gflops' is of type string, not a number\n"
                               "  hint: was it changed by hand? Give it the value that the run began with")
                           .c_str(),
                       Error);
  CHECK_THROWS_WITH_AS(run.value("peak_gflops", 0L), doctest::Contains("of type string, not a whole number"), Error);
  CHECK_THROWS_WITH_AS(run.value<std::string>("version", ""),
                       doctest::Contains("'version' is of type null, not a text"), Error);
  CHECK_THROWS_WITH_AS(run.value<std::string>("build", ""),
                       doctest::Contains("'build' is of type number, not a text"), Error);
  CHECK(run.value("tokens", 0LL) == 5'000'000'000);
  CHECK(run.value("fresh", false));
  CHECK_THROWS_WITH_AS(run.value("build", false), doctest::Contains("of type number, not a truth value"), Error);
  CHECK_THROWS_WITH_AS(run.value("tokens", 0),
                       doctest::Contains("'tokens' is 5000000000, more than this program holds"), Error);
  CHECK_THROWS_WITH_AS(run.value<std::uint64_t>("before", 0), doctest::Contains("'before' is -1, more than"), Error);
}

TEST_SUITE_END();
