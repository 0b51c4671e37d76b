// SPDX-License-Identifier: MIT
#include "page.hpp"

#include <set>
#include <simplx/report/chart.hpp>
#include <simplx/report/document.hpp>

#include "judge.hpp"
#include "quantities.hpp"

namespace paper {

using namespace simplx;

namespace {

/// The curve of a run: held-out loss by steps, or by seconds of training.
std::vector<ChartPoint> curve_of(const Json& run, bool by_time) {
  std::vector<ChartPoint> points;
  for (const Json& line : run["log"]) {
    if (line[3].is_number()) points.push_back({line[by_time ? 1 : 0].get<double>(), line[3].get<double>()});
  }
  return points;
}

/// The first seed of every arm, a line each.
Chart curves(const Drawing& drawing, const std::vector<ArmSeen>& arms, bool by_time) {
  Chart chart{.title = drawing.title,
              .subtitle = "first seed",
              .x = {.label = by_time ? "seconds of training" : "steps", .whole = !by_time},
              .y = {.label = "held out, nats per byte"}};
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].seeds.empty()) continue;
    chart.series.push_back({arms[i].arm->name, curve_of(*arms[i].seeds[0].run, by_time), distinct_style(i)});
  }
  return chart;
}

/// The points up to `top`: a line enters and leaves where it crosses that, and has a gap where it is above.
std::vector<ChartPoint> clipped(const std::vector<ChartPoint>& points, double top) {
  std::vector<ChartPoint> inside;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ChartPoint &to = points[i], &from = points[i ? i - 1 : 0];
    const bool above = to.y > top;
    if (above != (from.y > top)) {
      inside.push_back({from.x + (to.x - from.x) * (top - from.y) / (to.y - from.y), top});
    }
    inside.push_back({to.x, above ? missing : to.y});
  }
  return inside;
}

/// Curves without their begin: the first loss is that of guessing, and what is to be told apart lies at the end.
Chart without_begin(const Chart& whole) {
  double highest = -HUGE_VAL, lowest = HUGE_VAL, end = -HUGE_VAL;
  for (const Series& series : whole.series) {
    for (const ChartPoint& point : series.points) {
      highest = std::max(highest, point.y), lowest = std::min(lowest, point.y);
    }
    if (!series.points.empty()) end = std::max(end, series.points.back().y);
  }
  const double top = std::max(end + 0.15 * (highest - lowest), lowest + 0.4 * (highest - lowest));
  if (!(highest > top)) return whole;
  Chart drawn = whole;
  drawn.subtitle += fmt::format(", up to {:.2f}", top);
  for (Series& series : drawn.series) series.points = clipped(series.points, top);
  drawn.description = simplx::detail::described(whole);
  return drawn;
}

/// The seeds that all arms have, of which anything was run: seeds differ by more than neighbours of a sweep do.
std::set<std::uint64_t> shared_seeds(const std::vector<ArmSeen>& arms) {
  std::set<std::uint64_t> shared;
  for (const ArmSeen& seen : arms) {
    for (const Seen& one : seen.seeds) shared.insert(one.seed);
  }
  for (const ArmSeen& seen : arms) {
    if (seen.seeds.empty()) continue;
    std::erase_if(shared, [&](std::uint64_t seed) { return !std::ranges::count(seen.seeds, seed, &Seen::seed); });
  }
  return shared;
}

Chart sweep(const Drawing& drawing, const Experiment& experiment, const std::vector<ArmSeen>& arms) {
  const std::set<std::uint64_t> shared = shared_seeds(arms);
  const auto mean_of = [&](const ArmSeen& seen) {
    double sum = 0;
    for (const Seen& one : seen.seeds) sum += shared.contains(one.seed) ? experiment.measured->of(*one.run) : 0;
    return seen.seeds.empty() ? missing : sum / static_cast<double>(shared.size());
  };
  Chart chart{.title = drawing.title,
              .subtitle = fmt::format("{} {}", shared.size() == 1 ? "seed" : "mean over the seeds",
                                      fmt::join(shared, ", ")),
              .x = {.label = drawing.of},
              .y = {.label = fmt::format("{}, {}", experiment.measured->name, experiment.measured->unit)}};
  if (shared.empty()) return chart;
  double left = HUGE_VAL, right = -HUGE_VAL;
  for (const ArmSeen& seen : arms) {
    if (std::isnan(seen.arm->x)) continue;
    left = std::min(left, seen.arm->x), right = std::max(right, seen.arm->x);
  }
  for (const ArmSeen& seen : arms) {
    const double value = mean_of(seen);
    if (std::isnan(seen.arm->x)) {  // a level to compare with
      chart.series.push_back(
          {seen.arm->name, {{left, value}, {right, value}}, {.colour = "var(--raw)", .dashes = "7 3", .width = 1.6}});
      continue;
    }
    auto line = std::ranges::find(chart.series, seen.arm->line, &Series::name);
    if (line == chart.series.end()) {
      LineStyle style = distinct_style(chart.series.size());
      style.dots = true;
      line = chart.series.insert(line, {seen.arm->line, {}, style});
    }
    line->points.push_back({seen.arm->x, value});
  }
  return chart;
}

