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

TEST_CASE("in bfloat16 keys and values are remembered so") {
  const double one_by_one = error<logits_of<plain>, Precision::bfloat16>(20, {1}),
               together = error<logits_of<plain>, Precision::bfloat16>(20, {9, 2});
  CHECK(one_by_one < 0.05);
  CHECK(together < 0.05);
  CHECK(one_by_one > 1e-5);
  CHECK(error<logits_of<wide>, Precision::bfloat16>(20, {1, 4}) < 0.05);
  using Net = NetOn<logits_of<plain>, Precision::bfloat16>;
  using Wide = NetOn<logits_of<plain>, Precision::float32>;
  static_assert(2 * StreamOn<logits_of<plain>, Precision::bfloat16>::Run::table.all().per_token ==
                StreamOn<logits_of<plain>, Precision::float32>::Run::table.all().per_token);
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
  constexpr Remembered all = StreamOn<moving, Precision::float32>::Run::table.all();
  static_assert(all.per_token == 2 * (4 + 4) && all.once == 2 * (2 * 8 + 8));
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

TEST_SUITE_END();
