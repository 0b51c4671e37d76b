// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/layered.hpp
/// Places the boxes of a directed graph in rows, from the bottom to the top, and leads its lines between them.
///
///     rows     the longest path from the bottom; boxes marked `late` stand right below what reads them
///     order    crossings of lines are few: rows are sorted by the mean place of their neighbours, up and down
///     columns  a line is straight if all before it may stay so: equations x_v + p_v = x_u + p_u are added to the
///              inequalities "u is left of v" while they can be solved; what is free then moves to its neighbours
///     lines    run along the channels between rows, in tracks, and pass a row where no box stands
///
/// A line that skips rows has a place of its own in each of them, so that no line can meet a box.
/// Source  Sugiyama, Tagawa & Toda 1981; straight lines first: Brandes & Koepf 2001

#include <simplx/core/target.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::drawing {

struct Point {
  double x = 0, y = 0;  ///< y grows upwards
};

/// What has to be placed. `in` and `out` are where lines arrive below and leave above, from its left side.
struct Box {
  double width = 0, height = 0;
  std::vector<double> in, out;
  bool bottom = false, top = false;  ///< stands in the first, in the last row
  bool late = false;                 ///< a gain: stands right below what reads it, and is no end of a branch
  bool joins = false;                ///< a circle: lines arrive from below and from both sides, in any order
};

/// A line from an out port to an in port; of a circle the port is a number of its own from 0.
struct Wire {
  int from = 0, out = 0, to = 0, in = 0;
};

struct Placement {
  std::vector<Point> at;                  ///< of each box, the left bottom corner
  std::vector<std::vector<Point>> wires;  ///< of each wire, its corners
  double width = 0, height = 0;
};

/// Distances of a drawing.
struct Spacing {
  double boxes = 16, lines = 13, channel = 20, track = 9;
};

class Layered {
 public:
  Layered(const std::vector<Box>& boxes, const std::vector<Wire>& wires, const Spacing& spacing)
      : boxes_(boxes), wires_(wires), gap_(spacing) {}

  Placement place() {
    find_rows();
    make_legs();
    find_order();
    make_elbows();
    find_columns();
    find_heights();
    return lead_lines();
  }

 private:
  /// A box, or the place of a line in a row that it passes.
  struct Vertex {
    int box = -1, row = 0;
    double width = 0;
  };
  /// A line between two rows.
  struct Leg {
    int from = 0, to = 0;          // vertices
    double from_at = 0, to_at = 0;  // from the left side of the vertex
    int net = 0;                   // lines of one net come from one port
  };
  /// x of b is at least x of a plus distance.
  struct Apart {
    int a = 0, b = 0;
    double distance = 0;
  };

  int count() const { return static_cast<int>(boxes_.size()); }

  void find_rows() {
    row_.assign(boxes_.size(), 0);
    const auto raise = [&](int first) {  // boxes need not come in the order of the lines
      for (bool changed = true; changed;) {
        changed = false;
        for (const Wire& wire : wires_) {
          if (row_[wire.to] > row_[wire.from]) continue;
          row_[wire.to] = row_[wire.from] + 1;
          changed = true;
        }
      }
      for (int b = first; b < count(); ++b) rows_ = std::max(rows_, row_[b] + 1);
    };
    raise(0);
    for (int b = 0; b < count(); ++b) {
      if (boxes_[b].top) row_[b] = rows_ - 1;
    }
    std::vector<char> has_input(boxes_.size());
    for (const Wire& wire : wires_) has_input[wire.to] = true;
    for (int pass = 0; pass < rows_; ++pass) {
      for (int b = 0; b < count(); ++b) {
        int lowest = rows_;
        for (const Wire& wire : wires_) {
          if (wire.from == b) lowest = std::min(lowest, row_[wire.to]);
        }
        const bool moves = boxes_[b].late || (!has_input[b] && !boxes_[b].bottom);
        if (moves && lowest < rows_) row_[b] = lowest - 1;
      }
    }
  }

