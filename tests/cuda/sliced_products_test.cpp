// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/sliced_products.cuh>

#include "cuda/on_device.hpp"

#include <simplx/blocks/crammed_bert.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr Expr x_of(const char* name, Index cols) { return variable(name, rows_of(Axis::tokens, cols)); }
constexpr Expr w_of(const char* name, Index from, Index to) { return weight(name, from, to, normal(0.3)); }

struct Results {
  Expr first, second;
};
/// Halves without and with a bias, which stands on either side; slices that overlap and leave columns out, of odd
/// widths and from odd columns on.
constexpr auto taken = [] {
  const Expr x = x_of("x", 16);
  const auto [value, gate] = split_columns(x * w_of("up", 16, 48));
  const auto [b_value, b_gate] = split_columns(vector("c", 32, normal(1)) + x * w_of("biased", 16, 32));
  const auto of_odd = [y = x * w_of("odd", 16, 13)](Index begin) { return slice_columns(y, begin, 7); };
  return Results{multiply(value, gelu(gate)) * w_of("down", 24, 16) + multiply(b_value, sigmoid(b_gate)),
                 multiply(of_odd(1), of_odd(5)) * w_of("odd.down", 7, 5)};
};
/// Not taken: a product that something else reads, one by a transposed weight, by a computed one, with a bias that is
/// not a row of it, and one with a bias that is read before that is added; slices of what is no product.
constexpr auto left = [] {
  const Expr x = x_of("x", 16), read = x * w_of("read", 16, 8), early = x * w_of("early", 16, 8);
  const auto sum_of = [](Expr y) { return slice_columns(y, 0, 4) + slice_columns(y, 4, 4); };
  return Results{sum_of(read) * sum(read) + sum_of(x * transpose(w_of("turned", 8, 16))) +
                     sum_of(x * (2 * w_of("computed", 16, 8))) +
                     sum_of(x * w_of("with a column", 16, 8) + x_of("c", 1)),
                 sum_of(early + vector("b", 8, normal(1))) + sum_of(tanh(early)) + sum_of(x_of("z", 8))};
};
constexpr auto gated_blocks = [] {
  return stack("blocks", 2, BertSasP{{.heads = 2, .mask = Mask::full}, {.hidden = 32}}, x_of("x", 8));
};

/// How many ops of a name a GPU runs, or another backend.
template <class G>
constexpr int count(std::string_view op) {
  int found = 0;
  for (int i = 0; i < G::count; ++i) found += G::flat.label[i].op.view() == op;
  return found;
}
/// The graph of the first layer of a model that is a stack.
template <class G>
using LayerOf = typename G::template layers_of<G::plain.stack[0]>::template child<0>;
template <auto const& model>
using Lowered = GraphOn<Root<model>, Cuda<>>;

}  // namespace

TEST_SUITE_BEGIN("cuda/sliced_products");

TEST_CASE("slices of products are products with columns of the weight") {
  static_assert(count<GraphOf<taken>>("slice_columns") == 6 && count<GraphOf<taken>>("matmul") == 5);
  static_assert(count<Lowered<taken>>("slice_columns") == 2 && count<Lowered<taken>>("matmul") == 8);  // of the bias
  static_assert(count<LayerOf<GraphOf<gated_blocks>>>("slice_columns") == 2);
  static_assert(count<LayerOf<Lowered<gated_blocks>>>("slice_columns") == 0);
}

TEST_CASE("nothing else changes, least of all where parameters lie") {
  static_assert(count<Lowered<left>>("slice_columns") == count<GraphOf<left>>("slice_columns"));
  static_assert(count<Lowered<left>>("matmul") == count<GraphOf<left>>("matmul"));
  const TensorList plain = tensors_of<taken>(), lowered = tensors_in<Lowered<taken>>();
  REQUIRE(plain.parameters.size() == lowered.parameters.size());
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    CHECK(plain.parameters[i].name == lowered.parameters[i].name);
    CHECK(plain.parameters[i].offset == lowered.parameters[i].offset);
  }
}

TEST_CASE("results and gradients are those of the CPU, in every precision") {
  for (const Index tokens : {Index(1), Index(13)}) {
    test::same_on_device<taken>(tokens);
    test::float_on_device<taken>(tokens);
    test::bfloat16_on_device<taken>(tokens, 0.02);
    test::same_on_device<left>(tokens);
  }
  test::same_on_device<gated_blocks>(13, {5, 8});
}

TEST_SUITE_END();
