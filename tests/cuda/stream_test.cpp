// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/stream.cuh>
#include <simplx/generate/generate.hpp>

#include "cuda/kernels.hpp"
#include "generate/streams.hpp"

using namespace simplx;

namespace {

inline constexpr Decoder wide{.block = sas_p, .vocab = 13, .width = 8, .heads = 2, .hidden = 16, .layers = 3,
                              .context = 140, .positions = Positions::learned};
inline constexpr Decoder plain{.block = pre_ln, .vocab = 16, .width = 16, .heads = 2, .hidden = 16, .layers = 2,
                               .context = 40};
inline constexpr Decoder alibi{.block = sas_p_alibi, .vocab = 9, .width = 8, .heads = 2, .layers = 1, .context = 32};
inline constexpr Decoder near{.block = sas_p_alibi, .vocab = 9, .width = 8, .heads = 2, .hidden = 8, .layers = 2,
                              .context = 700, .window = 20};

template <auto const& model, Precision precision>
using NetOn = Inference<model, Cuda<precision>>;
template <auto const& model, Precision precision>
using StreamOn = Stream<model, Cuda<precision>>;

/// The largest difference between logits that are streamed in feeds of these sizes, again and again, and those of the
/// whole sequence on the CPU in double, in parts of the largest logit.
template <auto const& model, Precision precision>
double error(Index context, const std::vector<Index>& feeds, Index chunk = 64) {
  Inference<model, Cpu<double>> exact({.seed = 3});
  NetOn<model, precision> net({.seed = 3});
  test::stir(exact.tensors(), exact.parameters());
  test::stir(net.tensors(), net.parameters());
  const auto tokens = test::some_tokens(context, exact.vocab());
  const auto whole = exact.logits(tokens);
  StreamOn<model, precision> stream(net, {.context = context, .chunk = chunk});
  double worst = 0, largest = 0;
  std::size_t next = 0;
  while (stream.size() < context) {
    const Index count = std::min(feeds[next++ % feeds.size()], context - stream.size());
    const auto last =
        stream.feed(std::span(tokens).subspan(static_cast<std::size_t>(stream.size()), static_cast<std::size_t>(count)));
    const auto last_of_all = stream.logits().last(last.size());
    CHECK(std::ranges::equal(last, last_of_all));
    const auto logits = stream.logits();
    const std::size_t first = static_cast<std::size_t>(stream.size() * exact.vocab()) - logits.size();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double difference = std::abs(static_cast<double>(logits[i]) - whole[first + i]);
      worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
      largest = std::max(largest, std::abs(whole[first + i]));
    }
  }
  CHECK(stream.not_recorded().empty());
  return worst / largest;
}

template <class S>
std::vector<S> copy_of(std::span<const S> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// The largest of as many numbers.
double difference(const std::vector<double>& some, const std::vector<double>& others) {
  REQUIRE(some.size() == others.size());
  double worst = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const double here = std::abs(some[i] - others[i]);
    if (!(here <= worst)) worst = here;  // NaN, too
  }
  return worst;
}

/// How often a host calls for a copy, rather than for what is recorded.
template <class Work>
int copies(const Work& work) {
  static int count;
  count = 0;
  emulation::Call::watch = [](const char* called, bool begins) {
    count += begins && std::string_view(called) == "cudaMemcpyAsync";
  };
  work();
  emulation::Call::watch = nullptr;
  return count;
}

/// The next `counts[s]` of each sequence's tokens.
struct Texts {
  std::vector<std::vector<std::int32_t>> of;
  std::vector<std::size_t> read = std::vector<std::size_t>(of.size(), 0);

  Texts(std::size_t sequences, Index length, Index vocab) : of(sequences) {
    for (std::size_t s = 0; s < sequences; ++s) of[s] = test::some_tokens(length, vocab, s + 1);
  }
  TokenBatch next(const std::vector<std::size_t>& counts) {
    TokenBatch batch{.offsets = {0}};
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const auto own = std::span(of[s]).subspan(read[s], counts[s]);
      batch.tokens.insert(batch.tokens.end(), own.begin(), own.end());
      batch.offsets.push_back(std::ssize(batch.tokens));
      read[s] += counts[s];
    }
    return batch;
  }
};

