// SPDX-License-Identifier: MIT
#include <simplx/generate/generate.hpp>

#include <simplx/generate/stream.hpp>

#include "allocations.hpp"
#include "streams.hpp"

using namespace simplx;

namespace {

inline constexpr Decoder model{.block = sas_p, .vocab = 16, .width = 16, .heads = 2, .layers = 2, .context = 24,
                               .positions = Positions::learned};
using Net = Inference<logits_of<model>, Cpu<double>>;
using Cached = Stream<logits_of<model>, Cpu<double>>;
using Uncached = Replay<logits_of<model>, Cpu<double>>;

template <class Source>
std::vector<std::int32_t> written(Source&& source, std::vector<std::int32_t> prompt, long count,
                                  const Sampling& options) {
  std::vector<std::int32_t> tokens;
  Sampler draw(options);
  generate(source, prompt, count, draw, [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

Net stirred() {
  Net net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  return net;
}

}  // namespace

TEST_SUITE_BEGIN("generate/generate");

TEST_CASE("a seed gives one text, with a cache and without, beyond the context, too") {
  Net net = stirred();
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Sampling options{.temperature = 0.9, .top_k = 9, .top_p = 0.95, .seed = seed};
    const auto text = written(Cached(net), {3, 1}, 100, options);
    CHECK(text.size() == 100);
    CHECK(text == written(Uncached(net), {3, 1}, 100, options));
    CHECK(text == written(Cached(net, {.context = 24, .chunk = 5}), {3, 1}, 100, options));
  }
  CHECK(written(Cached(net), {3, 1}, 50, {.seed = 1}) != written(Cached(net), {3, 1}, 50, {.seed = 2}));
}

TEST_CASE("a full context forgets its first half") {
  Net net = stirred();
  const auto tokens = written(Cached(net, {.context = 8}), {1, 2, 3, 4, 5}, 5, {.temperature = 0});
  // Draws 0 .. 3 see tokens 0 .. 4, ..., 0 .. 7; then the last four and the fifth draw's own.
  std::vector<std::int32_t> all{1, 2, 3, 4, 5};
  const auto greedy = [&](std::span<const std::int32_t> seen) {
    const auto logits = net.logits(seen).last(16);
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  };
  for (int i = 0; i < 4; ++i) all.push_back(greedy(all));
  all.push_back(greedy(std::span(all).last(4)));
  CHECK(tokens == std::vector<std::int32_t>(all.begin() + 5, all.end()));
  CHECK(written(Cached(net, {.context = 1}), {1, 2}, 4, {.temperature = 0}).size() == 4);
}

TEST_CASE("what a source refuses changes nothing") {
  Net net = stirred();
  const auto check = [](auto source) {
    const std::vector<std::int32_t> good{1, 2}, unknown{3, 16}, none;
    source.feed(good);
    CHECK_THROWS_WITH_AS(source.feed(unknown), doctest::Contains("token 16"), Error);
    CHECK_THROWS_WITH_AS(source.feed(none), doctest::Contains("no token to evaluate"), Error);
    CHECK(source.size() == 2);
    CHECK_NOTHROW(source.feed(good));
  };
  check(Cached(net));
  check(Uncached(net));
}

TEST_CASE("of a long prompt the end is seen; an empty one is refused") {
  Net net = stirred();
  const auto prompt = test::some_tokens(60, 16);
  const std::vector<std::int32_t> end(prompt.end() - 24, prompt.end());
  CHECK(written(Cached(net), prompt, 10, {.seed = 4}) == written(Cached(net), end, 10, {.seed = 4}));
  CHECK_THROWS_AS(written(Cached(net), {}, 10, {}), Error);
  CHECK(written(Cached(net), prompt, 0, {}).empty());
  Uncached full(net, 2);
  CHECK_THROWS_AS(full.feed(std::span(prompt).first(3)), Error);
}

TEST_CASE("the reader may stop it, and a token costs no allocation") {
  Net net = stirred();
  Cached stream(net);
  Sampler draw({.top_p = 0.9});
  int count = 0;
  const std::vector<std::int32_t> prompt{1};
  generate(stream, prompt, 1000, draw, [&](std::int32_t) { return ++count < 7; });
  CHECK(count == 7);
  long before = 0, after = 0;
  test::allocations_of([&] {
    generate(stream, prompt, 100, draw, [&](std::int32_t) {
      before = before ? before : test::allocations.load();
      after = test::allocations.load();
    });
  });
  CHECK(before > 0);
  CHECK(after == before);
}

TEST_CASE("several texts at once are those of each alone, of any length, wherever they end") {
  Net net = stirred();
  const std::vector<std::vector<std::int32_t>> prompts{{3, 1}, test::some_tokens(60, 16), {5}, {5}, {5}, {2, 2, 2}};
  const auto texts = std::ssize(prompts);
  TokenBatch batch{.tokens = {7}, .labels = {}, .offsets = {1}};  // tokens before the first offset are no part of it
  std::vector<Sampler> draws;
  for (const auto& prompt : prompts) {
    batch.tokens.insert(batch.tokens.end(), prompt.begin(), prompt.end());
    batch.offsets.push_back(std::ssize(batch.tokens));
    draws.emplace_back(Sampling{.temperature = 0.9, .seed = draws.size()});
  }
  const auto length = [](std::size_t text) { return text == 3 ? 5u : text == 0 ? 50u : 100u; };
  std::vector<std::vector<std::int32_t>> found(prompts.size());
  Cached together(net, {.chunk = 7, .threads = 2, .sequences = texts});
  generate(together, batch, 100, std::span(draws), [&](Index text, std::int32_t token) {
    auto& tokens = found[static_cast<std::size_t>(text)];
    tokens.push_back(token);
    return tokens.size() < length(static_cast<std::size_t>(text));
  });
  for (std::size_t s = 0; s < prompts.size(); ++s) {
    CHECK(found[s] == written(Cached(net), prompts[s], length(s), {.temperature = 0.9, .seed = s}));
  }
  CHECK(found[2] != found[4]);  // equal prompts

  // What it has read at the end, too, where a context is full.
  Cached full(net, {.context = 4, .sequences = 2}), alone(net, {.context = 4});
  generate(full, copies_of(prompts[0], 2), 3, std::span(draws).first(2), [](Index, std::int32_t) {});
  generate(alone, prompts[0], 3, draws[0], [](std::int32_t) {});
  CHECK((alone.size() == 4 && full.size(0) == 4 && full.size(1) == 4));

  const auto nothing = [](Index, std::int32_t) {};
  CHECK_THROWS_WITH_AS(generate(together, batch, 1, std::span(draws).first(2), nothing),
                       doctest::Contains("6 prompts and 2 samplers for a stream of 6 sequences"), Error);
  batch.offsets[6] = batch.offsets[5];
  CHECK_THROWS_WITH_AS(generate(together, batch, 1, std::span(draws), nothing), doctest::Contains("prompt is empty"),
                       Error);
  batch.offsets[6] = 1;
  CHECK_THROWS_WITH_AS(generate(together, batch, 1, std::span(draws), nothing), doctest::Contains("offset 6"), Error);
}

TEST_CASE("what is evaluated once for equal prompts is not for others, and tokens of several cost no allocation") {
  Net net = stirred();
  Cached stream(net, {.sequences = 3});
  std::vector<Sampler> draws{Sampler({.seed = 1}), Sampler({.seed = 2}), Sampler({.seed = 3})};
  const TokenBatch batch{.tokens = {1, 2, 1, 2, 1, 3}, .labels = {}, .offsets = {0, 2, 4, 6}};
  long before = 0, after = 0;
  int emitted = 0;
  test::allocations_of([&] {
    generate(stream, batch, 15, std::span(draws), [&](Index, std::int32_t) {
      if (++emitted == 9) before = test::allocations.load();
      after = test::allocations.load();
    });
  });
  CHECK(emitted == 45);
  CHECK(before > 0);
  CHECK(after == before);
  for (Index s = 0; s < 3; ++s) CHECK(stream.size(s) == 2 + 14);
}

TEST_SUITE_END();
