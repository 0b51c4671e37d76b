// SPDX-License-Identifier: MIT
#include <simplx/generate/stream.hpp>

#include "allocations.hpp"
#include "streams.hpp"

#include <string>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

using namespace simplx;

namespace {

// Heads as wide as vectors, a context of several blocks of tokens, layers that differ.
inline constexpr Decoder wide{.block = sas_p,
                              .vocab = 64,
                              .width = 64,
                              .heads = 2,
                              .hidden = 128,
                              .layers = 3,
                              .context = 150,
                              .positions = Positions::learned};
inline constexpr Decoder plain{
    .block = pre_ln, .vocab = 64, .width = 64, .heads = 2, .hidden = 128, .layers = 2, .context = 150};

// Of products and attention that are worth several threads.
constexpr Index large_context = 320;
inline constexpr Decoder large{.block = sas_p,
                               .vocab = 515,
                               .width = 512,
                               .heads = 8,
                               .hidden = 1024,
                               .layers = 2,
                               .context = large_context,
                               .positions = Positions::learned};
inline constexpr Decoder large_plain{.block = pre_ln, .vocab = 515, .width = 512, .heads = 2, .hidden = 1024,
                                     .layers = 1, .context = large_context};

// Threads share the steps of an evaluation alone: those of a training are compiled without a word of it.
static_assert(GraphOf<logits_of<large>>::fusion.has_backward);
static_assert(!Graph<Untrained<logits_of<large>>>::fusion.has_backward);

// What is remembered: SAS-P its inputs and a running mean, and in layer 0, which has a value matrix, keys and values.
static_assert(cache_bytes<logits_of<plain>, double>(1) == 2 * 2 * 64 * cpu::token_block<double> * 8);
static_assert(cache_bytes<logits_of<wide>, double>(1) ==
              ((2 + 1 + 1) * 64 * cpu::token_block<double> + 3 * round_up(64 + 2, alignment)) * 8);

}  // namespace

TEST_SUITE_BEGIN("generate/stream");

TEST_CASE("streams of float and double agree with the reference path on the whole sequence") {
  CHECK(test::stream_error<logits_of<wide>, double>(150, {1}) < 1e-12);
  CHECK(test::stream_error<logits_of<wide>, double>(150, {97, 1, 30}) < 1e-12);
  CHECK(test::stream_error<logits_of<plain>, double>(150, {150}, 150) < 1e-12);
  CHECK(test::stream_error<logits_of<wide>, float>(150, {3, 1, 40}) < 3e-5);
  CHECK(test::stream_error<logits_of<plain>, float>(150, {1}) < 3e-5);
  CHECK(test::stream_error<logits_of<large>, float>(12, {11, 1}) < 3e-5);  // columns that are no whole panel
}

TEST_CASE("a stream that was reset begins anew, whatever it remembered") {
  Inference<logits_of<wide>, Cpu<double>> net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  Stream<logits_of<wide>, Cpu<double>> stream(net, {.context = 40}), other(net, {.context = 40});
  const auto tokens = test::some_tokens(40, 64);
  const auto all = std::span<const std::int32_t>(tokens);
  std::ranges::fill(stream.memory(), std::numeric_limits<double>::quiet_NaN());
  stream.reset();
  CHECK(stream.size() == 0);
  const auto again = stream.feed(all.first(7)), once = other.feed(all.first(7));
  CHECK(std::ranges::equal(again, once));
}

TEST_CASE("changed weights are used by the next feed, and two streams share them") {
  Inference<logits_of<wide>, Cpu<double>> net({.seed = 1});
  Stream<logits_of<wide>, Cpu<double>> stream(net, {.context = 10}), other(net, {.context = 10});
  const std::int32_t token[] = {3};
  const auto logits = stream.feed(token);
  const std::vector<double> before(logits.begin(), logits.end());
  test::stir(net.tensors(), net.parameters());
  const auto after = other.feed(token);
  CHECK(!std::ranges::equal(before, after));
  CHECK(std::abs(net.logits(token)[0] - after[0]) < 1e-13);
}

