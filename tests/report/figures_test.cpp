// SPDX-License-Identifier: MIT
#include <simplx/report/figures.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
constexpr double missing = LoggedStep::missing;

/// Twenty steps of 100 tokens and a second each; the loss falls from 20 to 1, every fifth step is validated.
Run run_of(std::string name) {
  Run run{.name = std::move(name), .options = {{"vocab", 256}}};
  for (int step = 1; step <= 20; ++step) {
    LoggedStep entry{.step = step,
                     .tokens = 100.0 * step,
                     .seconds = 1.0 * step,
                     .loss = 21.0 - step,
                     .learning_rate = 0.1,
                     .gradient_norm = 1,
                     .tokens_per_second = step == 1 ? 1e9 : 50};
    if (step % 5 == 0) {
      entry.val_loss = step == 15 ? 2 : 25.0 - step;
      entry.gains = {{"mlp_gain", {0.1, 0.2 * step}}};
      if (step == 20) entry.gains["late"] = {1};
      entry.gradient_norms = {1.0 * step, 2.0 * step, missing};
    }
    run.log.push_back(entry);
  }
  return run;
}
}  // namespace

TEST_SUITE_BEGIN("report/figures");

TEST_CASE("what a run comes to") {
  const RunSummary sum = summary_of(run_of("r"));
  CHECK(sum.best == 2);
  CHECK(sum.last == 5);
  CHECK(sum.training == 1.5);  // of steps 19 and 20
  CHECK(sum.tokens == 2000);
  CHECK(sum.seconds == 20);
  CHECK(sum.speed == 50);  // the median, whatever the first step says
  CHECK(sum.milliseconds == 2000);
}

TEST_CASE("the median of an even count lies between the two middle ones") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 10, 2}) == 3);
  CHECK(median({100, 200}) == 150);
  CHECK(median({1.7e308, 1.7e308}) == 1.7e308);
}

TEST_CASE("of a run that diverged the training loss is no number, and the step is known") {
  Run run = run_of("r");
  CHECK(detail::diverged_at(run) == nullptr);
  run.log[9].loss = missing;
  CHECK(detail::diverged_at(run) == nullptr);  // it came back
  CHECK(summary_of(run).training == 1.5);
  run.log[19].loss = missing;
  CHECK(std::isnan(summary_of(run).training));
  CHECK(detail::diverged_at(run) == &run.log[19]);
  for (std::size_t i = 10; i < 20; ++i) run.log[i].loss = missing;
  CHECK(detail::diverged_at(run) == &run.log[9]);
  for (LoggedStep& step : run.log) step.loss = missing;
  CHECK(detail::diverged_at(run) == nullptr);  // perhaps it was not logged
  Run held_out = run_of("r");
  held_out.log[19].val_loss = HUGE_VAL;
  CHECK(detail::diverged_at(held_out) == &held_out.log[19]);
  CHECK(summary_of(held_out).best == 2);
  const Chart chart = field_chart({&held_out, 1}, &LoggedStep::val_loss, "", {}, true);
  REQUIRE(chart.series[0].points.size() == 4);
  CHECK(std::isinf(chart.series[0].points[3].y));
}

TEST_CASE("of an empty log nothing is known") {
  const RunSummary sum = summary_of(Run{});
  for (const double value : {sum.best, sum.last, sum.training, sum.tokens, sum.seconds, sum.speed, sum.milliseconds}) {
    CHECK(std::isnan(value));
  }
  CHECK(std::isnan(median({})));
  CHECK(gain_charts({}).empty());
  CHECK(profiled_steps({}).empty());
  const Run empty{};
  CHECK(profile_chart({&empty, 1}, "").series.empty());
  CHECK(losses_chart(empty, "", true).series[0].points.empty());
}

TEST_CASE("a loss that is not finite is a gap, a validation that did not take place is none") {
  Run run = run_of("r");
  run.log[9].loss = missing;
  const Chart chart = losses_chart(run, "Loss", false);
  REQUIRE(chart.series.size() == 2);
  REQUIRE(chart.series[0].points.size() == 20);
  CHECK(std::isnan(chart.series[0].points[9].y));
  REQUIRE(chart.series[1].points.size() == 4);
  CHECK(chart.series[1].points[0].x == 500);
  CHECK(chart.series[1].points[0].y == 20);
  CHECK(chart.series[1].style.dots);
  CHECK(chart.x.scale == Scale::logarithmic);
  CHECK(chart.y.label == "nats per byte, log scale");
}

TEST_CASE("time has the unit that suits the longest run, and begins at 0") {
  std::vector<Run> runs = {run_of("short"), run_of("long")};
  CHECK(field_chart(runs, &LoggedStep::loss, "", {}, true).x.label == "seconds of training");
  const std::pair<double, const char*> units[] = {{1, "seconds"},         {120, "seconds"}, {121, "minutes"},
                                                  {7200, "minutes"},      {7201, "hours"},  {2 * 86400, "hours"},
                                                  {2 * 86400 + 1, "days"}};
  for (const auto& [seconds, name] : units) {
    runs[1].log.back().seconds = seconds;
    CHECK(std::string(time_unit({&runs[1], 1}).name) == name);
  }
  const Chart chart = field_chart(runs, &LoggedStep::loss, "", {}, true);
  CHECK(chart.x.label == "days of training");
  CHECK(chart.x.including == 0);
  CHECK(chart.series[0].points[0].x == doctest::Approx(1.0 / 86400));
  CHECK(chart.series[0].name == "short");
  CHECK(chart.with_legend);
}

TEST_CASE("tokens are bytes only where all runs read bytes") {
  std::vector<Run> runs = {run_of("a"), run_of("b")};
  CHECK(token_name(runs) == "byte");
  runs[1].options["vocab"] = 50257;
  CHECK(token_name(runs) == "token");
}

TEST_CASE("a chart for each gain, a line for each layer, a gap where it has none") {
  const std::vector<Chart> charts = gain_charts(run_of("r"));
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].title == "late");
  CHECK(charts[0].x.whole);
  REQUIRE(charts[0].series.size() == 1);
  CHECK(charts[0].series[0].points.size() == 1);
  CHECK(charts[1].title == "mlp_gain");
  REQUIRE(charts[1].series.size() == 2);
  REQUIRE(charts[1].series[1].points.size() == 4);
  CHECK(charts[1].series[1].points[3].x == 20);
  CHECK(charts[1].series[1].points[3].y == 4);
  Run run = run_of("r");
  run.log[4].gains["mlp_gain"] = {7};
  CHECK(std::isnan(gain_charts(run)[1].series[1].points[0].y));
}

TEST_CASE("gradients by depth: three steps of one run, the last of several") {
  std::vector<Run> runs = {run_of("a"), run_of("b"), Run{.name = "empty"}};
  const Chart one = profile_chart({runs.data(), 1}, "");
  REQUIRE(one.series.size() == 3);
  CHECK(one.x.whole);
  CHECK(one.series[0].name == "step 5");
  CHECK(one.series[1].name == "step 15");
  CHECK(one.series[2].name == "step 20");
  CHECK(one.series[2].points[1].x == 1);
  CHECK(one.series[2].points[1].y == 40);
  const Chart several = profile_chart(runs, "");
  REQUIRE(several.series.size() == 2);
  CHECK(several.series[1].name == "b");
  CHECK(several.series[1].points[0].y == 20);
  runs[0].log.resize(5);  // one validation is told once
  CHECK(profile_chart({runs.data(), 1}, "").series.size() == 1);
}

TEST_SUITE_END();
