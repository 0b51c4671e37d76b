// SPDX-License-Identifier: MIT
//
// growth_page growth.json growth.html: the page of what bench/growth has measured, for each axis time and
// memory on logarithmic scales, the growth that is to be expected drawn beside each.

#include <simplx/io/file.hpp>
#include <simplx/report/chart.hpp>
#include <simplx/report/style.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

using namespace simplx;
using nlohmann::json;

namespace {

std::string power(const std::string& axis, double exponent) { return fmt::format("{}^{:.2f}", axis, exponent); }

/// The points of a quantity.
std::vector<ChartPoint> points_of(const json& row, const char* name, double unit = 1) {
  std::vector<ChartPoint> points;
  for (const json& point : row.at("results")) {
    points.push_back({point.at("at"), point.at(name).get<double>() / unit});
  }
  return points;
}

/// What times are told in: milliseconds, unless one of them is a second or more.
struct Unit {
  double milliseconds;
  const char *name, *short_name;
};
Unit time_unit(const json& row) {
  for (const json& point : row.at("results")) {
    if (point.at("ms").get<double>() >= 1000 || point.at("limit_ms").get<double>() >= 1000) return {1000, "seconds", "s"};
  }
  return {1, "ms", "ms"};
}

/// A line of that exponent through the first point.
std::vector<ChartPoint> power_line(const std::vector<ChartPoint>& points, double exponent) {
  std::vector<ChartPoint> line;
  for (const ChartPoint& point : points) {
    line.push_back({point.x, points[0].y * std::pow(point.x / points[0].x, exponent)});
  }
  return line;
}

const LineStyle measured{.colour = "var(--series-1)", .dots = true}, other{.colour = "var(--series-2)", .dots = true};
const LineStyle expected{.colour = "var(--raw)", .dashes = "7 3", .width = 1.6};

std::string time_chart(const std::string& axis, const json& row) {
  const double grows = row.at("fit").at("time"), arithmetic = row.at("fit").at("arithmetic");
  const Unit unit = time_unit(row);
  const auto points = points_of(row, "ms", unit.milliseconds), limits = points_of(row, "limit_ms", unit.milliseconds);
  return chart_figure({.title = "Time grows as " + power(axis, grows),
                       .subtitle = "its arithmetic as " + power(axis, arithmetic),
                       .x = {.label = axis, .scale = Scale::logarithmic, .whole = true},
                       .y = {std::string(unit.name) + " per step", Scale::logarithmic},
                       .series = {{"measured", points, measured},
                                  {"arithmetic from the first point", power_line(points, arithmetic), expected},
                                  {"limit of the machine", limits, other}}});
}

std::string memory_chart(const std::string& axis, const json& row) {
  const json& fit = row.at("fit");
  const double grows = fit.at("memory"), arena = fit.at("arena"), stored = fit.at("stored");
  const auto points = points_of(row, "trainer_mb");
  return chart_figure({.title = "Memory grows as " + power(axis, grows),
                       .subtitle = fmt::format("a sequence's arena as {}, what is stored as {}^{:.0f} at the most",
                                               power(axis, arena), axis, stored),
                       .x = {.label = axis, .scale = Scale::logarithmic, .whole = true},
                       .y = {"MB", Scale::logarithmic},
                       .series = {{"all buffers", points, measured},
                                  {"the most from the first point", power_line(points, stored), expected},
                                  {"arena of a sequence", points_of(row, "arena_mb"), other}}});
}

std::string cells(const char* name, const std::vector<std::string>& values) {
  std::string text = element("th", {{"scope", name}}, xml_escaped(values[0]));
  for (std::size_t i = 1; i < values.size(); ++i) {
    text += element(std::string_view(name) == "col" ? "th" : "td", {}, xml_escaped(values[i]));
  }
  return element("tr", {}, text) + "\n";
}

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string body;
  for (const auto& row : rows) body += cells("row", row);
  return element("div", {{"class", "scroll"}, {"tabindex", "0"}},
                 element("table", {}, element("thead", {}, cells("col", head)) + element("tbody", {}, body)));
}

std::string page_of(const json& document) {
  std::vector<std::vector<std::string>> fits;
  std::string sections;
  for (const json& row : document.at("rows")) {
    const std::string axis = row.at("results").at(0).at("axis"), machine = row.at("machine");
    const json& fit = row.at("fit");
    const auto shown = [&](const char* name) { return fmt::format("{:.2f}", fit.at(name).get<double>()); };
    fits.push_back({axis, machine, shown("time"), shown("arithmetic"), shown("memory"), shown("arena"), shown("stored"),
                    fit.at("holds").get<bool>() ? "yes" : "no"});
    const Unit unit = time_unit(row);
    std::vector<std::vector<std::string>> numbers;
    for (const json& point : row.at("results")) {
      numbers.push_back({short_number(point.at("at"))});
      for (const char* name : {"ms", "limit_ms"}) {
        numbers.back().push_back(short_number(point.at(name).get<double>() / unit.milliseconds));
      }
      for (const char* name : {"gflop", "parameters", "arena_mb", "trainer_mb", "resident_mb"}) {
        numbers.back().push_back(short_number(point.at(name)));
      }
    }
    const auto word = [&](const char* name) { return row.at(name).get<std::string>(); };
    sections += element(
        "section", {},
        element("h2", {}, xml_escaped(fmt::format("By {}, on {}", axis, machine))) +
            element("p", {},
                    xml_escaped(fmt::format("{}, {}, {}, commit {}", word("command"), word("compiler"), word("date"),
                                            word("version")))) +
            element("div", {{"class", "charts"}}, time_chart(axis, row) + memory_chart(axis, row)) +
            element("details", {},
                    element("summary", {}, "The numbers") +
                        table({axis, unit.short_name, std::string("limit, ") + unit.short_name, "GFLOP", "parameters",
                               "arena, MB", "buffers, MB", "resident, MB"}, numbers)));
  }
  const std::string lead =
      "A training step of SAS-P, in float, on logarithmic scales. The arithmetic of a step is its products at the peak "
      "of multiply-adds and AdamW's bytes at the bandwidth, both measured in the same process; p is fitted to size^p.";
  const std::string head =
      element("meta", {{"charset", "utf-8"}}) +
      element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
      element("meta", {{"http-equiv", "Content-Security-Policy"},
                       {"content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}}) +
      element("title", {}, "How cost grows") + element("style", {}, report_style);
  const std::string body =
      element("main", {},
              element("header", {}, element("h1", {}, "How cost grows") + element("p", {}, xml_escaped(lead))) +
                  table({"by", "on", "time", "arithmetic", "memory", "arena", "stored, at most", "holds"}, fits) + sections);
  return "<!DOCTYPE html>\n" +
         element("html", {{"lang", "en"}, {"xmlns", "http://www.w3.org/1999/xhtml"}},
                 element("head", {}, head) + "\n" + element("body", {}, body)) + "\n";
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) throw Error("two files are needed", "growth_page growth.json growth.html");
  std::ifstream file(arguments[1]);
  if (!file) throw Error(std::string("cannot read ") + arguments[1]);
  write_file(arguments[2], page_of(json::parse(file)));
} catch (const json::exception& error) {
  std::fprintf(stderr, "error: %s is not what bench/growth saves: %s\n", arguments[1], error.what());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