/// A line for each layer.
Chart trajectories(const Drawing& drawing, const ArmSeen& seen) {
  Chart chart{.title = drawing.title,
              .subtitle = "a line for each layer, first seed",
              .x = {.label = "steps", .whole = true},
              .y = {.label = drawing.of, .including = 0.0}};
  if (seen.seeds.empty()) return chart;
  const Json& run = *seen.seeds[0].run;
  const std::size_t looks = looks_of(run), layers = looks ? layer_values(run, drawing.of, 0).size() : 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    Series series{fmt::format("layer {}", layer), {}, layer_style(layer, layers)};
    for (std::size_t look = 0; look < looks; ++look) {
      const std::vector<double> row = layer_values(run, drawing.of, look);
      if (layer < row.size()) series.points.push_back({run["layers"]["steps"][look].get<double>(), row[layer]});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

/// A line for each arm over the layers.
Chart profile(const Drawing& drawing, const std::vector<ArmSeen>& arms) {
  const bool gradient = drawing.of.starts_with("gradient.");
  Chart chart{.title = drawing.title,
              .subtitle = "first seed",
              .x = {.label = "layer", .whole = true},
              .y = {.label = gradient ? "mean absolute gradient, log scale" : drawing.of,
                    .scale = gradient ? Scale::logarithmic : Scale::linear}};
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].seeds.empty()) continue;
    const std::vector<double> row = layer_values_at(*arms[i].seeds[0].run, drawing.of, drawing.at);
    if (finite(row).empty()) continue;
    Series series{arms[i].arm->name, {}, distinct_style(i)};
    series.style.dots = true;
    for (std::size_t layer = 0; layer < row.size(); ++layer) {
      series.points.push_back({static_cast<double>(layer), row[layer]});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart chart_of(const Drawing& drawing, const Experiment& experiment, const std::vector<ArmSeen>& arms) {
  switch (drawing.kind) {
    case Drawing::Kind::sweep:
      return sweep(drawing, experiment, arms);
    case Drawing::Kind::trajectories:
      return trajectories(
          drawing, *std::ranges::find_if(arms, [&](const ArmSeen& seen) { return seen.arm->name == drawing.arm; }));
    case Drawing::Kind::profile:
      return profile(drawing, arms);
    default:
      return curves(drawing, arms, drawing.kind == Drawing::Kind::by_time);
  }
}

std::string verdict_table(const std::vector<Verdict>& verdicts) {
  std::vector<std::vector<std::string>> rows;
  for (const Verdict& verdict : verdicts) {
    const char* const words[] = {"open", "seen", "not seen"};
    rows.push_back({verdict.sentence, words[static_cast<int>(verdict.is)], verdict.seen});
  }
  return scrolling_table({"the paper's ordering", "here", "numbers"}, rows, "Whether the orderings hold", "words");
}

std::string source_of(const Experiment& experiment) {
  return experiment.source == "S" ? "Simplifying Transformer Blocks" : "NormFormer";
}

std::string section_of(const Experiment& experiment, const std::vector<ArmSeen>& arms,
                       const std::vector<Verdict>& verdicts, long steps) {
  auto table = table_of(experiment, arms);
  const std::vector<std::string> head = table[0];
  table.erase(table.begin());
  std::string drawings;
  const bool seen = std::ranges::any_of(arms, [](const ArmSeen& arm) { return !arm.seeds.empty(); });
  if (seen) {
    for (const Drawing& drawing : experiment.drawings) {
      const Chart chart = chart_of(drawing, experiment, arms);
      if (chart.series.empty()) continue;
      const bool curve = drawing.kind == Drawing::Kind::by_step || drawing.kind == Drawing::Kind::by_time;
      drawings += chart_figure(curve ? without_begin(chart) : chart);
    }
  }
  const auto words = [](const char* what, const std::string& text) {
    return element("p", {{"style", "margin-top: 1rem"}}, element("b", {}, what) + " " + xml_escaped(text));
  };
  return section(fmt::format("{}: {}", experiment.name, experiment.title),
                 fmt::format("{}, {}", source_of(experiment), experiment.shows),
                 words("The paper.", experiment.claim) +
                     words("The miniature.", setting_of(experiment, steps) +
                                                 (experiment.miniature.empty() ? "" : " " + experiment.miniature)) +
                     (seen ? scrolling_table(head, table, experiment.title) + verdict_table(verdicts) +
                                 (experiment.reading.empty() ? "" : words("The reading.", experiment.reading)) +
                                 (drawings.empty() ? "" : element("div", {{"class", "charts"}}, drawings))
                           : element("p", {}, "Not run yet.")));
}

/// What is on neither list of claims, seen or not.
std::string untestable() {
  return section(
      "Not testable at this size", "",
      scrolling_table({"what", "why"},
                      {{"Simplifying Transformer Blocks, Table 2, and the scores of Table 1: GLUE",
                        "fine-tuning needs an encoder that was trained for a day, and data that is not here"},
                       {"NormFormer, Table 3: GLUE", "the same"},
                       {"NormFormer, the zero-shot tasks of Table 2", "they need models of 125M parameters and more"},
                       {"NormFormer at equal days of V100s, models up to 2.7B parameters",
                        "curves by time stand in for the days; `plan` has the models' sizes and costs"},
                       {"Simplifying Transformer Blocks, hours of an A5000", "speed is a ratio of steps, on a CPU"}},
                      "What is not tested", "words"));
}

}  // namespace

std::string page_of(const Results& results, long steps) {
  std::string sections;
  std::vector<std::vector<std::string>> rows;
  std::set<const Json*> shown;
  for (const Experiment& experiment : experiments()) {
    const std::vector<ArmSeen> arms = look(experiment, results, steps);
    for (const ArmSeen& seen : arms) {
      for (const Seen& one : seen.seeds) {
        for (const Task& task : tasks_of(*seen.arm, one.seed, steps)) shown.insert(results.find(task));
      }
    }
    const std::vector<Verdict> verdicts = judge(experiment, arms);
    rows.push_back({experiment.name, fmt::format("{}, {}", source_of(experiment), experiment.shows), experiment.title,
                    summary_of(verdicts)});
    sections += section_of(experiment, arms, verdicts, steps);
  }
  double seconds = 0;
  std::set<std::string> machines;
  for (const Json* run : shown) {
    seconds += number_of(*run, "seconds") < HUGE_VAL ? number_of(*run, "seconds") : 0;
    machines.insert(run->value("machine", "unknown"));
  }
  std::string lead = fmt::format(
      "The experiments of two papers with models a thousandth of their size, on the text of Python's standard library: "
      "what each paper says, what {} runs of {:.0f} minutes together showed, and where that is something else. An "
      "ordering is judged by the means over the seeds, of times by the least; of one seed it is an indication.",
      shown.size(), seconds / 60);
  if (results.size() > shown.size()) {
    lead += fmt::format(" {} runs of other steps or settings are left out.", results.size() - shown.size());
  }
  if (results.other_texts()) lead += fmt::format(" {} runs on other texts are left out.", results.other_texts());
  if (results.broken_lines()) lead += fmt::format(" {} lines are no finished runs.", results.broken_lines());
  return html_page(
      "Two papers in miniature",
      element("header", {}, element("h1", {}, "Two papers in miniature") + element("p", {}, xml_escaped(lead))) +
          scrolling_table({"name", "shows", "title", "orderings"}, rows, "All experiments", "words") + sections +
          untestable(),
      fmt::format("simplx, paper report. Machines: {}.", fmt::join(machines, ", ")));
}

}  // namespace paper
