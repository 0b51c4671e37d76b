// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/chart.hpp
/// Lines over an axis, as a figure of HTML: title, legend, and a drawing in SVG that scales with the page.
///
/// Colours are custom properties of the page's style (report/style.hpp), so that light and dark are one drawing.
/// A line of a million points is thinned to the width of the drawing: of the points that share a column of half a
/// pixel the first, the lowest, the highest and the last stay, so no spike is lost and the picture is the same.

#include <simplx/report/axis.hpp>
#include <simplx/report/svg.hpp>

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A value on a line.
struct ChartPoint {
  double x = 0, y = 0;  ///< a gap where either is not finite, or not above zero on a logarithmic scale
};

/// How a line looks. Lines that must be told apart differ in dashes too, for eyes that see few colours.
struct LineStyle {
  std::string colour = "var(--series-1)";
  std::string dashes = {};  ///< as stroke-dasharray; solid without
  double width = 2;
  bool dots = false;  ///< every point is marked and tells its value; without, those that stand alone
};

/// A line of a chart; its name is in the legend.
struct Series {
  std::string name = {};
  std::vector<ChartPoint> points = {};
  LineStyle style = {};
};

/// What an axis shows, and what must be on it; its range follows from the points.
struct ChartAxis {
  std::string label = {};  ///< the quantity with its unit
  Scale scale = Scale::linear;
  std::optional<double> including = {};  ///< a value that must be on the axis, such as 0
  bool whole = false;                    ///< it counts something: no ticks between whole numbers
};

/// Of a chart in pixels, and of its letters.
struct ChartSize {
  double width = 460, height = 270, font = 13.5;
};
inline constexpr ChartSize small_chart{.width = 190, .height = 140, .font = 12};

/// Lines over two axes, as data; chart_svg draws them.
struct Chart {
  std::string title = {};     ///< says what is to be seen
  std::string subtitle = {};  ///< and how it was measured; may be empty
  ChartAxis x = {}, y = {};
  std::vector<Series> series = {};
  ChartSize size = {};
  bool with_legend = true;
  std::string description = {};  ///< for those who do not see it; of what is drawn, unless given
};

/// The style of the i-th of several lines: six colours, and twelve kinds of dashes, so that up to twelve lines differ
/// without their colours and seventy-two with them.
inline LineStyle distinct_style(std::size_t i) {
  constexpr const char* dashes[] = {"",    "7 3", "2 3",      "10 3 2 3", "5 2 1 2 1 2", "14 4",
                                    "4 5", "1 5", "12 3 4 3", "8 8",      "3 2 3 6",     "1 2 1 6"};
  return {.colour = fmt::format("var(--series-{})", i % 6 + 1), .dashes = dashes[(i + i / 12) % 12]};
}
/// The style of layer i of n: from the colour of the first layer to that of the last.
inline LineStyle layer_style(std::size_t i, std::size_t n) {
  const double part = n > 1 ? 100.0 * static_cast<double>(i) / static_cast<double>(n - 1) : 0;
  return {.colour = fmt::format("color-mix(in oklab, var(--last-layer) {:.0f}%, var(--first-layer))", part),
          .width = n > 16 ? 1.2 : 1.6};
}

/// Keeps what can be seen of points in pixels: per column the first, lowest, highest and last; gaps stay.
inline std::vector<ChartPoint> thinned(std::span<const ChartPoint> points, double columns_per_pixel = 2) {
  std::vector<ChartPoint> out;
  for (std::size_t begin = 0; begin < points.size();) {
    const auto column = [&](std::size_t i) { return std::floor(points[i].x * columns_per_pixel); };
    std::size_t end = begin + 1, low = begin, high = begin;
    const auto joins = [&](std::size_t i) {
      return column(i) == column(begin) && std::isfinite(points[i].y) && std::isfinite(points[begin].y);
    };
    for (; end < points.size() && joins(end); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    const auto [one, other] = std::minmax(low, high);
    std::size_t kept = begin;
    out.push_back(points[begin]);
    for (const std::size_t i : {one, other, end - 1}) {
      if (i > kept) out.push_back(points[i]), kept = i;
    }
    begin = end;
  }
  return out;
}

namespace detail {

/// A generous width of text in pixels: the digits of wide fonts take 0.64 of their size, and more where it is rounded.
inline double text_width(std::string_view text, double font) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return 0.66 * font * static_cast<double>(std::count_if(text.begin(), text.end(), starts));
}

/// The path through points in pixels: a new part after each gap; a point that stands alone is no part of it.
inline std::string path_through(std::span<const ChartPoint> points) {
  std::string path;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto drawn = [&](std::size_t k) {
      return k < points.size() && std::isfinite(points[k].x) && std::isfinite(points[k].y);
    };
    if (!drawn(i)) continue;
    const bool starts = i == 0 || !drawn(i - 1);
    if (starts && !drawn(i + 1)) continue;
    path += fmt::format("{}{} {}", starts ? "M" : "L", svg_number(points[i].x), svg_number(points[i].y));
  }
  return path;
}

