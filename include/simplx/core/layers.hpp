// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/layers.hpp
/// Evaluating a model and the layers of its stacks; telling equal layers from different ones.
///
/// A stack keeps its block, not its layers. Layers whose graphs are equal, adjacent or not, share one
/// instantiation, so that compile time depends on the number of *distinct* layers and not on depth. Initial
/// values are no part of the comparison: a layer may begin elsewhere without being another program.

#include <simplx/core/walk.hpp>

#include <bit>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Wraps a result: a copy that fusion turns into "the last op writes there".
constexpr Node* output_of(Node* value, const char* name) {
  if (value->kind == Kind::error) return value;
  Node* node = new_node();
  node->kind = Kind::map;
  node->op = "output";
  node->name = name;
  node->shape = value->shape;
  node->where = value->where;
  node->result = true;
  node->passes = 1;
  use(node, value);
  return node;
}

constexpr void add_output(Node* root, Node* value, const char* name) {
  Node* output = output_of(value, name);
  if (output->kind == Kind::error && root->kind != Kind::error) {
    root->kind = Kind::error;
    root->rule = output->rule;
    root->left = output->left;
    root->right = output->right;
    root->where = output->where;
  }
  use(root, output);
}

struct AnyField {
  template <class T>
  constexpr operator T() const;
};

/// Calls take(field, name) for the expression, or for each of an aggregate of two to four expressions.
template <class Result, class Take>
constexpr void each_result(const Result& result, Take take) {
  using A = AnyField;
  static_assert(std::is_same_v<Result, Expr> ||
                    (std::is_aggregate_v<Result> && !requires { Result{A{}, A{}, A{}, A{}, A{}}; }),
                "simplx: a model returns an Expr, or an aggregate of two to four of them");
  if constexpr (std::is_same_v<Result, Expr>) {
    take(result, "output");
  } else if constexpr (requires { Result{A{}, A{}, A{}, A{}}; }) {
    const auto& [a, b, c, d] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2"), take(d, "output3");
  } else if constexpr (requires { Result{A{}, A{}, A{}}; }) {
    const auto& [a, b, c] = result;
    take(a, "output0"), take(b, "output1"), take(c, "output2");
  } else if constexpr (requires { Result{A{}, A{}}; }) {
    const auto& [a, b] = result;
    take(a, "output0"), take(b, "output1");
  } else {
    const auto& [a] = result;
    take(a, "output0");
  }
}

/// A model's expressions, alive until the end of this object.
struct Evaluated {
  Node* root;  ///< Kind::outputs, or Kind::error
  constexpr ~Evaluated() { release(root); }
};

template <class Model>
constexpr Evaluated evaluate(const Model& model) {
  Node* root = new_node();
  root->kind = Kind::outputs;
  each_result(model(), [&](Expr value, const char* name) { add_output(root, value.node, name); });
  return {root};
}

/// The carry of a stack's block: the value that goes from layer to layer.
constexpr Node* new_carry(Shape shape, Where where) {
  Node* carry = leaf(Kind::input, shape, where);
  carry->name = "carry";
  carry->wanted = carry->carry = true;
  return carry;
}

/// The expressions of one layer of a stack, until they are freed.
struct LayerNodes {
  Node* root = nullptr;
  Node* carry = nullptr;

  constexpr void free() const {
    // carry may be unconnected to the root when the block ignores it
    Node* hub = new_node();
    use(hub, root);
    use(hub, carry);
    release(hub);
  }
};

constexpr LayerNodes make_layer(const Node* stack, int layer) {
  Node* carry = new_carry(stack->shape, stack->where);
  Node* root = new_node();
  root->kind = Kind::outputs;
  Node* value = stack->block->make(stack->block, layer, carry);
  if (value->kind != Kind::error && !(value->shape == stack->shape)) {
    Node* wrong = new_node();
    wrong->where = stack->where;
    use(wrong, value);
    value = broken(wrong, "block width", value->shape.cols, stack->shape.cols);
  }
  if (stack->frozen) {
    each_made(
        Expr{value}, [](Node* node) { node->frozen |= node->kind == Kind::parameter || node->block; }, Expr{carry});
  }
  add_output(root, value, "output");
  return {root, carry};
}

/// A rule that an evaluation breaks by itself, and the line where; of a stack's block, where the stack is.
struct BlockFault {
  Tag rule{};
  Index line = 0;
  Where stack{};
};

/// The mark of nodes that are older than what is inspected.
inline constexpr int outside = 0;

