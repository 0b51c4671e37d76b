// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/rows_apart.hpp
/// Which rows of a graph can be evaluated without the others.

#include <simplx/core/lookups.hpp>

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// The axis of the rows that a node takes by indices: any of them. Those of a table, and none, are fixed.
template <class G>
constexpr Axis looked_up_axis(int node) {
  const auto& nodes = LookupsOf<G>::nodes;
  for (int k = 0; k < nodes.count; ++k) {
    if (nodes.node[k] == node) return LookupsOf<G>::all[static_cast<std::size_t>(k)].table.axis;
  }
  return Axis::fixed;
}

/// Whether rows along these axes can be evaluated apart, tokens by whole sequences, whatever the others are: none reads
/// what was made of several rows, as sums over rows are, and no op moves rows. Stacks, functions and pull-backs in the
/// graph count. Looks at what the node `of` needs; the last one needs all.
template <class G, Axis... axes>
constexpr bool keeps_rows_apart(int of = G::count - 1) {
  bool needed[G::count]{};
  needed[of] = true;
  for (int i = of; i >= 0; --i) {
    const Info& info = G::table.info[i];
    for (int a = 0; a < info.argument_count; ++a) needed[info.arguments[a]] |= needed[i];
  }
  const auto has_rows = [](int node) { return ((G::table.info[node].shape.axis == axes) || ...); };
  bool of_rows[G::count]{};  // values without such rows that were made of some
  for (int i = 0; i < G::count; ++i) {
    const Info& info = G::table.info[i];
    if (!needed[i] || info.kind == Kind::outputs) continue;
    const bool apart = has_rows(i);
    if (apart && (!info.rows_apart || looked_up_axis<G>(i) == info.shape.axis)) return false;
    for (int a = 0; a < info.argument_count; ++a) {
      const int argument = info.arguments[a];
      if (apart && of_rows[argument]) return false;
      of_rows[i] |= !apart && (of_rows[argument] || has_rows(argument));
    }
  }
  bool apart = true;
  each_inner_graph<G>([&]<class Inner>() { apart = apart && keeps_rows_apart<Inner, axes...>(); });
  return apart;
}

}  // namespace detail
}  // namespace simplx
