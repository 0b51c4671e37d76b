// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/ranks.hpp
/// The boxes of a directed graph in rows, from the bottom to the top, and the order within each row.
///
///     rows     the longest path from the bottom; boxes marked `late` stand right below what reads them
///     order    crossings of lines are few: rows are sorted by the mean place of their neighbours, up and down
///
/// A line that skips rows has a place of its own in each of them, so that no line can meet a box.
/// Source  Sugiyama, Tagawa & Toda 1981

#include <simplx/core/target.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::drawing {

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

/// A graph whose vertices stand in ordered rows.
struct Ranked {
  /// A box, or the place of a line in a row that it passes.
  struct Vertex {
    int box = -1, row = 0;
    double width = 0;
  };
  /// A line between two rows.
  struct Leg {
    int from = 0, to = 0;           // vertices
    double from_at = 0, to_at = 0;  // from the left side of the vertex
    int net = 0;                    // lines of one net come from one port
  };

  int rows = 0;
  std::vector<int> row;          ///< of each box
  std::vector<Vertex> vertices;  ///< the boxes first
  std::vector<Leg> legs;
  std::vector<std::vector<int>> path;       ///< the legs of each wire, from the bottom
  std::vector<std::vector<int>> order;      ///< the vertices of each row, from left to right
  std::vector<std::pair<int, int>> elbows;  ///< where lines turn into a circle's side, and their circles
};

/// Finds the rows of the boxes, the places of lines between them, and the order of both.
class RankMaker {
 public:
  RankMaker(const std::vector<Box>& boxes, const std::vector<Wire>& wires) : boxes_(boxes), wires_(wires) {
    find_rows();
    make_legs();
    find_order();
    make_elbows();
  }
  Ranked take() { return std::move(ranked_); }

 private:
  using Leg = Ranked::Leg;

  int count() const { return static_cast<int>(boxes_.size()); }

  void find_rows() {
    ranked_.row.assign(boxes_.size(), 0);
    for (bool changed = true; changed;) {  // boxes need not come in the order of the lines
      changed = false;
      for (const Wire& wire : wires_) {
        if (ranked_.row[wire.to] > ranked_.row[wire.from]) continue;
        ranked_.row[wire.to] = ranked_.row[wire.from] + 1;
        changed = true;
      }
    }
    for (const int row : ranked_.row) ranked_.rows = std::max(ranked_.rows, row + 1);
    for (int b = 0; b < count(); ++b) {
      if (boxes_[b].top) ranked_.row[b] = ranked_.rows - 1;
    }
    std::vector<char> has_input(boxes_.size());
    for (const Wire& wire : wires_) has_input[wire.to] = true;
    for (int pass = 0; pass < ranked_.rows; ++pass) {
      for (int b = 0; b < count(); ++b) {
        int lowest = ranked_.rows;
        for (const Wire& wire : wires_) {
          if (wire.from == b) lowest = std::min(lowest, ranked_.row[wire.to]);
        }
        const bool moves = boxes_[b].late || (!has_input[b] && !boxes_[b].bottom);
        if (moves && lowest < ranked_.rows) ranked_.row[b] = lowest - 1;
      }
    }
  }

  void make_legs() {
    ranked_.vertices.reserve(boxes_.size());
    for (int b = 0; b < count(); ++b) ranked_.vertices.push_back({b, ranked_.row[b], boxes_[b].width});
    ranked_.path.resize(wires_.size());
    std::vector<int> last_of_net(wires_.size(), -1);
    std::vector<std::vector<int>> chain(wires_.size());  // of a net: its vertex in each row above its box
    for (std::size_t w = 0; w < wires_.size(); ++w) {
      const Wire& wire = wires_[w];
      std::size_t net = 0;
      while (wires_[net].from != wire.from || wires_[net].out != wire.out) ++net;
      int from = wire.from;
      double from_at = boxes_[wire.from].out[wire.out];
      for (int row = ranked_.row[wire.from] + 1; row < ranked_.row[wire.to]; ++row) {
        const std::size_t step = row - ranked_.row[wire.from] - 1;
        if (step == chain[net].size()) {
          chain[net].push_back(static_cast<int>(ranked_.vertices.size()));
          ranked_.vertices.push_back({-1, row, 0});
          ranked_.legs.push_back({from, chain[net][step], from_at, 0, static_cast<int>(net)});
        }
        ranked_.path[w].push_back(leg_to(chain[net][step]));
        from = chain[net][step];
        from_at = 0;
      }
      const Box& to = boxes_[wire.to];
      ranked_.path[w].push_back(static_cast<int>(ranked_.legs.size()));
      ranked_.legs.push_back({from, wire.to, from_at, to.joins ? to.width / 2 : to.in[wire.in], static_cast<int>(net)});
    }
  }
  int leg_to(int vertex) const {
    return static_cast<int>(std::ranges::find(ranked_.legs, vertex, &Leg::to) - ranked_.legs.begin());
  }

