// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/siamese.hpp
/// One module with one set of parameters for several inputs, as in contrastive losses and adversarial training.
///
///     const auto [one, other] = siamese(named("encoder", Encoder{}), a, b);
///     return softplus(margin * label * distance(one, other));

#include <simplx/core/named.hpp>
#include <simplx/core/op.hpp>
#include <simplx/core/rules.hpp>

#include <array>
#include <concepts>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("siamese stack", (possible<left, right>),
            "a stack or recompute within siamese (left number: its line) makes parameters for one input only: pack the "
            "inputs as sequences or rows of one batch instead, or apply its layers one by one")

namespace detail {

/// The nodes with a name, or with a block, that a module made of what it was given. (A template, as what follows: so
/// programs without it compile nothing of it.)
template <class Given>
struct NamedNodes {
  Node** nodes;
  int count = 0;

  constexpr NamedNodes(Expr result, const Given& given) {
    const auto has_name = [](const Node& node) { return !node.name.empty() || node.block; };
    each_made(result, [&](Node* node) { count += has_name(*node); }, given);
    nodes = new Node*[static_cast<std::size_t>(count)];
    int place = 0;
    each_made(result, [&](Node* node) { if (has_name(*node)) nodes[place++] = node; }, given);
  }
  constexpr NamedNodes(const NamedNodes&) = delete;
  constexpr ~NamedNodes() { delete[] nodes; }
  constexpr bool has(const Node* wanted) const {
    bool found = false;
    for (const Node* node : *this) found |= node == wanted;
    return found;
  }
  constexpr Node* const* begin() const { return nodes; }
  constexpr Node* const* end() const { return nodes + count; }
};

/// Gives the users of a leaf another one in its place, and deletes it.
constexpr void replace_leaf(Node* leaf, Node* by) {
  while (Node* user = leaf->first_user) {
    for (int slot = 0; slot < user->argument_count; ++slot) {
      if (user->arguments[slot] != leaf) continue;
      if (user->next_user[slot] != user) leaf->first_user = user->next_user[slot];  // of all its slots, the last
      user->arguments[slot] = by;
      user->next_user[slot] = by->first_user;
      by->first_user = user;
    }
  }
  delete leaf;
}

/// Lets one use of a module have the leaves of another; its masks and probes get its number as a scope, several times
/// where a siamese within the module has taken the name.
template <class Given>
constexpr Expr with_leaves_of(Expr first, const Given& first_given, Expr other, const Given& given, int number) {
  const char scope[] = {static_cast<char>('0' + number), 0};
  const NamedNodes<Given> originals(first, first_given), copies(other, given);
  const auto is_taken = [&](const Node* node) {
    bool taken = false;
    for (const auto* made : {&originals, &copies}) {
      for (const Node* named : *made) taken |= named != node && named->name == node->name;
    }
    return taken;
  };
  for (Node* copy : copies) {
    if (originals.has(copy)) continue;  // captured, not made
    if (copy->block) return refuse("siamese stack", At(other, copy->where), copy->where.line);
    if (copy->argument_count == 0 || !takes_scope(*copy)) continue;
    do copy->name.put_in_scope(scope);
    while (is_taken(copy));
  }
  for (Node* copy : copies) {
    if (copy->argument_count > 0 || originals.has(copy)) continue;
    Node* original = nullptr;
    for (Node* node : originals) {
      if (node->name == copy->name && node->kind == copy->kind && node->shape == copy->shape) original = node;
    }
    if (!original) continue;
    if (other.node == copy) other = {original};
    replace_leaf(copy, original);
  }
  return other;
}

}  // namespace detail

/// The results of a module for each of several inputs, with one set of parameters, constants and inputs of its own.
/// Dropout draws a mask for each use; that of the second has a name that begins with "1.".
///
/// Shapes  what the module returns for each input; all have the same columns
/// Errors  does not compile for a module that takes or returns other than one expression, for inputs of which it makes
///         tensors of different shapes (rule "one name"), or if it contains a stack or recompute, whose parameters are
///         of one input: rule "siamese stack". Dropout within a function of with_pull_back keeps its name: such a model
///         throws when it is made
/// Cost    that of the module for each input; a parameter counts once, and its gradient is the sum over the uses
/// Source  Bromley et al. 1993, "Signature Verification using a 'Siamese' Time Delay Neural Network"
template <class Module, std::same_as<Expr>... Others>
constexpr auto siamese(const Module& module, Expr first, Others... others) {
  constexpr std::size_t count = 1 + sizeof...(others);
  static_assert(count < 10, "simplx: siamese takes at most nine inputs: pack more as sequences or rows of one batch");
  constexpr bool of_one = requires { Expr(module(first)); };
  static_assert(of_one, "simplx: siamese takes a module of one expression that returns one, and not several: "
                        "siamese(module, a, b) is module(a) and module(b)");
  const std::array<Expr, count> given{first, others...};
  std::array<Expr, count> results{};
  if constexpr (of_one) {
    for (std::size_t i = 0; i < count; ++i) {
      const Expr made = module(given[i]);
      results[i] = i == 0 ? made : detail::with_leaves_of(results[0], first, made, given[i], static_cast<int>(i));
    }
  }
  return results;
}

}  // namespace simplx
