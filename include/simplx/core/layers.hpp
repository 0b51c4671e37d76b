// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/layers.hpp
/// Evaluating a model, the layers of its stacks and the parts of its functions; what stacks are made with, and what is
/// wrong with their blocks.

#include <simplx/core/walk.hpp>

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

/// A model's expressions, alive until the end of this object.
struct Evaluated {
  Node* root;  ///< Kind::outputs, or Kind::error
  constexpr ~Evaluated() { release(root); }
};

/// The rule of a model about which something was said already: nothing more is.
inline constexpr Tag said_already{"said already"};

template <class Model>
constexpr Evaluated evaluate(const Model& model) {
  Node* root = new_node();
  root->kind = Kind::outputs;
  constexpr bool called = requires { model(); };
  static_assert(called, "simplx: a model is called without arguments: what it depends on are members of it, or "
                        "captured (behind an error within the model this one says nothing new)");
  if constexpr (called) {
    using Result = decltype(model());
    static_assert(!std::is_void_v<Result>, "simplx: a model returns an Expr, or an aggregate of up to four of them; "
                                           "this one returns nothing: write `return` before its result");
    if constexpr (!std::is_void_v<Result>) {
      constexpr bool known = Results<Result>;
      static_assert(known, "simplx: a model returns an Expr, or an aggregate of up to four of them");
      if constexpr (known) {
        each_result(model(), [&](Expr value, const char* name) { add_output(root, value.node, name); });
      }
    }
  }
  return {root->argument_count > 0 ? root : broken(root, said_already, 0, 0)};
}

/// What a stack is made with.
struct StackSettings {
  int layers = 1;
  bool recomputed = false;  ///< a module that is evaluated again in backward: its name is the scope of what it made
  bool shared = false;      ///< its layers share one set of parameters and constants, whose names bear no number

  constexpr int sets() const { return shared ? 1 : layers; }
};
constexpr Attributes attributes_of(const StackSettings& stack) {
  return {.integers = {stack.layers, stack.recomputed, stack.shared}};
}
constexpr StackSettings stack_settings(Attributes stack) {
  return {static_cast<int>(stack.integers[0]), stack.integers[1] != 0, stack.integers[2] != 0};
}
constexpr bool is_recomputed(const Node& node) { return node.block && stack_settings(node.attributes).recomputed; }
constexpr bool is_shared(const Node& node) { return node.block && stack_settings(node.attributes).shared; }

/// The carry of a stack's block: the value that goes from layer to layer, its gradient back, unless it stops there.
constexpr Node* new_carry(const Node* stack) {
  Node* carry = leaf(Kind::input, stack->shape, stack->where);
  carry->name = "carry";
  carry->carry = true;
  carry->wanted = !stack->stops;
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
  Node* carry = new_carry(stack);
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
    each_made(Expr{value}, freeze, Expr{carry});
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
  constexpr int of_second = 1'000'000;  // numbers that no node of the first has
  int fresh = 0;
  postorder(second, [&](Node* node) {
    node->index = of_second + ++fresh;
    for (int i = 0; i < node->argument_count; ++i) {
      if (node->arguments[i]->index < of_second) complain("captured", *node->arguments[i]);
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
    Node* carry = new_carry(stack);
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

/// What the operands of a function with its own pull-back are called in its graphs.
inline constexpr const char* operand_names[max_arguments] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};

constexpr RulePart rule_part(const Node* node, int part) {
  Node* inputs[max_arguments + 2]{};
  Node* results[max_arguments]{};
  const int operands = node->argument_count, first = part == 0 ? 0 : 2;
  const auto give = [&](int i, const Shape& shape, const char* name) {
    inputs[i] = leaf(Kind::input, shape, node->where);
    inputs[i]->name = name;
    inputs[i]->wanted = false;
  };
  if (part == 1) give(0, node->shape, "gradient"), give(1, node->shape, "result");
  for (int i = 0; i < operands; ++i) give(first + i, node->arguments[i]->shape, operand_names[i]);
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
    add_output(root, results[i], part == 0 ? "result" : operand_names[i]);
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

}  // namespace simplx::detail
