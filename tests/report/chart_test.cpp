// SPDX-License-Identifier: MIT
#include <simplx/report/chart.hpp>

#include <doctest/doctest.h>

#include <cstdio>

using namespace simplx;

namespace {
constexpr double gap = std::numeric_limits<double>::quiet_NaN();

Chart chart_of(std::vector<ChartPoint> points, Scale scale = Scale::linear) {
  return {.title = "Loss",
          .x = {.label = "step", .scale = scale},
          .y = {.label = "nats", .scale = scale},
          .series = {{"run", std::move(points), {}}}};
}
/// What stands between `begin` and the next `end`, everywhere.
std::vector<std::string> all(std::string_view text, std::string_view begin, std::string_view end = "\"") {
  std::vector<std::string> found;
  for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    found.emplace_back(text.substr(at, text.find(end, at) - at));
  }
  return found;
}
/// The d of every data line.
std::vector<std::string> lines(const std::string& svg) {
  std::vector<std::string> found;
  for (const std::string& path : all(svg, "<path class=\"line\"", ">")) found.push_back(all(path, " d=\"").at(0));
  return found;
}
std::size_t count(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_SUITE_BEGIN("report/chart");

TEST_CASE("thinning keeps first, lowest, highest and last of a column, in their order") {
  const auto kept = [](std::vector<double> ys) {
    std::vector<ChartPoint> points;
    for (std::size_t i = 0; i < ys.size(); ++i) points.push_back({0.01 * static_cast<double>(i), ys[i]});
    std::vector<double> out;
    for (const ChartPoint& point : thinned(points)) out.push_back(point.y);
    return out;
  };
  CHECK(kept({3, 4, 9, 5, 1, 2, 6}) == std::vector<double>{3, 9, 1, 6});
  CHECK(kept({3, 4, 1, 5, 9, 2, 6}) == std::vector<double>{3, 1, 9, 6});
  CHECK(kept({1, 2, 9}) == std::vector<double>{1, 9});
  CHECK(kept({5, 5, 5, 5}) == std::vector<double>{5, 5});
  CHECK(kept({5}) == std::vector<double>{5});
  CHECK(kept({}).empty());
}

TEST_CASE("thinning keeps points in columns of their own, and gaps on either side of values") {
  const std::vector<ChartPoint> apart = {{0, 1}, {0.5, 2}, {1, 1}};
  CHECK(thinned(apart).size() == 3);
  for (const double x : {0.1, gap}) {
    const std::vector<ChartPoint> points = {{0, 1}, {0, 5}, {0, 2}, {x, gap}, {0.1, 1}, {0.2, 7}, {0.3, -7}, {0.4, 2}};
    const std::vector<ChartPoint> kept = thinned(points);
    REQUIRE(kept.size() == 8);
    CHECK(kept[1].y == 5);
    CHECK(std::isnan(kept[3].y));
    CHECK(kept[5].y == 7);
    CHECK(kept[6].y == -7);
  }
}

TEST_CASE("a long log is thinned to the width, its spike stays") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 200000; ++i) points.push_back({static_cast<double>(i), i == 123456 ? 1000.0 : i % 7});
  const Chart chart = chart_of(points);
  const std::string path = lines(chart_svg(chart)).at(0);
  CHECK(count(path, 'L') < 4 * 2 * static_cast<std::size_t>(chart.size.width));
  // The highest value touches the top of the drawing.
  CHECK(holds(path, fmt::format(" {}", svg_number(2.1 * chart.size.font))));
}

