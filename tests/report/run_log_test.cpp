// SPDX-License-Identifier: MIT
#include <simplx/report/run_log.hpp>

#include <doctest/doctest.h>

#include <sstream>

using namespace simplx;

TEST_SUITE_BEGIN("report/run_log");

TEST_CASE("a line is there as soon as it is written, its keys in order, null where nothing was validated") {
  const auto path = std::filesystem::temp_directory_path() / "simplx_run_log_test.jsonl";
  RunLog log(path);
  log.write({3, 768, 0.5, 2.25, std::nullopt, 0.001, 1.5, 1536});
  const auto content = [&] {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  CHECK(content() ==
        R"({"step":3,"tokens":768,"seconds":0.5,"train_loss":2.25,"val_loss":null,"learning_rate":0.001,"grad_norm":1.5,"tokens_per_second":1536.0})"
        "\n");
  log.write({4, 1024, 0.75, 2.0, 2.0, 0.0, 1.0, 1024});
  CHECK(content().find(R"("val_loss":2.0)") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("a file that cannot be made is named") {
  CHECK_THROWS_WITH_AS(RunLog("/nonexistent/log.jsonl"), doctest::Contains("/nonexistent/log.jsonl"), Error);
}

TEST_SUITE_END();
