// SPDX-License-Identifier: MIT
//
// Random graphs, planned at run time, against a plain interpreter: every value and gradient of the plan lives
// where the plan says, in memory full of NaN, and only what the plan allows is read. SIMPLX_FUZZ sets the number
// of graphs.
#include <simplx/core/plan.hpp>

#include "planned.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace simplx;
using namespace test;

namespace {

bool differs(const double* a, const std::vector<double>& b, double begun = 0) {
  for (std::size_t e = 0; e < b.size(); ++e) {
    if (!(std::abs(a[e] - begun - b[e]) <= 1e-9 * std::max(1.0, std::abs(b[e])))) return true;
  }
  return false;
}
bool differs(const std::vector<double>& a, const std::vector<double>& b, double begun = 0) {
  return differs(a.data(), b, begun);
}

/// How often the graphs reach what the plan can do.
struct Coverage {
  long graphs = 0, too_large = 0, ops[op_count]{}, axes[axis_count]{};
  long shared = 0, over_value = 0, in_place = 0, idle = 0, epilogues = 0, kept_products = 0, recomputed = 0, reused = 0;
  long leaf_cleared = 0, leaf_accumulated = 0, argument_cleared = 0, argument_stored = 0, argument_accumulated = 0,
       repeated = 0;
  long fused_reductions = 0, bare_reductions = 0, reduced_parameters = 0, reduced_products = 0, reductions_beside = 0,
       maps_of_three = 0;
  long pruned = 0, above_stops = 0, frozen = 0, observed = 0, unobserved_gradients = 0, several_results = 0,
       unreached_inputs = 0;