TEST_CASE("a line breaks at gaps; a point alone is a dot; nothing is said to be nothing") {
  const std::vector<ChartPoint> points = {{0, 1}, {1, 2}, {2, gap}, {3, 1}, {4, 3}, {HUGE_VAL, 2}, {5, 2}};
  const std::string parts = chart_svg(chart_of(points)), broken = lines(parts).at(0);
  CHECK(count(broken, 'M') == 2);
  CHECK(count(broken, 'L') == 2);
  CHECK(all(parts, "<circle", ">").size() == 1);
  CHECK(holds(parts, "<title>run: 2 at 5</title>"));  // the last
  const std::string alone = chart_svg(chart_of({{3, 7}}));
  CHECK(lines(alone).empty());
  CHECK(holds(alone, " r=\"3\""));
  for (const auto& nothing : {std::vector<ChartPoint>{}, {{0, gap}}, {{gap, 1}}}) {
    Chart chart = chart_of(nothing);
    chart.x.including = 0;
    const std::string svg = chart_svg(chart);
    CHECK_FALSE(holds(svg, "−"));  // from 0 on, not around it
    CHECK(lines(svg).empty());
    CHECK(holds(svg, "nothing was logged"));
  }
  Chart zeros = chart_of({{1, 0}, {2, 0}});
  zeros.y.scale = Scale::logarithmic;
  CHECK(holds(chart_svg(zeros), "nothing above zero was logged"));
}

TEST_CASE("an axis goes as far as was logged, also where the line ends before") {
  const std::string path = lines(chart_svg(chart_of({{0, 1}, {1, 2}, {2, gap}, {4, gap}}))).at(0);
  double x[2], y[2];
  REQUIRE(std::sscanf(path.c_str(), "M%lf %lfL%lf %lf", x, y, x + 1, y + 1) == 4);
  const std::string whole = lines(chart_svg(chart_of({{0, 1}, {4, 2}}))).at(0);
  double from, to;
  REQUIRE(std::sscanf(whole.c_str(), "M%lf %lfL%lf %lf", &from, y, &to, y + 1) == 4);
  CHECK(x[1] - x[0] == doctest::Approx((to - from) / 4).epsilon(1e-3));
}

TEST_CASE("an axis of what is counted has whole numbers alone") {
  Chart chart = chart_of({{0, 7}, {1, 8}});
  CHECK(holds(chart_svg(chart), ">0.2</text>"));
  chart.x.whole = true;
  CHECK_FALSE(holds(chart_svg(chart), ">0.2</text>"));
  chart = chart_of({{0, 7}});  // of the only layer
  CHECK(holds(chart_svg(chart), ">1</text>"));
  chart.x.whole = true;
  CHECK(holds(chart_svg(chart), ">0</text>"));
  CHECK_FALSE(holds(chart_svg(chart), ">1</text>"));
}

TEST_CASE("no path holds a word, whatever the values") {
  const std::vector<double> odd = {gap, HUGE_VAL, -HUGE_VAL, 0, -0.0, -1, 5e-324, 1e-300, 1e299, -1e299, 1.7e308, 1};
  for (const Scale scale : {Scale::linear, Scale::logarithmic}) {
    for (const double a : odd) {
      for (const double b : odd) {
        const std::string svg = chart_svg(chart_of({{a, b}, {b, a}, {1, b}}, scale));
        for (const std::string& d : all(svg, " d=\"")) {
          REQUIRE(d[0] == 'M');
          REQUIRE(d.size() < 80);  // what has no place is left out, not drawn far away
          REQUIRE(d.find_first_not_of("MLh0123456789.- ") == d.npos);
        }
        REQUIRE_FALSE(holds(svg, "nan"));
        REQUIRE_FALSE(holds(svg, "inf"));
      }
    }
  }
}

TEST_CASE("a logarithmic chart leaves out what has no logarithm and spreads decades evenly") {
  const std::vector<ChartPoint> points = {{1, 1}, {10, 10}, {0, 5}, {100, 100}, {1000, -1}};
  const std::string svg = chart_svg(chart_of(points, Scale::logarithmic)), path = lines(svg).at(0);
  CHECK(count(path, 'M') == 1);
  double x[3], y[3];
  REQUIRE(std::sscanf(path.c_str(), "M%lf %lfL%lf %lf", x, y, x + 1, y + 1) == 4);
  x[2] = std::stod(all(svg, " cx=\"").at(0)), y[2] = std::stod(all(svg, " cy=\"").at(0));
  CHECK(x[1] - x[0] == doctest::Approx(x[2] - x[1]).epsilon(1e-3));
  CHECK(y[0] - y[1] == doctest::Approx(y[1] - y[2]).epsilon(1e-3));
  CHECK(y[0] > y[2]);  // up is more
}