/// Of each sequence: some, one or no token.
const std::vector<std::vector<std::size_t>> ragged{{1, 0, 9}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {7, 0, 1}, {1, 0, 1},
                                                   {1, 1, 1}, {4, 5, 0}, {0, 0, 1}, {1, 3, 1}, {5, 1, 2}, {1, 1, 1}};

/// The largest difference between the logits of three sequences that are streamed at once and those of streams of one,
/// in parts of the largest logit.
template <auto const& model, Precision precision>
double error_apart(Index chunk) {
  using Net = NetOn<model, precision>;
  Net net({.seed = 3});
  test::stir(net.tensors(), net.parameters());
  StreamOn<model, precision> stream(net, {.context = 30, .chunk = chunk, .sequences = 3});
  std::vector<StreamOn<model, precision>> alone;
  for (int s = 0; s < 3; ++s) alone.emplace_back(net, StreamOptions{.context = 30, .chunk = chunk});
  Texts texts(3, 30, Net::vocab());
  double worst = 0, largest = 0;
  for (const auto& counts : ragged) {
    const TokenBatch batch = texts.next(counts);
    auto logits = stream.feed(batch);
    for (std::size_t s = 0; s < 3; ++s) {
      CHECK(stream.size(static_cast<Index>(s)) == static_cast<Index>(texts.read[s]));
      if (counts[s] == 0) continue;
      const auto expected = alone[s].feed(detail::sequence_of(batch, static_cast<Index>(s)));
      REQUIRE(logits.size() >= expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(static_cast<double>(logits[i]) - static_cast<double>(expected[i]));
        worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      }
      logits = logits.subspan(expected.size());
    }
    CHECK(logits.empty());
    CHECK(stream.not_recorded().empty());
  }
  return worst / largest;
}

/// Positions that are added and turned, rows that move, sums that run, heads that share keys, weights that are computed.
struct Moves {
  constexpr Expr operator()(int layer, Expr x) const {
    auto turned = rotary(x, 2, 100.0);
    auto attended = SelfAttention<AttentionMatrix::softmax, Linear>{.heads = 4, .key_heads = 2}(turned);
    x = x + attended + shift(x, 2) * 0.5 + shift(x, 0) * 0.1 + cumulative_sum(x) * 0.1;
    return x * exp(weight("small", 8, 8, normal(0.1))) + dropout("drop", x, 0.5) * (layer == 0 ? 0.1 : 0.2);
  }
};
template <bool shares>
struct Moving {
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 8, normal(1)), indices("tokens", Axis::tokens));
    x = shares ? stack("blocks", 2, Shared{Moves{}}, x) : stack("blocks", 2, Moves{}, x);
    return LayerNorm{}(x) * weight("head", 8, 11, normal(1));
  }
};
inline constexpr Moving<false> moving{};
inline constexpr Moving<true> looping{};

}  // namespace

TEST_SUITE_BEGIN("cuda/stream");

TEST_CASE("tokens one by one, and in feeds, have the logits of the whole sequence on the CPU") {
  CHECK(error<logits_of<wide>, Precision::float64>(20, {1}) < 1e-12);
  CHECK(error<logits_of<wide>, Precision::float64>(140, {97, 1, 30}) < 1e-12);
  CHECK(error<logits_of<plain>, Precision::float64>(40, {40}, 40) < 1e-12);
  CHECK(error<logits_of<plain>, Precision::float64>(12, {7, 5}, 3) < 1e-12);
  CHECK(error<logits_of<plain>, Precision::float64>(12, {9, 3}, 3) < 1e-12);  // chunks whose logits nobody reads, and not
  CHECK(error<logits_of<alibi>, Precision::float64>(32, {3, 1, 9}) < 1e-12);
  CHECK(error<logits_of<wide>, Precision::float32>(40, {3, 1, 20}) < 1e-5);
}

