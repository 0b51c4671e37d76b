// SPDX-License-Identifier: MIT
#include <simplx/core/layers.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Results {
  Expr sum, difference;
};
constexpr auto both = [] {
  const Expr x = input("x", rows_of(Axis::tokens, 4)), gain = vector("gain", 4);
  return Results{x + gain, x - gain};
};
constexpr auto one = [] { return both().difference; };
struct Only {
  Expr result;
};
constexpr auto aggregate_of_one = [] { return Only{both().sum}; };
struct Narrower {
  constexpr Expr operator()(int layer, Expr x) const { return x * weight("w", 4, layer == 1 ? 3 : 4); }
};
constexpr auto narrower = [] { return stack("s", 2, Narrower{}, input("x", rows_of(Axis::tokens, 4))); };

/// "output0 add, output1 subtract": the name of each result, and the op after it.
template <class Model>
constexpr std::string results_of(const Model& model) {
  const detail::Evaluated evaluated = detail::evaluate(model);
  std::string words;
  for (int i = 0; i < evaluated.root->argument_count; ++i) {
    const Node* const result = evaluated.root->arguments[i];
    words += (words.empty() ? "" : ", ") + std::string(result->name.view()) + " ";
    words += result->arguments[0]->op.view();
  }
  return words;
}

}  // namespace

TEST_SUITE_BEGIN("core/layers");

TEST_CASE("results are numbered in the order of the aggregate, a single one is not") {
  CHECK(results_of(both) == "output0 add, output1 subtract");
  CHECK(results_of(one) == "output subtract");
  CHECK(results_of(aggregate_of_one) == "output0 add");
}

TEST_CASE("a layer that changes the width breaks a rule, with both widths; the others do not") {
  const detail::Evaluated evaluated = detail::evaluate(narrower);
  const Node* const stack = evaluated.root->arguments[0]->arguments[0];
  const auto check = [&](int layer, Tag rule, Index width) {
    const detail::LayerNodes nodes = detail::make_layer(stack, layer);
    CHECK(nodes.root->rule == rule);
    CHECK(nodes.root->left == width);
    nodes.free();
  };
  check(0, {}, 0);
  check(1, "block width", 3);
}

TEST_SUITE_END();