/// The chart in words, for those who do not see it.
inline std::string described(const Chart& chart) {
  std::string text = (chart.y.label.empty() ? chart.title : chart.y.label) + " over " + chart.x.label + ".";
  std::size_t told = 0;
  for (const Series& series : chart.series) {
    const ChartPoint *first = nullptr, *last = nullptr;
    double lowest = HUGE_VAL, highest = -HUGE_VAL;
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      if (!first) first = &point;
      last = &point, lowest = std::min(lowest, point.y), highest = std::max(highest, point.y);
    }
    if (++told > 8) return text + fmt::format(" And {} more lines.", chart.series.size() - 8);
    text += " " + series.name + ": ";
    text += !first ? "no values."
                   : fmt::format("from {} to {}, between {} and {}.", short_number(first->y), short_number(last->y),
                                 short_number(lowest), short_number(highest));
  }
  return text;
}

}  // namespace detail

/// The drawing alone, a document of its own: axes, grid and lines.
inline std::string chart_svg(const Chart& chart) {
  const double width = chart.size.width, height = chart.size.height, font = chart.size.font;
  std::vector<double> xs, ys;
  bool empty = true, logged = false;
  const auto place = [](Scale scale, double value) { return AxisRange{.scale = scale}.holds(value); };
  for (const Series& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      logged = logged || (std::isfinite(point.x) && std::isfinite(point.y));
      if (!place(chart.x.scale, point.x)) continue;
      xs.push_back(point.x);  // of gaps, too: what took place is not cut off where the line ends
      if (place(chart.y.scale, point.y)) ys.push_back(point.y), empty = false;
    }
  }
  if (empty) xs.clear();
  if (chart.x.including && !empty) xs.push_back(*chart.x.including);
  if (chart.y.including && !empty) ys.push_back(*chart.y.including);
  const AxisRange x = range_of(xs, chart.x.scale, chart.x.whole), y = range_of(ys, chart.y.scale, chart.y.whole);

  // The label of y stands above the axis and that of x below it, so no text has to be turned.
  const double top = 2.1 * font, bottom = height - 2.9 * font, right = width - 0.8 * font;
  const int most_y = std::max(3, static_cast<int>((bottom - top) / (2.6 * font)));
  const std::vector<double> y_ticks = ticks_of(y, most_y, chart.y.whole);
  const std::vector<std::string> y_labels = tick_labels(y_ticks);
  double left = 1.2 * font;
  for (const std::string& label : y_labels) left = std::max(left, detail::text_width(label, font) + 0.7 * font);
  std::vector<double> x_ticks;
  std::vector<std::string> x_labels;
  for (int most = std::max(3, static_cast<int>((right - left) / (4.2 * font))); most >= 1; --most) {
    x_ticks = ticks_of(x, most, chart.x.whole);
    x_labels = tick_labels(x_ticks);
    double end = -HUGE_VAL;
    bool apart = true;
    for (std::size_t i = 0; i < x_ticks.size(); ++i) {
      const double middle = left + x.at(x_ticks[i]) * (right - left), half = detail::text_width(x_labels[i], font) / 2;
      apart = apart && middle - half > end + 0.4 * font;
      end = middle + half;
    }
    if (apart) break;
  }
  const auto at_x = [&](double value) { return left + x.at(value) * (right - left); };
  const auto at_y = [&](double value) { return bottom - y.at(value) * (bottom - top); };
  const auto text = [&](double px, double py, const char* anchor, const char* kind, std::string_view content) {
    return element("text",
                   {{"x", svg_number(px)},
                    {"y", svg_number(py)},
                    {"text-anchor", anchor},
                    {"class", kind},
                    {"font-size", svg_number(font)}},
                   xml_escaped(content)) +
           "\n";
  };
  const auto line = [&](double x1, double y1, double x2, double y2, const char* kind) {
    return element(
               "path",
               {{"class", kind},
                {"d", fmt::format("M{} {}L{} {}", svg_number(x1), svg_number(y1), svg_number(x2), svg_number(y2))}}) +
           "\n";
  };

  const std::string words = chart.description.empty() ? detail::described(chart) : chart.description;
  std::string body =
      element("title", {}, xml_escaped(chart.title)) + element("desc", {}, xml_escaped(words)) + "\n";
  for (std::size_t i = 0; i < y_ticks.size(); ++i) {
    body += line(left, at_y(y_ticks[i]), right, at_y(y_ticks[i]), "grid");
    body += text(left - 0.5 * font, at_y(y_ticks[i]) + 0.35 * font, "end", "tick", y_labels[i]);
  }
  for (std::size_t i = 0; i < x_ticks.size(); ++i) {
    const double px = at_x(x_ticks[i]), half = detail::text_width(x_labels[i], font) / 2;
    body += line(px, bottom, px, bottom + 0.35 * font, "axis");
    body += text(std::min(px, width - half), bottom + 1.35 * font, "middle", "tick", x_labels[i]);
  }
  body += line(left, bottom, right, bottom, "axis");
  if (!chart.y.label.empty()) body += text(0, font, "start", "label", chart.y.label);
  body += text(right, height - 0.35 * font, "end", "label", chart.x.label);
  const char* why = logged ? "nothing above zero was logged" : "nothing was logged";
  if (empty) body += text((left + right) / 2, (top + bottom) / 2, "middle", "tick", why);

  for (const Series& series : chart.series) {
    std::vector<ChartPoint> pixels;
    std::string dots;
    pixels.reserve(series.points.size());
    const auto drawn = [&](std::size_t k) {
      return k < series.points.size() && x.holds(series.points[k].x) && y.holds(series.points[k].y);
    };
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      constexpr double gap = std::numeric_limits<double>::quiet_NaN();
      pixels.push_back(drawn(i) ? ChartPoint{at_x(point.x), at_y(point.y)} : ChartPoint{gap, gap});
      const bool alone = !drawn(i - 1) && !drawn(i + 1);  // before the first is beyond the last
      if (!drawn(i) || (!series.style.dots && !alone)) continue;
      dots += element("circle",
                      {{"cx", svg_number(pixels.back().x)},
                       {"cy", svg_number(pixels.back().y)},
                       {"r", "3"},
                       {"style", "fill:" + series.style.colour}},
                      element("title", {},
                              xml_escaped(fmt::format("{}: {} at {}", series.name, short_number(point.y, 5),
                                                      short_number(point.x))))) +
              "\n";
    }
    const std::string path = detail::path_through(thinned(pixels));
    const std::string style =
        fmt::format("stroke:{};stroke-width:{}{}", series.style.colour, svg_number(series.style.width),
                    series.style.dashes.empty() ? "" : ";stroke-dasharray:" + series.style.dashes);
    if (!path.empty()) body += element("path", {{"class", "line"}, {"style", style}, {"d", path}}) + "\n";
    body += dots;
  }
  return element("svg",
                 {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"viewBox", fmt::format("0 0 {} {}", svg_number(width), svg_number(height))},
                  {"role", "img"},
                  {"class", "chart"}},
                 "\n" + body);
}

