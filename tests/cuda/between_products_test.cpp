// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/between_products.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/activation.hpp>
#include <simplx/ops/stop_gradient.hpp>
#include <simplx/ops/transpose.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

using Bfloat16 = Cuda<Precision::bfloat16>;
constexpr Expr x_of(const char* name, Index cols) { return variable(name, rows_of(Axis::tokens, cols)); }
constexpr Expr w_of(const char* name, Index from, Index to) { return weight(name, from, to, normal(0.3)); }

constexpr Expr b_of(const char* name, Index size) { return vector(name, size, normal(1)); }

constexpr auto taken = [] {
  const Expr x = x_of("x", 16);
  return relu(x * w_of("a.up", 16, 72)) * w_of("a.down", 72, 16) +
         relu(x * w_of("b.up", 16, 128) + b_of("b.bias", 128)) * w_of("b.down", 128, 16) +
         gelu_tanh(x * w_of("c.up", 16, 24)) * w_of("c.down", 24, 16) +
         gelu_tanh(x * w_of("d.up", 16, 40) + b_of("d.bias", 40)) * w_of("d.down", 40, 16);
};
/// Of erf, read twice (of both kinds), before the transpose of a weight, with a bias
/// whose weight is frozen or which is computed, and what no product makes.
constexpr auto left = [] {
  const Expr x = x_of("x", 16);
  const auto z = [&](const char* name) { return x * w_of(name, 16, 128); };
  const auto of = [](Expr h, const char* down) { return h * w_of(down, 128, 16); };
  const Expr some = relu(z("some.up")), others = gelu_tanh(z("others.up"));
  return of(gelu(z("erf.up")), "erf.down") +
         of(some, "some.down") + of(some, "some.again") + of(others, "others.down") + of(others, "others.again") +
         relu(z("tied.up")) * transpose(w_of("tied.down", 16, 128)) +
         of(relu(x * frozen(w_of("frozen.up", 16, 128)) + b_of("frozen.bias", 128)), "frozen.down") +
         of(relu(z("computed.up") + 2 * b_of("computed.bias", 128)), "computed.down") +
         of(relu(x_of("made", 128)), "made.down");
};

template <auto const& model, class Backend = Bfloat16>
constexpr int count(bool biased) {
  using G = GraphOf<model>;
  int found = 0;
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    using Between = BetweenProducts<Backend, G, i>;
    found += Between::taken && (Between::bias >= 0) == biased;
  });
  return found;
}

/// Where nothing is differentiated there are no slopes to keep.
constexpr auto forward_only = [] {
  const Expr x = input("x", rows_of(Axis::tokens, 16));
  return gelu_tanh(x * frozen(w_of("up", 16, 24))) * frozen(w_of("down", 24, 16));
};

constexpr auto as_made = test::Parameters::initial;  // they are not small

/// By their norm: where z is nearly 0 rounding moves single elements from one side of ReLU to the other.
template <auto const& model>
void check(Index tokens, const std::vector<double>& found) {
  const auto exact = test::expected<model>(tokens, {}, {}, as_made);
  REQUIRE(found.size() == exact.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - exact[i]) * (found[i] - exact[i]), norm += exact[i] * exact[i];
  }
  CHECK(std::sqrt(difference / norm) < 0.04);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/between_products");

TEST_CASE("activations between products are theirs, in bfloat16") {
  static_assert(count<taken>(false) == 2 && count<taken>(true) == 2);
  static_assert(count<left>(false) == 0 && count<left>(true) == 0);
  static_assert(count<forward_only>(false) == 0);
  static_assert(count<taken, Cuda<>>(false) == 0 && count<taken, Cuda<Precision::tf32>>(true) == 0);
}

TEST_CASE("their results and gradients are those of the CPU, to the rounding of bfloat16, under every schedule") {
  for (const Index tokens : {Index(1), Index(13)}) {
    check<taken>(tokens, test::same_bits([&] { return test::all_of<taken, Bfloat16>(tokens, {}, {}, as_made); }));
  }
  check<left>(13, test::all_of<left, Bfloat16>(13, {}, {}, as_made));
  check<forward_only>(13, test::all_of<forward_only, Bfloat16>(13, {}, {}, as_made));
}

TEST_SUITE_END();
