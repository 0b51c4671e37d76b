// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/figures.hpp
/// The charts of one run and of several: losses, speed, gains, gradients.

#include <simplx/report/chart.hpp>
#include <simplx/report/run_data.hpp>

#include <numeric>
#include <set>

namespace simplx::inline SIMPLX_TARGET {

/// A quantity of the log, and its values.
using LoggedField = double LoggedStep::*;

inline std::vector<ChartPoint> logged(const Run& run, LoggedField x, LoggedField y, double x_scale = 1) {
  std::vector<ChartPoint> points;
  const auto seldom = y == &LoggedStep::val_loss;  // on some lines only: one without it is no gap
  for (const LoggedStep& step : run.log) {
    if (!seldom || !std::isnan(step.*y)) points.push_back({step.*x * x_scale, step.*y});
  }
  return points;
}

/// The values that are numbers.
inline std::vector<double> logged(const Run& run, LoggedField field) {
  std::vector<double> values;
  for (const LoggedStep& step : run.log) {
    if (std::isfinite(step.*field)) values.push_back(step.*field);
  }
  return values;
}

/// The middle one, the mean of the two middle ones of an even count.
inline double median(std::vector<double> values) {
  if (values.empty()) return LoggedStep::missing;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

/// What the numbers of a run come to.
struct RunSummary {
  double best, last;       ///< held-out loss, nats per token
  double training;         ///< mean training loss over the last tenth of the log; NaN if one there is not finite
  double tokens, seconds;  ///< in all
  double speed;            ///< tokens per second, median
  double milliseconds;     ///< per step at that speed
};
inline RunSummary summary_of(const Run& run) {
  constexpr double missing = LoggedStep::missing;
  const std::vector<double> held_out = logged(run, &LoggedStep::val_loss);
  const double speed = median(logged(run, &LoggedStep::tokens_per_second));
  RunSummary sum{missing, missing, missing, missing, missing, speed, missing};
  if (!held_out.empty()) sum.best = *std::min_element(held_out.begin(), held_out.end()), sum.last = held_out.back();
  if (!run.log.empty()) {
    const std::size_t tenth = (run.log.size() + 9) / 10;
    sum.training = 0;
    for (std::size_t i = run.log.size() - tenth; i < run.log.size(); ++i)
      sum.training += run.log[i].loss / static_cast<double>(tenth);
    const LoggedStep& end = run.log.back();
    sum.tokens = end.tokens, sum.seconds = end.seconds;
    if (end.step > 0) sum.milliseconds = 1000 * end.tokens / static_cast<double>(end.step) / sum.speed;
  }
  return sum;
}

namespace detail {

/// The first line from which on no loss of a log is finite, training or held out; none where some were never logged.
inline const LoggedStep* diverged_at(const Run& run) {
  const LoggedStep* from = nullptr;
  bool any = false;
  for (const LoggedStep& step : run.log) {
    const bool finite = std::isfinite(step.loss) && !std::isinf(step.val_loss);
    any = any || finite;
    if (finite) from = nullptr;
    else if (!from) from = &step;
  }
  return any ? from : nullptr;
}

}  // namespace detail

/// What the runs' tokens are: bytes where the vocabulary has 256, or where they are counted so.
inline std::string token_name(std::span<const Run> runs) {
  for (const Run& run : runs) {
    if (run.number("vocab") != 256 && !run.by_bytes) return "token";
  }
  return "byte";
}

/// Whether losses are of tokens that differ, although some record does not say how long these are.
inline bool of_other_tokens(std::span<const Run> runs) {
  const auto differs = [&](const Run& run) {
    return run.option("vocab") != runs[0].option("vocab") && bytes_per_token(run) != bytes_per_token(runs[0]);
  };
  return std::ranges::any_of(runs, differs) && token_name(runs) == "token";
}

/// Seconds, minutes, hours or days: what suits the longest run.
struct TimeUnit {
  double seconds;
  const char* name;
};
inline TimeUnit time_unit(std::span<const Run> runs) {
  double longest = 0;
  for (const Run& run : runs) {
    for (const double seconds : logged(run, &LoggedStep::seconds)) longest = std::max(longest, seconds);
  }
  if (longest <= 120) return {1, "seconds"};
  if (longest <= 2 * 3600) return {60, "minutes"};
  return longest <= 2 * 86400 ? TimeUnit{3600, "hours"} : TimeUnit{86400, "days"};
}

/// A field of every run over tokens or time; one run is drawn quietly where `quiet`, several in their own styles.
inline Chart field_chart(std::span<const Run> runs, LoggedField field, std::string title, ChartAxis y, bool over_time) {
  const TimeUnit unit = time_unit(runs);
  Chart chart{.title = std::move(title), .y = std::move(y)};
  chart.x = over_time ? ChartAxis{.label = fmt::format("{} of training", unit.name), .including = 0}
                      : ChartAxis{.label = token_name(runs) + "s read, log scale", .scale = Scale::logarithmic};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LoggedField x = over_time ? &LoggedStep::seconds : &LoggedStep::tokens;
    Series series{runs[i].name, logged(runs[i], x, field, over_time ? 1 / unit.seconds : 1), distinct_style(i)};
    // Lines of a noisy log are thin, so that they can be told apart where they cross.
    if (series.points.size() > 200) series.style.width = 1.2;
    series.style.dots = field == &LoggedStep::val_loss && series.points.size() <= 40;
    chart.series.push_back(std::move(series));
  }
  chart.with_legend = runs.size() > 1;
  return chart;
}

inline ChartAxis loss_axis(std::span<const Run> runs) {
  return {.label = "nats per " + token_name(runs) + ", log scale", .scale = Scale::logarithmic};
}

/// Training and held-out loss of one run.
inline Chart losses_chart(const Run& run, std::string title, bool over_time) {
  const std::span<const Run> one(&run, 1);
  Chart chart = field_chart(one, &LoggedStep::loss, std::move(title), loss_axis(one), over_time);
  Chart held_out = field_chart(one, &LoggedStep::val_loss, {}, {}, over_time);
  chart.series[0].name = "training";
  chart.series[0].style = {.colour = "var(--raw)", .width = 1};
  held_out.series[0].name = "held out";
  chart.series.push_back(std::move(held_out.series[0]));
  chart.with_legend = true;
  return chart;
}

/// One small chart for each gain: a line for each layer over the steps at which it was logged.
inline std::vector<Chart> gain_charts(const Run& run) {
  std::set<std::string> names;
  for (const LoggedStep& step : run.log) {
    for (const auto& [name, values] : step.gains) names.insert(name);
  }
  std::vector<Chart> charts;
  for (const std::string& name : names) {
    std::size_t layers = 0;
    for (const LoggedStep& step : run.log) {
      if (const auto found = step.gains.find(name); found != step.gains.end())
        layers = std::max(layers, found->second.size());
    }
    Chart chart{.title = name, .x = {.label = "step", .whole = true}, .size = small_chart, .with_legend = false};
    for (std::size_t layer = 0; layer < layers; ++layer) {
      Series series{fmt::format("layer {}", layer), {}, layer_style(layer, layers)};
      for (const LoggedStep& step : run.log) {
        const auto found = step.gains.find(name);
        if (found == step.gains.end()) continue;
        const double gain = layer < found->second.size() ? found->second[layer] : LoggedStep::missing;
        series.points.push_back({static_cast<double>(step.step), gain});
      }
      chart.series.push_back(std::move(series));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

/// The lines of the log that tell gradient norms by layer: the first, the middle one, the last.
inline std::vector<const LoggedStep*> profiled_steps(const Run& run) {
  std::vector<const LoggedStep*> all, some;
  for (const LoggedStep& step : run.log) {
    if (!step.gradient_norms.empty()) all.push_back(&step);
  }
  for (const std::size_t i : {std::size_t{0}, all.size() / 2, all.size() - 1}) {
    if (!all.empty() && (some.empty() || some.back() != all[i])) some.push_back(all[i]);
  }
  return some;
}

inline Series profile_series(std::string name, const LoggedStep& step, LineStyle style) {
  style.dots = step.gradient_norms.size() <= 40;
  Series series{std::move(name), {}, std::move(style)};
  for (std::size_t layer = 0; layer < step.gradient_norms.size(); ++layer) {
    series.points.push_back({static_cast<double>(layer), step.gradient_norms[layer]});
  }
  return series;
}

/// The gradient at the input of each block: of one run at three steps, of several at their last.
inline Chart profile_chart(std::span<const Run> runs, std::string title) {
  const bool by_bytes = !runs.empty() && runs[0].by_bytes;  // which gradients are not
  Chart chart{.title = std::move(title),
              .x = {.label = "layer", .whole = true},
              .y = {.label = "norm of the gradient per " + (by_bytes ? "token" : token_name(runs)) + ", log scale",
                    .scale = Scale::logarithmic}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto steps = profiled_steps(runs[i]);
    if (runs.size() > 1 && !steps.empty())
      chart.series.push_back(profile_series(runs[i].name, *steps.back(), distinct_style(i)));
    if (runs.size() > 1) continue;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      chart.series.push_back(profile_series(fmt::format("step {}", steps[k]->step), *steps[k], distinct_style(k)));
    }
  }
  return chart;
}

}  // namespace simplx