/// The names of the lines with a sample of each and the value it ends at, the highest first, as on the chart.
inline std::string chart_legend(const Chart& chart) {
  std::vector<std::pair<double, const Series*>> order;
  for (const Series& series : chart.series) {
    double end = -HUGE_VAL;
    for (const ChartPoint& point : series.points) {
      if (std::isfinite(point.x) && std::isfinite(point.y)) end = point.y;
    }
    order.emplace_back(end, &series);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string items;
  for (const auto& [end, series] : order) {
    const LineStyle& look = series->style;
    const std::string style =
        fmt::format("stroke:{};stroke-width:{}{}", look.colour, svg_number(std::max(2.0, look.width)),
                    look.dashes.empty() ? "" : ";stroke-dasharray:" + look.dashes);
    const std::string sample = element(
        "svg",
        {{"xmlns", "http://www.w3.org/2000/svg"}, {"viewBox", "0 0 28 8"}, {"class", "key"}, {"aria-hidden", "true"}},
        element("path", {{"class", "line"}, {"style", style}, {"d", "M1 4H27"}}));
    items += element("li", {},
                     sample + xml_escaped(series->name) +
                         (std::isfinite(end) ? ' ' + element("b", {}, xml_escaped(short_number(end))) : std::string()));
  }
  return element("ul", {{"class", "legend"}}, items);
}

/// Title, legend and drawing.
inline std::string chart_figure(const Chart& chart) {
  std::string caption = element("b", {}, xml_escaped(chart.title));
  if (!chart.subtitle.empty()) caption += ' ' + element("span", {}, xml_escaped(chart.subtitle));
  return element("figure", {},
                 element("figcaption", {}, caption) + (chart.with_legend ? chart_legend(chart) : std::string()) + "\n" +
                     chart_svg(chart)) +
         "\n";
}

}  // namespace simplx
