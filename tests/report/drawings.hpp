// SPDX-License-Identifier: MIT
#pragma once

/// Models to draw, and what is wrong with a drawing of them.

#include <simplx/models/model_of.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/recompute.hpp>
#include <simplx/report/sketch.hpp>

#include <doctest/doctest.h>

#include <map>

namespace test {

using namespace simplx;
using namespace simplx::drawing;
using drawing::Frame;  // not those of a graph's memory and names
using drawing::Label;

/// A user's own block, as in examples/my_block.cpp.
struct MyBlock {
  ShapedAttention attention;
  Mlp mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", RmsNorm{})(x);
    return scalar("attention_gain") * named("attention", attention.at(layer))(n) +
           scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(n);
  }
};
inline constexpr DecoderOf<MyBlock> mine{.block = {{.heads = 4}, {.hidden = 512}}};

/// A function whose graph is one op.
inline constexpr auto one_op = [] { return sin(variable("x", rows_of(Axis::tokens, 8))); };

/// A hundred ops in a row, with skips of all lengths.
inline constexpr auto long_chain = [] {
  Expr x = variable("x", rows_of(Axis::tokens, 8)), early = x;
  for (int i = 0; i < 80; ++i) {
    x = i % 3 ? sin(x) : tanh(x);
    if (i % 4 == 3) x = x + early;
    if (i % 12 == 5) early = x;
  }
  return x;
};

/// Scopes within scopes, a difference, an item that lies in its scope by what is around it, and boxes without inputs:
/// in the middle of a frame, and in its lowest row beside the border.
inline constexpr auto nested = [] {
  const auto inner = [](Expr x) {
    return tanh(named("first", Linear{.bias = true})(x)) - named("second", Linear{})(x);
  };
  const auto outer = [&](Expr x) {
    Expr y = named("inner", inner)(x) * x;
    return named("last", Linear{})(relu(weight("table", 1, 8)) + y);
  };
  const auto mixed = [](Expr x) { return named("up", Linear{})(x * tanh(weight("matrix", 8, 8))); };
  Expr x = variable("x", rows_of(Axis::tokens, 8)), z = named("outer", outer)(x), m = named("mixed", mixed)(z);
  return select(z > m, z / x, x + x);
};

struct Two {
  Expr a, b;
};
inline constexpr auto two_results = [] {
  Expr x = variable("x", rows_of(Axis::tokens, 8));
  return Two{named("only", Linear{})(x), exp(x)};
};

/// Calls f(name, table) for two layers of all blocks, and for the models above.
template <class F>
void each_table(F f) {
  for (const NamedBlock& block : all_blocks) {
    const auto model = [&] { return with_model_of(block, [](const auto& m) { return m(); }); };
    for (const int layer : {0, 1}) f(block.name + std::string(" ") + std::to_string(layer), ops_of_layer(model, layer));
  }
  f("a decoder", ops_of(Decoder{.block = pre_ln}));
  f("my block", ops_of_layer(mine, 1));
  f("one op", ops_of(one_op));
  f("a long chain", ops_of(long_chain));
  f("nested scopes", ops_of(nested));
  f("two results", ops_of(two_results));
}

/// A table of random ops, with parameters in scopes at random: most of these scopes do not hold together.
inline OpTable random_table(std::uint64_t seed) {
  std::uint64_t draws = 0;
  const auto random = [&](std::uint64_t below) { return static_cast<int>(bits(seed, draws++) % below); };
  const Shape rows = rows_of(Axis::tokens, 8);
  const std::string scopes[] = {"", "a.", "a.b.", "a.b.c.", "d.", "d.e.", "left.", "right."};
  OpTable table;
  const auto append = [&](Kind kind, const char* op, std::string name, Shape shape, std::vector<int> arguments) {
    table.push_back({kind, op, std::move(name), shape, {}, {}, false, false, std::move(arguments)});
    return static_cast<int>(table.size()) - 1;
  };
  append(Kind::input, "", "x", rows, {});
  std::vector<int> values{0}, unread{0};
  const auto add = [&](Kind kind, const char* op, std::vector<int> arguments) {
    for (const int a : arguments) std::erase(unread, a);
    values.push_back(append(kind, op, "", rows, std::move(arguments)));
    unread.push_back(values.back());
  };
  const auto recent = [&] {  // most read what was just made
    return values[std::max(0, static_cast<int>(values.size()) - 1 - random(random(6) ? 4 : 40))];
  };
  const auto leaf = [&](Shape shape) {
    const std::string name = scopes[std::min(7, (static_cast<int>(table.size()) / 9) % 4 * 2 + random(2))];
    return append(Kind::parameter, "", name + "p" + std::to_string(table.size()) + ".weight", shape, {});
  };
  for (int i = 6 + random(30); i > 0; --i) {
    switch (random(7)) {
      case 0: add(Kind::map, "tanh", {recent()}); break;
      case 1: add(Kind::map, random(2) ? "add" : "subtract", {recent(), recent()}); break;
      case 2: add(Kind::map, "multiply", {recent(), leaf(fixed_shape(1, 1))}); break;
      case 3: add(Kind::map, "select", {recent(), recent(), recent()}); break;
      case 4: add(Kind::map, "relu", {leaf(rows)}); break;
      default: add(Kind::product, "matmul", {recent(), leaf(fixed_shape(8, 8))});
    }
  }
  while (unread.size() > 1) add(Kind::map, "add", {unread[0], unread[1]});
  append(Kind::map, "output", "output", rows, {unread[0]});
  return table;
}

