// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/named.hpp
/// Names for what a module makes: named("mlp", Mlp{512})(x).

#include <simplx/core/walk.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr bool takes_scope(const Node& node) {
  return (!node.name.empty() || node.block) && node.kind != Kind::input && node.kind != Kind::indices && !node.result;
}

}  // namespace detail

/// A module with a name: the parameters it *makes* get "name." in front, never what it is *given*. What a module
/// captures or holds it makes, as far as can be seen from its results: give it as an operand.
template <class Module>
struct Named {
  Name scope;
  Module module;

  template <class... Arguments>
  constexpr auto operator()(const Arguments&... arguments) const
      -> decltype(detail::as_results(module(arguments...))) {
    const auto results = detail::as_results(module(arguments...));
    const auto enter = [&](Node* node) {
      if (detail::takes_scope(*node)) node->name.put_in_scope(scope);
    };
    detail::each_made(results, enter, arguments...);
    return results;
  }
};

/// named("mlp", Mlp{512})(x): the parameters made inside are mlp.up.weight, mlp.down.weight.
template <class Module>
constexpr Named<Module> named(const char* scope, const Module& module) {
  return {scope, module};
}

/// One of several, from 0 on: named("expert", 3, Mlp{512})(x) makes expert.3.up.weight and expert.3.down.weight.
template <class Module>
constexpr Named<Module> named(const char* scope, int number, const Module& module) {
  char digits[12]{};
  int place = 11;
  do digits[--place] = static_cast<char>('0' + number % 10);
  while (number /= 10);
  Name numbered(digits + place);
  numbered.put_in_scope(scope);
  return {numbered, module};
}

}  // namespace simplx