  void make_legs() {
    vertices_.reserve(boxes_.size());
    for (int b = 0; b < count(); ++b) vertices_.push_back({b, row_[b], boxes_[b].width});
    path_.resize(wires_.size());
    std::vector<int> last_of_net(wires_.size(), -1);
    std::vector<std::vector<int>> chain(wires_.size());  // of a net: its vertex in each row above its box
    for (std::size_t w = 0; w < wires_.size(); ++w) {
      const Wire& wire = wires_[w];
      std::size_t net = 0;
      while (wires_[net].from != wire.from || wires_[net].out != wire.out) ++net;
      int from = wire.from;
      double from_at = boxes_[wire.from].out[wire.out];
      for (int row = row_[wire.from] + 1; row < row_[wire.to]; ++row) {
        const std::size_t step = row - row_[wire.from] - 1;
        if (step == chain[net].size()) {
          chain[net].push_back(static_cast<int>(vertices_.size()));
          vertices_.push_back({-1, row, 0});
          legs_.push_back({from, chain[net][step], from_at, 0, static_cast<int>(net)});
        }
        path_[w].push_back(leg_to(chain[net][step]));
        from = chain[net][step];
        from_at = 0;
      }
      const Box& to = boxes_[wire.to];
      path_[w].push_back(static_cast<int>(legs_.size()));
      legs_.push_back({from, wire.to, from_at, to.joins ? to.width / 2 : to.in[wire.in], static_cast<int>(net)});
    }
  }
  int leg_to(int vertex) const {
    return static_cast<int>(std::ranges::find(legs_, vertex, &Leg::to) - legs_.begin());
  }

  // ------------------------------------------------------------------------------------------------ the order

