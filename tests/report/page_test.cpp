// SPDX-License-Identifier: MIT
#include <simplx/report/page.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

using namespace simplx;

namespace {
Run run_of(std::string name, double best = 1.5) {
  Run run{.name = std::move(name),
          .options = {{"version", "0.1"}, {"block", "sas_p"}, {"parameters", 1234567}, {"vocab", 256}, {"layers", 2}},
          .sample = "a < b",
          .picture = "<svg xmlns='http://www.w3.org/2000/svg'/>"};
  for (int step = 1; step <= 20; ++step) {
    LoggedStep entry{.step = step,
                     .tokens = 100.0 * step,
                     .seconds = 1.0 * step,
                     .loss = 3 + 1.0 / step,
                     .learning_rate = 0.1,
                     .gradient_norm = 1,
                     .tokens_per_second = 50};
    if (step % 10 == 0) {
      entry.val_loss = best + (20 - step);
      entry.gains = {{"mlp_gain", {0.1, 0.2 * step}}};
      entry.gradient_norms = {1.0 * step, 2.0 * step};
    }
    run.log.push_back(entry);
  }
  return run;
}
std::string page_of(const std::vector<Run>& runs) { return report_page(runs); }
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}
/// The content of `text` without markup between the two.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  return from == text.npos ? "" : text.substr(from, text.find(end, from) - from);
}

/// What is not well formed: an element closed by another's name, an attribute without quotes; "" of a good page.
std::string fault(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<', page.find('<') + 1); at != page.npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == page.npos) return "unfinished: " + page.substr(at, 40);
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.find('<') != tag.npos || count(tag, "\"") % 2 != 0) return "broken: " + tag;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closed out of order: " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty() ? "" : "left open: " + open.back();
}
}  // namespace

TEST_SUITE_BEGIN("report/page");

TEST_CASE("runs whose tokens differ are compared by the byte, or cannot be") {
  Run bytes = run_of("bytes", 1.5), tokens = run_of("tokens", 3.0);
  tokens.options["vocab"] = 2048, tokens.options["bytes_per_token"] = 4.0;
  const std::string page = page_of({bytes, tokens});
  CHECK(holds(page, "Best held out: tokens with 0.750 nats per byte, 0.750 below bytes"));
  CHECK(holds(page, "bytes read"));
  CHECK(holds(page, detail::grouped_number(4 * 2000.0)));
  Run others = tokens;
  others.name = "others";
  CHECK(holds(page_of({tokens, others}), "with 3.000 nats per token"));
  others.options["vocab"] = 2304;  // rows that nobody looks up
  CHECK(holds(page_of({tokens, others}), "with 3.000 nats per token"));
  Run some = bytes, more = bytes;
  some.options.erase("vocab"), more.options.erase("vocab");
  CHECK(holds(page_of({some, more}), "with 1.500 nats per token"));
  bytes.log.back().gradient_norms = tokens.log.back().gradient_norms = {0.5, 0.25};
  CHECK(holds(page_of({bytes, tokens}), "norm of the gradient per token"));
  tokens.options.erase("bytes_per_token");
  const std::string unknown = page_of({bytes, tokens});
  CHECK(holds(unknown, "Losses cannot be compared"));
  CHECK(!holds(unknown, "Best held out"));
}