  // ------------------------------------------------------------------------------------------------ the order

  double place_of(int vertex, double at) const {
    const double width = ranked_.vertices[vertex].width;
    return position_[vertex] + (width > 0 ? 0.9 * at / width : 0.45);
  }
  int crossings() const {
    int crossed = 0;
    for (std::size_t i = 0; i < ranked_.legs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Leg &a = ranked_.legs[i], &b = ranked_.legs[j];
        if (ranked_.vertices[a.to].row != ranked_.vertices[b.to].row || a.net == b.net) continue;
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
    ranked_.order.assign(ranked_.rows, {});
    position_.assign(ranked_.vertices.size(), 0);
    for (int v = 0; v < static_cast<int>(ranked_.vertices.size()); ++v) {
      ranked_.order[ranked_.vertices[v].row].push_back(v);
    }
    for (const auto& row : ranked_.order) number(row);
    auto best = ranked_.order;
    int fewest = crossings();
    for (int sweep = 0; sweep < 16 && fewest > 0; ++sweep) {
      const bool up = sweep % 2 == 0;
      for (int step = 1; step < ranked_.rows; ++step) {
        std::vector<int>& row = ranked_.order[up ? step : ranked_.rows - 1 - step];
        std::vector<double> mean(ranked_.vertices.size());
        for (const int v : row) {
          double sum = 0, number_of = 0;
          for (const Leg& leg : ranked_.legs) {
            if ((up ? leg.to : leg.from) != v) continue;
            sum += up ? place_of(leg.from, leg.from_at) : place_of(leg.to, leg.to_at);
            ++number_of;
          }
          mean[v] = number_of > 0 ? sum / number_of : position_[v];
        }
        std::ranges::stable_sort(row, {}, [&](int v) { return mean[v]; });
        number(row);
      }
      if (const int crossed = crossings(); crossed < fewest) fewest = crossed, best = ranked_.order;
    }
    ranked_.order = best;
    for (const auto& row : ranked_.order) number(row);
  }

  /// A circle's lines from the sides turn above its row's bottom: each gets a place beside the circle.
  void make_elbows() {
    for (int b = 0; b < count(); ++b) {
      if (!boxes_[b].joins) continue;
      std::vector<int> legs;
      for (int l = 0; l < static_cast<int>(ranked_.legs.size()); ++l) {
        if (ranked_.legs[l].to == b) legs.push_back(l);
      }
      std::ranges::stable_sort(legs, {}, [&](int l) {
        return place_of(ranked_.legs[l].from, ranked_.legs[l].from_at);
      });
      int below = legs.size() == 1 ? 0 : legs.size() == 2 ? -1 : 1;
      if (legs.size() == 2) {
        const bool first = is_skip(legs[0], legs[1]), second = is_skip(legs[1], legs[0]);
        if (first != second) below = first ? 1 : 0;
      }
      for (int i = 0; i < static_cast<int>(legs.size()); ++i) {
        const int side = below >= 0 ? i - below : i == 0 ? -1 : 1;
        if (side == 0) continue;
        const int elbow = static_cast<int>(ranked_.vertices.size());
        ranked_.vertices.push_back({-1, ranked_.row[b], 0});
        ranked_.legs[legs[i]].to = elbow;
        ranked_.legs[legs[i]].to_at = 0;
        ranked_.elbows.push_back({elbow, b});
        auto& row = ranked_.order[ranked_.row[b]];
        row.insert(std::ranges::find(row, b) + (side > 0), elbow);
      }
    }
    position_.resize(ranked_.vertices.size());
    for (const auto& row : ranked_.order) number(row);
  }
  /// Where a branch begins: below its gains and bends.
  int origin(int vertex) const {
    for (const Leg& leg : ranked_.legs) {
      const int box = ranked_.vertices[vertex].box;
      if (leg.to == vertex && (box < 0 || boxes_[box].late)) return origin(leg.from);
    }
    return vertex;
  }
  /// A line is a skip beside another if that one's branch begins above it.
  bool is_skip(int leg, int other) const {
    const int low = origin(ranked_.legs[leg].from), high = origin(ranked_.legs[other].from);
    std::vector<char> above(boxes_.size());
    above[low] = true;
    for (int row = 0; row < ranked_.rows; ++row) {
      for (const Wire& wire : wires_) {
        if (ranked_.row[wire.from] == row) above[wire.to] |= above[wire.from];
      }
    }
    return above[high];
  }

  const std::vector<Box>& boxes_;
  const std::vector<Wire>& wires_;
  Ranked ranked_;
  std::vector<int> position_;  // of each vertex in its row
};

/// The rows of boxes and lines; the same for the same input.
inline Ranked ranks_of(const std::vector<Box>& boxes, const std::vector<Wire>& wires) {
  return RankMaker(boxes, wires).take();
}

}  // namespace simplx::drawing
