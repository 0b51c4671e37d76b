// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/sketch.hpp
/// A diagram with sizes and places: frames are laid out from the inside, each then is a box of the one around it.
///
/// What a frame reads enters through its bottom, once for each value, and what others read of it leaves through
/// its top; so no line crosses the border of a frame elsewhere.

#include <simplx/report/diagram.hpp>
#include <simplx/report/layered.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET::drawing {

/// Sizes of text and of the room around it, in the units of the drawing.
inline constexpr double title_size = 13, detail_size = 10.5, frame_size = 11, port_size = 10;
inline constexpr double pad = 8, line_height = 13, circle_size = 20, gain_height = 19, margin = 10;

/// A box of a drawing.
struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;  ///< left bottom corner; y grows upwards

  double right() const { return x + width; }
  double top() const { return y + height; }
};

/// A line; arrows end at what reads the value, not at the border of a frame.
struct Line {
  std::vector<Point> points;
  bool arrow = false, negative = false;
};

/// A drawing without ink.
struct Sketch {
  Diagram diagram;
  std::vector<Rectangle> items, frames;  ///< of the diagram's items and frames
  std::vector<double> titles;            ///< of each frame: where its title begins
  std::vector<double> port_distance;     ///< of each item
  std::vector<Line> lines;
  double width = 0, height = 0;
};

/// The size of an item, and where its lines arrive.
inline Box box_of(const Item& item, double port_distance) {
  double width = text_width(item.title) * title_size, height = 0;
  for (const Label& line : item.details) width = std::max(width, text_width(line) * detail_size);
  switch (item.form) {
    case Item::Form::circle: width = height = circle_size; break;
    case Item::Form::gain:
      width = text_width(item.title) * detail_size + 2 * pad;
      height = gain_height;
      break;
    default:
      width += 2 * pad;
      height = 22 + line_height * static_cast<double>(item.details.size()) + (item.ports.empty() ? 0 : 11);
  }
  const auto ports = static_cast<double>(std::max<std::size_t>(item.inputs.size(), 1));
  if (item.form == Item::Form::box && ports > 1) width = std::max(width, (ports - 1) * port_distance + 34);
  Box box{std::ceil(width), height, {}, {}};
  for (double port = 0; port < ports; ++port) {
    box.in.push_back(box.width / 2 + (port - (ports - 1) / 2) * port_distance);
  }
  box.out = {box.width / 2};
  box.late = item.form == Item::Form::gain;
  box.joins = item.form == Item::Form::circle;
  box.top = item.output;
  box.bottom = item.form == Item::Form::end && !item.output;
  return box;
}

/// Places a diagram: frames as layered drawings of what is in them, from the innermost outwards.
class SketchMaker {
 public:
  explicit SketchMaker(Diagram diagram) {
    sketch_.diagram = std::move(diagram);
    sketch_.items.resize(items().size());
    for (const Item& item : items()) sketch_.port_distance.push_back(port_distance(item));
    sketch_.frames.resize(frames().size());
    sketch_.titles.resize(frames().size());
    levels_.resize(frames().size() + 1);
    const Level& whole = lay_out_level(-1);
    shift(whole, margin, margin);
    sketch_.width = whole.width + 2 * margin;
    sketch_.height = whole.height + 2 * margin;
  }
  Sketch take() { return std::move(sketch_); }

 private:
  /// The inside of a frame, in coordinates of its own until its frame has a place.
  struct Level {
    std::vector<int> members, frames;   // items and frames that stand in it, not deeper
    std::vector<int> inputs, outputs;   // items outside that it reads; items inside that others read
    std::vector<double> in, out;        // where their lines cross the border
    std::vector<int> lines;
    double width = 0, height = 0;
  };
  const std::vector<Item>& items() const { return sketch_.diagram.items; }
  const std::vector<Frame>& frames() const { return sketch_.diagram.frames; }
  Level& level(int frame) { return levels_[frame + 1]; }

  bool inside(int item, int frame) const {
    for (int f = items()[item].frame;; f = frames()[f].parent) {
      if (f == frame) return true;
      if (f < 0) return false;
    }
  }

  /// Where a level's boxes come from: items, then frames, then the borders.
  struct Entry {
    enum class What : signed char { item, frame, input, output } what;
    int number;
  };

  const Level& lay_out_level(int frame) {
    Level& here = level(frame);
    std::vector<Entry> entries;
    std::vector<Box> boxes;
    for (int i = 0; i < static_cast<int>(items().size()); ++i) {
      if (items()[i].frame == frame) {
        here.members.push_back(i);
        entries.push_back({Entry::What::item, i});
        boxes.push_back(box_of(items()[i], sketch_.port_distance[i]));
      }
      for (int f = 0; f < static_cast<int>(frames().size()); ++f) {  // a frame stands where its first item does
        if (frames()[f].parent != frame || !inside(i, f) || std::ranges::count(here.frames, f)) continue;
        const Level& within = lay_out_level(f);
        here.frames.push_back(f);
        entries.push_back({Entry::What::frame, f});
        boxes.push_back({within.width, within.height, within.in, within.out});
      }
    }
    find_borders(frame, here);
    for (const int input : here.inputs) {
      entries.push_back({Entry::What::input, input});
      boxes.push_back({.width = 2, .height = 0, .in = {}, .out = {1}, .bottom = true});
    }
    for (const int output : here.outputs) {
      entries.push_back({Entry::What::output, output});
      boxes.push_back({.width = 2, .height = 0, .in = {1}, .out = {}, .top = true});
    }
    const auto [wires, negative] = wires_of(entries);
    const Placement placement = lay_out(boxes, wires);
    return settle(frame, entries, boxes, wires, negative, placement);
  }

