// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/equal_layers.hpp
/// Telling equal layers from different ones.
///
/// A stack keeps its block, not its layers. Layers whose graphs are equal, adjacent or not, share one
/// instantiation, so that compile time depends on the number of *distinct* layers and not on depth. Initial
/// values are no part of the comparison: a layer may begin elsewhere without being another program.

#include <simplx/core/layers.hpp>

#include <bit>
#include <cstdint>

namespace simplx::inline SIMPLX_TARGET::detail {

/// The nodes of a graph in the order of the walk, linked and numbered.
struct Chain {
  Node* head = nullptr;
  int count = 0;
  std::uint64_t hash = 14695981039346656037ull;
};

constexpr Chain chain_of(Node* root) {
  Chain chain;
  Node* last = nullptr;
  postorder(root, [&](Node* node) {
    node->index = chain.count++;
    node->link = nullptr;
    (last ? last->link : chain.head) = node;
    last = node;
    const auto mix = [&](std::uint64_t value) { chain.hash = (chain.hash ^ value) * 1099511628211ull; };
    mix(static_cast<std::uint64_t>(node->shape.rows));
    mix(static_cast<std::uint64_t>(node->shape.cols));
    mix(static_cast<std::uint64_t>(node->attributes.integers[0]));
    mix(std::bit_cast<std::uint64_t>(node->attributes.reals[0]));
    mix(node->op.hash());
    for (int i = 0; i < node->argument_count; ++i) mix(static_cast<std::uint64_t>(node->arguments[i]->index));
  });
  return chain;
}

constexpr void unnumber(const Chain& chain) {
  for (Node* node = chain.head; node; node = node->link) node->index = unvisited;
}

constexpr bool same_graph(Node* a, Node* b);

/// Equal but for initial values and source lines.
constexpr bool same_node(const Node& a, const Node& b) {
  if (a.kind != b.kind || !(a.shape == b.shape) || a.argument_count != b.argument_count || !(a.op == b.op) ||
      !(a.attributes == b.attributes) || !(a.name == b.name) || a.rank != b.rank || a.decays != b.decays ||
      a.wanted != b.wanted || a.frozen != b.frozen || a.stops != b.stops || a.observed != b.observed ||
      !a.block != !b.block) {
    return false;
  }
  for (int i = 0; i < a.argument_count; ++i) {
    if (a.arguments[i]->index != b.arguments[i]->index) return false;
  }
  if (!a.rules != !b.rules) return false;
  for (int part = 0; a.rules && part < 2; ++part) {
    const RulePart x = rule_part(&a, part), y = rule_part(&b, part);
    if (!same_graph(x.root, y.root)) return false;
  }
  if (!a.block) return true;
  const int layers = a.block->layered || b.block->layered ? stack_settings(a.attributes).layers : 1;
  for (int layer = 0; layer < layers; ++layer) {
    const Layer x = layer_of(&a, layer), y = layer_of(&b, layer);
    if (!same_graph(x.root, y.root)) return false;
  }
  return true;
}

/// The number of the first node that differs, or -1.
constexpr int first_difference(const Chain& a, const Chain& b) {
  int index = 0;
  Node *x = a.head, *y = b.head;
  for (; x && y; x = x->link, y = y->link, ++index) {
    if (!same_node(*x, *y)) return index;
  }
  return x || y ? index : -1;
}

constexpr bool same_chain(const Chain& a, const Chain& b) {
  return a.count == b.count && a.hash == b.hash && first_difference(a, b) < 0;
}

constexpr bool same_graph(Node* a, Node* b) {
  const Chain x = chain_of(a), y = chain_of(b);
  const bool same = same_chain(x, y);
  unnumber(x), unnumber(y);
  return same;
}

// ------------------------------------------------------------------------------------- grouping equal layers

/// which[l]: the distinct graph of layer l; representative[k]: the first layer with graph k.
template <int layers>
struct Grouping {
  int which[layers]{};
  int representative[layers]{};
  int distinct = 0;
};

/// Evaluations are limited in length, so a long stack is grouped in several, each continuing the one before.
inline constexpr int layers_per_evaluation = 24;

template <int layers>
constexpr Grouping<layers> group_layers(const Node* stack, Grouping<layers> groups, int begin, int end) {
  if (!stack->block->layered) {
    groups.distinct = 1;
    return groups;
  }
  struct Kept {
    LayerNodes nodes;
    bool sound;
    Chain chain;
  };
  Kept* kept = new Kept[layers + 1]{};
  const auto build = [&](int slot, int layer) {
    kept[slot].nodes = make_layer(stack, layer);
    kept[slot].sound = fault_of_blocks(kept[slot].nodes.root).rule.empty();
    kept[slot].chain = chain_of(kept[slot].nodes.root);
  };
  for (int k = 0; k < groups.distinct; ++k) build(k, groups.representative[k]);
  for (int layer = begin; layer < end; ++layer) {
    const int candidate = groups.distinct;
    build(candidate, layer);
    const auto matches = [&](int k) {  // comparing evaluates blocks inside: what is unsound is left to its Gate
      return kept[k].sound && kept[candidate].sound && same_chain(kept[k].chain, kept[candidate].chain);
    };
    int same = candidate - 1;
    while (same >= 0 && !matches(same)) --same;
    if (same < 0) {
      same = candidate;
      groups.representative[groups.distinct++] = layer;
    } else {
      kept[candidate].nodes.free();
    }
    groups.which[layer] = same;
  }
  for (int k = 0; k < groups.distinct; ++k) kept[k].nodes.free();
  delete[] kept;
  return groups;
}

}  // namespace simplx::detail
