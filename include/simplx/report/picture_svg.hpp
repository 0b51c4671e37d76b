// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/picture_svg.hpp
/// Ink: a sketch as one self-contained SVG, without ids, so that a page may hold several.
///
/// Colours are CSS properties of .simplx-picture with values for light and for dark pages; a page may set its own.

#include <simplx/report/sketch.hpp>
#include <simplx/report/svg.hpp>

namespace simplx::inline SIMPLX_TARGET::drawing {

inline constexpr const char* style = R"(
.simplx-picture { --ink: #1f2328; --quiet: #59636e; --line: #59636e; --page: #ffffff;
  --plain: #f3f4f6; --plain-edge: #8c959f; --norm: #fdf0cf; --norm-edge: #b58407;
  --attention: #dcebfd; --attention-edge: #2f71c4; --mlp: #dbf3e0; --mlp-edge: #2d8a4c;
  --gain: #fbe3ec; --gain-edge: #bf4a7b; --sum: #ffffff; --sum-edge: #1f2328;
  max-width: 100%; height: auto; font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
@media (prefers-color-scheme: dark) { .simplx-picture { --ink: #e6edf3; --quiet: #9aa4af; --line: #9aa4af;
  --page: #0d1117; --plain: #22272e; --plain-edge: #768390; --norm: #3b2f0c; --norm-edge: #d3a52c;
  --attention: #12294a; --attention-edge: #5a9bea; --mlp: #11321d; --mlp-edge: #4fb673;
  --gain: #43182b; --gain-edge: #e2729f; --sum: #0d1117; --sum-edge: #e6edf3; } }
.simplx-picture text { fill: var(--ink); text-anchor: middle; }
.simplx-picture .detail { fill: var(--quiet); }
.simplx-picture .symbol { font-style: italic; }
.simplx-picture .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
.simplx-picture .tip { fill: var(--line); }
.simplx-picture .frame { fill-opacity: 0.35; stroke-dasharray: 4 3; }
.simplx-picture rect, .simplx-picture circle { stroke-width: 1.25; }
.simplx-picture .name { text-anchor: start; font-weight: 600; }
)";

/// Writes a sketch as SVG.
class SvgWriter {
 public:
  explicit SvgWriter(const Sketch& sketch) : sketch_(sketch) {}

  std::string write(const std::string& title) {
    const double width = sketch_.width, height = sketch_.height;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"simplx-picture\" role=\"img\" aria-label=\"{0}\" "
        "width=\"{1}\" height=\"{2}\" viewBox=\"0 0 {1} {2}\">\n<title>{0}</title>\n<desc>{3}</desc>\n"
        "<style>{4}</style>\n",
        xml_escaped(title), number(width), number(height), xml_escaped(description()), style);
    for (std::size_t f = 0; f < sketch_.frames.size(); ++f) frame(f);
    for (const Line& line : sketch_.lines) path(line);
    for (const Line& line : sketch_.lines) tip(line);
    for (std::size_t i = 0; i < sketch_.items.size(); ++i) item(i);
    return text_ + "</svg>\n";
  }

 private:
  static std::string number(double x) {
    std::string text = fmt::format("{:.1f}", x);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text == "-0" ? "0" : text;
  }
  /// SVG's y grows downwards.
  std::string at(Point p) const { return number(p.x) + " " + number(sketch_.height - p.y); }

  static const char* name_of(Role role) {
    static constexpr const char* names[] = {"plain", "norm", "attention", "mlp", "sum", "gain"};
    return names[static_cast<int>(role)];
  }
  static std::string paint(Role role) {
    return fmt::format("fill=\"var(--{0})\" stroke=\"var(--{0}-edge)\"", name_of(role));
  }

  /// What is drawn, as a sentence for those who do not see it.
  std::string description() const {
    std::string text;
    for (const Item& item : sketch_.diagram.items) {
      if (!text.empty()) text += "; ";
      text += plain_text(item.title);
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        text += (i ? ", " : " of ") + plain_text(sketch_.diagram.items[item.inputs[i]].title);
      }
    }
    return text + ".";
  }

  void rectangle(const Rectangle& r, double round, const std::string& attributes) {
    text_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" {}/>\n", number(r.x),
                         number(sketch_.height - r.top()), number(r.width), number(r.height), number(round),
                         attributes);
  }