TEST_CASE("title, description, labels and what must be on the axis") {
  Chart chart = chart_of({{5, 50}, {6, 60}});
  chart.title = "<Loss> & more";
  chart.y.including = 0;
  const std::string svg = chart_svg(chart);
  CHECK(holds(svg, "<title>&lt;Loss&gt; &amp; more</title>"));
  CHECK(holds(svg, "<desc>nats over step. run: from 50 to 60, between 50 and 60.</desc>"));
  CHECK(holds(svg, ">nats</text>"));
  CHECK(holds(svg, ">step</text>"));
  CHECK(holds(svg, ">0</text>"));
  CHECK(holds(svg, "role=\"img\""));
  chart.y.label.clear();
  CHECK(holds(chart_svg(chart), "<desc>&lt;Loss&gt; &amp; more over step."));
  CHECK_FALSE(holds(chart_svg(chart), "></text>"));
}

TEST_CASE("names of ticks keep apart, however long they are") {
  for (const double step : {1.0, 1e-3, 1e-6, 1e-9}) {
    Chart chart = chart_of({{1, 1}, {1 + 8 * step, 2}});
    chart.size = small_chart;
    CAPTURE(step);
    double end = -HUGE_VAL;
    int ticks = 0;
    for (const std::string& text : all(chart_svg(chart), "<text x=\"", "<")) {
      if (!holds(text, "\"middle\"")) continue;
      const double middle = std::stod(text);
      const double half = detail::text_width(text.substr(text.find('>') + 1), chart.size.font) / 2;
      CAPTURE(text);
      CHECK(middle - half > end);
      end = middle + half, ++ticks;
    }
    CHECK(ticks >= (step > 1e-4 ? 2 : 1));
  }
}

TEST_CASE("dots mark every point and tell its value") {
  Chart chart = chart_of({{1, 2}, {2, gap}, {3, 4}});
  chart.series[0].style.dots = true;
  const std::string svg = chart_svg(chart);
  CHECK(all(svg, "<circle", " ").size() == 2);
  CHECK(holds(svg, "<title>run: 4 at 3</title>"));
}

TEST_CASE("the legend names every line and its end, the highest first") {
  Chart chart = chart_of({{0, 1}, {1, 2}, {2, gap}});
  chart.series.push_back({"<high>", {{0, 9}}, {}});
  chart.series.push_back({"none", {}, {}});
  const std::string legend = chart_legend(chart);
  CHECK(all(legend, "</svg>", "<") == std::vector<std::string>{"&lt;high&gt; ", "run ", "none"});
  CHECK(all(legend, "<b>", "<") == std::vector<std::string>{"9", "2"});
  CHECK(holds(chart_figure(chart), "legend"));
  chart.with_legend = false;
  CHECK_FALSE(holds(chart_figure(chart), "legend"));
}

TEST_CASE("lines differ in colour or dashes, twelve in dashes alone; layers go from the first colour to the last") {
  for (std::size_t i = 0; i < 72; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const LineStyle a = distinct_style(i), b = distinct_style(k);
      CHECK_FALSE((a.colour == b.colour && a.dashes == b.dashes));
      if (i < 12) CHECK(a.dashes != b.dashes);
    }
  }
  CHECK(holds(layer_style(0, 6).colour, " 0%"));
  CHECK(holds(layer_style(5, 6).colour, " 100%"));
  CHECK(holds(layer_style(0, 1).colour, " 0%"));
}

TEST_SUITE_END();