TEST_CASE("of a window's tokens no more than three tiles are remembered") {
  CHECK(error<logits_of<near>, Precision::float32>(700, {150, 1, 290, 1, 3}, 290) < 1e-5);
  NetOn<logits_of<near>, Precision::float32> net;
  const auto bytes = [&](Index context) {
    return StreamOn<logits_of<near>, Precision::float32>(net, {.context = context, .chunk = 1}).cache_bytes();
  };
  CHECK(bytes(700) == 3 * bytes(128));
  CHECK(bytes(384) == bytes(1'000'000));
}

TEST_CASE("in bfloat16 keys and values are remembered so") {
  const double one_by_one = error<logits_of<plain>, Precision::bfloat16>(20, {1}),
               together = error<logits_of<plain>, Precision::bfloat16>(20, {9, 2});
  CHECK(one_by_one < 0.05);
  CHECK(together < 0.05);
  CHECK(one_by_one > 1e-5);
  CHECK(error<logits_of<wide>, Precision::bfloat16>(20, {1, 4}) < 0.05);
  using Net = NetOn<logits_of<plain>, Precision::bfloat16>;
  using Wide = NetOn<logits_of<plain>, Precision::float32>;
  static_assert(2 * StreamOn<logits_of<plain>, Precision::bfloat16>::Run::elements(128) ==
                StreamOn<logits_of<plain>, Precision::float32>::Run::elements(128));
  Net net;
  Wide wide_net;
  CHECK(StreamOn<logits_of<plain>, Precision::bfloat16>(net).bytes() <
        StreamOn<logits_of<plain>, Precision::float32>(wide_net).bytes());
}

TEST_CASE("ops that remember, in layers that each remember for themselves") {
  CHECK(error<moving, Precision::float64>(20, {1}) < 1e-12);
  CHECK(error<moving, Precision::float64>(30, {11, 2, 1}, 4) < 1e-12);
  CHECK(error<looping, Precision::float64>(30, {11, 2, 1}, 4) < 1e-12);
  // keys and values of two heads of two columns in each layer; two rows of one shift, and a sum
  static_assert(StreamOn<moving, Precision::float32>::Run::elements(128) == 2 * (128 * (4 + 4) + 2 * 8 + alignment));
}

TEST_CASE("a stream that was reset begins anew, and changed weights are used by the next feed") {
  NetOn<moving, Precision::float32> net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  StreamOn<moving, Precision::float32> stream(net, {.context = 20}), other(net, {.context = 20});
  const auto tokens = test::some_tokens(20, 11);
  const auto all = std::span<const std::int32_t>(tokens);
  stream.feed(all);
  stream.reset();
  CHECK(stream.size() == 0);
  const auto again = copy_of(stream.feed(all.first(7)));
  CHECK(again == copy_of(other.feed(all.first(7))));
  test::stir(net.tensors(), net.parameters());
  stream.reset();
  const auto changed = copy_of(stream.feed(all.first(7)));
  CHECK(changed != again);
  StreamOn<moving, Precision::float32> third(net, {.context = 20});
  CHECK(changed == copy_of(third.feed(all.first(7))));
}

TEST_CASE("streams of one net take turns, and whole sequences between them; its numbers may change") {
  NetOn<logits_of<wide>, Precision::float32> net({.seed = 1});
  using OnDevice = StreamOn<logits_of<wide>, Precision::float32>;
  const auto tokens = test::some_tokens(20, 13);
  const auto all = std::span<const std::int32_t>(tokens);
  OnDevice first(net, {.context = 20}), second(net, {.context = 20}), alone(net, {.context = 20});
  for (int i = 0; i < 6; ++i) {
    const auto token = all.subspan(static_cast<std::size_t>(i), 1);
    const auto found = copy_of(first.feed(token));
    second.feed(all.subspan(static_cast<std::size_t>(19 - i), 1));
    net.logits(all);
    CHECK(found == copy_of(alone.feed(token)));
  }
  const auto before = copy_of(alone.feed(all.subspan(6, 1)));
  for (float& constant : net.constants()) constant *= 1e5f;  // epsilons
  OnDevice anew(net, {.context = 20});
  anew.feed(all.first(6));
  first.reset();
  first.feed(all.first(6));
  const auto changed = copy_of(first.feed(all.subspan(6, 1)));  // as it was recorded
  CHECK(changed == copy_of(anew.feed(all.subspan(6, 1))));
  CHECK(changed != before);
}

