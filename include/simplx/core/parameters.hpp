// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/parameters.hpp
/// The parameters and constants of a model by name: shape, place, initial value, weight decay.
///
/// Names are those of checkpoints: scopes, then the name, layers of a stack counted from 0 unless they share their
/// parameters: "blocks.3.mlp.up.weight", "blocks.mlp.up.weight".

#include <simplx/core/error.hpp>
#include <simplx/core/graph.hpp>

#include <algorithm>
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

constexpr bool is_tensor(Kind kind) { return kind == Kind::parameter || kind == Kind::constant; }

/// Initial values of all tensors of a graph and of the layers of its stacks, in the order of the buffers; returns how
/// many there are.
constexpr int gather_inits(Node* root, Init* into) {
  int found = 0;
  each_node(root, [&](Node* node) {
    if (is_tensor(node->kind)) into[found++] = node->init;
    for (int layer = 0; node->block && layer < stack_settings(node->attributes).sets(); ++layer) {
      const Layer built = layer_of(node, layer);
      found += gather_inits(built.root, into + found);
    }
  });
  return found;
}

/// How many tensors a graph has, those of its stacks included.
template <class G>
constexpr int count_tensors() {
  int count = 0;
  for (const Info& info : G::plain.info) count += is_tensor(info.kind);
  unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      for (int layer = 0; layer < Layers::sets; ++layer) {
        Layers::with_graph(layer, [&]<class Child>(std::type_identity<Child>) { count += count_tensors<Child>(); });
      }
    }
  });
  return count;
}

/// Layers that share a graph may begin elsewhere: the initial values of a chunk of layers, where the block is given
/// the number of the layer.
template <class G, int stack_node, int chunk>
struct LayerInits {
  using Layers = typename G::template layers_of<stack_node>;
  static constexpr int most = []<int... k>(std::integer_sequence<int, k...>) {
    return std::max({1, count_tensors<typename Layers::template child<k>>()...});
  }(std::make_integer_sequence<int, Layers::distinct>{});
  static constexpr int begin = chunk * layers_per_evaluation;
  static constexpr int count = std::min(Layers::layers - begin, layers_per_evaluation);

  struct Table {
    bool layered = false;
    Init init[count][most]{};
  };
  static constexpr Table table = G::Source::with([](Node* root) {
    Table result;
    const Node* stack = node_at(root, stack_node);
    result.layered = stack->block->layered;
    for (int k = 0; k < count && result.layered; ++k) {
      const Layer built = layer_of(stack, begin + k);
      gather_inits(built.root, result.init[k]);
    }
    return result;
  });
};

/// Those of one layer, or null where the graph itself says them.
template <class G, int stack_node>
const Init* inits_of_layer(int layer) {
  const Init* inits = nullptr;
  unroll<0, G::template layers_of<stack_node>::chunks>([&]<int chunk>(std::integral_constant<int, chunk>) {
    constexpr const auto& values = LayerInits<G, stack_node, chunk>::table;
    if (values.layered && layer / layers_per_evaluation == chunk) inits = values.init[layer % layers_per_evaluation];
  });
  return inits;
}

/// What the names in a layer of a stack, or in a module that is evaluated again in backward, begin with.
inline std::string scope_of(const std::string& prefix, const Label& stack, int layer) {
  const StackSettings settings = stack_settings(stack.attributes);
  std::string scope = prefix;
  scope += stack.name.view();
  if (settings.recomputed) return scope;
  if (!settings.shared) scope.append(".").append(std::to_string(layer));
  return scope.append(".");
}

/// Collects tensors in the order of the buffers.
struct TensorLister {
  TensorList list;
  Index parameters = 0, constants = 0;  ///< elements so far
  std::vector<std::string> masks = {};  ///< names of dropouts
  std::vector<std::string> masks_in_functions = {};  ///< the pull-backs have these, too, here or in the graph around

  /// The leaves among some nodes of a graph. `inits` goes from tensor to tensor; null: the labels say them.
  void add(const Info* info, const Label* label, int begin, int end, const std::string& prefix, const Init*& inits) {
    for (int i = begin; i < end; ++i) {
      if (draws(info[i], label[i])) masks.push_back(prefix + std::string(label[i].name.view()));
      if (!is_tensor(info[i].kind)) continue;
      const bool learned = info[i].kind == Kind::parameter;
      Index& offset = learned ? parameters : constants;
      (learned ? list.parameters : list.constants)
          .push_back({prefix + std::string(label[i].name.view()), info[i].shape, label[i].rank, offset,
                      inits ? *inits++ : label[i].init, label[i].decays && !info[i].frozen, info[i].frozen});
      offset += round_up(info[i].shape.columns(), alignment);
    }
  }
};

