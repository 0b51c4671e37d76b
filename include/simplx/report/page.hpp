// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/page.hpp
/// report.html: one run on a page, or several side by side.

#include <simplx/io/file.hpp>
#include <simplx/report/document.hpp>
#include <simplx/report/figures.hpp>
#include <simplx/report/progress.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

inline std::string fixed_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}
inline std::string grouped_number(double value) {
  return std::abs(value) < 1e15 ? grouped(static_cast<long long>(std::round(value))) : short_number(value);
}
inline std::string duration(double seconds) {
  return std::abs(seconds) < 1e15 ? readable_seconds(seconds) : short_number(seconds);
}

/// What training holds in memory, where run.json tells it.
inline std::string memory_of(const Run& run) {
  const double bytes = run.number("bytes");
  return std::isfinite(bytes) ? readable_bytes(bytes) : "–";
}

/// "1 step", "1 234 steps".
inline std::string number_of(long long count, const char* what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}
/// "220 of 4 000 steps, unfinished" where run.json tells of more steps than the log and there are no final weights;
/// otherwise nothing.
inline std::string unfinished(const Run& run) {
  const double steps = run.number("steps");
  const long long taken = run.log.empty() ? 0 : run.log.back().step;
  if (run.finished || !(steps > static_cast<double>(taken)) || steps >= 1e15) return {};
  return grouped(taken) + " of " + number_of(static_cast<long long>(steps), "step") + ", unfinished";
}
/// "105 ms", "3.41 s".
inline std::string short_time(double milliseconds) {
  return milliseconds >= 999.5 ? short_number(milliseconds / 1000, 3) + " s" : short_number(milliseconds, 3) + " ms";
}
/// "5 heads", or nothing where the option is missing.
inline std::string counted(const Run& run, const char* key, const char* before, const char* after) {
  const std::string value = run.option(key);
  return value.empty() ? value : before + value + after;
}
/// The same of what may be one.
inline std::string counted(const Run& run, const char* key, const char* what) {
  return counted(run, key, ", ", fmt::format(" {}{}", what, run.option(key) == "1" ? "" : "s").c_str());
}

/// "pre_ln, 6 layers of width 128, 4 heads, context 128".
inline std::string architecture(const Run& run) {
  std::string text = run.option("block", "a model");
  text += counted(run, "layers", "layer") + counted(run, "width", " of width ", "");
  return text + counted(run, "heads", "head") + counted(run, "context", ", context ", "");
}

/// The options as rows of a name and a value: objects are opened, long lists cut.
inline std::vector<std::pair<std::string, std::string>> option_rows(const nlohmann::ordered_json& options,
                                                                    const std::string& prefix = "") {
  std::vector<std::pair<std::string, std::string>> rows;
  const auto words = [](const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null()) return std::string("–");
    if (value.is_boolean()) return std::string(value.get<bool>() ? "yes" : "no");
    if (value.is_number_float()) return short_number(value.get<double>(), 6);
    const std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return value.is_number_unsigned() && text.size() > 4 && text.size() < 18 ? grouped(value.get<long long>()) : text;
  };
  for (const auto& [key, value] : options.items()) {
    std::string name = prefix + key;
    if (value.is_object()) {
      for (auto& row : option_rows(value, name + " ")) rows.push_back(std::move(row));
      continue;
    }
    std::string text;
    if (value.is_array()) {
      constexpr std::size_t shown = 4;
      for (std::size_t i = 0; i < std::min(shown, value.size()); ++i) text += (i ? ", " : "") + words(value[i]);
      if (value.size() > shown) text += fmt::format(" and {} more", value.size() - shown);
    } else {
      text = words(value);
    }
    if (prefix.empty()) std::replace(name.begin(), name.end(), '_', ' ');
    rows.emplace_back(std::move(name), std::move(text));
  }
  return rows;
}

inline std::string charts(const std::vector<Chart>& list) {
  std::string text;
  for (const Chart& chart : list) text += chart_figure(chart);
  return element("div", {{"class", "charts"}}, text);
}

/// What pages of one run and of several both show of how training went: its speed and its gradient.
inline std::vector<Chart> training_charts(std::span<const Run> runs) {
  return {field_chart(runs, &LoggedStep::tokens_per_second, "Speed",
                      {.label = token_name(runs) + "s per second", .including = 0}, true),
          field_chart(runs, &LoggedStep::gradient_norm, "Norm of the whole gradient",
                      {.label = "norm, log scale", .scale = Scale::logarithmic}, true)};
}