TEST_CASE("pages are well formed whatever the runs hold, and nothing on them runs or asks for anything") {
  Run hostile = run_of("<script>alert(1)</script>\xff\"&");
  hostile.options["</dl><script>"] = {{"deep", "]]><!--"}, {"list", {1, 2, 3, 4, 5, "<"}}};
  hostile.options["block"] = "\" onload=\"alert(2)";
  hostile.sample = std::string("</pre><script>\0\x1b", 16);
  hostile.log[12].gains["</svg><script>"] = {1};
  hostile.picture = "<svg onload='alert(3)'><script>alert(4)</script></svg>";
  Run bare{.name = "bare", .options = nlohmann::ordered_json::object()};
  Run huge = run_of("huge");
  for (LoggedStep& step : huge.log) {
    step.tokens = step.seconds = step.loss = step.gradient_norm = step.tokens_per_second = 1.7e308;
  }
  huge.options["parameters"] = 1e300;
  Run missing = run_of("missing");
  for (LoggedStep& step : missing.log) step = {.step = step.step};
  const std::vector<std::vector<Run>> pages = {{run_of("good")},
                                               {hostile},
                                               {bare},
                                               {huge},
                                               {missing},
                                               {bare, missing},
                                               {run_of("good"), hostile, bare, huge, missing}};
  for (const std::vector<Run>& runs : pages) {
    CAPTURE(runs[0].name);
    const std::string page = page_of(runs);
    CHECK(fault(page) == "");
    for (const char* part :
         {"<script", "<iframe", "<object", " onload=\"", " src=\"http", "\"nan", "\"inf", "Mnan", " nan", " inf"}) {
      CHECK_FALSE(holds(page, part));
    }
    CHECK(holds(page, "default-src 'none'"));
    for (char c : page) REQUIRE((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
  }
}

TEST_CASE("the page of one run tells what it came to") {
  const std::string page = page_of({run_of("first <run>")});
  CHECK(holds(page, "<h1>first &lt;run&gt;</h1>"));
  CHECK(holds(page, "<title>first &lt;run&gt;</title>"));
  CHECK(holds(page, "sas_p, 2 layers"));
  CHECK(holds(page, "1.500<small>nats per byte = 2.164 bits"));
  CHECK(holds(page, "1 234 567"));
  CHECK(holds(page, "2 k<small>bytes in 20 steps"));
  CHECK(holds(page, "50<small>bytes per second, 2 s a step"));
  CHECK(holds(page, "Held-out loss goes from 11.50 to 1.500 nats per byte"));
  CHECK(holds(page, "The numbers at 2 validations"));
  CHECK(holds(page, "mlp_gain"));
  CHECK(holds(page, "Gradients by depth"));
  CHECK(holds(page, "data:image/svg+xml;base64,"));
  CHECK(holds(page, "a &lt; b"));
  CHECK_FALSE(holds(page, "unfinished"));
}

TEST_CASE("one of a kind is no more than one") {
  Run run = run_of("r");
  run.options["layers"] = 1, run.options["heads"] = 1;
  run.log.erase(run.log.begin(), run.log.end() - 1);
  run.log[0].step = 1;
  run.log[0].val_loss = 2;
  const std::string page = page_of({run});
  CHECK(holds(page, "bytes in 1 step</small>"));
  CHECK(holds(page, "The numbers at 1 validation</summary>"));
  CHECK(holds(page, ", 1 layer"));
  CHECK_FALSE(holds(page, ", 1 layers"));
  CHECK(holds(page, ", 1 head"));
  CHECK_FALSE(holds(page, ", 1 heads"));
}

TEST_CASE("a run without validations, sample, picture or log leaves those sections out") {
  Run run = run_of("r");
  run.cut = true;
  run.sample.clear(), run.picture.clear();
  for (LoggedStep& step : run.log) step.val_loss = LoggedStep::missing, step.gains.clear(), step.gradient_norms.clear();
  std::string page = page_of({run});
  for (const char* part : {"The numbers", "gains", "Gradients", "The block", "What it writes"})
    CHECK_FALSE(holds(page, part));
  CHECK(holds(page, "Training loss goes from 4.00 to 3.050"));
  CHECK(holds(page, "not validated yet"));
  CHECK(holds(page, "The last line of log.jsonl is unfinished"));
  run.log.clear();
  page = page_of({run});
  CHECK(holds(page, "No loss was logged"));
  CHECK(holds(page, "nothing was logged"));
  CHECK_FALSE(holds(page, "How training went"));
}

TEST_CASE("several runs: the best first in words, and one cell is marked") {
  Run third = run_of("c");
  for (LoggedStep& step : third.log) step.val_loss = LoggedStep::missing;
  third.options["block"] = "pre_ln";
  const std::string page = page_of({run_of("a", 1.75), run_of("b", 1.5), third});
  CHECK(holds(page, "3 runs side by side"));
  CHECK(holds(page, "Best held out: b with 1.500 nats per byte, 0.250 below a"));
  CHECK(count(page, "class=\"best\"") == 1);
  CHECK(holds(page, "<td class=\"best\">1.500</td>"));
  CHECK(holds(page_of({third, third}), "None of them was validated."));
  // Pictures of one block are shown once, options where they differ.
  CHECK(count(page, "<img") == 1);
  const std::string differing = between(page, "Options that differ", "</table>");
  CHECK(holds(differing, "block"));
  CHECK_FALSE(holds(differing, "layers"));
  CHECK(between(page_of({run_of("a"), run_of("a")}), "Options that differ", "</table>").empty());
}

TEST_CASE("a run that has not taken its steps is called unfinished, unless its final weights are there") {
  Run run = run_of("a");
  run.options["steps"] = 20;
  CHECK_FALSE(holds(page_of({run}), "unfinished"));
  CHECK(holds(page_of({run}), "A sample of the final model."));
  run.options["steps"] = 4000;
  const std::string page = page_of({run});
  CHECK(holds(page, "2 k<small>bytes in 20 of 4 000 steps, unfinished"));
  CHECK(holds(page, "A sample at step 20."));
  CHECK_FALSE(holds(page, "final"));
  const std::string both = page_of({run, run_of("b")});
  CHECK(holds(both, ">a (20 of 4 000 steps, unfinished)</th>"));
  CHECK(holds(both, "<b>a, 20 of 4 000 steps, unfinished</b>"));
  CHECK(holds(both, "<th scope=\"row\">b</th>"));
  CHECK(count(both, "unfinished") == 2);
  CHECK_FALSE(holds(both, "final"));
  run.finished = true;  // its log is coarser than its steps
  CHECK_FALSE(holds(page_of({run}), "unfinished"));
  run.finished = false;
  run.log.clear();
  CHECK(holds(page_of({run}), "bytes in 0 of 4 000 steps, unfinished"));
}

TEST_CASE("a run that diverged says so, and since when") {
  Run run = run_of("a");
  for (std::size_t i = 15; i < 20; ++i) run.log[i].loss = LoggedStep::missing;
  run.log[19].val_loss = HUGE_VAL;
  const std::string page = page_of({run});
  CHECK(holds(page, "<p>The loss is not finite from step 16 on.</p>"));
  CHECK(holds(page, "The numbers at 2 validations"));
  run.log[9].val_loss = 12, run.log[14].val_loss = 11;
  CHECK(holds(page_of({run}), "Held-out loss goes from 12.00 to 11.000 nats per byte, then is not finite</h2>"));
  run.log[9].val_loss = 11.5, run.log[14].val_loss = LoggedStep::missing;
  const std::string both = page_of({run, run_of("b")});
  CHECK(holds(both, "<p>The loss of a is not finite from step 16 on.</p>"));
  CHECK(holds(both, "<td class=\"\">not finite</td><td class=\"\">11.500</td>"));
  CHECK(count(both, "not finite") == 2);
  CHECK_FALSE(holds(page_of({run_of("a"), run_of("b")}), "not finite"));
  for (LoggedStep& step : run.log) step.loss = step.val_loss = LoggedStep::missing;
  CHECK(holds(page_of({run}), "No finite loss was logged"));
}

TEST_CASE("a second and more are no thousands of milliseconds") {
  CHECK(detail::short_time(105.3) == "105 ms");
  CHECK(detail::short_time(999.4) == "999 ms");
  CHECK(detail::short_time(999.6) == "1 s");
  CHECK(detail::short_time(3414) == "3.41 s");
  CHECK(detail::short_time(LoggedStep::missing) == "– ms");
}

TEST_CASE("options are opened and cut") {
  const nlohmann::ordered_json options = {{"weight_decay", 0.1},      {"minutes", nullptr},
                                          {"shuffle", true},          {"bytes", 1234567},
                                          {"hyper", {{"a_b", 1e-6}}}, {"text", {"x", "y", "z", "u", "v", "w"}}};
  using Rows = std::vector<std::pair<std::string, std::string>>;
  CHECK(detail::option_rows(options) == Rows{{"weight decay", "0.1"},
                                             {"minutes", "–"},
                                             {"shuffle", "yes"},
                                             {"bytes", "1234567"},
                                             {"hyper a_b", "1e-6"},
                                             {"text", "x, y, z, u and 2 more"}});
  CHECK(detail::option_rows(nlohmann::ordered_json::parse("{\"bytes\":1234567}")) == Rows{{"bytes", "1 234 567"}});
}

TEST_CASE("report.html is written beside the run's files; a page that cannot be made leaves the old one") {
  test::Scratch files;
  const auto directory = files.write("r/run.json", "{\"block\":\"sas\"}").parent_path();
  files.write("r/log.jsonl", "{\"step\":1,\"train_loss\":2}\n");
  write_report(directory);
  const std::string page = files.read(directory / "report.html");
  CHECK(holds(page, "Training loss: 2.000 nats"));
  files.write("r/log.jsonl", "x\ny\n");
  CHECK(holds(test::message_of([&] { write_report(directory); }), "log.jsonl, line 1"));
  CHECK(files.read(directory / "report.html") == page);
  CHECK(holds(test::message_of([&] { page_of({}); }), "a report needs a run"));
}

TEST_SUITE_END();
