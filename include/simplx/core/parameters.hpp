// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/parameters.hpp
/// The parameters and constants of a model by name: shape, place, initial value, weight decay.
///
/// Names are those of checkpoints: scopes, then the name, layers of a stack counted from 0:
/// "blocks.3.mlp.up.weight". The list is made by evaluating the model at run time, once.

#include <simplx/core/graph.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// One tensor of a flat buffer.
struct TensorInfo {
  std::string name;
  Shape shape;
  int rank = 2;        ///< 0 a number, 1 a row, 2 a matrix: the shape that checkpoints show
  Index offset = 0;    ///< elements from the beginning of the buffer
  Init init;
  bool decays = false; ///< weight decay applies
  bool frozen = false; ///< not trained: it has no gradient

  Index size() const { return shape.columns(); }
};

/// All tensors of a model.
struct TensorList {
  std::vector<TensorInfo> parameters, constants;
};

namespace detail {

/// Elements that a graph takes in the buffers of parameters and constants.
struct TensorSizes {
  Index parameters = 0, constants = 0;
};

[[gnu::cold]] inline TensorSizes list_tensors(Node* root, const std::string& prefix, TensorSizes base,
                                              TensorList& list) {
  const TensorSizes begin = base;
  int count = 0;
  std::vector<Node*> nodes;
  postorder(root, [&](Node* node) {
    node->index = count++;
    nodes.push_back(node);
  });
  for (Node* node : nodes) {
    const auto add = [&](std::vector<TensorInfo>& tensors, Index& offset) {
      tensors.push_back({prefix + std::string(node->name.view()), node->shape, node->rank, offset, node->init,
                         node->decays && !node->frozen, node->frozen});
      offset += round_up(node->shape.columns(), alignment);
    };
    if (node->kind == Kind::parameter) add(list.parameters, base.parameters);
    if (node->kind == Kind::constant) add(list.constants, base.constants);
    if (!node->block) continue;
    for (int layer = 0; layer < static_cast<int>(node->attributes.integers[0]); ++layer) {
      const Layer built = layer_of(node, layer);
      const std::string scope = prefix + std::string(node->name.view()) +
                                (is_recomputed(*node) ? "" : "." + std::to_string(layer) + ".");
      const TensorSizes taken = list_tensors(built.root, scope, base, list);
      base.parameters += taken.parameters;
      base.constants += taken.constants;
    }
  }
  clear_marks(root);
  return {base.parameters - begin.parameters, base.constants - begin.constants};
}

struct FoundShape {
  bool found = false;
  Shape shape{};
};

constexpr FoundShape find_parameter(Node* root, std::string_view name) {
  FoundShape result;
  int count = 0;
  Node* stack = nullptr;
  std::string_view rest;
  postorder(root, [&](Node* node) {
    node->index = count++;
    if (node->kind == Kind::parameter && node->name.view() == name) result = {true, node->shape};
    const std::string_view scope = node->name.view();
    if (node->block && is_recomputed(*node) && name.substr(0, scope.size()) == scope && !result.found) {
      const Layer built = layer_of(node, 0);
      result = find_parameter(built.root, name.substr(scope.size()));
    } else if (node->block && name.size() > scope.size() && name.substr(0, scope.size()) == scope &&
        name[scope.size()] == '.') {
      stack = node;
      rest = name.substr(scope.size() + 1);
    }
  });
  clear_marks(root);
  if (!stack || result.found) return result;
  int layer = 0;
  std::size_t i = 0;
  for (; i < rest.size() && rest[i] >= '0' && rest[i] <= '9'; ++i) layer = 10 * layer + (rest[i] - '0');
  if (i == 0 || i >= rest.size() || rest[i] != '.' || layer >= stack->attributes.integers[0]) return result;
  const Layer built = layer_of(stack, layer);
  return find_parameter(built.root, rest.substr(i + 1));
}

}  // namespace detail

/// Names, places and initial values of all parameters and constants, in the order of the buffers.
///
/// Cost    evaluates the model on the heap; call it once
template <auto const& model>
[[gnu::cold]] TensorList tensors_of() {
  TensorList list;
  const detail::Evaluated evaluated = detail::evaluate(model);
  detail::list_tensors(evaluated.root, "", {}, list);
  return list;
}

/// Whether a model has a parameter of that name; works in static_assert.
template <auto const& model>
constexpr bool has_parameter(std::string_view name) {
  return Root<model>::with([&](Node* root) { return detail::find_parameter(root, name).found; });
}

/// The shape of a parameter; works in static_assert.
///
/// Errors  a name that the model does not have is no constant expression
template <auto const& model>
constexpr Shape parameter_shape(std::string_view name) {
  const detail::FoundShape found =
      Root<model>::with([&](Node* root) { return detail::find_parameter(root, name); });
  if (!found.found) throw "simplx: the model has no parameter of that name";
  return found.shape;
}

}  // namespace simplx