TEST_CASE("a net may be assigned to: its streams read the new weights") {
  using OnDevice = NetOn<logits_of<wide>, Precision::float32>;
  OnDevice net({.seed = 1}), other({.seed = 2});
  StreamOn<logits_of<wide>, Precision::float32> stream(net, {.context = 20}), of_other(other, {.context = 20});
  const auto tokens = test::some_tokens(20, 13);
  const auto token = std::span<const std::int32_t>(tokens).first(1);
  const auto found = copy_of(of_other.feed(token));
  for (int i = 0; i < 3; ++i) stream.reset(), stream.feed(token);  // recorded by then
  net = OnDevice({.seed = 2});
  stream.reset();
  CHECK(copy_of(stream.feed(token)) == found);
}

TEST_CASE("a stream may be moved, and goes on") {
  NetOn<logits_of<wide>, Precision::float32> net({.seed = 1});
  using OnDevice = StreamOn<logits_of<wide>, Precision::float32>;
  const auto tokens = test::some_tokens(20, 13);
  const auto all = std::span<const std::int32_t>(tokens);
  OnDevice stream(net, {.context = 20}), other(net, {.context = 20});
  for (int i = 0; i < 3; ++i) stream.feed(all.subspan(static_cast<std::size_t>(i), 1));
  OnDevice moved = std::move(stream);
  other.feed(all.first(3));
  CHECK(copy_of(moved.feed(all.subspan(3, 1))) == copy_of(other.feed(all.subspan(3, 1))));
}

TEST_CASE("generate writes what the CPU writes, beyond the context, too") {
  Inference<logits_of<alibi>, Cpu<double>> exact({.seed = 2});
  NetOn<logits_of<alibi>, Precision::float64> net({.seed = 2});
  test::stir(exact.tensors(), exact.parameters());
  test::stir(net.tensors(), net.parameters());
  Stream<logits_of<alibi>, Cpu<double>> on_cpu(exact, {.context = 10});
  StreamOn<logits_of<alibi>, Precision::float64> on_device(net, {.context = 10});
  const std::vector<std::int32_t> prompt{1, 2, 3};
  const auto written = [&](auto& stream) {
    std::vector<std::int32_t> text;
    Sampler draw({.temperature = 1.0, .seed = 5});
    generate(stream, prompt, 25, draw, [&](std::int32_t token) { text.push_back(token); });
    return text;
  };
  CHECK(written(on_device) == written(on_cpu));

  Stream<logits_of<alibi>, Cpu<double>> three_on_cpu(exact, {.context = 10, .sequences = 3});
  StreamOn<logits_of<alibi>, Precision::float64> three_on_device(net, {.context = 10, .sequences = 3});
  const auto all_written = [&](auto& stream) {
    std::vector<std::int32_t> text;
    std::vector<Sampler> draws{Sampler({.seed = 5}), Sampler({.seed = 6}), Sampler({.seed = 7})};
    generate(stream, copies_of(prompt, 3), 25, std::span(draws), [&](Index number, std::int32_t token) {
      text.push_back(static_cast<std::int32_t>(number));
      text.push_back(token);
      return number != 1 || text.size() < 40;
    });
    return text;
  };
  CHECK(all_written(three_on_device) == all_written(three_on_cpu));
}

TEST_CASE("several sequences at once have the logits that each has alone") {
  CHECK(error_apart<logits_of<wide>, Precision::float64>(64) < 1e-12);
  CHECK(error_apart<logits_of<wide>, Precision::float32>(4) < 1e-5);
  CHECK(error_apart<logits_of<alibi>, Precision::float64>(2) < 1e-12);
  CHECK(error_apart<moving, Precision::float64>(4) < 1e-12);
  CHECK(error_apart<moving, Precision::float32>(1) < 1e-5);  // fewer tokens than sequences
  CHECK(error_apart<looping, Precision::float64>(64) < 1e-12);
  CHECK(error_apart<logits_of<plain>, Precision::bfloat16>(4) < 0.02);
  CHECK(error_apart<logits_of<wide>, Precision::bfloat16>(64) < 0.02);
}

