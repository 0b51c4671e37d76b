// SPDX-License-Identifier: MIT
#include <simplx/nn/attention.hpp>

#include <simplx/nn/norm.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<MultiHeadAttention> full{8, {.heads = 2, .query_key_bias = true}};
inline constexpr test::OnTokens<ShapedAttention> shaped{
    8, ShapedAttention{.heads = 2, .query_key_bias = true}.at(0)};
inline constexpr test::OnTokens<SelfAttention<AttentionMatrix::skip_init>> skip_init{8, {.heads = 2, .alibi = true}};
static_assert(parameters<full> == 4 * 64 + 16 && parameters<shaped> == 2 * 64 + 16 + 64 + 2 + 6);
static_assert(parameters<skip_init> == 2 * 64 + 4);
static_assert(ShapedAttention{.heads = 2}.at(0).value.place == LayerPlace::first);
static_assert(ShapedAttention{.heads = 2}.at(1).value.place == LayerPlace::later);
using Normed = SelfAttention<AttentionMatrix::softmax, Linear, Linear, LayerNorm, RmsNorm>;
inline constexpr test::OnTokens<Normed> normed{8, {.heads = 2, .head_scale = HeadScale::before_projection}};
inline constexpr test::OnTokens<ShapedAttention> scaled_behind{
    8, ShapedAttention{.heads = 2, .head_scale = HeadScale::after_projection}.at(0)};
inline constexpr test::OnTokens<MultiHeadAttention> every_head{24, {.heads = 6}};
inline constexpr test::OnTokens<MultiHeadAttention> grouped{24, {.heads = 6, .key_heads = 2}};
inline constexpr test::OnTokens<MultiHeadAttention> one_key{24, {.heads = 12, .key_heads = 1, .mask = Mask::full}};
inline constexpr test::OnTokens<MultiHeadAttention> wide_values{
    24, {.heads = 6, .key_heads = 2, .value = {.out = 20}, .projection = {.out = 24}}};
static_assert(parameter_shape<wide_values>("projection.weight") == fixed_shape(60, 24));
inline constexpr test::OnTokens<MultiHeadAttention> turned{24, {.heads = 6, .key_heads = 2, .rotary = 100}};
inline constexpr auto turned_by_hand = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 24)), base = hyper("rotary_base", 100);
  const Expr query = rotary(x * weight("query.weight", 24, 24), 6, base), key = x * weight("key.weight", 24, 8);
  const Expr value = repeat_columns(x * weight("value.weight", 24, 8), 3, 4);
  const Expr mixed = softmax_attention(query, repeat_columns(rotary(key, 2, base), 3, 4), value, {.count = 6});
  return mixed * weight("projection.weight", 24, 24);
};
inline constexpr test::OnTokens<MultiHeadAttention> qk_normed{
    24, {.heads = 6, .key_heads = 2, .rotary = 100, .head_norm = true}};
inline constexpr auto qk_normed_by_hand = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 24)), base = hyper("rotary_base", 100);
  const Expr query = named("query_head_norm", HeadNorm{6})(x * weight("query.weight", 24, 24));
  const Expr key = named("key_head_norm", HeadNorm{2})(x * weight("key.weight", 24, 8));
  const Expr value = repeat_columns(x * weight("value.weight", 24, 8), 3, 4);
  const Expr turned_key = repeat_columns(rotary(key, 2, base), 3, 4);
  const Expr mixed = softmax_attention(rotary(query, 6, base), turned_key, value, {.count = 6});
  return mixed * weight("projection.weight", 24, 24);
};
static_assert(same_graph<qk_normed, qk_normed_by_hand>());
static_assert(parameters<qk_normed> == parameters<turned> + 2 * 4);
inline constexpr test::OnTokens<MultiHeadAttention> windowed{24, {.heads = 6, .window = 4, .mask = Mask::full}};
inline constexpr auto windowed_by_hand = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 24));
  const auto by = [&](const char* name, const Expr& of) { return of * weight(name, 24, 24); };
  const Heads heads{.count = 6, .mask = Mask::full, .window = 4};
  const Expr query = by("query.weight", x), key = by("key.weight", x), value = by("value.weight", x);
  return by("projection.weight", softmax_attention(query, key, value, heads));
};
static_assert(same_graph<windowed, windowed_by_hand>() && !same_graph<windowed, every_head>());
inline constexpr test::OnTokens<MultiHeadAttention> one_each{24, {.heads = 6, .key_heads = 6}};
inline constexpr test::OnTokens<SelfAttention<AttentionMatrix::shaped>> shared_keys{24, {.heads = 6, .key_heads = 3}};
static_assert(parameters<grouped> == 2 * 24 * 24 + 2 * 24 * 8 && parameters<one_key> == 2 * 24 * 24 + 2 * 24 * 2);
static_assert(parameters<shared_keys> == 24 * 24 + 24 * 12 + 3 * 6);
static_assert(same_graph<every_head, one_each>());
static_assert(parameters<normed> == 4 * 64 + 2 + 2 * 8 + 3 * 8);
static_assert(has_parameter<normed>("query_norm.gain") && has_parameter<normed>("value_norm.gain"));
static_assert(has_parameter<normed>("norm.bias") && has_parameter<normed>("head_scale"));
}  // namespace

TEST_SUITE_BEGIN("nn/attention");