  void count(const Planned& p, const std::vector<bool>& flows) {
    ++graphs;
    int results = 0;
    in_place += p.plan.in_place;
    Index columns[axis_count]{};
    for (int i = 0; i < p.graph.count(); ++i) {
      const Info& n = p.at(i);
      ++ops[static_cast<int>(p.graph.op[static_cast<std::size_t>(i)])];
      results += n.result;
      frozen += n.frozen;
      shared += p.plan.shares[i] != i;
      over_value += p.plan.over_value[i];
      recomputed += p.plan.recomputed[i];
      unreached_inputs += n.kind == Kind::input && n.wanted_input && p.plan.first_write[i] == never;
      if (n.observed) ++(p.fusion.wanted[i] ? observed : unobserved_gradients);
      if (!n.executes()) continue;
      ++axes[static_cast<int>(n.shape.axis)];
      columns[static_cast<int>(n.shape.axis)] += n.shape.cols;
      for (int k = 0; k < n.argument_count; ++k) {
        const int a = n.arguments[k];
        above_stops += flows[static_cast<std::size_t>(i)] && p.at(a).stops;
        for (int b = 0; b < k; ++b) repeated += n.arguments[b] == a;
        if (n.looped() || !p.fusion.wanted[i] || !p.fusion.wanted[a]) continue;
        argument_cleared += p.plan.argument_cleared[i][k];
        ++(p.plan.argument_write[i][k] == Write::store ? argument_stored : argument_accumulated);
      }
      pruned += !p.fusion.wanted[i] && depends(p, i);
      epilogues += p.fusion.finished_by[i] >= 0;
      kept_products += p.fusion.finished_by[i] >= 0 && p.plan.kept[i];
      if (p.fusion.group[i] != i) continue;
      idle += p.plan.idle[i];
      const int members = p.fusion.member_end[i] - p.fusion.member_begin[i];
      for (int m = p.fusion.member_begin[i]; m < p.fusion.member_end[i]; ++m) {
        maps_of_three += members > 1 && p.at(p.fusion.members[m]).argument_count == 3;
      }
      for (int l = p.fusion.leaf_begin[i]; l < p.fusion.leaf_end[i]; ++l) {
        const Kind kind = p.at(p.fusion.leaves[l]).kind;
        leaf_cleared += p.plan.leaf_cleared[l];
        leaf_accumulated +=
            p.fusion.wanted[i] && p.fusion.wanted[p.fusion.leaves[l]] && p.plan.leaf_write[l] == Write::accumulate;
        reduced_parameters += n.kind == Kind::reduction && kind == Kind::parameter;
        reduced_products += n.kind == Kind::reduction && kind == Kind::product;
      }
      if (n.kind != Kind::reduction) continue;
      const bool reduces = !(loop_shape(p.info.data(), i) == n.shape);
      if (reduces) ++(members > 1 ? fused_reductions : bare_reductions);
      int users = 0;
      for (int j = i + 1; j < p.graph.count(); ++j) {
        for (int k = 0; k < p.at(j).argument_count; ++k) users += p.at(j).arguments[k] == i;
      }
      reductions_beside += users > 1;
    }
    several_results += results > 1;
    for (int a = 1; a < axis_count; ++a) reused += p.layout.temporary.on[a] < columns[a];
  }
  static bool depends(const Planned& p, int node) {
    for (int k = 0; k < p.at(node).argument_count; ++k) {
      if (!p.at(node).stops && p.fusion.wanted[p.at(node).arguments[k]]) return true;
    }
    return false;
  }
};

/// Whether backward has a use for the value of a node: a pull-back reads it, or what is evaluated again.
bool has_a_use(const Planned& p, int node) {
  const auto reads = [&](int user, auto read_by) {
    for (int k = 0; k < p.at(user).argument_count; ++k) {
      if ((p.fusion.wanted[p.at(user).arguments[k]] || p.at(user).stack) && read_by(k)) return true;
    }
    return false;
  };
  if (p.fusion.wanted[node] && reads(node, [&](int k) { return p.at(node).reads_output >> k & 1; })) return true;
  for (int user = node + 1; user < p.graph.count(); ++user) {
    for (int b = 0; b < p.at(user).argument_count; ++b) {
      if (p.at(user).arguments[b] != node) continue;
      if (p.plan.recomputed[user]) return true;
      if (p.fusion.wanted[user] && reads(user, [&](int k) { return p.at(user).reads[k] >> b & 1; })) return true;
    }
  }
  return false;
}

/// Plans and runs one random graph; the name of what differs, or nothing.
std::string check_graph(std::uint64_t seed, TestGraph& graph, Coverage& coverage) {
  Random random{key_of(seed, "graph")};
  graph = random_graph(random);
  const auto size = static_cast<std::size_t>(graph.count());
  Numbers plain;
  plain.leaf.resize(size), plain.seed.resize(size), plain.own.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    const Info& info = graph.info[i];
    auto& numbers = info.result ? plain.seed[i] : info.stack ? plain.own[i] : plain.leaf[i];
    if (info.executes() && !info.result && !info.stack) continue;
    for (std::size_t e = 0; e < (info.stack ? static_cast<std::size_t>(info.shape.cols) : size_of(info.shape)); ++e) {
      numbers.push_back(info.kind == Kind::indices ? random.below(100) : 0.7 * random.number());
    }
  }
  interpret(graph, plain);
  for (const auto& values : plain.value) {
    for (const double x : values) {
      if (!(std::abs(x) < 1e4)) return ++coverage.too_large, "";  // products of products: nothing to compare
    }
  }

  Planned planned(graph);
  constexpr double begun = 1.5;  // gradients of parameters are added to what is there
  planned.value = plain.leaf;
  planned.own = plain.own;
  planned.gradient.resize(size), planned.own_gradient.resize(size);
  int carry = -1;
  for (std::size_t i = 0; i < size; ++i) {
    const Info& info = graph.info[i];
    const int node = static_cast<int>(i);
    planned.own_gradient[i].assign(plain.own[i].size(), begun);
    const bool spent = planned.plan.recomputed[i] || (planned.plan.kept[i] && info.executes() && !info.observed);
    if (spent && !has_a_use(planned, node)) return "what is kept or evaluated again for nothing, %" + std::to_string(i);
    if (info.executes() && planned.fusion.wanted[i] != plain.flows[i]) {
      return "whether a gradient flows through %" + std::to_string(i);
    }
    if (info.result) {
      planned.value[i].assign(size_of(info.shape), unset);
      planned.gradient[i] = plain.seed[i];
    } else if (info.kind == Kind::parameter) {
      planned.gradient[i].assign(size_of(info.shape), begun);
    } else if (info.kind == Kind::input) {
      planned.gradient[i].assign(size_of(info.shape), planned.plan.first_write[node] == never ? 0 : unset);
      if (info.carry) carry = node;
    }
  }
  planned.forward();
  planned.backward();