  void label(const Label& runs, Point p, double size, const char* style_class) {
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" class=\"{}\">", number(p.x),
                         number(sketch_.height - p.y + 0.35 * size), number(size), style_class);
    bool lowered = false;
    for (const Run& run : runs) {
      const bool index = run.style == Run::Style::index;
      std::string attributes;
      if (index != lowered) attributes += fmt::format(" dy=\"{}\"", number(index ? 0.25 * size : -0.25 * size));
      if (index) attributes += fmt::format(" font-size=\"{}\"", number(index_size * size));
      if (run.style == Run::Style::symbol) attributes += " class=\"symbol\"";
      const std::string content = xml_escaped(run.text);
      text_ += attributes.empty() ? content : "<tspan" + attributes + ">" + content + "</tspan>";
      lowered = index;
    }
    text_ += "</text>\n";
  }

  void frame(std::size_t f) {
    const Frame& frame = sketch_.diagram.frames[f];
    rectangle(sketch_.frames[f], 10, "class=\"frame\" " + paint(frame.role));
    const Rectangle& r = sketch_.frames[f];
    label(frame.title, {r.x + sketch_.titles[f], r.top() - 11}, frame_size, "name");
  }

  static Point towards(Point from, Point to, double length) {
    const double whole = std::hypot(to.x - from.x, to.y - from.y);
    return {from.x + (to.x - from.x) * length / whole, from.y + (to.y - from.y) * length / whole};
  }
  void path(const Line& line) {
    std::vector<Point> p = line.points;
    if (line.arrow) p.back() = towards(p.back(), p[p.size() - 2], 5);
    std::string d = 'M' + at(p[0]);
    for (std::size_t i = 1; i + 1 < p.size(); ++i) {
      const auto half = [&](Point a, Point b) { return std::hypot(a.x - b.x, a.y - b.y) / 2; };
      const double radius = std::min({8.0, half(p[i - 1], p[i]), half(p[i], p[i + 1])});
      d += "L" + at(towards(p[i], p[i - 1], radius)) + "Q" + at(p[i]) + " " + at(towards(p[i], p[i + 1], radius));
    }
    text_ += "<path class=\"line\" d=\"" + d + "L" + at(p.back()) + "\"/>\n";
  }
  void tip(const Line& line) {
    const Point end = line.points.back(), from = line.points[line.points.size() - 2];
    const Point back = towards(end, from, 7), side{0.45 * (back.y - end.y), -0.45 * (back.x - end.x)};
    if (line.arrow) {
      text_ += "<path class=\"tip\" d=\"M" + at(end) + "L" + at({back.x + side.x, back.y + side.y}) + "L" +
               at({back.x - side.x, back.y - side.y}) + "Z\"/>\n";
    }
    if (line.negative) {
      const Point place = towards(end, from, 8);
      label({{"−"}}, {place.x + 2.2 * std::abs(side.x), place.y + 2.2 * std::abs(side.y)}, title_size, "title");
    }
  }

  void item(std::size_t i) {
    const Item& item = sketch_.diagram.items[i];
    const Rectangle& r = sketch_.items[i];
    const Point centre{r.x + r.width / 2, r.y + r.height / 2};
    text_ += "<g><title>" + xml_escaped(item.tip) + "</title>\n";
    if (item.form == Item::Form::circle) {
      const double radius = r.width / 2, arm = radius * (item.title[0].text == "×" ? 0.45 : 0.6);
      text_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}/>\n", number(centre.x),
                           number(sketch_.height - centre.y), number(radius), paint(item.role));
      const double tilt = item.title[0].text == "×" ? arm : 0, straight = tilt > 0 ? arm : 0;
      text_ += "<path stroke=\"var(--sum-edge)\" stroke-width=\"1.5\" d=\"M" +
               at({centre.x - arm, centre.y - tilt}) + "L" + at({centre.x + arm, centre.y + tilt}) + "M" +
               at({centre.x - straight, centre.y + arm}) + "L" + at({centre.x + straight, centre.y - arm}) + "\"/>\n";
    } else if (item.form == Item::Form::gain) {
      rectangle(r, r.height / 2, paint(item.role));
      label(item.title, centre, detail_size, "title");
    } else {
      if (item.form == Item::Form::box) rectangle(r, 6, paint(item.role));
      double y = r.top() - 11.5;
      label(item.title, {centre.x, y}, title_size, "title");
      for (const Label& line : item.details) label(line, {centre.x, y -= line_height}, detail_size, "detail");
      const Box box = ports_of(i);
      for (std::size_t port = 0; port < item.ports.size(); ++port) {
        label({{item.ports[port], Run::Style::symbol}}, {r.x + box.in[port], r.y + 8}, port_size, "detail");
      }
    }
    text_ += "</g>\n";
  }
  Box ports_of(std::size_t i) const { return box_of(sketch_.diagram.items[i], sketch_.port_distance[i]); }

  const Sketch& sketch_;
  std::string text_;
};

/// The drawing as text; the same for the same sketch.
inline std::string svg(const Sketch& sketch, const std::string& title) { return SvgWriter(sketch).write(title); }

}  // namespace simplx::drawing