/// All numbers at the validations, for those who want them; nothing of a run without any.
inline std::string number_table(const Run& run) {
  const std::string token = token_name({&run, 1});
  std::vector<std::vector<std::string>> rows;
  for (const LoggedStep& step : run.log) {
    if (std::isnan(step.val_loss)) continue;
    rows.push_back({grouped(step.step), grouped_number(step.tokens), duration(step.seconds), fixed_number(step.loss, 3),
                    fixed_number(step.val_loss, 3), short_number(step.learning_rate, 3),
                    short_number(step.gradient_norm, 3), grouped_number(step.tokens_per_second)});
  }
  if (rows.empty()) return {};
  const std::string validations = number_of(static_cast<long long>(rows.size()), "validation");
  return element("details", {},
                 element("summary", {}, "The numbers at " + validations) +
                     scrolling_table({"step", token + "s", "time", "training", "held out", "learning rate",
                                      "gradient norm", token + "s/s"},
                                     rows, "Validations"));
}

inline std::string picture_of(const Run& run) {
  // As an image: its styles and names stay its own, and a script in it never runs.
  return run.picture.empty()
             ? std::string()
             : element("img", {{"src", data_address("image/svg+xml", run.picture)},
                               {"alt", "Data flow of the block " + run.option("block", "of " + run.name)}});
}

inline std::string gains_of(const Run& run) {
  std::string text;
  std::size_t layers = 0;
  for (const Chart& chart : gain_charts(run))
    text += chart_figure(chart), layers = std::max(layers, chart.series.size());
  if (text.empty()) return text;
  const std::string ramp = layers < 2 ? std::string()
                                      : element("p", {{"class", "ramp"}},
                                                "layer 0" + element("i", {}) + fmt::format("layer {}", layers - 1));
  return ramp + element("div", {{"class", "charts small"}}, text);
}

inline std::string fact(std::string_view name, std::string_view value, std::string_view note) {
  return element("div", {},
                 element("dt", {}, xml_escaped(name)) +
                     element("dd", {}, xml_escaped(value) + element("small", {}, xml_escaped(note))));
}

/// "The loss is not finite from step 1 250 on.", or nothing.
inline std::string divergence(const Run& run, const std::string& whose = "The loss") {
  const LoggedStep* from = diverged_at(run);
  return from ? whose + " is not finite from step " + grouped(from->step) + " on." : std::string();
}

/// A sentence about the loss: the title of what the first charts show.
inline std::string loss_sentence(const Run& run) {
  const std::vector<double> held_out = logged(run, &LoggedStep::val_loss), losses = logged(run, &LoggedStep::loss);
  const std::vector<double>& losses_shown = held_out.empty() ? losses : held_out;
  if (losses_shown.empty()) return run.log.empty() ? "No loss was logged" : "No finite loss was logged";
  const char* whose = held_out.empty() ? "Training" : "Held-out";
  const std::string unit = "nats per " + token_name({&run, 1});
  if (losses_shown.size() == 1) return fmt::format("{} loss: {:.3f} {}", whose, losses_shown[0], unit);
  return fmt::format("{} loss goes from {:.2f} to {:.3f} {}{}", whose, losses_shown.front(), losses_shown.back(), unit,
                     diverged_at(run) ? ", then is not finite" : "");
}

inline std::string page_header(std::string_view title, std::string_view lead) {
  return element("header", {}, element("h1", {}, xml_escaped(title)) + element("p", {}, xml_escaped(lead)));
}

/// What a run came to, in five numbers.
inline std::string facts_of(const Run& run) {
  const RunSummary sum = summary_of(run);
  const std::string token = token_name({&run, 1});
  const std::string bits = std::isfinite(sum.best)
                               ? fmt::format("nats per {} = {:.3f} bits", token, sum.best / std::log(2.0))
                               : "not validated yet";
  std::string steps = unfinished(run);
  if (steps.empty() && !run.log.empty()) steps = number_of(run.log.back().step, "step");
  if (!steps.empty()) steps = " in " + steps;
  return element("dl", {{"class", "facts"}},
                 fact("Best held out", fixed_number(sum.best, 3), bits) +
                     fact("Parameters", grouped_number(run.number("parameters")), "trained") +
                     fact("Read", short_number(sum.tokens, 3), token + "s" + steps) +
                     fact("Speed", short_number(sum.speed, 3),
                          fmt::format("{}s per second, {} a step", token, short_time(sum.milliseconds))) +
                     fact("Time", duration(sum.seconds), "of training"));
}