/// What is wrong with what was evaluated twice: `forbidden` names the rule that a node of it breaks, if any, and the
/// two evaluations share no node.
template <class Forbidden>
constexpr BlockFault fault_of(Node* first, Node* second, Forbidden forbidden) {
  BlockFault fault;
  const auto complain = [&](Tag rule, const Node& node) {
    if (fault.rule.empty()) fault = {rule, node.where.line};
  };
  int number = 0;
  postorder(first, [&](Node* node) {
    node->index = ++number;
    if (const Tag rule = forbidden(*node); !rule.empty()) complain(rule, *node);
  });
  // A node of the second evaluation that is already marked was not made by it.
  if (second->index != unvisited) complain("captured", *second);
  int fresh = 0;
  postorder(second, [&](Node* node) {
    node->index = 1000000 + ++fresh;
    for (int i = 0; i < node->argument_count; ++i) {
      if (node->arguments[i]->index < 1000000) complain("captured", *node->arguments[i]);
    }
  });
  for (Node* made : {second, first}) {
    if (made->index > outside) clear_marks(made, outside);
  }
  return fault;
}

constexpr BlockFault fault_of_block(Node* stack);

/// What is wrong with the block of a stack among the nodes of root, or with one inside of such a block. All are
/// looked at: what a block captures, and nothing else uses, is connected, so that it is freed, when the block is made.
constexpr BlockFault fault_of_blocks(Node* root) {
  Node* stacks = nullptr;
  postorder(root, [&](Node* node) {
    node->index = outside;
    if (node->block) node->link = stacks, stacks = node;
  });
  BlockFault fault;
  for (; stacks; stacks = stacks->link) {
    const BlockFault found = fault_of_block(stacks);
    if (fault.rule.empty()) fault = found;
  }
  clear_marks(root);
  return fault;
}

constexpr BlockFault fault_of_block(Node* stack) {
  const auto forbidden = [forgets = is_recomputed(*stack)](const Node& node) -> Tag {
    if ((node.kind == Kind::input || node.kind == Kind::indices) && !node.carry) return "input in a block";
    return forgets && node.observed ? Tag("probe in recompute") : Tag();
  };
  Node* values[2];
  Node* hub = new_node();
  for (Node*& value : values) {
    Node* carry = new_carry(stack->shape, stack->where);
    value = stack->block->make(stack->block, 0, carry);
    use(hub, carry), use(hub, value);
  }
  BlockFault fault = fault_of(values[0], values[1], forbidden);
  fault.stack = stack->where;
  if (fault.rule.empty()) {
    fault = fault_of_blocks(values[0]);
    if (!fault.rule.empty()) fault_of_blocks(values[1]);
  }
  if (fault.rule.empty()) {
    release(hub);
  } else {
    use(stack, hub);  // what was made outside cannot be told from what the rest of the model uses
  }
  return fault;
}

/// One layer, alive until the end of this object.
struct Layer : LayerNodes {
  constexpr ~Layer() { free(); }
};
constexpr Layer layer_of(const Node* stack, int layer) { return {make_layer(stack, layer)}; }

/// A part of a function with its own pull-back, on inputs of its own; alive until the end of this object.
struct RulePart {
  Node* root;
  Node* hub;
  constexpr ~RulePart() { release(hub); }
};

constexpr RulePart rule_part(const Node* node, int part) {
  Node* inputs[max_arguments + 2]{};
  Node* results[max_arguments]{};
  const int operands = node->argument_count, first = part == 0 ? 0 : 2;
  const auto give = [&](int i, const Shape& shape, const char* name) {
    inputs[i] = leaf(Kind::input, shape, node->where);
    inputs[i]->name = name;
    inputs[i]->wanted = false;
  };
  constexpr const char* names[] = {"x0", "x1", "x2", "x3", "x4", "x5"};
  if (part == 1) give(0, node->shape, "gradient"), give(1, node->shape, "result");
  for (int i = 0; i < operands; ++i) give(first + i, node->arguments[i]->shape, names[i]);
  node->rules->make(node->rules, part, inputs, results);
  int given = 0;
  while (given < max_arguments && results[given]) ++given;
  if (part == 1 && given != operands) {
    Node* wrong = new_node();
    wrong->where = node->where;
    for (int i = 0; i < given; ++i) use(wrong, results[i]);
    for (int i = 0; i < operands; ++i) results[i] = wrong;
    broken(wrong, "pull-back count", given, operands);
  }
  Node* root = new_node();
  root->kind = Kind::outputs;
  for (int i = 0; i < (part == 0 ? 1 : operands); ++i) {
    const Shape& expected = part == 0 ? node->shape : node->arguments[i]->shape;
    if (results[i]->kind != Kind::error && !(results[i]->shape == expected)) {
      Node* wrong = new_node();
      wrong->where = node->where;
      use(wrong, results[i]);
      results[i] = broken(wrong, "pull-back shape", results[i]->shape.columns(), expected.columns());
    }
    add_output(root, results[i], part == 0 ? "result" : names[i]);
  }
  Node* hub = new_node();
  use(hub, root);
  Node* last = hub;  // inputs that a part ignores are freed with the rest
  for (int i = 0; i < first + operands; ++i) {
    if (last->argument_count == max_arguments) {
      Node* more = new_node();
      use(more, last);
      last = more;
    }
    use(last, inputs[i]);
  }
  return {root, hub};
}

// --------------------------------------------------------------------------------------- equality of graphs

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
  const int layers = a.block->layered || b.block->layered ? static_cast<int>(a.attributes.integers[0]) : 1;
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