TEST_CASE("gradients; the key's bias has none") {
  test::check_model<full>();
  test::check_model<shaped>();
  Evaluation<full> run(Rows{.tokens = 5});
  test::fill_inputs(run);
  run.forward();
  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(2, i);
  run.backward();
  double largest = 0;
  for (const double g : run.gradient("key.bias")) largest = std::max(largest, std::abs(g));
  CHECK(largest < 1e-15);
  CHECK(std::abs(run.gradient("query.bias")[0]) > 1e-9);
}

TEST_CASE("rotary positions turn queries and keys, those of shared heads once") {
  const auto run_of = [](auto& run) {
    test::fill_inputs(run);
    run.forward();
    return std::vector<double>(run.output().begin(), run.output().end());
  };
  Evaluation<turned> module(Rows{.tokens = 20}, 4, {3, 17});
  Evaluation<turned_by_hand> by_hand(Rows{.tokens = 20}, 4, {3, 17});
  REQUIRE(module.parameters().size() == by_hand.parameters().size());
  std::ranges::copy(module.parameters(), by_hand.parameters().begin());
  const auto with = run_of(module), expected = run_of(by_hand);
  CHECK(with == expected);
  module.constant("rotary_base")[0] = 1e4;
  CHECK(run_of(module) != with);
}

TEST_CASE("grouped queries: heads of keys and values serve several heads of queries that follow one another") {
  test::check_model<grouped>();
  test::check_model<one_key>();
  test::check_model<wide_values>();
  test::check_model<shared_keys>();
  test::check_model<turned>();
  test::check_model<qk_normed>();
  Evaluation<grouped> some(Rows{.tokens = 20}, 4, {3, 17});
  Evaluation<every_head> all(Rows{.tokens = 20}, 4, {3, 17});
  test::fill_inputs(some), test::fill_inputs(all);
  for (const char* name : {"query.weight", "projection.weight"}) {
    std::ranges::copy(some.parameter(name), all.parameter(name).begin());
  }
  for (const char* name : {"key.weight", "value.weight"}) {
    for (std::size_t row = 0; row < 24; ++row) {
      for (std::size_t head = 0; head < 6; ++head) {
        for (std::size_t c = 0; c < 4; ++c) {
          all.parameter(name)[row * 24 + head * 4 + c] = some.parameter(name)[row * 8 + head / 3 * 4 + c];
        }
      }
    }
  }
  some.forward(), all.forward();
  double worst = 0;
  for (std::size_t i = 0; i < some.output().size(); ++i) {
    worst = std::max(worst, std::abs(some.output()[i] - all.output()[i]));
  }
  CHECK(worst < 1e-15);
}

TEST_CASE("shaped attention begins as the identity, queries at zero") {
  Evaluation<shaped> run(Rows{.tokens = 20}, 4, {3, 17});
  test::fill_inputs(run);
  CHECK(std::ranges::count(run.parameter("query.weight"), 0.0) == 64);
  run.forward();
  double worst = 0;
  for (std::size_t i = 0; i < run.output().size(); ++i) {
    worst = std::max(worst, std::abs(run.output()[i] - run.input("x")[i]));
  }
  CHECK(worst < 1e-14);
}

TEST_CASE("alpha I + beta A begins as the identity too: beta is zero at first, and queries besides") {
  test::check_model<skip_init>();
  Evaluation<skip_init> run(Rows{.tokens = 20}, 4, {3, 17});
  test::fill_inputs(run);
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
  CHECK(std::ranges::count(run.parameter("query.weight"), 0.0) == 64);
  std::ranges::fill(run.parameter("beta"), 1.0);
  run.forward();
  CHECK(!std::ranges::equal(run.output(), run.input("x")));
  CHECK(run.constant("slopes").size() == 2);
}

TEST_CASE("norms and scales of heads have gradients, too") {
  test::check_model<normed>({.step = 1e-3});
  test::check_model<scaled_behind>({.step = 1e-3});
}

TEST_CASE("a head that is scaled to zero has no columns in the result") {
  static constexpr test::OnTokens<SelfAttention<AttentionMatrix::softmax>> bare{
      8, {.heads = 4, .head_scale = HeadScale::before_projection}};
  Evaluation<bare> run(Rows{.tokens = 3});
  test::fill_inputs(run);
  run.parameter("head_scale")[2] = 0;
  run.forward();
  for (std::size_t i = 0; i < 3 * 8; ++i) CHECK((run.output()[i] == 0) == (i % 8 / 2 == 2));
}

TEST_CASE("no heads are refused as such, not as gains or slopes of no elements") {
  const auto rule_of = [](const auto& attention) {
    Expr result = attention(input("x", rows_of(Axis::tokens, 8)));
    const Tag rule = result.node->rule;
    detail::release(result.node);
    return rule;
  };
  CHECK(rule_of(SelfAttention<AttentionMatrix::shaped>{.heads = 0}) == Tag("heads"));
  CHECK(rule_of(SelfAttention<AttentionMatrix::softmax>{.heads = 0, .alibi = true}) == Tag("heads"));
  CHECK(rule_of(MultiHeadAttention{.heads = 4, .key_heads = 3}) == Tag("key heads"));
  CHECK(rule_of(MultiHeadAttention{.heads = 4, .key_heads = -1}) == Tag("key heads"));
  CHECK(rule_of(MultiHeadAttention{.heads = 4, .key_heads = 8}) == Tag("key heads"));
  CHECK(rule_of(MultiHeadAttention{.heads = 3, .key_heads = 1}) == Tag("heads"));  // 3 do not divide the width
}

TEST_SUITE_END();
