// SPDX-License-Identifier: MIT
#include <simplx/report/layered.hpp>

#include "report/drawings.hpp"

using namespace test;

TEST_SUITE_BEGIN("report/layered");

namespace {
struct Graph {
  std::vector<Box> boxes;
  std::vector<Wire> wires;
};
Graph random_graph(std::uint64_t seed) {
  std::uint64_t draws = 0;
  const auto random = [&](std::uint64_t below) { return static_cast<int>(bits(seed, draws++) % below); };
  Graph graph;
  for (int b = 0, count = 2 + random(30); b < count; ++b) {
    const double width = 20 + random(80);
    Box box{.width = width, .height = 15.0 + random(40), .in = {}, .out = {width / 2}};
    box.joins = b > 1 && random(4) == 0;
    const int inputs = b == 0 ? 0 : box.joins ? 2 : 1 + random(3);
    for (int port = 0; port < inputs; ++port) {
      box.in.push_back(width * (port + 1) / (inputs + 1));
      const int near = std::max(0, b - 1 - random(3)), any = random(static_cast<std::uint64_t>(b));
      graph.wires.push_back({random(3) ? near : any, 0, b, port});
    }
    box.late = inputs == 1 && random(3) == 0;
    graph.boxes.push_back(box);
  }
  return graph;
}
}  // namespace

TEST_CASE("of random graphs: boxes lie apart, lines go from port to port around them, all within the size") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const auto [boxes, wires] = random_graph(seed);
    const Placement placement = lay_out(boxes, wires);
    std::vector<Rectangle> places;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      places.push_back({placement.at[b].x, placement.at[b].y, boxes[b].width, boxes[b].height});
      CHECK(contains({0, 0, placement.width, placement.height}, places[b]));
      for (std::size_t a = 0; a < b; ++a) CHECK(!overlap(places[a], places[b], -10));  // and there is air between them
    }
    for (std::size_t w = 0; w < wires.size(); ++w) {
      const std::vector<Point>& line = placement.wires[w];
      const Rectangle &from = places[wires[w].from], &to = places[wires[w].to];
      CHECK(line[0].x == doctest::Approx(from.x + boxes[wires[w].from].out[0]));
      CHECK(line[0].y == doctest::Approx(from.top()));
      if (!boxes[wires[w].to].joins) {
        CHECK(std::abs(line.back().x - to.x - boxes[wires[w].to].in[wires[w].in]) < 0.51);
        CHECK(line.back().y == doctest::Approx(to.y));
      }
      for (const Rectangle& place : places) CHECK(!meets(line, place));
      for (std::size_t i = 1; i < line.size(); ++i) {
        CHECK(std::min(std::abs(line[i].x - line[i - 1].x), std::abs(line[i].y - line[i - 1].y)) < 0.51);
        CHECK((line[i].x >= -0.01 && line[i].x <= placement.width + 0.01));
      }
    }
  }
}

TEST_CASE("a chain is one straight line; nothing has no size") {
  const std::vector<Box> boxes{{20, 10, {}, {10}}, {60, 10, {30}, {30}}, {40, 10, {20}, {}}};
  const Placement placement = lay_out(boxes, {{0, 0, 1, 0}, {1, 0, 2, 0}});
  CHECK(placement.wires[0].size() == 2);
  CHECK(placement.wires[1].size() == 2);
  CHECK(placement.at[0].x == 20);
  CHECK(placement.at[2].x == 10);
  CHECK(placement.width == 60);
  CHECK(placement.height == 30 + 2 * Spacing{}.channel);
  CHECK(lay_out({}, {}).width == 0);
}

TEST_CASE("an end stands at the very bottom of a row of taller boxes") {
  Box border{.width = 2, .height = 0, .in = {}, .out = {1}, .bottom = true};
  const std::vector<Box> boxes{border, {20, 40, {}, {10}}, {60, 10, {10, 50}, {}}};
  const Placement placement = lay_out(boxes, {{0, 0, 2, 0}, {1, 0, 2, 1}});
  CHECK(placement.at[0].y == 0);
  CHECK(placement.wires[0][0].y == 0);
}

TEST_SUITE_END();