inline std::string all_options(const Run& run) {
  std::string rows;
  for (const auto& [name, value] : option_rows(run.options))
    rows += element("div", {}, element("dt", {}, xml_escaped(name)) + element("dd", {}, xml_escaped(value)));
  return element("dl", {{"class", "options"}}, rows);
}

/// A sample as it was written, whose lines may be longer than the page.
inline std::string sample_of(const Run& run) {
  return run.sample.empty() ? std::string() : element("pre", {{"tabindex", "0"}}, xml_escaped(run.sample));
}

inline std::string one_run(const Run& run) {
  const std::span<const Run> one(&run, 1);
  std::string page = page_header(run.name, architecture(run)) + "\n" + facts_of(run) + "\n";
  if (run.cut) page += element("p", {}, "The last line of log.jsonl is unfinished and was left out.");
  page += section(
      loss_sentence(run), divergence(run),
      charts({losses_chart(run, "By what was read", false), losses_chart(run, "By time", true)}) + number_table(run));
  if (!run.log.empty()) {
    std::vector<Chart> training = training_charts(one);
    training.push_back(field_chart(one, &LoggedStep::learning_rate, "Learning rate",
                                   {.label = "learning rate", .including = 0}, true));
    page += section("How training went", "", charts(training));
  }
  page +=
      section("How the gains moved",
              "A line for each layer, over the steps. Every chart has its own scale; gains of heads are their mean.",
              gains_of(run));
  if (!profiled_steps(run).empty()) {
    page += section(
        "Gradients by depth",
        "How strongly the loss depends on the input of each block. A level line means that no layer is starved.",
        charts({profile_chart(one, "At the first, a middle and the last validation")}));
  }
  page += section("The block", "Drawn from its expression.", picture_of(run));
  page += section("The run", "All options, as run.json has them.", all_options(run));
  const std::string of_model =
      unfinished(run).empty() || run.log.empty() ? "of the final model" : "at step " + grouped(run.log.back().step);
  page += section("What it writes", "A sample " + of_model + ".", sample_of(run));
  return page;
}

/// The options in which the runs differ, where they were told to be.
inline std::string differences(std::span<const Run> runs) {
  std::vector<std::string> names, head{"option"};
  std::vector<std::map<std::string, std::string>> values;
  for (const Run& run : runs) {
    head.push_back(run.name);
    auto& own = values.emplace_back();
    for (auto& [name, value] : option_rows(run.options)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      own[name] = value;
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : names) {
    std::vector<std::string> row{name};
    for (auto& own : values) row.push_back(own.contains(name) ? own[name] : "–");
    if (std::any_of(row.begin() + 1, row.end(), [&](const std::string& value) { return value != row[1]; }))
      rows.push_back(std::move(row));
  }
  return rows.empty() ? std::string() : scrolling_table(head, rows, "Options that differ", "words");
}

/// The places of the runs that were validated, the best first.
inline std::vector<std::size_t> ranked(const std::vector<RunSummary>& sums) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (std::isfinite(sums[i].best)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sums[a].best < sums[b].best; });
  return order;
}

/// Which run is the best, and how far ahead of the next.
inline std::string lead_of(std::span<const Run> runs, const std::vector<RunSummary>& sums,
                           const std::vector<std::size_t>& order) {
  if (of_other_tokens(runs)) return "Losses cannot be compared: these are of other tokens, of unknown length.";
  if (order.empty()) return "None of them was validated.";
  std::string lead = fmt::format("Best held out: {} with {:.3f} nats per {}", runs[order[0]].name, sums[order[0]].best,
                                 token_name(runs));
  if (order.size() > 1)
    lead += fmt::format(", {:.3f} below {}", sums[order[1]].best - sums[order[0]].best, runs[order[1]].name);
  return lead;
}

/// A row for each run, the best loss of all marked, and how to read them.
inline std::string comparison_table(std::span<const Run> runs, const std::vector<RunSummary>& sums,
                                    const std::vector<std::size_t>& order) {
  const std::string token = token_name(runs);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunSummary& sum = sums[i];
    const std::string open = unfinished(runs[i]);
    rows.push_back({runs[i].name + (open.empty() ? "" : " (" + open + ")"), runs[i].option("block", "–"),
                    grouped_number(runs[i].number("parameters")), memory_of(runs[i]), grouped_number(sum.tokens),
                    fixed_number(sum.milliseconds, 1), grouped_number(sum.speed), duration(sum.seconds),
                    diverged_at(runs[i]) ? "not finite" : fixed_number(sum.training, 3), fixed_number(sum.best, 3)});
  }
  constexpr std::size_t best_column = 9;
  const auto best = [&](std::size_t r, std::size_t c) { return c == best_column && !order.empty() && r == order[0]; };
  const std::string note =
      "Losses in nats per " + token + "; the training loss is the mean of the log's last tenth, the speed its median.";
  return scrolling_table({"run", "block", "parameters", "training state", token + "s read", "ms per step",
                          token + "s/s", "time", "training loss", "best held out"},
                         rows, "Comparison of the runs", "", best) +
         element("p", {}, xml_escaped(note));
}

