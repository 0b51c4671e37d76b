// SPDX-License-Identifier: MIT
#include <simplx/core/parameters.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/recompute.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr auto twice = [] {
  const auto again = recompute(Linear{.out = 8});
  return again(again(variable("x", rows_of(Axis::tokens, 8))));
};
constexpr auto dropped = [](Expr x) { return dropout("mask", x, 0.5); };
constexpr Expr rows() { return variable("x", rows_of(Axis::tokens, 8)); }
inline constexpr auto dropped_twice = [] { return recompute(dropped)(recompute(dropped)(rows())); };
inline constexpr auto dropped_by_layers = [] {
  const auto again = recompute(dropped);
  return named("a", again)(named("b", again)(stack("blocks", 2, again, rows())));
};
constexpr auto own = with_pull_back(dropped, [](Expr dy, Expr, Expr) { return dropout("mask", dy, 0.5); });
inline constexpr auto dropped_by_function = [] {
  return stack("blocks", 2, [](Expr x) { return own(x); }, own(rows()));
};
inline constexpr auto dropped_by_function_twice = [] { return own(own(rows())); };
inline constexpr Decoder model{
    .block = sas_p, .vocab = 61, .width = 32, .heads = 4, .hidden = 128, .layers = 3, .context = 16};
static_assert(parameter_shape<model>("blocks.1.mlp.up.weight") == fixed_shape(32, 128));
static_assert(parameter_shape<model>("blocks.0.attention.value.alpha") == fixed_shape(1, 1));
static_assert(!has_parameter<model>("blocks.3.mlp.up.weight") && !has_parameter<model>("blocks.x.mlp") &&
              !has_parameter<model>("blocks") && !has_parameter<model>("blocks.99999999999.mlp.up.weight"));

// Layers that share a graph and begin at different numbers, stacks in stacks, frozen and recomputed layers, those that
// share their parameters, leaves before, between and after them.
struct Begins {
  int outer;
  constexpr Expr operator()(int layer, Expr x) const {
    return x * scalar("gain", constant(10 * outer + layer)) + weight("shift", 1, 8, normal(0.01 * (layer + 1)));
  }
};
struct Nested {
  constexpr Expr operator()(int layer, Expr x) const {
    auto y = named("linear", Linear{.init = layer == 1 ? orthogonal : normal(0.5)})(x);
    y = stack("inner", layer == 2 ? 3 : 2, Begins{layer}, y);
    return y + scalar("after", constant(layer)) * x;
  }
};
struct Same {
  constexpr Expr operator()(Expr x) const { return named("norm", RmsNorm{})(stack("deep", 2, Begins{7}, x)); }
};
constexpr auto stacks = [] {
  auto x = variable("x", rows_of(Axis::tokens, 8));
  x = x * scalar("first", constant(5));
  x = stack("blocks", 30, Nested{}, x);
  x = x * scalar("between", constant(6));
  x = stack("frozen", 2, frozen(Nested{}), x);
  x = stack("again", 2, recompute(Same{}), x);
  x = stack("shared", 3, Shared{Nested{}}, x);
  x = stack("shared_again", 30, recompute_first(2, Shared{Nested{}}), x);
  const auto shares_within = [](int layer, Expr y) {
    return stack("inner", 2, Shared{Begins{layer}}, y) * scalar("after", constant(layer));
  };
  x = stack("shared_within", 3, shares_within, x);
  return x + scalar("last", constant(8));
};

// The same list, from the expressions themselves.
void list_expressions(Node* root, const std::string& prefix, TensorList& list) {
  std::vector<Node*> nodes;
  detail::postorder(root, [&](Node* node) {
    node->index = static_cast<int>(nodes.size());
    nodes.push_back(node);
  });
  for (Node* node : nodes) {
    const std::string name = prefix + std::string(node->name.view());
    const bool learned = node->kind == Kind::parameter;
    if (learned || node->kind == Kind::constant) {
      (learned ? list.parameters : list.constants)
          .push_back({name, node->shape, node->rank, 0, node->init, node->decays && !node->frozen, node->frozen});
    }
    const bool shared = detail::is_shared(*node);
    for (int layer = 0; node->block && layer < (shared ? 1 : node->attributes.integers[0]); ++layer) {
      const detail::Layer built = detail::layer_of(node, layer);
      const std::string scope = shared ? name + "." : name + "." + std::to_string(layer) + ".";
      list_expressions(built.root, detail::is_recomputed(*node) ? name : scope, list);
    }
  }
}

template <auto const& model>
void check_list() {
  TensorList expected;
  const detail::Evaluated evaluated = detail::evaluate(model);
  list_expressions(evaluated.root, "", expected);
  const TensorList found = tensors_of<model>();
  const auto check = [](const std::vector<TensorInfo>& tensors, const std::vector<TensorInfo>& others) {
    REQUIRE(tensors.size() == others.size());
    Index offset = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      INFO(others[i].name);
      CHECK(tensors[i].name == others[i].name);
      CHECK(tensors[i].shape == others[i].shape);
      CHECK(tensors[i].rank == others[i].rank);
      CHECK(tensors[i].init == others[i].init);
      CHECK(tensors[i].decays == others[i].decays);
      CHECK(tensors[i].frozen == others[i].frozen);
      CHECK(tensors[i].offset == offset);
      offset += round_up(tensors[i].size(), alignment);
    }
  };
  check(found.parameters, expected.parameters);
  check(found.constants, expected.constants);
}
}  // namespace

TEST_CASE("core/parameters: the list is that of the expressions, whatever layers share and wherever they begin") {
  check_list<model>();
  check_list<stacks>();
}

TEST_CASE("core/parameters: tensors cover the flat buffer once, aligned, under the names of checkpoints") {
  const TensorList list = tensors_of<model>();
  Index end = 0, total = 0;
  for (const TensorInfo& tensor : list.parameters) {
    CHECK(tensor.offset == end);
    CHECK(tensor.offset % alignment == 0);
    end += round_up(tensor.size(), alignment);
    total += tensor.size();
    CHECK(parameter_shape<model>(tensor.name) == tensor.shape);
  }
  CHECK(end == GraphOf<model>::layout.parameters);
  CHECK(total == parameters<model>);
  CHECK(list.parameters.front().name == "embedding.weight");
  CHECK(list.parameters.back().name == "final_norm.gain");
  Index constants = 0;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : list.constants) {
    CHECK(tensor.offset == constants);
    constants += round_up(tensor.size(), alignment);
    names.push_back(tensor.name);
  }
  CHECK(constants == GraphOf<model>::layout.constants);
  CHECK(std::ranges::count(names, "blocks.2.norm1.epsilon") == 1);
  CHECK(std::ranges::count(names, "position.table") == 1);
}

TEST_CASE("two tensors of one name in different parts of a model are refused") {
  CHECK_THROWS_WITH_AS(tensors_of<twice>(), doctest::Contains("two tensors of the model are called 'weight'"), Error);
}

TEST_CASE("two dropouts of one name, which would drop the same elements, are refused in parts of a model, too") {
  const auto refused = doctest::Contains("two dropouts of the model are called 'mask'");
  CHECK_THROWS_WITH_AS(tensors_of<dropped_twice>(), refused, Error);
  CHECK_THROWS_WITH_AS(tensors_of<dropped_by_function_twice>(), refused, Error);
  CHECK(tensors_of<dropped_by_layers>().parameters.empty());
  CHECK(tensors_of<dropped_by_function>().parameters.empty());
}