/// Whether two rectangles share more than their border.
inline bool overlap(const Rectangle& a, const Rectangle& b, double slack = 0.01) {
  return a.x + slack < b.right() && b.x + slack < a.right() && a.y + slack < b.top() && b.y + slack < a.top();
}
inline bool contains(const Rectangle& outer, const Rectangle& inner) {
  return outer.x <= inner.x + 0.01 && inner.right() <= outer.right() + 0.01 && outer.y <= inner.y + 0.01 &&
         inner.top() <= outer.top() + 0.01;
}
inline Rectangle around(Point a, Point b) {
  return {std::min(a.x, b.x), std::min(a.y, b.y), std::abs(a.x - b.x), std::abs(a.y - b.y)};
}
/// A piece of a line as a rectangle of some width, so that it overlaps what it passes.
inline Rectangle thick(Point a, Point b) {
  const Rectangle r = around(a, b);
  return {r.x - 0.05, r.y - 0.05, r.width + 0.1, r.height + 0.1};
}
inline bool meets(const std::vector<Point>& line, const Rectangle& r) {
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (overlap(thick(line[i - 1], line[i]), r, 0.1)) return true;
  }
  return false;
}

/// Every line runs level or upright; lines that do not begin in one place do not lie upon each other.
inline void check_lines(const std::vector<std::vector<Point>>& lines, std::vector<std::string>& faults) {
  for (std::size_t a = 0; a < lines.size(); ++a) {
    for (std::size_t i = 1; i < lines[a].size(); ++i) {
      const Rectangle piece = around(lines[a][i - 1], lines[a][i]);
      if (std::min(piece.width, piece.height) > 0.5) faults.push_back("line " + std::to_string(a) + " is slanted");
      for (std::size_t b = 0; b < a; ++b) {
        if (std::hypot(lines[a][0].x - lines[b][0].x, lines[a][0].y - lines[b][0].y) < 0.01) continue;
        for (std::size_t j = 1; j < lines[b].size(); ++j) {
          const Rectangle other = around(lines[b][j - 1], lines[b][j]);
          const Rectangle p = thick(lines[a][i - 1], lines[a][i]), q = thick(lines[b][j - 1], lines[b][j]);
          const double wide = std::min(p.right(), q.right()) - std::max(p.x, q.x);
          const double high = std::min(p.top(), q.top()) - std::max(p.y, q.y);
          const bool along = (piece.width > 1) == (other.width > 1) && std::min(wide, high) > 0;
          if (along && std::max(wide, high) > 1) {
            faults.push_back("lines " + std::to_string(a) + " and " + std::to_string(b) + " lie upon each other");
          }
        }
      }
    }
  }
}

/// What one item hands to another, as the lines show it: found by following them from border to border.
inline std::map<std::pair<int, int>, int> drawn_edges(const Sketch& sketch) {
  const auto same = [](Point a, Point b) { return std::hypot(a.x - b.x, a.y - b.y) < 0.6; };
  const auto touches = [](Point p, const Rectangle& r) {
    return contains({r.x - 0.01, r.y - 0.01, r.width + 0.02, r.height + 0.02}, {p.x, p.y, 0, 0});
  };
  std::map<std::pair<int, int>, int> edges;
  const int count = static_cast<int>(sketch.items.size());
  for (int from = 0; from < count; ++from) {
    std::vector<Point> ends{{sketch.items[from].x + sketch.items[from].width / 2, sketch.items[from].top()}};
    for (std::size_t e = 0; e < ends.size(); ++e) {
      for (const Line& line : sketch.lines) {
        if (!same(line.points[0], ends[e])) continue;
        int to = 0;
        while (to < count && !touches(line.points.back(), sketch.items[to])) ++to;
        if (to < count) ++edges[{from, to}];
        else if (std::ranges::none_of(ends, [&](Point p) { return same(p, line.points.back()); })) {
          ends.push_back(line.points.back());
        }
      }
    }
  }
  return edges;
}

