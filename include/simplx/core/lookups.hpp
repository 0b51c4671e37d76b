// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/lookups.hpp
/// What a graph looks up in tables, by an index or by the place in a sequence: this bounds what it may be given.

#include <simplx/core/graph.hpp>
#include <simplx/core/op.hpp>

#include <array>
#include <concepts>

namespace simplx::inline SIMPLX_TARGET {

/// Of lengths and indices that no table bounds.
inline constexpr Index no_limit = Index(1) << 30;

/// An op that takes rows of a table by the indices of an input.
struct Lookup {
  int indices = 0;       ///< the node of that input
  Shape table{};         ///< an index is one of its rows
  bool ignores = false;  ///< or -100
};

namespace detail {

/// Those of a graph. Its stacks have none: their blocks see no inputs (rule "input in a block").
template <class G>
struct LookupsOf {
  struct Nodes {
    int node[G::count]{}, indices[G::count]{};
    int count = 0;
  };
  static constexpr Nodes nodes = [] {
    Nodes found;
    for (int i = 0; i < G::count; ++i) {
      const Info& info = G::table.info[i];
      for (int a = 0; a < info.argument_count && info.kind == Kind::kernel; ++a) {
        if (G::table.info[info.arguments[a]].kind != Kind::indices) continue;
        found.node[found.count] = i;
        found.indices[found.count++] = info.arguments[a];
      }
    }
    return found;
  }();
  static constexpr std::array<Lookup, static_cast<std::size_t>(nodes.count)> all = [] {
    std::array<Lookup, static_cast<std::size_t>(nodes.count)> result{};
    unroll<0, nodes.count>([&]<int k>(std::integral_constant<int, k>) {
      constexpr int i = nodes.node[k];
      using Op = op<G::flat.label[i].op>;
      constexpr Shape first = G::table.info[G::table.info[i].arguments[0]].shape;
      result[k] = {nodes.indices[k], Op::looked_up(first), Op::takes_ignored};
    });
    return result;
  }();
};

}  // namespace detail

/// Tokens of the longest sequence that the positions of a graph allow, those of its stacks' layers included.
template <class G>
constexpr Index longest_in() {
  Index longest = no_limit;
  for (int i = 0; i < G::count; ++i) {
    if (!(G::flat.label[i].op == Tag("positions"))) continue;
    longest = std::min(longest, G::table.info[G::table.info[i].arguments[0]].shape.rows);
  }
  each_inner_graph<G>([&]<class Inner>() { longest = std::min(longest, longest_in<Inner>()); });
  return longest;
}

/// Tokens of a sequence where nobody says: the model's `context`, or as many as the positions allow; 0 if neither.
template <auto const& model>
constexpr Index usual_context(Index longest) {
  if constexpr (requires { { model.context } -> std::convertible_to<Index>; }) {
    if (model.context > 0) return std::min<Index>(model.context, longest);
  }
  return longest < no_limit ? longest : 0;
}

}  // namespace simplx