TEST_CASE("one recording serves whichever sequences have a token, and all their logits come at once") {
  using Net = NetOn<moving, Precision::float64>;
  Net net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  StreamOn<moving, Precision::float64> stream(net, {.context = 20, .chunk = 3, .sequences = 4});
  std::vector<StreamOn<moving, Precision::float64>> alone;
  for (int s = 0; s < 4; ++s) alone.emplace_back(net, StreamOptions{.context = 20, .chunk = 3});
  Texts texts(4, 20, Net::vocab());
  const std::vector<std::vector<std::size_t>> pairs{{1, 1, 0, 0}, {1, 1, 0, 0}, {0, 0, 1, 1}, {1, 0, 0, 1},
                                                    {0, 1, 1, 0}, {3, 0, 0, 0}, {0, 0, 1, 1}, {1, 0, 1, 0},
                                                    {1, 0, 1, 0}};
  std::vector<double> logits;
  std::vector<int> called;
  for (const auto& counts : pairs) {
    const TokenBatch batch = texts.next(counts);
    called.push_back(copies([&] { logits = copy_of(stream.feed(batch)); }));
    std::vector<double> expected;
    for (std::size_t s = 0; s < 4; ++s) {
      if (counts[s] == 0) continue;
      const auto own = alone[s].feed(detail::sequence_of(batch, static_cast<Index>(s)));
      expected.insert(expected.end(), own.begin(), own.end());
    }
    CHECK(difference(logits, expected) < 1e-12);
    CHECK(std::ranges::equal(stream.logits().last(logits.size()), logits));
  }
  CHECK((called[1] > 1 && called[2] == 1 && called[3] == 1 && called[4] == 1));  // which they are, where they change
  CHECK((called[6] == 2 && called[7] == 1 && called[8] == 0));  // and where rows begin, after three of one sequence
}

TEST_CASE("a sequence goes on as another would, and one that was reset begins anew, beside others") {
  using Net = NetOn<moving, Precision::float64>;
  Net net({.seed = 1});
  test::stir(net.tensors(), net.parameters());
  StreamOn<moving, Precision::float64> stream(net, {.context = 20, .sequences = 3});
  Texts texts(3, 20, Net::vocab());
  stream.feed(texts.next({6, 2, 3}));
  stream.copy(0, 2);
  CHECK((stream.size(0) == 6 && stream.size(1) == 2 && stream.size(2) == 6));
  const TokenBatch same{.tokens = {4, 4, 4}, .offsets = {0, 1, 2, 3}};
  const auto rows_of = [&](const auto& logits, std::size_t s) {
    return copy_of(logits.subspan(s * 11, 11));
  };
  auto logits = stream.feed(same);
  CHECK(rows_of(logits, 0) == rows_of(logits, 2));
  CHECK(rows_of(logits, 0) != rows_of(logits, 1));
  stream.copy(1, 1);
  stream.feed(TokenBatch{.tokens = {1, 2, 3}, .offsets = {0, 1, 1, 3}});  // each for itself from here on
  logits = stream.feed(same);
  CHECK(rows_of(logits, 0) != rows_of(logits, 2));

  stream.reset(1);
  CHECK((stream.size(0) == 9 && stream.size(1) == 0 && stream.size(2) == 10));
  StreamOn<moving, Precision::float64> other(net, {.context = 20});
  const auto found = rows_of(stream.feed(same), 1);
  CHECK(difference(found, copy_of(other.feed(std::span(same.tokens).first(1)))) < 1e-12);
  stream.reset();
  CHECK((stream.size(0) == 0 && stream.size(1) == 0 && stream.size(2) == 0));
  logits = stream.feed(same);
  for (std::size_t s = 0; s < 3; ++s) CHECK(rows_of(logits, s) == found);
  CHECK(stream.cache_bytes() == 3 * other.cache_bytes());
}

