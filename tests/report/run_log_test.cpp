// SPDX-License-Identifier: MIT
#include <simplx/report/run_data.hpp>
#include <simplx/report/run_log.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

#include <csignal>
#include <sstream>

#include <sys/resource.h>

using namespace simplx;

namespace {
const std::filesystem::path path = std::filesystem::temp_directory_path() / "simplx_run_log_test.jsonl";

std::string content() {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
LogLine line(long step) {
  return {.step = step,
          .tokens = 256 * step,
          .seconds = 0.5,
          .loss = 2.25,
          .learning_rate = 0.001,
          .gradient_norm = 1.5,
          .tokens_per_second = 1536};
}
}  // namespace

TEST_SUITE_BEGIN("report/run_log");

TEST_CASE("a line is there as soon as it is written, its keys in order, and says nothing of what was not measured") {
  RunLog log(path);
  log.write(line(3));
  CHECK(
      content() ==
      R"({"step":3,"tokens":768,"seconds":0.5,"train_loss":2.25,"val_loss":null,"learning_rate":0.001,"grad_norm":1.5,"tokens_per_second":1536.0})"
      "\n");
  std::filesystem::remove(path);
}

TEST_CASE(
    "a validation's line has the held-out loss, and gains and gradients of every layer, null where a layer has none") {
  RunLog log(path);
  LogLine validated = line(3);
  validated.val_loss = 2;
  validated.gains = {{"mlp_gain", {0.25, 0.5}}, {"attention.value.alpha", {1, std::nullopt}}};
  validated.gradient_norms = {3, 4};
  log.write(validated);
  CHECK(
      content() ==
      R"({"step":3,"tokens":768,"seconds":0.5,"train_loss":2.25,"val_loss":2.0,"learning_rate":0.001,"grad_norm":1.5,"tokens_per_second":1536.0,)"
      R"("gains":{"mlp_gain":[0.25,0.5],"attention.value.alpha":[1.0,null]},"gradient_norms":[3.0,4.0]})"
      "\n");
  std::filesystem::remove(path);
}

TEST_CASE("a held-out loss that is no number is told from none") {
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    RunLog log(path);
    log.write(line(1));
    LogLine validated = line(2);
    validated.val_loss = loss;
    log.write(validated);
    bool cut = true;
    const std::vector<LoggedStep> read = read_log(path, cut);
    REQUIRE(read.size() == 2);
    CHECK(std::isnan(read[0].val_loss));
    CHECK(std::isinf(read[1].val_loss));
  }
  std::filesystem::remove(path);
}

TEST_CASE("a gain of no layers is an empty list") {
  RunLog log(path);
  log.write({.step = 1, .loss = 2, .gains = {{"gain", {}}}});
  CHECK(content().find(R"("gains":{"gain":[]})") != std::string::npos);
  bool cut = true;
  CHECK(read_log(path, cut).at(0).gains.at("gain").empty());
  std::filesystem::remove(path);
}

TEST_CASE("a log goes on after the lines of its checkpoint, whatever was written after them, whole or not") {
  const auto write = [](std::initializer_list<long> steps, long last) {
    RunLog log(path, last);
    for (const long step : steps) log.write(line(step));
  };
  write({1, 5, 10, 12}, 0);
  const std::string first = content();
  write({12}, 10);
  CHECK(content() == first);
  std::ofstream(path, std::ios::app) << R"({"step":13,"tok)";  // killed while it wrote
  write({}, 20);
  CHECK(content() == first);
  std::ofstream(path, std::ios::app) << R"({"step":13})";  // or just before the end of the line
  write({}, 20);
  CHECK(content() == first);
  write({1, 5, 10, 12}, 0);  // from the beginning
  CHECK(content() == first);
  std::filesystem::remove(path);
}

TEST_CASE("blank lines of a log are left out, and a damaged one is refused by its number, the file as it was") {
  const auto gone_on = [](const std::string& before, long last) {
    std::ofstream(path) << before;
    RunLog log(path, last);
    return content();
  };
  CHECK(gone_on("{\"step\":1}\n\n{\"step\":2}\n \r\n{\"step\":3}\n{\"step\":4}\n", 3) ==
        "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  CHECK(gone_on("{\"step\":1}\nxx\n\n", 3) == "{\"step\":1}\n");                         // the last one
  CHECK(gone_on("{\"step\":3}\nxx\n{\"step\":4}\n", 3) == "{\"step\":3}\n");             // after the checkpoint
  CHECK(gone_on("{\"step\":1}\n{\"step\":5}\nxx\n{\"step\":6}\n", 3) == "{\"step\":1}\n");
  for (const char* damaged : {"xx", "{\"step\":1", "[]", "{}", "{\"step\":\"2\"}"}) {
    const std::string before = "{\"step\":1}\n\n" + std::string(damaged) + "\n{\"step\":2}\n{\"step\":3}\n";
    const std::string message = test::message_of([&] { gone_on(before, 3); });
    CHECK(message.find(path.string() + ", line 3: ") == 0);
    CHECK(message.find("hint: ") != std::string::npos);
    CHECK(content() == before);
  }
  std::filesystem::remove(path);
}

TEST_CASE("a log that may not be read is not taken for an empty one; where there is none it begins anew") {
  const test::Scratch scratch;
  CHECK_NOTHROW(RunLog(scratch.path / "new.jsonl", 3));
  const std::filesystem::path file = scratch.write("log.jsonl", "{\"step\":1}\n");
  std::filesystem::permissions(scratch.path, std::filesystem::perms::all);
  std::filesystem::permissions(file, std::filesystem::perms::none);
  {
    const test::Nobody nobody;
    if (!nobody.succeeded) return;
    CHECK(test::message_of([&] { RunLog(file, 3); }).find("cannot read " + file.string() + ": Permission denied") == 0);
  }
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  CHECK(test::Scratch::read(file) == "{\"step\":1}\n");
}

TEST_CASE("a line that the disk does not take waits for the next, and never leaves a part of itself") {
  struct Limit {  // as of a full disk
    rlimit before{};
    void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
    explicit Limit(rlim_t bytes) {
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit now{bytes, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &now);
    }
    ~Limit() {
      setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, handler);
    }
  };
  RunLog log(path);
  log.write(line(1));
  const std::string first = content();
  {
    const Limit limit(first.size() + 20);
    CHECK_THROWS_WITH_AS(log.write(line(2)), doctest::Contains("File too large"), Error);
    CHECK(content() == first);
    CHECK_THROWS_WITH_AS(log.write(line(3)), doctest::Contains(path.c_str()), Error);
    CHECK(content() == first);
  }
  log.write(line(4));
  const std::string all = content();
  {
    RunLog whole(path);
    for (const long step : {1, 2, 3, 4}) whole.write(line(step));
  }
  CHECK(content() == all);
  std::filesystem::remove(path);
}

TEST_CASE("a file that cannot be made is named") {
  CHECK_THROWS_WITH_AS(RunLog("/nonexistent/log.jsonl"), doctest::Contains("/nonexistent/log.jsonl"), Error);
}

TEST_SUITE_END();