/// What is wrong with a sketch: nothing, of those that are drawn.
inline std::vector<std::string> faults_of(const Sketch& sketch) {
  std::vector<std::string> faults;
  const std::vector<Item>& items = sketch.diagram.items;
  const std::vector<Frame>& frames = sketch.diagram.frames;
  const auto name = [&](std::size_t i) { return plain_text(items[i].title) + " (" + std::to_string(i) + ")"; };
  const auto inside = [&](int frame, int outer) {
    while (frame >= 0 && frame != outer) frame = frames[frame].parent;
    return frame == outer;
  };
  std::vector<Rectangle> titles;
  for (std::size_t f = 0; f < frames.size(); ++f) {
    const Rectangle& r = sketch.frames[f];
    const double width = text_width(frames[f].title) * frame_size;
    titles.push_back({r.x + sketch.titles[f], r.top() - 11 - frame_size / 2, width, frame_size});
    if (!contains(r, titles[f])) faults.push_back("a title leaves frame " + frames[f].scope);
  }
  const Rectangle page{0, 0, sketch.width, sketch.height};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Rectangle& r = sketch.items[i];
    if (!contains(page, r)) faults.push_back(name(i) + " leaves the page");
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(r, sketch.items[j])) faults.push_back(name(i) + " overlaps " + name(j));
    }
    for (std::size_t f = 0; f < frames.size(); ++f) {
      const bool member = inside(items[i].frame, static_cast<int>(f));
      if (member ? !contains(sketch.frames[f], r) : overlap(sketch.frames[f], r)) {
        faults.push_back(name(i) + " is on the wrong side of frame " + frames[f].scope);
      }
      if (overlap(r, titles[f])) faults.push_back(name(i) + " covers the title of " + frames[f].scope);
    }
    if (items[i].form != Item::Form::circle) {
      const bool gain = items[i].form == Item::Form::gain;
      double width = text_width(items[i].title) * (gain ? detail_size : title_size);
      for (const Label& line : items[i].details) width = std::max(width, text_width(line) * detail_size);
      if (width + pad > r.width) faults.push_back("the text of " + name(i) + " leaves it");
    }
  }
  for (std::size_t f = 0; f < frames.size(); ++f) {
    if (!contains(page, sketch.frames[f])) faults.push_back("frame " + frames[f].scope + " leaves the page");
    for (std::size_t g = 0; g < f; ++g) {
      const bool member = inside(static_cast<int>(f), static_cast<int>(g));
      if (member ? !contains(sketch.frames[g], sketch.frames[f]) : overlap(sketch.frames[f], sketch.frames[g])) {
        faults.push_back("frames " + frames[f].scope + " and " + frames[g].scope + " cross");
      }
    }
  }
  std::vector<std::vector<Point>> lines;
  for (const Line& line : sketch.lines) {
    lines.push_back(line.points);
    Rectangle all = around(line.points[0], line.points[0]);
    for (const Point& p : line.points) {
      const double right = std::max(all.right(), p.x), top = std::max(all.top(), p.y);
      all.x = std::min(all.x, p.x), all.y = std::min(all.y, p.y);
      all.width = right - all.x, all.height = top - all.y;
    }
    if (!contains(page, all)) faults.push_back("a line leaves the page");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (meets(line.points, sketch.items[i])) faults.push_back("a line passes through " + name(i));
    }
    for (std::size_t f = 0; f < frames.size(); ++f) {
      if (meets(line.points, sketch.frames[f]) && !contains(sketch.frames[f], all)) {
        faults.push_back("a line crosses the border of frame " + frames[f].scope);
      }
      if (meets(line.points, titles[f])) faults.push_back("a line crosses the title of frame " + frames[f].scope);
    }
  }
  check_lines(lines, faults);
  std::map<std::pair<int, int>, int> wanted;
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const int input : items[i].inputs) ++wanted[{input, static_cast<int>(i)}];
  }
  if (drawn_edges(sketch) != wanted) faults.push_back("the lines are not those of the diagram");
  return faults;
}

}  // namespace test
