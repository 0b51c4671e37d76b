// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/view.hpp
/// view_of<G>: the numbers of a graph without its type, for work that is the same for every model: sizing memory,
/// finding a value by its name. Such work is compiled once, not for each model.

#include <simplx/core/lookups.hpp>

#include <span>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

/// The nodes of a graph, arguments first and the root last: points to its constants, costs nothing to copy.
struct GraphView {
  int count = 0;
  const Info* info = nullptr;
  const Label* label = nullptr;
  const bool* wanted = nullptr;                         ///< nodes whose gradient is asked for
  const int *input = nullptr, *output = nullptr;        ///< numbers of inputs and results
  Index parameters = 0, constants = 0, packed = 0;      ///< elements of these buffers
  Columns kept{}, temporary{};
  std::span<const Lookup> lookups{};
  Index longest = no_limit;                             ///< tokens of a sequence that its positions allow

  constexpr bool is_input(int node) const { return info[node].kind == Kind::input || info[node].kind == Kind::indices; }
  /// The node that is the input of that name, or -1.
  constexpr int input_node(std::string_view name) const {
    for (int i = 0; i < count; ++i) {
      if (is_input(i) && label[i].name.view() == name) return i;
    }
    return -1;
  }
  /// Indices of that input are below this: it is the least bound over all that look up by them.
  constexpr Index index_bound(int node, const Rows& rows = {}) const {
    Index bound = no_limit;
    for (const Lookup& lookup : lookups) {
      if (lookup.indices == node) bound = std::min(bound, rows.count(lookup.table));
    }
    return bound;
  }
  /// Whether these tables have a static number of rows, all of them.
  constexpr bool looks_up_static_rows(int node) const {
    bool all = true;
    for (const Lookup& lookup : lookups) all &= lookup.indices != node || lookup.table.is_fixed();
    return all;
  }
  /// The node that is result k, or -1.
  constexpr int result_node(int k) const {
    for (int i = 0; i < count; ++i) {
      if (info[i].result && output[i] == k) return i;
    }
    return -1;
  }
};

template <class G>
inline constexpr GraphView view_of{.count = G::count,
                                   .info = G::table.info,
                                   .label = G::flat.label,
                                   .wanted = G::fusion.wanted,
                                   .input = G::layout.input,
                                   .output = G::layout.output,
                                   .parameters = G::layout.parameters,
                                   .constants = G::layout.constants,
                                   .packed = G::layout.packed_elements,
                                   .kept = G::layout.kept,
                                   .temporary = G::layout.temporary,
                                   .lookups = detail::LookupsOf<G>::all,
                                   .longest = longest_in<G>()};

}  // namespace simplx