  /// As far apart as the boxes whose lines go straight into the ports.
  double port_distance(const Item& item) const {
    double widest = 18;
    for (const int input : item.inputs) {
      const Item& read = items()[input];
      if (item.inputs.size() < 2 || read.frame != item.frame || read.form != Item::Form::box) continue;
      widest = std::max(widest, box_of(read, 18).width + Spacing{}.boxes);
    }
    return widest;
  }

  void find_borders(int frame, Level& here) const {
    if (frame < 0) return;
    const auto add = [](std::vector<int>& list, int item) {
      if (!std::ranges::count(list, item)) list.push_back(item);
    };
    for (int i = 0; i < static_cast<int>(items().size()); ++i) {
      for (const int input : items()[i].inputs) {
        if (inside(i, frame) && !inside(input, frame)) add(here.inputs, input);
        if (!inside(i, frame) && inside(input, frame)) add(here.outputs, input);
      }
    }
  }

  struct Wires {
    std::vector<Wire> wires;
    std::vector<char> negative;
  };
  Wires wires_of(const std::vector<Entry>& entries) {
    Wires result;
    const auto connect = [&](int source, int to, int port, bool negative) {
      for (int e = 0; e < static_cast<int>(entries.size()); ++e) {
        const Entry& entry = entries[e];
        int out = 0;
        if (entry.what == Entry::What::frame) {
          if (!inside(source, entry.number)) continue;
          const std::vector<int>& outputs = level(entry.number).outputs;
          out = static_cast<int>(std::ranges::find(outputs, source) - outputs.begin());
        } else if (entry.number != source || entry.what == Entry::What::output) {
          continue;
        }
        result.wires.push_back({e, out, to, port});
        result.negative.push_back(negative);
        return;
      }
    };
    for (int e = 0; e < static_cast<int>(entries.size()); ++e) {
      const auto [what, number] = entries[e];
      if (what == Entry::What::output) connect(number, e, 0, false);
      if (what != Entry::What::item && what != Entry::What::frame) continue;
      const std::vector<int>& inputs = what == Entry::What::item ? items()[number].inputs : level(number).inputs;
      for (int port = 0; port < static_cast<int>(inputs.size()); ++port) {
        connect(inputs[port], e, port, what == Entry::What::item && items()[number].minus == port);
      }
    }
    return result;
  }

  /// Takes over the places, with room for the frame's border and title.
  const Level& settle(int frame, const std::vector<Entry>& entries, const std::vector<Box>& boxes,
                      const std::vector<Wire>& wires, const std::vector<char>& negative, const Placement& placement) {
    Level& here = level(frame);
    const double side = frame < 0 ? 0 : 10, header = frame < 0 ? 0 : 8;
    here.width = placement.width + 2 * side;
    here.height = placement.height + header;
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const auto [what, number] = entries[e];
      const Rectangle place{placement.at[e].x + side, placement.at[e].y, boxes[e].width, boxes[e].height};
      if (what == Entry::What::item) sketch_.items[number] = place;
      if (what == Entry::What::frame) {
        sketch_.frames[number] = place;
        shift(level(number), place.x, place.y);
      }
      if (what == Entry::What::input) here.in.push_back(place.x + 1);
      if (what == Entry::What::output) here.out.push_back(place.x + 1);
    }
    for (std::size_t w = 0; w < wires.size(); ++w) {
      Line line{placement.wires[w], entries[wires[w].to].what == Entry::What::item, negative[w] != 0};
      const bool leaves = entries[wires[w].to].what == Entry::What::output;
      for (Point& point : line.points) point.x += side;
      if (leaves) line.points.back().y += header;  // up to the border
      if (entries[wires[w].to].what == Entry::What::item) {
        line.arrow = items()[entries[wires[w].to].number].form != Item::Form::gain;
      }
      here.lines.push_back(static_cast<int>(sketch_.lines.size()));
      sketch_.lines.push_back(std::move(line));
    }
    if (frame >= 0) place_title(frame, here);
    return here;
  }

  /// The title stands at the top left, or right of the lines that leave there.
  void place_title(int frame, Level& here) {
    const double width = text_width(frames()[frame].title) * frame_size;
    const double room = 8;
    std::vector<double> lines = here.out;
    std::ranges::sort(lines);
    double left = room;
    for (const double x : lines) {
      if (left + width + 6 > x) left = std::max(left, x + 6);
    }
    sketch_.titles[frame] = left;
    here.width = std::max(here.width, left + width + room);
  }

  void shift(const Level& level, double x, double y) {
    for (const int i : level.members) sketch_.items[i].x += x, sketch_.items[i].y += y;
    for (const int l : level.lines) {
      for (Point& point : sketch_.lines[l].points) point.x += x, point.y += y;
    }
    for (const int f : level.frames) {
      sketch_.frames[f].x += x, sketch_.frames[f].y += y;
      shift(levels_[f + 1], x, y);
    }
  }

  Sketch sketch_;
  std::vector<Level> levels_;  // of the whole, then of each frame
};

/// The places of all that is drawn; the same for the same diagram.
inline Sketch sketch_of(Diagram diagram) { return SketchMaker(std::move(diagram)).take(); }

}  // namespace simplx::drawing