/// The training losses of all runs, in thin lines: they are noisy and cross.
inline Chart training_losses(std::span<const Run> runs) {
  Chart chart = field_chart(runs, &LoggedStep::loss, "Training loss", loss_axis(runs), false);
  for (Series& series : chart.series) series.style.width = 1.2;
  return chart;
}

inline std::string figure_named(std::string_view name, const std::string& content) {
  return element("figure", {}, element("figcaption", {}, element("b", {}, xml_escaped(name))) + content);
}

/// The pictures of the blocks, each once.
inline std::string pictures_of(std::span<const Run> runs) {
  std::string figures;
  std::set<std::string> seen;
  for (const Run& run : runs) {
    if (!run.picture.empty() && seen.insert(run.picture).second)
      figures += figure_named(run.option("block", run.name), picture_of(run));
  }
  return figures;
}

inline std::string samples_of(std::span<const Run> runs) {
  std::string figures;
  for (const Run& run : runs) {
    const std::string open = unfinished(run);
    if (!run.sample.empty()) figures += figure_named(run.name + (open.empty() ? "" : ", " + open), sample_of(run));
  }
  return figures;
}

/// A section of figures side by side; nothing without any.
inline std::string gallery(std::string_view title, std::string_view note, const std::string& figures) {
  return section(title, note, figures.empty() ? figures : element("div", {{"class", "charts"}}, figures));
}

inline std::string several_runs(std::span<const Run> of_tokens) {
  const std::vector<Run> runs = comparable(of_tokens);
  std::vector<RunSummary> sums;
  for (const Run& run : runs) sums.push_back(summary_of(run));
  const auto order = of_other_tokens(runs) ? std::vector<std::size_t>() : ranked(sums);
  std::string page = page_header(fmt::format("{} runs side by side", runs.size()), lead_of(runs, sums, order));
  page += comparison_table(runs, sums, order) + "\n";
  for (const Run& run : runs) {
    if (diverged_at(run)) page += element("p", {}, xml_escaped(divergence(run, "The loss of " + run.name)));
  }
  page += section("Held-out loss", "",
                  charts({field_chart(runs, &LoggedStep::val_loss, "By what was read", loss_axis(runs), false),
                          field_chart(runs, &LoggedStep::val_loss, "By time", loss_axis(runs), true)}));
  std::vector<Chart> training = training_charts(runs);
  training.insert(training.begin(), training_losses(runs));
  page += section("How training went", "", charts(training));
  const Chart profile = profile_chart(runs, "At the last validation");
  if (!profile.series.empty())
    page +=
        section("Gradients by depth", "How strongly the loss depends on the input of each block.", charts({profile}));
  page += section("What differs", "The options of run.json that are not the same for all.", differences(runs));
  for (const Run& run : runs)
    page += section("Gains of " + run.name, "A line for each layer, over the steps.", gains_of(run));
  page += gallery("The blocks", "Drawn from their expressions.", pictures_of(runs));
  page += gallery("What they write", "A sample of each model.", samples_of(runs));
  return page;
}

}  // namespace detail

/// The page of one run, or of several side by side.
///
/// Errors  throws Error without any run
inline std::string report_page(std::span<const Run> runs) {
  if (runs.empty()) throw Error("a report needs a run", "name the directory of one");
  const std::string title = runs.size() == 1 ? runs[0].name : fmt::format("{} runs side by side", runs.size());
  return html_page(title, runs.size() == 1 ? detail::one_run(runs[0]) : detail::several_runs(runs),
                   "simplx " + runs[0].option("version") + ", written from run.json and log.jsonl");
}

/// Writes the page of these runs to a file.
///
/// Errors  throws Error with the path if it cannot be written; a page that was there stays as it was
inline void write_report(const std::filesystem::path& path, std::span<const Run> runs) {
  write_file(path, report_page(runs));
}

/// Reads a run and writes its report.html beside its files.
inline void write_report(const std::filesystem::path& directory) {
  const Run run = read_run(directory);
  write_report(directory / "report.html", {&run, 1});
}

}  // namespace simplx
