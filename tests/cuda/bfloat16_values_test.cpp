// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/bfloat16_values.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/activation.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/norm.hpp>

#include <algorithm>
#include <array>

using namespace simplx;
using namespace simplx::gpu;

namespace {

struct Results {
  Expr residual, read_by_a_result;
};
/// What is stored in bfloat16: the norm, which attention and products read; query and key; attention's result; the four
/// groups before a product, of which cuBLASLt finishes three; products that elementwise ops read: six terms of a sum,
/// with whose seventh it is finished, and what the pull-backs of GELU and sin read. What is not: inputs, the sin that a
/// result reads, tanh, whose pull-back is 1 - y^2, the residual stream, rows of 12.
constexpr auto mixed = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 16));
  const auto w = [](const char* name, Index to = 16, Index from = 16) { return weight(name, from, to, normal(0.3)); };
  const Expr n = rms_norm(x, vector("gain", 16, normal(1)), hyper("epsilon", 1e-6)), b = vector("b", 16, normal(1));
  const Expr attended = softmax_attention(n * w("query"), n * w("key"), n, {.count = 2});
  const Expr told = sin(x * w("told"));
  const Expr narrow = n * w("in", 12) * w("out", 16, 12) + tanh(n * w("steep")) * w("f");
  return Results{attended * w("projection") + relu(n * w("up")) * w("down") + (n * w("biased") + b) * w("c") +
                     relu(b + n * w("both")) * w("d") + gelu(n * w("kept")) * w("e") + narrow,
                 told + told * w("also")};
};
using G = GraphOf<mixed>;
/// What cuBLASLt does not finish, in bfloat16: a product that is not kept, which lies where the group's value will, and
/// a ReLU whose pull-back is a kernel's and reads it.
constexpr auto unfinished = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 16));
  const auto w = [](const char* name) { return weight(name, 16, 16, normal(0.3)); };
  return (0.5 * (x * w("scaled"))) * w("a") + relu(x * w("one") + x * w("other")) * w("b");
};

constexpr Expr logits_of(Index words) {
  return variable("x", rows_of(Axis::tokens, 16)) * weight("head", 16, words, normal(0.3));
}
constexpr Expr loss_of(Expr logits) { return cross_entropy(logits, indices("labels", Axis::tokens)); }
/// Neither logits nor their gradient are float; with 12 words both are.
constexpr auto head = [] { return loss_of(logits_of(24)); };
constexpr auto narrow_head = [] { return loss_of(logits_of(12)); };
/// A group lies between the loss and the product, which its pull-back reads.
constexpr auto biased_head = [] { return loss_of(sin(logits_of(1032)) + vector("bias", 1032, normal(1))); };
/// One whose pull-back reads the logits: they are float, and their gradient lies elsewhere.
constexpr auto capped_head = [] { return loss_of(tanh(logits_of(1032) + vector("bias", 1032, normal(1)))); };
/// Attention with gains stores floats, and so the gradient in their place.
constexpr auto attended_head = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 16));
  const auto gain = [](const char* name) { return weight(name, 1, 2, normal(1)); };
  return loss_of(skip_init_attention(x * weight("query", 16, 16, normal(0.3)), x, x, gain("alpha"), gain("beta"),
                                     {.count = 2}));
};
/// So does a norm's gradient, which is float and would not fit over bfloat16.
constexpr auto normed_head = [] {
  return loss_of(rms_norm(logits_of(24), vector("gain", 24, normal(1)), hyper("epsilon", 1e-6)));
};
/// cuBLASLt adds the bias to what it stores.
constexpr auto plain_head = [] { return loss_of(logits_of(24) + vector("bias", 24, normal(1))); };
/// Two losses add to one gradient, which is float, as what lies below it.
constexpr auto two_losses = [] {
  const Expr logits = logits_of(24);
  return Results{loss_of(logits), cross_entropy(logits, indices("other labels", Axis::tokens))};
};

/// How many values or gradients of an op are stored so, and of all of them.
constexpr int count_of(const std::array<bool, G::count>& stored, std::string_view op) {
  int count = 0;
  for (int i = 0; i < G::count; ++i) count += stored[static_cast<std::size_t>(i)] && G::flat.label[i].op.view() == op;
  return count;
}
constexpr auto count_all = [](const auto& stored) { return std::ranges::count(stored, true); };
constexpr int bfloat16_of(std::string_view op) { return count_of(bfloat16_values<G>, op); }
constexpr int gradients_of(std::string_view op) { return count_of(bfloat16_gradients<G>, op); }

}  // namespace

TEST_SUITE_BEGIN("cuda/bfloat16_values");

TEST_CASE("values are stored in bfloat16 for products, attention and a loss, products for elementwise ops, too") {
  static_assert(bfloat16_of("rms_norm") == 1 && bfloat16_of("softmax_attention") == 1 && bfloat16_of("matmul") == 10);
  static_assert(bfloat16_of("relu") == 2 && bfloat16_of("add") == 1 && bfloat16_of("gelu") == 1 &&
                count_all(bfloat16_values<G>) == 16);
  static_assert(!stores_bfloat16<Cuda<>, G, 0>);
}

/// Not those that a norm writes, that several add to (told), of rows of 12, and of what ends in the results.
TEST_CASE("gradients are stored in bfloat16 on their way from one product to another") {
  static_assert(gradients_of("relu") == 2 && gradients_of("add") == 1 && gradients_of("gelu") == 1);
  static_assert(gradients_of("tanh") == 1 && gradients_of("matmul") == 8);
  static_assert(gradients_of("softmax_attention") == 1 && count_all(bfloat16_gradients<G>) == 14);
  static_assert(!stores_bfloat16_gradient<Cuda<>, G, 0>);
}

TEST_CASE("logits are stored in bfloat16 if their gradient is, which takes their place") {
  constexpr auto stores = []<class H>(std::type_identity<H>, auto values, auto gradients) {
    return count_all(bfloat16_values<H>) == values && count_all(bfloat16_gradients<H>) == gradients;
  };
  static_assert(stores(std::type_identity<GraphOf<head>>(), 1, 1));
  static_assert(stores(std::type_identity<GraphOf<narrow_head>>(), 0, 0));
  static_assert(stores(std::type_identity<GraphOf<biased_head>>(), 2, 2));
  static_assert(stores(std::type_identity<GraphOf<capped_head>>(), 0, 2));
  static_assert(stores(std::type_identity<GraphOf<plain_head>>(), 1, 2));
  static_assert(stores(std::type_identity<GraphOf<attended_head>>(), 1, 1));  // of the query
  static_assert(stores(std::type_identity<GraphOf<normed_head>>(), 0, 0));
  static_assert(stores(std::type_identity<GraphOf<two_losses>>(), 1, 0));
}

TEST_CASE("results and gradients are those of the CPU, to the rounding of bfloat16, under every schedule") {
  test::bfloat16_on_device<mixed>(11, 0.03, {4, 7});
  test::bfloat16_on_device<unfinished>(11, 0.03);
  test::bfloat16_on_device<head>(9, 0.03);
  test::bfloat16_on_device<biased_head>(5, 0.03);
  test::bfloat16_on_device<capped_head>(5, 0.03);
  test::bfloat16_on_device<plain_head>(9, 0.03);
  test::bfloat16_on_device<normed_head>(9, 0.03);
  test::bfloat16_on_device<two_losses>(9, 0.03);
  test::bfloat16_on_device<attended_head>(9, 0.03);
}

TEST_SUITE_END();