  double place_of(int vertex, double at) const {
    const double width = vertices_[vertex].width;
    return position_[vertex] + (width > 0 ? 0.9 * at / width : 0.45);
  }
  int crossings() const {
    int crossed = 0;
    for (std::size_t i = 0; i < legs_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Leg &a = legs_[i], &b = legs_[j];
        if (vertices_[a.to].row != vertices_[b.to].row || a.net == b.net) continue;
        const double below = place_of(a.from, a.from_at) - place_of(b.from, b.from_at);
        const double above = place_of(a.to, a.to_at) - place_of(b.to, b.to_at);
        crossed += below * above < 0;
      }
    }
    return crossed;
  }
  void number(const std::vector<int>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) position_[row[i]] = static_cast<int>(i);
  }

  void find_order() {
    order_.assign(rows_, {});
    position_.assign(vertices_.size(), 0);
    for (int v = 0; v < static_cast<int>(vertices_.size()); ++v) order_[vertices_[v].row].push_back(v);
    for (const auto& row : order_) number(row);
    auto best = order_;
    int fewest = crossings();
    for (int sweep = 0; sweep < 16 && fewest > 0; ++sweep) {
      const bool up = sweep % 2 == 0;
      for (int step = 1; step < rows_; ++step) {
        std::vector<int>& row = order_[up ? step : rows_ - 1 - step];
        std::vector<double> mean(vertices_.size());
        for (const int v : row) {
          double sum = 0, number_of = 0;
          for (const Leg& leg : legs_) {
            if ((up ? leg.to : leg.from) != v) continue;
            sum += up ? place_of(leg.from, leg.from_at) : place_of(leg.to, leg.to_at);
            ++number_of;
          }
          mean[v] = number_of > 0 ? sum / number_of : position_[v];
        }
        std::ranges::stable_sort(row, {}, [&](int v) { return mean[v]; });
        number(row);
      }
      if (const int crossed = crossings(); crossed < fewest) fewest = crossed, best = order_;
    }
    order_ = best;
    for (const auto& row : order_) number(row);
  }

  /// A circle's lines from the sides turn above its row's bottom: each gets a place beside the circle.
  void make_elbows() {
    for (int b = 0; b < count(); ++b) {
      if (!boxes_[b].joins) continue;
      std::vector<int> legs;
      for (int l = 0; l < static_cast<int>(legs_.size()); ++l) {
        if (legs_[l].to == b) legs.push_back(l);
      }
      std::ranges::stable_sort(legs, {}, [&](int l) { return place_of(legs_[l].from, legs_[l].from_at); });
      int below = legs.size() == 1 ? 0 : legs.size() == 2 ? -1 : 1;
      if (legs.size() == 2) {
        const bool first = is_skip(legs[0], legs[1]), second = is_skip(legs[1], legs[0]);
        if (first != second) below = first ? 1 : 0;
      }
      for (int i = 0; i < static_cast<int>(legs.size()); ++i) {
        const int side = below >= 0 ? i - below : i == 0 ? -1 : 1;
        if (side == 0) continue;
        const int elbow = static_cast<int>(vertices_.size());
        vertices_.push_back({-1, row_[b], 0});
        legs_[legs[i]].to = elbow;
        legs_[legs[i]].to_at = 0;
        elbows_.push_back({elbow, b});
        auto& row = order_[row_[b]];
        row.insert(std::ranges::find(row, b) + (side > 0), elbow);
      }
    }
    position_.resize(vertices_.size());
    for (const auto& row : order_) number(row);
  }
  /// Where a branch begins: below its gains and bends.
  int origin(int vertex) const {
    for (const Leg& leg : legs_) {
      if (leg.to == vertex && (vertices_[vertex].box < 0 || boxes_[vertices_[vertex].box].late)) return origin(leg.from);
    }
    return vertex;
  }
  /// A line is a skip beside another if that one's branch begins above it.
  bool is_skip(int leg, int other) const {
    const int low = origin(legs_[leg].from), high = origin(legs_[other].from);
    std::vector<char> above(boxes_.size());
    above[low] = true;
    for (int row = 0; row < rows_; ++row) {
      for (const Wire& wire : wires_) {
        if (row_[wire.from] == row) above[wire.to] |= above[wire.from];
      }
    }
    return above[high];
  }

  // ---------------------------------------------------------------------------------------------- the columns

  double distance(int left, int right) const {
    const bool lines = vertices_[left].box < 0 || vertices_[right].box < 0;
    return vertices_[left].width + (lines ? gap_.lines : gap_.boxes);
  }

  /// The smallest solution above x_, if there is one.
  bool solve(const std::vector<Apart>& rules) {
    for (std::size_t round = 0; round <= vertices_.size() + 1; ++round) {
      bool changed = false;
      for (const Apart& rule : rules) {
        if (x_[rule.a] + rule.distance <= x_[rule.b] + 1e-6) continue;
        x_[rule.b] = x_[rule.a] + rule.distance;
        changed = true;
      }
      if (!changed) return true;
    }
    return false;
  }

  /// How much it matters that a leg is straight; 4: not at all.
  int priority(const Leg& leg) const {
    int out = 0, out_boxes = 0, in = 0;
    for (const Leg& other : legs_) {
      out += other.from == leg.from;
      out_boxes += other.from == leg.from && vertices_[other.to].box >= 0;
      in += other.to == leg.to;
    }
    const bool to_box = vertices_[leg.to].box >= 0;
    if (vertices_[leg.from].box < 0 && !to_box) return 0;
    const bool only = out == 1 || (out_boxes == 1 && to_box);
    return only && in == 1 ? 1 : only ? 2 : out_boxes > 1 || to_box ? 4 : 3;
  }

  void find_columns() {
    x_.assign(vertices_.size(), 0);
    std::vector<Apart> rules;
    for (const auto& row : order_) {
      for (std::size_t i = 1; i < row.size(); ++i) rules.push_back({row[i - 1], row[i], distance(row[i - 1], row[i])});
    }
    solve(rules);
    block_.resize(vertices_.size());
    std::iota(block_.begin(), block_.end(), 0);
    const std::size_t rows_only = rules.size();
    for (int wanted = 0; wanted < 4; ++wanted) {
      for (const Leg& leg : legs_) {
        if (priority(leg) != wanted) continue;
        const std::vector<double> before = x_;
        const double shift = leg.from_at - leg.to_at;
        rules.push_back({leg.from, leg.to, shift});
        rules.push_back({leg.to, leg.from, -shift});
        if (solve(rules)) {
          const int merged = block_[leg.to], into = block_[leg.from];
          std::ranges::replace(block_, merged, into);
        } else {
          x_ = before;
          rules.resize(rules.size() - 2);
        }
      }
    }
    rules.resize(rows_only);
    relax(rules);
    const double left = *std::ranges::min_element(x_);
    for (double& x : x_) x -= left;
  }

  /// Moves what is free to the mean of its neighbours, as far as there is room.
  void relax(const std::vector<Apart>& rules) {
    struct Pull {
      int a, b;
      double shift;  // b wants to stand at a + shift
    };
    std::vector<Pull> pulls;
    for (const Leg& leg : legs_) pulls.push_back({leg.from, leg.to, leg.from_at - leg.to_at});
    for (const auto& [elbow, circle] : elbows_) pulls.push_back({elbow, circle, -vertices_[circle].width / 2});
    for (int sweep = 0; sweep < 200; ++sweep) {
      for (std::size_t v = 0; v < vertices_.size(); ++v) {
        const int block = sweep % 2 ? static_cast<int>(vertices_.size() - 1 - v) : static_cast<int>(v);
        double sum = 0, number_of = 0, low = -1e9, high = 1e9;
        for (const Pull& pull : pulls) {
          if ((block_[pull.a] == block) == (block_[pull.b] == block)) continue;
          const double wish = x_[pull.a] + pull.shift - x_[pull.b];
          sum += block_[pull.b] == block ? wish : -wish;
          ++number_of;
        }
        if (number_of == 0) continue;
        for (const Apart& rule : rules) {
          if ((block_[rule.a] == block) == (block_[rule.b] == block)) continue;
          const double slack = x_[rule.b] - x_[rule.a] - rule.distance;
          if (block_[rule.a] == block) high = std::min(high, slack);
          else low = std::max(low, -slack);
        }
        const double move = std::clamp(sum / number_of, std::min(low, 0.0), std::max(high, 0.0));
        for (std::size_t i = 0; i < x_.size(); ++i) {
          if (block_[i] == block) x_[i] += move;
        }
      }
    }
  }

  // ------------------------------------------------------------------------------- the channels between rows

  double from_x(const Leg& leg) const { return x_[leg.from] + leg.from_at; }
  double to_x(const Leg& leg) const { return x_[leg.to] + leg.to_at; }

  /// A net in the channel below a row, where it runs sideways.
  struct Track {
    int net = 0;
    double from = 0;
    std::vector<double> to;
    double left() const { return std::min(from, *std::ranges::min_element(to)); }
    double right() const { return std::max(from, *std::ranges::max_element(to)); }
    bool spans(double x) const { return left() - 1 < x && x < right() + 1; }
  };
  /// What is wrong where `low` runs below `high`: lines that cross, and lines that would lie upon each other.
  static int conflict(const Track& low, const Track& high) {
    int cost = low.spans(high.from);
    for (const double x : low.to) cost += high.spans(x);
    for (const double x : low.to) cost += std::abs(x - high.from) < 4 ? 1000 : 0;
    return cost;
  }

  void find_heights() {
    bottom_.assign(rows_, 0), tall_.assign(rows_, 0), tracks_.assign(rows_, {});
    for (const Vertex& vertex : vertices_) {
      if (vertex.box >= 0) tall_[vertex.row] = std::max(tall_[vertex.row], boxes_[vertex.box].height);
    }
    for (int row = 1; row < rows_; ++row) {
      std::vector<Track>& tracks = tracks_[row];
      for (const Leg& leg : legs_) {
        if (vertices_[leg.to].row != row) continue;
        auto track = std::ranges::find(tracks, leg.net, &Track::net);
        if (track == tracks.end()) track = tracks.insert(track, {leg.net, from_x(leg), {}});
        track->to.push_back(to_x(leg));
      }
      std::erase_if(tracks, [](const Track& track) { return track.right() - track.left() < 0.5; });
      for (std::size_t pass = 0; pass < tracks.size(); ++pass) {
        for (std::size_t i = 1; i < tracks.size(); ++i) {
          if (conflict(tracks[i - 1], tracks[i]) > conflict(tracks[i], tracks[i - 1])) std::swap(tracks[i - 1], tracks[i]);
        }
      }
      const double room = std::max(gap_.channel, gap_.track * static_cast<double>(tracks.size() + 1));
      bottom_[row] = bottom_[row - 1] + tall_[row - 1] + room;
    }
  }
  double track_y(const Leg& leg) const {
    const int row = vertices_[leg.to].row;
    const auto track = std::ranges::find(tracks_[row], leg.net, &Track::net);
    const double low = bottom_[row - 1] + tall_[row - 1], room = bottom_[row] - low;
    return low + room * static_cast<double>(track - tracks_[row].begin() + 1) / static_cast<double>(tracks_[row].size() + 1);
  }
  double box_y(int box) const { return bottom_[row_[box]] + (tall_[row_[box]] - boxes_[box].height) / 2; }

  Placement lead_lines() const {
    Placement placement;
    for (int b = 0; b < count(); ++b) {
      placement.at.push_back({x_[b], box_y(b)});
      placement.width = std::max(placement.width, x_[b] + boxes_[b].width);
    }
    for (const double x : x_) placement.width = std::max(placement.width, x);
    placement.height = rows_ > 0 ? bottom_[rows_ - 1] + tall_[rows_ - 1] : 0;
    for (std::size_t w = 0; w < wires_.size(); ++w) {
      const Wire& wire = wires_[w];
      std::vector<Point> points{{from_x(legs_[path_[w][0]]), box_y(wire.from) + boxes_[wire.from].height}};
      for (const int l : path_[w]) {
        const Leg& leg = legs_[l];
        if (std::abs(from_x(leg) - to_x(leg)) < 0.5) continue;
        const double y = track_y(leg);
        points.push_back({from_x(leg), y});
        points.push_back({to_x(leg), y});
      }
      const Leg& last = legs_[path_[w].back()];
      if (last.to < count()) {
        points.push_back({to_x(last), box_y(wire.to)});
      } else {
        const double y = box_y(wire.to) + boxes_[wire.to].height / 2;
        const bool left = to_x(last) < x_[wire.to];
        points.push_back({to_x(last), y});
        points.push_back({x_[wire.to] + (left ? 0 : boxes_[wire.to].width), y});
      }
      placement.wires.push_back(std::move(points));
    }
    return placement;
  }

  const std::vector<Box>& boxes_;
  const std::vector<Wire>& wires_;
  Spacing gap_;
  int rows_ = 0;
  std::vector<int> row_;
  std::vector<Vertex> vertices_;        // the boxes first
  std::vector<Leg> legs_;
  std::vector<std::vector<int>> path_;  // the legs of each wire
  std::vector<std::vector<int>> order_;
  std::vector<int> position_;
  std::vector<std::pair<int, int>> elbows_;  // and their circles
  std::vector<double> x_;
  std::vector<int> block_;  // vertices that move together
  std::vector<double> bottom_, tall_;
  std::vector<std::vector<Track>> tracks_;
};

/// The places of boxes and lines; the same for the same input.
inline Placement lay_out(const std::vector<Box>& boxes, const std::vector<Wire>& wires, const Spacing& spacing = {}) {
  if (boxes.empty()) return {};
  return Layered(boxes, wires, spacing).place();
}

}  // namespace simplx::drawing
