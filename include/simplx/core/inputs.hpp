// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/inputs.hpp
/// Inputs held against what a graph looks up by them: who takes them from a caller checks, kernels do not.

#include <simplx/core/context.hpp>
#include <simplx/core/error.hpp>
#include <simplx/core/view.hpp>

#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Errors  throws Error where `what`, a sequence or a context, is longer than the positions allow
inline void check_length(const char* what, Index tokens, Index longest) {
  if (tokens <= longest) return;
  throw Error(std::string(what) + " of " + std::to_string(tokens) + " tokens, but the model's positions end at " +
                  std::to_string(longest),
              "give fewer tokens, such as the last ones alone, or a model with a longer context");
}

/// A context of sequences.
///
/// Errors  throws Error if it is no token, or longer than the positions allow
inline Index checked_context(Index context, Index longest) {
  if (context < 1) {
    throw Error("a context of " + std::to_string(context) + " tokens",
                "give the tokens of the longest sequence, at least 1, as `context` of TrainerOptions or StreamOptions, "
                "or to Replay: a model with neither positions nor a member `context` says none");
  }
  check_length("a context", context, longest);
  return context;
}

/// Where sequences of these lengths begin, and the end of the last.
///
/// Errors  throws Error for a length below 0
inline std::vector<Index> offsets_of(std::span<const Index> lengths) {
  std::vector<Index> offsets{0};
  for (const Index length : lengths) {
    if (length < 0) throw Error("a sequence of " + std::to_string(length) + " tokens", "a length is at least 0");
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

/// Tokens of the longest of the sequences that begin there.
///
/// Errors  throws Error if the graph has no positions for it
inline Index longest_of(const GraphView& graph, std::span<const Index> offsets) {
  Index longest = 0;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) longest = std::max(longest, offsets[s + 1] - offsets[s]);
  check_length("a sequence", longest, graph.longest);
  return longest;
}

/// Every index must name a row of all tables that it is looked up in, every label a class or -100.
///
/// Errors  throws Error with the first that does not
inline void check_indices(const GraphView& graph, const void* const* inputs, const Rows& rows) {
  for (const Lookup& lookup : graph.lookups) {
    const auto* values = static_cast<const std::int32_t*>(inputs[graph.input[lookup.indices]]);
    const Index bound = rows.count(lookup.table);
    for (Index row = 0; row < rows.count(graph.info[lookup.indices].shape); ++row) {
      if ((values[row] >= 0 && values[row] < bound) || (lookup.ignores && values[row] == ignored_label)) continue;
      throw Error("'" + std::string(graph.label[lookup.indices].name.view()) + "' names " +
                      std::to_string(values[row]) + " in row " + std::to_string(row),
                  "it must be at least 0 and below " + std::to_string(bound));
    }
  }
}

}  // namespace simplx