TEST_CASE("threads may each begin a stream of one net at once") {
  Inference<logits_of<wide>> net({.seed = 1});
  const auto tokens = test::some_tokens(20, 64);
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (auto& logits : found) {
    threads.emplace_back([&net, &tokens, &logits] {
      Stream<logits_of<wide>> stream(net, {.context = 20});
      const auto last = stream.feed(tokens);
      logits.assign(last.begin(), last.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  Stream<logits_of<wide>> alone(net, {.context = 20});
  const auto last = alone.feed(tokens);
  for (const auto& logits : found) CHECK(std::ranges::equal(logits, last));
}

TEST_CASE_TEMPLATE("threads share large products and attention, and change no bits", Backend, Cpu<float>, Cpu<double>,
                   Cpu<float, Path::bfloat16>) {
  const auto check = [&]<auto const& model>() {
    using Net = Inference<model, Backend>;
    Net net({.seed = 1}), in_parts({.seed = 1, .threads = 3});
    test::stir(net.tensors(), net.parameters());
    test::stir(in_parts.tensors(), in_parts.parameters());
    const auto tokens = test::some_tokens(large_context, Net::vocab());
    const auto all = std::span<const std::int32_t>(tokens);
    const auto streamed = [&](int threads) {
      Stream<model, Backend> stream(net, {.chunk = 100, .threads = threads});
      std::vector<typename Backend::Scalar> found;
      std::size_t begin = 0;
      for (const std::size_t count : {100, 1, 40, 1, 4, 170, 1, 1}) {
        const auto logits = stream.feed(all.subspan(std::exchange(begin, begin + count), count));
        found.insert(found.end(), logits.begin(), logits.end());
      }
      return found;
    };
    const auto alone = streamed(1);
    CHECK(streamed(2) == alone);
    CHECK(streamed(3) == alone);
    CHECK(std::ranges::equal(net.logits(tokens), in_parts.logits(tokens)));
    const TokenBatch one{.tokens = tokens, .offsets = {0, large_context}};
    CHECK(std::ranges::equal(net.logits(one), in_parts.logits(one)));
  };
  check.template operator()<logits_of<large>>();
  check.template operator()<logits_of<large_plain>>();
}

TEST_CASE("weights in bytes give the logits of the sequence, near those of floats, on any number of threads") {
  using Bytes = Cpu<float, Path::int8>;
  Inference<logits_of<large_plain>> exact({.seed = 1});
  Inference<logits_of<large_plain>, Bytes> net({.seed = 1});
  std::ranges::copy(std::as_const(exact).parameters(), net.parameters().begin());
  const auto tokens = test::some_tokens(large_context, exact.vocab());
  const auto streamed = [&](int threads) {
    Stream stream(net, {.chunk = 100, .threads = threads});
    std::vector<float> found;
    std::size_t begin = 0;
    for (const std::size_t count : {100, 1, 40, 1, 4, 173, 1}) {
      const auto logits = stream.feed(std::span(tokens).subspan(std::exchange(begin, begin + count), count));
      found.insert(found.end(), logits.end() - exact.vocab(), logits.end());
    }
    return found;
  };
  const auto found = streamed(1);
  CHECK(streamed(3) == found);
  const auto last = std::span(found).last(static_cast<std::size_t>(exact.vocab()));
  const auto far = [&](std::span<const float> logits) {
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < last.size(); ++i) {
      const float logit = logits[logits.size() - last.size() + i];
      apart += std::pow(static_cast<double>(logit - last[i]), 2), size += std::pow(static_cast<double>(logit), 2);
    }
    return std::sqrt(apart / size);
  };
  CHECK(far(net.logits(tokens)) < 3e-5);
  CHECK(far(exact.logits(tokens)) > 1e-3);  // it rounds
  CHECK(far(exact.logits(tokens)) < 5e-2);
}

TEST_CASE("a process that fork() made is told that it has none of a stream's threads, which large products need") {
  Inference<logits_of<large>> net({.seed = 1});
  Stream<logits_of<large>> stream(net, {.threads = 2}), alone(net);
  const std::int32_t token[] = {3};
  stream.feed(token);
  const pid_t child = fork();
  if (child == 0) {
    alone.feed(token);
    try {
      stream.feed(token);
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("before fork()") != std::string::npos ? 0 : 1);
    }
    _exit(2);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(stream.size() == 1);
}

TEST_CASE("of several sequences one may be forgotten, or go on as another would; their threads change no bits") {
  using Several = Stream<logits_of<large>>;
  Inference<logits_of<large>> net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  const auto tokens = test::some_tokens(60, 515);
  const auto written = [&](int threads) {
    Several stream(net, {.context = 300, .threads = threads, .sequences = 5});
    std::vector<float> found;
    const auto feed = [&](const std::vector<Index>& counts) {
      TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
      for (std::size_t s = 0; s < counts.size(); ++s) {
        const Index first = stream.size(static_cast<Index>(s)) % 50 + 2 * static_cast<Index>(s);
        batch.tokens.insert(batch.tokens.end(), tokens.begin() + first, tokens.begin() + first + counts[s]);
        batch.offsets.push_back(std::ssize(batch.tokens));
      }
      const auto logits = stream.feed(batch);
      found.insert(found.end(), logits.begin(), logits.end());
      return std::vector<float>(logits.begin(), logits.end());
    };
    feed({50, 1, 0, 1, 2});
    for (int i = 0; i < 100; ++i) feed({1, 1, 0, 1, 1});
    CHECK((stream.size(0) == 150 && stream.size(2) == 0 && stream.size(4) == 102));
    stream.copy(0, 2);
    stream.reset(1);
    CHECK((stream.size(0) == 150 && stream.size(1) == 0 && stream.size(2) == 150));
    const TokenBatch same{.tokens = {9, 8, 9}, .labels = {}, .offsets = {0, 1, 2, 3, 3, 3}};
    const auto logits = stream.feed(same);
    const auto row = [&](std::size_t i) { return std::vector<float>(&logits[515 * i], &logits[515 * i] + 515); };
    CHECK(row(0) == row(2));
    Stream<logits_of<large>> anew(net, {.context = 300});
    const std::int32_t eight[] = {8};
    const auto expected = anew.feed(eight);
    for (std::size_t i = 0; i < 515; ++i) CHECK(row(1)[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(1));
    stream.reset();
    CHECK((stream.size(0) == 0 && stream.size(4) == 0));
    feed({3, 1, 1, 1, 1});
    return found;
  };
  const auto alone = written(1);
  CHECK(written(2) == alone);
  CHECK(written(3) == alone);
}

TEST_CASE("a token costs no allocation") {
  Inference<logits_of<wide>> net({.seed = 1});
  Stream<logits_of<wide>> stream(net);
  const auto tokens = test::some_tokens(150, 64);
  stream.feed(std::span(tokens).first(1));
  CHECK(test::allocations_of([&] {
          stream.feed(std::span(tokens).first(70));
          for (int i = 0; i < 70; ++i) stream.feed(std::span(tokens).subspan(static_cast<std::size_t>(i), 1));
          stream.reset();
          stream.feed(tokens);
        }) == 0);
}

TEST_CASE("without positions that end, the context is the model's own") {
  static constexpr Decoder alibi{.block = sas_p_alibi, .vocab = 9, .width = 8, .heads = 2, .layers = 1, .context = 32};
  static constexpr auto silent = [] { return alibi.logits(); };
  Inference<logits_of<alibi>> net;
  CHECK(Stream<logits_of<alibi>>(net).capacity() == 32);
  CHECK((Stream<logits_of<alibi>>(net, {.context = 40}).capacity()) == 40);
  CHECK_THROWS_WITH_AS((Stream<logits_of<alibi>>(net, {.context = -1})), doctest::Contains("a context of -1 tokens"),
                       Error);
  Inference<silent> other;
  CHECK_THROWS_WITH_AS((Stream<silent>(other)), doctest::Contains("StreamOptions"), Error);
}

TEST_CASE("what does not fit is refused, and then nothing has changed") {
  using Net = Inference<logits_of<wide>, Cpu<double>>;
  Net net({.seed = 1});
  CHECK_THROWS_WITH_AS((Stream<logits_of<wide>, Cpu<double>>(net, {.context = 151})),
                       doctest::Contains("positions end at 150"), Error);
  CHECK_THROWS_AS((Stream<logits_of<wide>, Cpu<double>>(net, {.context = 0})), Error);
  Stream<logits_of<wide>, Cpu<double>> stream(net, {.context = 5});
  const std::vector<std::int32_t> good{1, 2, 3}, unknown{1, 64}, negative{-1};
  stream.feed(good);
  CHECK_THROWS_WITH_AS(stream.feed(good), doctest::Contains("the context is full: 3 tokens and 3 more, of 5"), Error);
  CHECK_THROWS_WITH_AS(stream.feed(unknown), doctest::Contains("token 64"), Error);
  CHECK_THROWS_WITH_AS(stream.feed(negative), doctest::Contains("token -1"), Error);
  CHECK_THROWS_AS(stream.feed({}), Error);
  CHECK(stream.size() == 3);
  stream.feed(std::span(good).first(2));
  CHECK(stream.size() == 5);
}

TEST_CASE("what does not fit several sequences is refused, and then nothing has changed") {
  using Several = Stream<logits_of<wide>, Cpu<double>>;
  Inference<logits_of<wide>, Cpu<double>> net({.seed = 1});
  CHECK_THROWS_WITH_AS((Several(net, {.sequences = 0})), doctest::Contains("a stream of 0 sequences"), Error);
  Several stream(net, {.context = 5, .sequences = 2});
  const TokenBatch good{.tokens = {1, 2, 3, 4}, .labels = {}, .offsets = {0, 1, 4}};
  CHECK(stream.feed(good).size() == 2 * 64);
  CHECK(stream.cache_bytes() == 2 * Several(net, {.context = 5}).cache_bytes());
  const auto refused = [&](TokenBatch batch, const char* sentence) {
    CHECK_THROWS_WITH_AS(stream.feed(batch), doctest::Contains(sentence), Error);
    CHECK((stream.size(0) == 1 && stream.size(1) == 3));
  };
  refused(good, "sequence 1: the context is full: 3 tokens and 3 more, of 5");
  refused({.tokens = {1}, .labels = {}, .offsets = {0, 1}}, "a batch of 1 sequences for a stream of 2");
  refused({}, "a batch of 0 sequences for a stream of 2");
  refused({.tokens = {1, 64}, .labels = {}, .offsets = {0, 1, 2}}, "token 64");
  refused({.tokens = {1, 2}, .labels = {}, .offsets = {0, 1, 3}}, "offset 2");
  refused({.tokens = {1, 2}, .labels = {}, .offsets = {1, 1, 1}}, "no token to evaluate");
  const std::int32_t token[] = {1};
  CHECK_THROWS_WITH_AS(stream.feed(token), doctest::Contains("of one sequence, and the stream has 2"), Error);
  CHECK_THROWS_WITH_AS(stream.size(2), doctest::Contains("sequence 2 of a stream that has 2"), Error);
  CHECK_THROWS_AS(stream.reset(-1), Error);
  CHECK_THROWS_AS(stream.copy(0, 2), Error);
  CHECK((stream.size(0) == 1 && stream.size(1) == 3));
  CHECK(stream.feed(TokenBatch{.tokens = {1, 2}, .labels = {}, .offsets = {0, 1, 2}}).size() == 2 * 64);
}

TEST_SUITE_END();