template <class G>
void list_tensors(TensorLister& lister, const std::string& prefix, const Init*& inits) {
  int next = 0;
  unroll<0, G::plain.stacks>([&]<int s>(std::integral_constant<int, s>) {
    constexpr int node = G::plain.stack[s];
    if constexpr (G::plain.info[node].stack) {
      using Layers = typename G::template layers_of<node>;
      lister.add(G::flat.info, G::flat.label, next, node, prefix, inits);
      next = node + 1;
      for (int layer = 0; layer < Layers::sets; ++layer) {
        const std::string scope = scope_of(prefix, G::flat.label[node], layer);
        const Init* own = inits ? inits : inits_of_layer<G, node>(layer);
        Layers::with_graph(layer,
                           [&]<class Child>(std::type_identity<Child>) { list_tensors<Child>(lister, scope, own); });
        if (inits) inits = own;
      }
    } else {
      using Function = typename G::template rule_of<node, 0>;
      for (int i = 0; i < Function::count; ++i) {
        const Label& label = Function::flat.label[i];
        if (!draws(Function::flat.info[i], label)) continue;
        lister.masks_in_functions.push_back(prefix + std::string(label.name.view()));
      }
    }
  });
  lister.add(G::flat.info, G::flat.label, next, G::count, prefix, inits);
}

/// The compiler checks the names of one graph; the parts of recompute(...), of stacks and of functions are others.
[[gnu::cold]] inline void check_names(std::vector<std::string> names, const char* what, const char* hint) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(std::string("two ") + what + " of the model are called '" + *twice + "'", hint);
}
[[gnu::cold]] inline void check_names(const TensorLister& lister) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : lister.list.parameters) names.push_back(tensor.name);
  for (const TensorInfo& tensor : lister.list.constants) names.push_back(tensor.name);
  constexpr const char* scope = "give what makes them a scope of its own: named(\"name\", module)";
  check_names(std::move(names), "tensors", scope);
  check_names(lister.masks, "dropouts", scope);
  check_names(lister.masks_in_functions, "dropouts",
              "they would drop the same elements: give each use of the function one with a dropout of another name");
}

struct FoundShape {
  bool found = false;
  Shape shape{};
};

constexpr FoundShape find_parameter(Node* root, std::string_view name) {
  FoundShape result;
  Node* stack = nullptr;
  std::string_view rest;
  each_node(root, [&](Node* node) {
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
  if (!stack || result.found) return result;
  if (is_shared(*stack)) return find_parameter(layer_of(stack, 0).root, rest);
  int layer = 0;
  std::size_t i = 0;
  const int layers = stack_settings(stack->attributes).layers;
  for (; i < rest.size() && rest[i] >= '0' && rest[i] <= '9' && layer < layers; ++i) {
    layer = 10 * layer + (rest[i] - '0');
  }
  if (i == 0 || i >= rest.size() || rest[i] != '.' || layer >= layers) return result;
  const Layer built = layer_of(stack, layer);
  return find_parameter(built.root, rest.substr(i + 1));
}

}  // namespace detail

/// Names, places and initial values of all parameters and constants, in the order of the buffers.
///
/// Errors  throws Error where two have the same name, or two dropouts, which would drop the same elements
/// Cost    allocates the list; call it once
template <class G>
TensorList tensors_in() {
  detail::TensorLister lister;
  const Init* said_by_labels = nullptr;
  detail::list_tensors<G>(lister, "", said_by_labels);
  detail::check_names(lister);
  return std::move(lister.list);
}
template <auto const& model>
TensorList tensors_of() {
  return tensors_in<GraphOf<model>>();
}

/// Whether a model has a parameter of that name; works in static_assert.
template <auto const& model>
constexpr bool has_parameter(std::string_view name) {
  static_assert(detail::Gate<Root<model>>::sound);
  return Root<model>::with([name](Node* root) { return detail::find_parameter(root, name).found; });
}

/// The shape of a parameter; works in static_assert.
///
/// Errors  a name that the model does not have is no constant expression
template <auto const& model>
constexpr Shape parameter_shape(std::string_view name) {
  static_assert(detail::Gate<Root<model>>::sound);
  const detail::FoundShape found =
      Root<model>::with([name](Node* root) { return detail::find_parameter(root, name); });
  if (!found.found) throw "simplx: the model has no parameter of that name";
  return found.shape;
}

}  // namespace simplx