  if (!planned.guards_hold()) return "the end of a region";
  for (std::size_t i = 0; i < size; ++i) {
    const Info& info = graph.info[i];
    const int node = static_cast<int>(i);
    const std::string name = " of %" + std::to_string(i);
    if ((info.result || info.observed) && differs(planned.value_at(node), plain.value[i])) return "value" + name;
    if (info.stack && differs(planned.own_gradient[i], plain.own_gradient[i], begun)) {
      return "gradient of the parameters" + name;
    }
    if (info.kind == Kind::parameter) {
      const std::vector<double> none(size_of(info.shape), 0);
      if (differs(planned.gradient[i], info.frozen ? none : plain.gradient[i], begun)) return "gradient" + name;
    } else if (info.observed && plain.flows[i]) {
      if (differs(planned.gradient_at(node), plain.gradient[i])) return "gradient" + name;
    } else if (info.kind == Kind::input && info.wanted_input) {
      const int home = node == carry && planned.plan.in_place ? planned.plan.shares[node] : node;
      if (differs(planned.gradient[static_cast<std::size_t>(home)], plain.gradient[i])) return "gradient" + name;
    }
  }
  coverage.count(planned, plain.flows);
  return {};
}

}  // namespace

TEST_SUITE_BEGIN("core/plan");

TEST_CASE("random graphs, planned at run time, agree with a plain interpreter") {
  const char* setting = std::getenv("SIMPLX_FUZZ");
  const long graphs = setting ? std::atol(setting) : 10000;
  Coverage seen;
  for (long seed = 0; seed < graphs; ++seed) {
    TestGraph graph;
    std::string difference;
    try {
      difference = check_graph(static_cast<std::uint64_t>(seed), graph, seen);
    } catch (const PlanFault& fault) {
      difference = fault.what();
    }
    if (!difference.empty()) {
      FAIL("seed " << seed << ": " << difference << "\n" << print(graph));
    }
  }
  CHECK(seen.too_large < graphs / 10);
  for (int op = 0; op < op_count; ++op) {
    const std::string name = op_names[op];
    CAPTURE(name);
    CHECK(seen.ops[op] > graphs / 12);
  }
  for (int axis = 0; axis < axis_count; ++axis) {
    CAPTURE(axis);
    CHECK(seen.axes[axis] > graphs / 3);
  }
#define SIMPLX_OFTEN(feature, one_in) CHECK_MESSAGE(seen.feature * (one_in) > graphs, seen.feature)
  SIMPLX_OFTEN(shared, 2);
  SIMPLX_OFTEN(over_value, 10);
  SIMPLX_OFTEN(in_place, 10);
  SIMPLX_OFTEN(idle, 20);
  SIMPLX_OFTEN(epilogues, 50);
  SIMPLX_OFTEN(kept_products, 50);
  SIMPLX_OFTEN(recomputed, 10);
  SIMPLX_OFTEN(reused, 2);
  SIMPLX_OFTEN(leaf_cleared, 5);
  SIMPLX_OFTEN(leaf_accumulated, 2);
  SIMPLX_OFTEN(argument_cleared, 5);
  SIMPLX_OFTEN(argument_stored, 2);
  SIMPLX_OFTEN(argument_accumulated, 2);
  SIMPLX_OFTEN(repeated, 5);
  SIMPLX_OFTEN(fused_reductions, 20);
  SIMPLX_OFTEN(bare_reductions, 2);
  SIMPLX_OFTEN(reduced_parameters, 20);
  SIMPLX_OFTEN(reduced_products, 100);
  SIMPLX_OFTEN(reductions_beside, 5);
  SIMPLX_OFTEN(maps_of_three, 20);
  SIMPLX_OFTEN(pruned, 100);
  SIMPLX_OFTEN(above_stops, 50);
  SIMPLX_OFTEN(frozen, 8);
  SIMPLX_OFTEN(observed, 10);
  SIMPLX_OFTEN(unobserved_gradients, 100);
  SIMPLX_OFTEN(several_results, 5);
  SIMPLX_OFTEN(unreached_inputs, 100);
#undef SIMPLX_OFTEN
}

TEST_SUITE_END();
