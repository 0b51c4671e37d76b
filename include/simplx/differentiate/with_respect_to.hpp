// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/with_respect_to.hpp
/// The same function with other variables: gradients of the named inputs and parameters, and of nothing else.
///
///     Function<with_respect_to<loss, "w", "bias">> f;      // the backward of everything else is not compiled

#include <simplx/core/graph.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("with respect to", (possible<left, right>),
            "with_respect_to<f, names...> names something that f does not use as an input or parameter (left number: "
            "which of the names, from 0); parameters within a stack are not among these")

namespace detail {

template <auto const& f, Name... names>
struct WithRespectTo {
  constexpr auto operator()() const {
    auto results = f();
    constexpr int count = sizeof...(names);
    bool found[count + 1]{};
    each_made(results, [&](Node* node) {
      const Name wanted[] = {names...};
      int which = 0;
      while (which < count && !(wanted[which] == node->name)) ++which;
      if (node->kind == Kind::input) node->wanted = which < count;
      if (node->kind == Kind::parameter) node->frozen = which == count;
      if (node->block) node->frozen = true, node->stops = false;  // what a stack makes bears other names
      if (node->kind == Kind::input || node->kind == Kind::parameter) found[which] = true;
    });
    each_result(results, [](Expr result, const char*) { stop_at_frozen_layers(result.node); });
    for (int i = 0; i < count; ++i) {
      if (!found[i]) mark_broken(results, i);
    }
    return results;
  }

 private:
  /// The first result reports the name that was not found.
  static constexpr void mark_broken(auto& results, int which) {
    bool first = true;
    each_result(results, [&](Expr result, const char*) {
      if (first) broken(result.node, "with respect to", which, 0);
      first = false;
    });
  }
};

}  // namespace detail

/// The function f, of which the gradients with respect to these inputs and parameters are wanted, be they frozen in f,
/// and no others.
///
/// Errors  does not compile if a name is neither an input nor a parameter of f: rule "with respect to"
template <auto const& f, Name... names>
inline constexpr detail::WithRespectTo<f, names...> with_respect_to{};

}  // namespace simplx
