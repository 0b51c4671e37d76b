// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/layered.hpp
/// Places the boxes of a directed graph in its rows (report/ranks.hpp), and leads its lines between them.
///
///     columns  a line is straight if all before it may stay so: equations x_v + p_v = x_u + p_u are added to the
///              inequalities "u is left of v" while they can be solved; what is free then moves to its neighbours
///     lines    run along the channels between rows, in tracks, and pass a row where no box stands
///
/// Source  straight lines first: Brandes & Koepf 2001

#include <simplx/report/ranks.hpp>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET::drawing {

/// A place of a drawing.
struct Point {
  double x = 0, y = 0;  ///< y grows upwards
};

/// Where boxes and wires of a drawing lie.
struct Placement {
  std::vector<Point> at;                  ///< of each box, the left bottom corner
  std::vector<std::vector<Point>> wires;  ///< of each wire, its corners
  double width = 0, height = 0;
};

/// Distances of a drawing.
struct Spacing {
  double boxes = 16, lines = 13, channel = 20, track = 9;
};

/// Finds the columns of the vertices and the heights of the rows, then the corners of the lines.
class Layered {
 public:
  Layered(const std::vector<Box>& boxes, const std::vector<Wire>& wires, const Spacing& spacing)
      : boxes_(boxes), wires_(wires), gap_(spacing), ranked_(ranks_of(boxes, wires)) {}

  Placement place() {
    find_columns();
    find_heights();
    return lead_lines();
  }

 private:
  using Vertex = Ranked::Vertex;
  using Leg = Ranked::Leg;

  /// x of b is at least x of a plus distance.
  struct Apart {
    int a = 0, b = 0;
    double distance = 0;
  };

  int count() const { return static_cast<int>(boxes_.size()); }

  // ---------------------------------------------------------------------------------------------- the columns

  double distance(int left, int right) const {
    const bool lines = ranked_.vertices[left].box < 0 || ranked_.vertices[right].box < 0;
    return ranked_.vertices[left].width + (lines ? gap_.lines : gap_.boxes);
  }

