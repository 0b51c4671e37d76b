// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/op_table.hpp
/// The ops of a model as rows of a table, arguments first: what a picture is made from.
///
/// The model is evaluated when the program runs, like the list of its parameters (core/parameters.hpp): nothing is
/// planned and no kernel is instantiated, and its configuration may be known at run time only. Modules that are
/// evaluated again in backward (ops/recompute.hpp) are written out in place.

#include <simplx/core/equal_layers.hpp>
#include <simplx/core/error.hpp>
#include <simplx/core/info.hpp>

#include <map>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A node of a graph; its arguments are rows above it.
struct OpRow {
  Kind kind{};
  std::string op, name;
  Shape shape{};
  Attributes attributes{};
  Init init{};
  bool frozen = false, carry = false;
  std::vector<int> arguments;
};
using OpTable = std::vector<OpRow>;

namespace detail {

/// Appends the nodes that root needs; `given` are those that already have a row.
inline int list_ops(Node* root, const std::string& prefix, std::map<const Node*, int> given, OpTable& table) {
  if (root->kind == Kind::error) {
    throw Error("a model without a picture: it breaks the rule \"" + std::string(root->rule.view()) + "\" in " +
                    root->where.file + ":" + std::to_string(root->where.line),
                "compile it as a constant: the compiler then prints the rule and both numbers");
  }
  std::vector<Node*> nodes;
  each_node(root, [&](Node* node) { nodes.push_back(node); });
  for (const Node* node : nodes) {
    if (given.contains(node)) continue;
    if (node->name.is_cut()) {
      throw Error("a model without a picture: the name that begins with '" + std::string(node->name.view()) +
                      "' is too long, by itself or with its scopes",
                  "shorten it");
    }
    if (node->block && is_recomputed(*node)) {
      const Layer inside = layer_of(node, 0);
      const int carried = given.at(node->arguments[0]);
      given[node] = list_ops(inside.root->arguments[0]->arguments[0], prefix + std::string(node->name.view()),
                             {{inside.carry, carried}}, table);
      continue;
    }
    OpRow row{node->kind, std::string(node->op.view()), std::string(node->name.view()), node->shape, node->attributes,
              node->init, node->frozen, node->carry, {}};
    if (!row.name.empty()) row.name = prefix + row.name;
    for (int i = 0; i < node->argument_count; ++i) row.arguments.push_back(given.at(node->arguments[i]));
    given[node] = static_cast<int>(table.size());
    table.push_back(std::move(row));
  }
  return given.at(root);
}

/// The stacks of a graph, in the order of the walk.
inline std::vector<Node*> stacks_of(Node* root) {
  std::vector<Node*> stacks;
  each_node(root, [&](Node* node) {
    if (node->block && !is_recomputed(*node)) stacks.push_back(node);
  });
  return stacks;
}

}  // namespace detail

/// The ops of a model: a function of no arguments that returns an Expr, or an aggregate of them.
///
/// Errors  throws Error with the line if the model breaks a rule, with the name if one is too long
template <class Model>
OpTable ops_of(const Model& model) {
  const detail::Evaluated evaluated = detail::evaluate(model);
  OpTable table;
  detail::list_ops(evaluated.root, "", {}, table);
  return table;
}

/// The ops of one layer of a model's first stack; -1 is the last layer.
///
/// Errors  throws Error if the model has no stack or no such layer, breaks a rule, or has a name that is too long
template <class Model>
OpTable ops_of_layer(const Model& model, int layer = -1) {
  const detail::Evaluated evaluated = detail::evaluate(model);
  OpTable table;
  if (evaluated.root->kind == Kind::error) detail::list_ops(evaluated.root, "", {}, table);  // says which
  const std::vector<Node*> stacks = detail::stacks_of(evaluated.root);
  if (stacks.empty()) throw Error("a model without layers: it has no stack", "draw the whole model by picture(model)");
  const int layers = detail::stack_settings(stacks[0]->attributes).layers;
  if (layer < -1 || layer >= layers) {
    throw Error("no layer " + std::to_string(layer) + " in a stack of " + std::to_string(layers),
                "layers count from 0");
  }
  const detail::Layer built = detail::layer_of(stacks[0], layer < 0 ? layers - 1 : layer);
  detail::list_ops(built.root, "", {}, table);
  return table;
}

/// The layers of a model's first stack by their graphs: {{0}, {1, 2, 3, 4, 5}} where only the first differs.
template <class Model>
std::vector<std::vector<int>> equal_layers(const Model& model) {
  const detail::Evaluated evaluated = detail::evaluate(model);
  std::vector<std::vector<int>> groups;
  const std::vector<Node*> stacks = detail::stacks_of(evaluated.root);
  if (stacks.empty()) return groups;
  for (int layer = 0; layer < detail::stack_settings(stacks[0]->attributes).layers; ++layer) {
    const detail::Layer built = detail::layer_of(stacks[0], layer);
    const auto same = [&](const std::vector<int>& group) {
      const detail::Layer first = detail::layer_of(stacks[0], group[0]);
      return detail::same_graph(first.root, built.root);
    };
    std::size_t g = 0;
    while (g < groups.size() && !same(groups[g])) ++g;
    if (g == groups.size()) groups.emplace_back();
    groups[g].push_back(layer);
  }
  return groups;
}

}  // namespace simplx