TEST_CASE("what does not fit is refused, and then nothing has changed") {
  NetOn<logits_of<wide>, Precision::float32> net({.seed = 1});
  using OnDevice = StreamOn<logits_of<wide>, Precision::float32>;
  CHECK_THROWS_WITH_AS((OnDevice(net, {.context = 141})), doctest::Contains("positions end at 140"), Error);
  CHECK_THROWS_AS((OnDevice(net, {.context = 0})), Error);
  OnDevice stream(net, {.context = 5});
  CHECK(stream.capacity() == 5);
  const std::vector<std::int32_t> good{1, 2, 3}, unknown{1, 13};
  stream.feed(good);
  CHECK_THROWS_WITH_AS(stream.feed(good), doctest::Contains("the context is full: 3 tokens and 3 more, of 5"), Error);
  CHECK_THROWS_WITH_AS(stream.feed(unknown), doctest::Contains("token 13"), Error);
  CHECK_THROWS_AS(stream.feed({}), Error);
  CHECK(stream.size() == 3);
  stream.feed(std::span(good).first(2));
  CHECK(stream.size() == 5);
}

TEST_CASE("batches and numbers that are not the stream's are refused, and then nothing has changed") {
  NetOn<logits_of<wide>, Precision::float32> net({.seed = 1});
  using OnDevice = StreamOn<logits_of<wide>, Precision::float32>;
  CHECK_THROWS_WITH_AS((OnDevice(net, {.context = 5, .sequences = 0})), doctest::Contains("a stream of 0 sequences"),
                       Error);
  OnDevice stream(net, {.context = 5, .sequences = 3});
  CHECK(stream.sequences() == 3);
  const TokenBatch good{.tokens = {1, 2, 3, 4, 5}, .offsets = {0, 1, 1, 5}};
  stream.feed(good);
  const auto refuses = [&](const TokenBatch& batch, const char* what) {
    CHECK_THROWS_WITH_AS(stream.feed(batch), doctest::Contains(what), Error);
  };
  refuses({.tokens = {1, 2}, .offsets = {0, 1, 2}}, "a batch of 2 sequences for a stream of 3");
  refuses({.tokens = {1, 2}, .offsets = {0, 1, 2, 2, 2}}, "4 sequences");
  refuses({.tokens = {1, 2}, .offsets = {}}, "0 sequences");
  refuses({.tokens = {1, 2}, .offsets = {0, 1, 2, 3}}, "offset 3 of the batch is 3");
  refuses({.tokens = {1, 2}, .offsets = {1, 1, 1, 1}}, "no token");
  refuses({.tokens = {1, 13}, .offsets = {0, 1, 2, 2}}, "token 13");
  refuses({.tokens = {1, 2, 3}, .offsets = {0, 1, 1, 3}}, "sequence 2: the context is full: 4 tokens and 2 more, of 5");
  CHECK_THROWS_WITH_AS(stream.feed(std::span(good.tokens)), doctest::Contains("of one sequence, and the stream has 3"),
                       Error);
  CHECK_THROWS_WITH_AS(stream.reset(3), doctest::Contains("sequence 3 of a stream that has 3"), Error);
  CHECK_THROWS_AS(stream.copy(0, 5), Error);
  CHECK_THROWS_AS(stream.copy(-1, 0), Error);
  CHECK_THROWS_AS(stream.size(3), Error);
  CHECK((stream.size(0) == 1 && stream.size(1) == 0 && stream.size(2) == 4));
  stream.feed(TokenBatch{.tokens = {13, 1, 2, 3}, .offsets = {1, 2, 3, 4}});  // the first is of no sequence
  CHECK((stream.size(0) == 2 && stream.size(1) == 1 && stream.size(2) == 5));
  refuses({.tokens = {1, 2, 3}, .offsets = {0, 1, 2, 3}}, "sequence 2: the context is full: 5 tokens and 1 more");
  CHECK(stream.feed(TokenBatch{.tokens = {1, 2}, .offsets = {0, 1, 2, 2}}).size() == 2 * 13);  // the others go on
  OnDevice one(net, {.context = 5});
  one.feed(TokenBatch{.tokens = {1, 2, 3}, .offsets = {0, 3}});
  CHECK_THROWS_WITH_AS(one.feed(TokenBatch{.tokens = {1, 2, 3}, .offsets = {0, 3}}),
                       doctest::Contains("the context is full: 3 tokens and 3 more, of 5"), Error);
}

TEST_SUITE_END();
