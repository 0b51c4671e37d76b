// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/graph_on.cuh>

#include "support.hpp"

#include <simplx/cuda/ops.cuh>
#include <simplx/models/decoder.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/linear_cross_entropy.hpp>
#include <simplx/ops/norm.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

// That nothing is written over its room the comparisons with the CPU show: their Evaluation has these graphs.
using Bfloat16 = Cuda<Precision::bfloat16>;
constexpr int tokens_axis = static_cast<int>(Axis::tokens);

struct Results {
  Expr first, second;
};
constexpr Expr w(const char* name, Index from, Index to) { return weight(name, from, to, normal(0.3)); }
/// Kept for backward are the norm of 16 columns and what it was divided by, ReLU's h of 128 with its mask, a bit for
/// each, GELU's h and z of 24, and the tanh of 8, which stays float.
constexpr auto branches = [] {
  const Expr n = rms_norm(variable("x", rows_of(Axis::tokens, 16)), vector("gain", 16, normal(1)),
                          hyper("epsilon", 1e-6));
  return Results{relu(n * w("up", 16, 128)) * w("down", 128, 16) + tanh(n * w("steep", 16, 8)) * w("shallow", 8, 16),
                 gelu_tanh(n * w("wide", 16, 24)) * w("narrow", 24, 16)};
};
/// The gradient of the logits takes their place; the loss and the logarithm of the sum are float.
constexpr auto head = [] {
  return cross_entropy(variable("x", rows_of(Axis::tokens, 16)) * w("head", 16, 24), indices("labels", Axis::tokens));
};
template <Index vocab>
constexpr auto in_tiles = [] {
  return linear_cross_entropy(variable("x", rows_of(Axis::tokens, 16)), weight("table", vocab, 16, normal(0.3)),
                              indices("labels", Axis::tokens));
};
constexpr auto in_tiles_50304 = in_tiles<50304>;  // nvcc 13.0 does not see into variables that are templates
constexpr auto in_tiles_250000 = in_tiles<250000>;

template <auto const& model, class Backend>
constexpr Index kept = GraphOn<Root<model>, Backend>::layout.kept.on[tokens_axis];
template <auto const& model, class Backend>
constexpr Index temporary = GraphOn<Root<model>, Backend>::layout.temporary.on[tokens_axis];
template <auto const& model, class Backend>
constexpr Index scratch(const Rows& rows) {
  return detail::graph_scratch<GraphOn<Root<model>, Backend>, Backend>(rows);
}

constexpr Decoder gpt2{.block = pre_ln, .vocab = 50304, .width = 768, .heads = 12, .layers = 12, .context = 1024};
constexpr Decoder gpt2_in_tiles = [] {
  Decoder model = gpt2;
  model.tiled_loss = true;
  return model;
}();

/// Of a step over so many rows in bfloat16: activations, and the parameters with gradient, two moments and rounded copy.
template <auto const& model>
constexpr double gigabytes(const Rows& rows) {
  using G = GraphOn<Root<model>, Bfloat16>;
  const Index columns = kept<model, Bfloat16> + temporary<model, Bfloat16>;
  const auto floats = static_cast<double>(columns * rows.tokens + scratch<model, Bfloat16>(rows));
  return 1e-9 * (4 * floats + (4 * 4 + 2) * static_cast<double>(G::layout.parameters));
}

}  // namespace

TEST_SUITE_BEGIN("cuda/graph_on");

TEST_CASE("what is stored in bfloat16 takes half of the room") {
  static_assert(kept<branches, Cuda<>> == 16 + 1 + 128 + 24 + 24 + 8);
  static_assert(kept<branches, Bfloat16> == 8 + 1 + 64 + 12 + 12 + 8);
  static_assert(kept<head, Cuda<>> == 24 + 2);
  static_assert(kept<head, Bfloat16> == 12 + 2);
}

/// All but residual streams and what norms divide by, which are float.
TEST_CASE("a layer of GPT-2 keeps 22 KB a token instead of 37, its logits 101 KB instead of 201") {
  constexpr Index layers = 12, streams = 2 * 768, norms_and_softmax = 2 + 12, rounded = 6 * 768 + 3072;
  constexpr Index embedded = 768, final_norm_and_logits = 768 + 50304, loss = 1 + 2;
  static_assert(kept<gpt2, Cuda<>> ==
                layers * (streams + norms_and_softmax + rounded) + embedded + final_norm_and_logits + loss);
  static_assert(kept<gpt2, Bfloat16> ==
                layers * (streams + norms_and_softmax + rounded / 2) + embedded + final_norm_and_logits / 2 + loss);
  static_assert(temporary<gpt2, Bfloat16> < temporary<gpt2, Cuda<>>);
}

/// What is rounded are gradients of residual streams, and x of the head.
TEST_CASE("what is stored in bfloat16 needs no room to be rounded, 1.65 GB for the logits of 16 contexts") {
  constexpr Index rows = 16 * 1024;
  static_assert(scratch<gpt2, Bfloat16>({.tokens = rows, .sequences = 16}) < 390 * rows);
  static_assert(scratch<head, Bfloat16>({.tokens = rows, .sequences = 16}) < 9 * rows);
}

TEST_CASE("a step of GPT-2 with 16 contexts takes 8.5 GB, 7.3 with its loss in tiles") {
  constexpr Rows rows{.tokens = 16 * 1024, .sequences = 16};
  CHECK(gigabytes<gpt2>(rows) == doctest::Approx(8.5).epsilon(0.006));
  CHECK(gigabytes<gpt2_in_tiles>(rows) == doctest::Approx(7.25).epsilon(0.006));
}

TEST_CASE("a loss in tiles holds half a gigabyte of logits at the most") {
  constexpr Rows rows{.tokens = 64 * 1024, .sequences = 64};
  constexpr double gigabyte = 1e9 / sizeof(float);
  static_assert(scratch<in_tiles_50304, Bfloat16>(rows) * 2 == 4096 * 50304 + 4096 * 16 + 50304);
  static_assert(scratch<in_tiles_250000, Bfloat16>(rows) < 0.55 * gigabyte);
  static_assert(scratch<in_tiles_250000, Cuda<>>(rows) < 0.55 * gigabyte);
  static_assert(scratch<in_tiles_250000, Bfloat16>(rows) > 0.5 * gigabyte);
}

TEST_SUITE_END();
