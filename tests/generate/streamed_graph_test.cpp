// SPDX-License-Identifier: MIT
#include <simplx/generate/streamed_graph.hpp>

#include <simplx/generate/stream.hpp>
#include <simplx/ops/recompute.hpp>

#include "streams.hpp"

using namespace simplx;

namespace {

/// Attention in a stack, in a module that is recomputed, within layers that differ.
struct Nested {
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 8), indices("tokens", Axis::tokens));
    return stack("outer", 3, *this, x) * weight("head", 8, 11);
  }
  constexpr Expr operator()(int layer, Expr x) const {
    const auto inner = [](Expr y) {
      auto attended = softmax_attention(y, y * weight("key", 8, 8), y, {.count = 2});
      return y + attended;
    };
    x = x + cumulative_sum(x) * 0.1;
    return layer == 1 ? named("again", recompute(inner))(x) : stack("inner", 2, inner, x);
  }
};
inline constexpr Nested nested{};
using Run = StreamedGraph<Graph<Untrained<nested>>, Cpu<float>>;

// 2 + 1 + 2 attentions remember 8 numbers for each token; 3 running sums 8 numbers once, in whole vectors.
static_assert(Run::table.possible && Run::elements(32) == 5 * 8 * 32 + 3 * alignment);
// Of all steps those after the stack, the last that remembers, are for logits alone.
static_assert(Run::remembering == GraphOf<nested>::fusion.steps - 1);
inline constexpr auto forgetful = [] {
  return embedding(weight("table", 11, 8), indices("tokens", Axis::tokens)) * weight("head", 8, 11);
};
static_assert(StreamedGraph<Graph<Untrained<forgetful>>, Cpu<float>>::remembering == 0);
static_assert(cache_bytes<nested>(1) == (40 * cpu::token_block<float> + 3 * alignment) * 4);
static_assert(cache_bytes<nested, double>(cpu::token_block<double> + 1) ==
              (40 * 2 * cpu::token_block<double> + 3 * alignment) * 8);

}  // namespace

TEST_CASE("generate/streamed_graph: every layer of nested stacks remembers for itself") {
  CHECK(test::stream_error<nested, double>(60, {1}) < 1e-12);
  CHECK(test::stream_error<nested, double>(60, {11, 2}, 4) < 1e-12);
}
