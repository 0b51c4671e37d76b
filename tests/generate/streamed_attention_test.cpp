// SPDX-License-Identifier: MIT
#include <simplx/generate/streamed_attention.hpp>

#include <simplx/generate/generate.hpp>
#include <simplx/generate/streamed_graph.hpp>
#include <simplx/nn/attention.hpp>

#include "streams.hpp"

using namespace simplx;

namespace {

enum class Key { projected, biased, transposed, used_twice, value_of_its_own, repeated };

/// One attention over x, (tokens, 6), whose keys are made in different ways.
template <Key how>
struct Attends {
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 6), indices("tokens", Axis::tokens));
    auto query = x * weight("query", 6, 6), W = weight("key", 6, 6);
    auto key = how == Key::transposed ? x * transpose(W) : x * W;
    if (how == Key::biased) key = key + vector("bias", 6);
    if (how == Key::repeated) key = repeat_columns(slice_columns(key, 0, 3), 2);  // columns, which are no heads
    auto value = how == Key::value_of_its_own ? x * weight("value", 6, 6) : x;
    auto y =
        shaped_attention(query, key, value, vector("alpha", 2), vector("beta", 2), vector("gamma", 2), {.count = 2});
    return (how == Key::used_twice ? y + key : y) * weight("head", 6, 11);
  }
};
template <Key how>
inline constexpr Attends<how> model{};

/// What it remembers for each token, and whether the projection of the keys is left out.
template <Key how>
constexpr Index remembered = [] {
  using Run = StreamedGraph<Graph<Untrained<model<how>>>, Cpu<float>>;
  return (Run::elements(64) - Run::elements(32)) / 32;
}();
template <Key how>
constexpr int left_out() {
  using Run = StreamedGraph<Graph<Untrained<model<how>>>, Cpu<float>>;
  int count = 0;
  for (const bool idle : Run::table.idle) count += idle;
  return count;
}

static_assert(remembered<Key::projected> == 6 && left_out<Key::projected>() == 1);
static_assert(remembered<Key::used_twice> == 6 && left_out<Key::used_twice>() == 0);
static_assert(remembered<Key::biased> == 12 && left_out<Key::biased>() == 0);
static_assert(remembered<Key::transposed> == 12 && left_out<Key::transposed>() == 0);
static_assert(remembered<Key::value_of_its_own> == 12 && left_out<Key::value_of_its_own>() == 0);
static_assert(remembered<Key::repeated> == 12 && left_out<Key::repeated>() == 0);
static_assert(StreamedGraph<Graph<Untrained<model<Key::projected>>>, Cpu<float>>::elements(0) == alignment);  // 6 + 2

/// Four heads, of which two share their keys, and their values if they have a matrix.
template <AttentionMatrix matrix, class Value>
struct Grouped {
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 12), indices("tokens", Axis::tokens));
    return SelfAttention<matrix, Value>{.heads = 4, .key_heads = 2}(x) * weight("head", 12, 11);
  }
};
inline constexpr Grouped<AttentionMatrix::softmax, Linear> grouped{};
inline constexpr Grouped<AttentionMatrix::shaped, Identity> grouped_keys{};
static_assert(StreamedGraph<Graph<Untrained<grouped>>, Cpu<float>>::elements(64) == 64 * (6 + 6));
static_assert(StreamedGraph<Graph<Untrained<grouped_keys>>, Cpu<float>>::elements(64) == 64 * 12 + alignment);
static_assert([] {
  int idle = 0;
  for (const bool is : StreamedGraph<Graph<Untrained<grouped_keys>>, Cpu<float>>::table.idle) idle += is;
  return idle;
}() == 2);  // the projection, and its repetition

/// Tokens that see a window: the first layer all, the second five and the third eleven.
struct Windows {
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 12), indices("tokens", Axis::tokens));
    const auto attention = [](int layer, Expr y) {
      const ShapedAttention shaped{.heads = 3, .alibi = true, .window = layer == 0 ? 0 : 6 * layer - 1};
      return y + named("attention", shaped.at(layer))(y);
    };
    return stack("blocks", 3, attention, x) * weight("head", 12, 11);
  }
};
inline constexpr Windows windows{};
// Of a long context keys and values of the first layer alone are remembered.
static_assert(cache_bytes<windows>(3000) - cache_bytes<windows>(1976) == 1024 * 24 * 4);

/// Layers that all see seven tokens, by rotary positions; those of one remember what keys are projected from.
inline constexpr auto endless = [] {
  auto x = embedding(weight("table", 11, 12), indices("tokens", Axis::tokens));
  const auto attention = [](Expr y) {
    return y + SelfAttention<AttentionMatrix::shaped, Identity>{.heads = 3, .rotary = 100, .window = 7}(y);
  };
  return stack("blocks", 2, attention, x) * weight("head", 12, 11);
};
static_assert(cache_bytes<endless>(1'000'000'000) == cache_bytes<endless>(1000));

}  // namespace

TEST_CASE("generate/streamed_attention: heads that share keys remember them once") {
  CHECK(test::stream_error<grouped, double>(50, {1}) < 1e-12);
  CHECK(test::stream_error<grouped, double>(50, {3, 1}, 5) < 1e-12);
  CHECK(test::stream_error<grouped_keys, double>(50, {1}) < 1e-12);
}

TEST_CASE("generate/streamed_attention: of what is remembered a token sees a window, of each layer its own") {
  CHECK(test::stream_error<windows, double>(90, {1}) < 1e-12);
  CHECK(test::stream_error<windows, double>(200, {40, 3, 1}, 5) < 1e-12);
  CHECK(test::stream_error<windows, double>(300, {150, 3, 1}, 150) < 1e-12);
}

TEST_CASE("generate/streamed_attention: where all tokens see a window a stream goes on as long as one likes") {
  CHECK(test::stream_error<endless, double>(200, {1}) < 1e-12);
  CHECK(test::stream_error<endless, double>(300, {150, 3, 1}, 150) < 1e-12);
  Inference<endless> net({.seed = 3});
  Stream stream(net, {.context = 1'000'000'000});
  CHECK(stream.cache_bytes() == cache_bytes<endless>(1000));
  Sampler draw({.temperature = 0});
  long written = 0;
  generate(stream, test::some_tokens(500, 11), 500, draw, [&](std::int32_t) { ++written; });
  CHECK((written == 500 && stream.size() == 999));
}

TEST_CASE("generate/streamed_attention: whatever keys are made of, streams agree with the whole sequence") {
  CHECK(test::stream_error<model<Key::projected>, double>(50, {1}) < 1e-12);
  CHECK(test::stream_error<model<Key::used_twice>, double>(50, {3, 1}) < 1e-12);
  CHECK(test::stream_error<model<Key::biased>, double>(50, {1}) < 1e-12);
  CHECK(test::stream_error<model<Key::transposed>, double>(50, {1}) < 1e-12);
  CHECK(test::stream_error<model<Key::value_of_its_own>, double>(50, {1}) < 1e-12);
  CHECK(test::stream_error<model<Key::repeated>, double>(50, {1}) < 1e-12);
}