  /// The smallest solution above x_, if there is one.
  bool solve(const std::vector<Apart>& rules) {
    for (std::size_t round = 0; round <= ranked_.vertices.size() + 1; ++round) {
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
    for (const Leg& other : ranked_.legs) {
      out += other.from == leg.from;
      out_boxes += other.from == leg.from && ranked_.vertices[other.to].box >= 0;
      in += other.to == leg.to;
    }
    const bool to_box = ranked_.vertices[leg.to].box >= 0;
    if (ranked_.vertices[leg.from].box < 0 && !to_box) return 0;
    const bool only = out == 1 || (out_boxes == 1 && to_box);
    return only && in == 1 ? 1 : only ? 2 : out_boxes > 1 || to_box ? 4 : 3;
  }

  void find_columns() {
    x_.assign(ranked_.vertices.size(), 0);
    std::vector<Apart> rules;
    for (const auto& row : ranked_.order) {
      for (std::size_t i = 1; i < row.size(); ++i) rules.push_back({row[i - 1], row[i], distance(row[i - 1], row[i])});
    }
    solve(rules);
    block_.resize(ranked_.vertices.size());
    std::iota(block_.begin(), block_.end(), 0);
    const std::size_t rows_only = rules.size();
    for (int wanted = 0; wanted < 4; ++wanted) {
      for (const Leg& leg : ranked_.legs) {
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
    for (const Leg& leg : ranked_.legs) pulls.push_back({leg.from, leg.to, leg.from_at - leg.to_at});
    for (const auto& [elbow, circle] : ranked_.elbows) pulls.push_back({elbow, circle, -boxes_[circle].width / 2});
    for (int sweep = 0; sweep < 200; ++sweep) {
      for (std::size_t v = 0; v < ranked_.vertices.size(); ++v) {
        const int block = sweep % 2 ? static_cast<int>(ranked_.vertices.size() - 1 - v) : static_cast<int>(v);
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
    bottom_.assign(ranked_.rows, 0), tall_.assign(ranked_.rows, 0), tracks_.assign(ranked_.rows, {});
    for (const Vertex& vertex : ranked_.vertices) {
      if (vertex.box >= 0) tall_[vertex.row] = std::max(tall_[vertex.row], boxes_[vertex.box].height);
    }
    for (int row = 1; row < ranked_.rows; ++row) {
      std::vector<Track>& tracks = tracks_[row];
      for (const Leg& leg : ranked_.legs) {
        if (ranked_.vertices[leg.to].row != row) continue;
        auto track = std::ranges::find(tracks, leg.net, &Track::net);
        if (track == tracks.end()) track = tracks.insert(track, {leg.net, from_x(leg), {}});
        track->to.push_back(to_x(leg));
      }
      std::erase_if(tracks, [](const Track& track) { return track.right() - track.left() < 0.5; });
      for (std::size_t pass = 0; pass < tracks.size(); ++pass) {
        for (std::size_t i = 1; i < tracks.size(); ++i) {
          Track &low = tracks[i - 1], &high = tracks[i];
          if (conflict(low, high) > conflict(high, low)) std::swap(low, high);
        }
      }
      const double room = std::max(gap_.channel, gap_.track * static_cast<double>(tracks.size() + 1));
      bottom_[row] = bottom_[row - 1] + tall_[row - 1] + room;
    }
  }
  double track_y(const Leg& leg) const {
    const int row = ranked_.vertices[leg.to].row;
    const std::vector<Track>& tracks = tracks_[row];
    const auto track = std::ranges::find(tracks, leg.net, &Track::net);
    const double low = bottom_[row - 1] + tall_[row - 1], room = bottom_[row] - low;
    return low + room * static_cast<double>(track - tracks.begin() + 1) / static_cast<double>(tracks.size() + 1);
  }
  /// In the middle of its row; the ends stand at the very bottom and top, where a frame has its border.
  double box_y(int box) const {
    const double room = tall_[ranked_.row[box]] - boxes_[box].height;
    return bottom_[ranked_.row[box]] + (boxes_[box].bottom ? 0 : boxes_[box].top ? room : room / 2);
  }

  Placement lead_lines() const {
    Placement placement;
    for (int b = 0; b < count(); ++b) {
      placement.at.push_back({x_[b], box_y(b)});
      placement.width = std::max(placement.width, x_[b] + boxes_[b].width);
    }
    for (const double x : x_) placement.width = std::max(placement.width, x);
    placement.height = ranked_.rows > 0 ? bottom_[ranked_.rows - 1] + tall_[ranked_.rows - 1] : 0;
    for (std::size_t w = 0; w < wires_.size(); ++w) {
      const Wire& wire = wires_[w];
      const Leg& first = ranked_.legs[ranked_.path[w][0]];
      std::vector<Point> points{{from_x(first), box_y(wire.from) + boxes_[wire.from].height}};
      for (const int l : ranked_.path[w]) {
        const Leg& leg = ranked_.legs[l];
        if (std::abs(from_x(leg) - to_x(leg)) < 0.5) continue;
        const double y = track_y(leg);
        points.push_back({from_x(leg), y});
        points.push_back({to_x(leg), y});
      }
      const Leg& last = ranked_.legs[ranked_.path[w].back()];
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
  Ranked ranked_;
  std::vector<double> x_;              // of each vertex
  std::vector<int> block_;             // vertices that move together
  std::vector<double> bottom_, tall_;  // of each row
  std::vector<std::vector<Track>> tracks_;
};

/// The places of boxes and lines; the same for the same input.
inline Placement lay_out(const std::vector<Box>& boxes, const std::vector<Wire>& wires, const Spacing& spacing = {}) {
  if (boxes.empty()) return {};
  return Layered(boxes, wires, spacing).place();
}

}  // namespace simplx::drawing
