// SPDX-License-Identifier: MIT
#include <simplx/report/run_data.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

using namespace simplx;

namespace {
struct RunFiles : test::Scratch {
  bool cut = false;
  std::vector<LoggedStep> log(const std::string& content) { return read_log(write("log.jsonl", content), cut); }
  std::string refusal(const std::string& content) {
    return test::message_of([&] { log(content); });
  }
  /// A run in a directory of that name.
  std::filesystem::path run(const std::string& name, const std::string& options = "{}", const std::string& log = "") {
    write(name + "/log.jsonl", log);
    return write(name + "/run.json", options).parent_path();
  }
};
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_SUITE_BEGIN("report/run_data");

TEST_CASE("a line of the log is read, what it does not tell is not a number") {
  RunFiles files;
  const auto log = files.log(
      R"({"step":3,"tokens":768,"seconds":0.5,"train_loss":2.25,"val_loss":2.0,"learning_rate":0.001,"grad_norm":1.5,)"
      R"("tokens_per_second":1536.0,"gains":{"mlp_gain":[0.25,null]},"gradient_norms":[3,4],"later_key":[{}]})"
      "\r\n\n"
      R"({"step":4,"train_loss":null,"gains":null,"gradient_norms":null})"
      "\n"
      R"({"step":5,"gains":{"early":null}})"
      "\n");
  CHECK_FALSE(files.cut);
  REQUIRE(log.size() == 3);
  CHECK(log[2].gains.at("early").empty());
  CHECK(log[0].step == 3);
  CHECK(log[0].tokens == 768);
  CHECK(log[0].seconds == 0.5);
  CHECK(log[0].loss == 2.25);
  CHECK(log[0].val_loss == 2);
  CHECK(log[0].learning_rate == 0.001);
  CHECK(log[0].gradient_norm == 1.5);
  CHECK(log[0].tokens_per_second == 1536);
  CHECK(log[0].gains.at("mlp_gain")[0] == 0.25);
  CHECK(std::isnan(log[0].gains.at("mlp_gain")[1]));
  CHECK(log[0].gradient_norms == std::vector<double>{3, 4});
  for (const double missing : {log[1].tokens, log[1].seconds, log[1].loss, log[1].val_loss, log[1].learning_rate,
                              log[1].gradient_norm, log[1].tokens_per_second}) {
    CHECK(std::isnan(missing));
  }
  CHECK(log[1].gains.empty());
  CHECK(log[1].gradient_norms.empty());
}

TEST_CASE("an unfinished last line is left out, and that is told; an empty log is one") {
  RunFiles files;
  for (const char* tail : {R"({"step":2,"tok)", "{\"st\n", "{\"step\":1e999}\n\n", "\xff", "{"}) {
    CHECK(files.log(std::string("{\"step\":1}\n") + tail).size() == 1);
    CHECK(files.cut);
  }
  CHECK(files.log("{\"step\":1}\n{\"step\":2}").size() == 2);  // without its line feed, yet whole
  CHECK_FALSE(files.cut);
  CHECK(files.log("").empty());
  CHECK(files.log("{").empty());
  CHECK(files.cut);
}

TEST_CASE("a damaged line is refused with its number and the reason, even the last one if it is whole JSON") {
  RunFiles files;
  const std::string one = "{\"step\":1}\n", path = (files.path / "log.jsonl").string();
  const auto says = [&](const std::string& content, const std::string& reason) {
    const std::string message = files.refusal(content);
    CAPTURE(message);
    CHECK(holds(message, path + ", line " + reason));
    CHECK(holds(message, "hint"));
  };
  says(one + "{\"step\":2,\n{\"step\":3}\n", "2: it is not JSON, and others follow");
  says(one + "\n\nx\n\n{\"step\":3}", "4: it is not JSON, and others follow");
  says(one + "[]\n", "2: it is no object");
  says("{}\n", "1: 'step' is missing");
  says("{\"step\":-1}", "1: 'step' is missing or no whole number");
  says("{\"step\":1.5}", "1: 'step' is missing or no whole number");
  says("{\"step\":1,\"tokens\":\"many\"}", "1: 'tokens' is no number");
  says("{\"step\":1,\"gains\":[1]}", "1: 'gains' is no object");
  says("{\"step\":1,\"gains\":{\"g\":1}}", "1: 'g' is no array");
  says("{\"step\":1,\"gains\":{\"g\":[true]}}", "1: 'g' is no number");
  says("{\"step\":1,\"gradient_norms\":{}}", "1: 'gradient_norms' is no array");
  says(one + one, "2: step 1 does not follow step 1");
}

TEST_CASE("options as text and as numbers") {
  RunFiles files;
  const Run run = read_run(files.run("r", R"({"block":"sas","layers":6,"minutes":null,"text":["a"],"clip":0.5})"));
  CHECK(run.name == "r");
  CHECK(run.option("block") == "sas");
  CHECK(run.option("layers") == "6");
  CHECK(run.option("text") == "[\"a\"]");
  CHECK(run.option("minutes", "no limit") == "no limit");
  CHECK(run.option("missing").empty());
  CHECK(run.number("clip") == 0.5);
  CHECK(std::isnan(run.number("block")));
  CHECK(std::isnan(run.number("missing")));
}

TEST_CASE("sample and picture are read where they are, whatever their bytes") {
  RunFiles files;
  const auto directory = files.run("r");
  CHECK(read_run(directory).sample.empty());
  CHECK(read_run(directory).picture.empty());
  const std::string bytes("\0\xff\r\n", 4);
  files.write("r/sample.txt", bytes);
  files.write("r/block.svg", "<svg/>");
  CHECK(read_run(directory).sample == bytes);
  CHECK(read_run(directory).picture == "<svg/>");
}

TEST_CASE("a run is finished when its final weights are there") {
  RunFiles files;
  const auto directory = files.run("r");
  CHECK_FALSE(read_run(directory).finished);
  files.write("r/model.safetensors", "");
  CHECK(read_run(directory).finished);
}

TEST_CASE("a run that is not whole is refused by the path that is at fault") {
  RunFiles files;
  const auto says = [&](const std::filesystem::path& directory, const std::string& what) {
    const std::string message = test::message_of([&] { read_run(directory); });
    CAPTURE(message);
    CHECK(holds(message, what));
    CHECK(holds(message, "hint"));
  };
  says(files.path / "nothing", "no directory " + (files.path / "nothing").string());
  says(files.write("file", ""), "no directory ");
  says(files.write("no_options/log.jsonl", "").parent_path(),
       "cannot read " + (files.path / "no_options/run.json").string());
  says(files.write("no_log/run.json", "{}").parent_path(), "cannot read " + (files.path / "no_log/log.jsonl").string());
  says(files.run("damaged", "{\"block\":"), "run.json is not JSON");
  says(files.run("list", "[]"), "run.json is no object");
  std::filesystem::create_directories(files.path / "folder/log.jsonl");
  says(files.write("folder/run.json", "{}").parent_path(), "cannot read " + (files.path / "folder/log.jsonl").string());
}

TEST_CASE("runs are called by their directories, namesakes by their paths") {
  RunFiles files;
  const auto a = files.run("one/first"), b = files.run("two/first"), c = files.run("second");
  const std::vector<Run> runs = read_runs({a, c, b});
  CHECK(runs[0].name == a.string());
  CHECK(runs[1].name == "second");
  CHECK(runs[2].name == b.string());
  CHECK(read_runs({a / "."})[0].name == "first");
  CHECK(read_runs({a.string() + "/"})[0].name == "first");
}

TEST_SUITE_END();
