// SPDX-License-Identifier: MIT
#include <simplx/generate/inference.hpp>

#include <simplx/models/classifier.hpp>
#include <simplx/models/gpt2.hpp>
#include <simplx/train/trainer.hpp>

#include "allocations.hpp"
#include "streams.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = sas, .vocab = 16, .width = 16, .heads = 2, .layers = 3, .context = 30};
inline constexpr Classifier classifier{.encoder = {.block = bert_sas_p, .vocab = 16, .width = 16, .heads = 2,
                                                   .layers = 2, .context = 16},
                                       .head = {.classes = 3}};
inline constexpr auto over_rows = [] {
  return mean(embedding(weight("table", 16, 4), indices("tokens", Axis::tokens)), Over::rows);
};
using G = GraphOf<logits_of<model>>;
using Untrained = Graph<simplx::Untrained<logits_of<model>>>;

// Nothing is kept for a backward; parameters lie where those of the trained model lie.
static_assert(Untrained::layout.parameters == G::layout.parameters);
static_assert(elements(Untrained::layout.kept, tokens{30}) < elements(G::layout.kept, tokens{30}));
// Layers keep nothing: GPT-2 takes 32 MB for 1024 tokens, where it took 369.
using UntrainedGpt2 = Graph<simplx::Untrained<logits_of<presets::gpt2>>>;
static_assert(4 * (elements(UntrainedGpt2::layout.kept, tokens{1024}) +
                   elements(UntrainedGpt2::layout.temporary, tokens{1024})) < 33'000'000);
static_assert(Inference<logits_of<model>>::longest_sequence() == 30 && Inference<logits_of<model>>::vocab() == 16);
struct Placed {
  constexpr Expr operator()(Expr x) const { return x + positions(weight("places", 3, 4)); }
};
inline constexpr auto two_tables = [] {
  auto i = indices("tokens", Axis::tokens);
  return stack("blocks", 2, Placed{}, embedding(weight("large", 9, 4), i) + embedding(weight("small", 5, 4), i));
};
}  // namespace

TEST_SUITE_BEGIN("generate/inference");

TEST_CASE("it gives the logits of the trainer whose parameters it has, and allocates for longer sequences alone") {
  Trainer<model, Cpu<double>> trainer({.batch = 1, .seed = 4});
  Inference<logits_of<model>, Cpu<double>> net({.seed = 5});
  test::stir(trainer.tensors(), trainer.parameters());
  std::ranges::copy(trainer.parameters(), net.parameters().begin());
  const auto tokens = test::some_tokens(30, 16);
  for (const std::size_t length : {1, 17, 30}) {
    const auto some = std::span(tokens).first(length);
    CHECK(std::ranges::equal(trainer.logits(some), net.logits(some)));
  }
  CHECK(test::allocations_of([&] { net.logits(tokens); }) == 0);
}

TEST_CASE("it has room for its weights and for matrices packed for forward, none for those of backward") {
  static constexpr Decoder wide{.block = pre_ln, .width = 128, .layers = 2};
  const auto weights = static_cast<double>(parameters<wide> * Index{sizeof(float)});
  const auto bytes = static_cast<double>(test::bytes_of([] { Inference<logits_of<wide>> net; }));
  constexpr double packed = cpu::Amx::compiled && Cpu<float>::splits ? 1.5 : 1;  // three pieces of two bytes
  CHECK(bytes > (0.9 + packed) * weights);
  CHECK(bytes < (1.3 + packed) * weights);
}

TEST_CASE("where memory is short for a batch, smaller ones are evaluated as before") {
  Inference<logits_of<model>> net({.seed = 5, .threads = 2});
  const auto few = test::some_tokens(3, 16);
  const std::vector<float> before(net.logits(few).begin(), net.logits(few).end());
  const TokenBatch batch{.tokens = test::some_tokens(60, 16), .labels = {}, .offsets = {0, 10, 30, 60}};
  CHECK(test::without_memory([&] { net.logits(batch); },
                             [&] { CHECK(std::ranges::equal(net.logits(few), before)); }) >= 3);
}

TEST_CASE("who only reads its weights lets others go on with those that are prepared") {
  Inference<logits_of<model>> net({.seed = 5});
  const Inference<logits_of<model>>& read = net;
  const auto tokens = test::some_tokens(30, 16);
  const auto logits = [&] { return std::vector<float>(net.logits(tokens).begin(), net.logits(tokens).end()); };
  const std::span<float> weight = net.parameter("blocks.0.attention.query.weight");
  const std::vector<float> before = logits();
  std::ranges::fill(weight, 0.25f);  // too late: they are prepared
  CHECK(read.parameters().size() >= weight.size());
  CHECK(read.parameter("blocks.0.attention.query.weight").data() == weight.data());
  CHECK(read.constants().data() == net.constants().data());
  CHECK_THROWS_WITH_AS(read.constant("none"), doctest::Contains("none"), Error);
  CHECK(logits() == before);
  net.parameters();
  CHECK(logits() != before);
}

TEST_CASE("logits of a classifier are one row, of a model without rows as many as it has") {
  Trainer<classifier> trainer({.batch = 1, .seed = 4});
  Inference<logits_of<classifier>> net({.seed = 4});
  const auto tokens = test::some_tokens(12, 16);
  const auto logits = net.logits(tokens);
  CHECK(logits.size() == 3);
  CHECK(std::ranges::equal(trainer.logits(tokens), logits));
  std::vector<float> memory(3);
  net.logits(tokens, memory);
  CHECK(std::ranges::equal(memory, logits));
  CHECK_THROWS_WITH_AS(net.logits(tokens, std::span(memory).first(2)), doctest::Contains("for the 3 that they have"), Error);
  CHECK(Inference<over_rows>().logits(tokens).size() == 4);
}

/// Sequences of these lengths, after two tokens that are no part of the batch.
TokenBatch batch_of(const std::vector<Index>& lengths) {
  TokenBatch batch{.tokens = {3, 3}, .labels = {}, .offsets = {2}};
  for (const Index length : lengths) {
    const auto own = test::some_tokens(length, 16, static_cast<std::uint64_t>(batch.sequences()) + 1);
    batch.tokens.insert(batch.tokens.end(), own.begin(), own.end());
    batch.offsets.push_back(std::ssize(batch.tokens));
  }
  batch.tokens.push_back(-1);  // nor is this
  return batch;
}
/// The largest difference between logits of a batch and those of each sequence alone; infinite if their number differs.
template <auto const& model>
double apart(const TokenBatch& batch, int threads, double stirred = 0.3) {
  Inference<model, Cpu<double>> alone({.seed = 5}), net({.seed = 5, .threads = threads});
  if (stirred > 0) test::stir(alone.tensors(), alone.parameters()), test::stir(net.tensors(), net.parameters());
  const auto all = net.logits(batch);
  double worst = 0;
  std::size_t next = 0;
  for (std::size_t s = 1; s < batch.offsets.size(); ++s) {
    const auto length = static_cast<std::size_t>(batch.offsets[s] - batch.offsets[s - 1]);
    for (const double exact : alone.logits(std::span(batch.tokens).subspan(
             static_cast<std::size_t>(batch.offsets[s - 1]), length))) {
      if (next == all.size()) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, std::abs(all[next++] - exact));
    }
  }
  return next == all.size() ? worst : std::numeric_limits<double>::infinity();
}

TEST_CASE("sequences of a batch have the logits of each alone, together or not, on any number of threads") {
  const TokenBatch batch = batch_of({3, 1, 30, 2, 2, 17, 1, 29, 1});
  for (const int threads : {1, 3}) {
    CHECK(apart<logits_of<model>>(batch, threads) < 1e-12);
    CHECK(apart<over_rows>(batch, threads) == 0);  // rows of several sequences would meet
  }
  const TokenBatch short_ones = batch_of({3, 1, 16, 2, 2, 1, 15, 1});
  CHECK(apart<logits_of<classifier>>(short_ones, 2) < 1e-12);
  CHECK(apart<logits_of<classifier>>(batch_of({1}), 2) < 1e-12);
  Inference<logits_of<model>> one({.seed = 5}), three({.seed = 5, .threads = 3});
  CHECK(std::ranges::equal(one.logits(batch), three.logits(batch)));
}

TEST_CASE("a batch has its logits where the caller wants them; a sequence after it is as before") {
  Inference<logits_of<model>> net({.seed = 5, .threads = 2}), other({.seed = 5});
  const TokenBatch batch = batch_of({7, 2});
  const auto inside = net.logits(batch);
  std::vector<float> memory(9 * 16);
  net.logits(batch, memory);
  CHECK(std::ranges::equal(memory, inside));
  CHECK_THROWS_WITH_AS(net.logits(batch, std::span(memory).first(16)), doctest::Contains("room for 16 logits of 9"), Error);
  const auto tokens = test::some_tokens(30, 16);
  CHECK(std::ranges::equal(net.logits(tokens), other.logits(tokens)));
  CHECK(std::ranges::equal(net.logits(batch), memory));
  CHECK(test::allocations_of([&] { net.logits(tokens); }) == 0);
}

TEST_CASE("it may be moved, and assigned to") {
  Inference<logits_of<model>> net({.seed = 5, .threads = 2}), other({.seed = 6});
  const TokenBatch batch = batch_of({7, 2, 30});
  const auto logits = net.logits(batch);
  const std::vector<float> expected(logits.begin(), logits.end());
  Inference<logits_of<model>> moved = std::move(net);
  CHECK(std::ranges::equal(moved.logits(batch), expected));
  other = std::move(moved);
  CHECK(std::ranges::equal(other.logits(batch), expected));
}

TEST_CASE("a batch that is none is refused") {
  Inference<logits_of<model>> net;
  CHECK_THROWS_WITH_AS(net.logits(TokenBatch{}), doctest::Contains("no sequences"), Error);
  CHECK_THROWS_WITH_AS(net.logits(batch_of({3, 0})), doctest::Contains("sequence 1 of the batch has no token"), Error);
  CHECK_THROWS_WITH_AS(net.logits(batch_of({3, 31})), doctest::Contains("positions end at 30"), Error);
  CHECK_THROWS_WITH_AS(net.logits(TokenBatch{{1, 2}, {}, {0, 3}}), doctest::Contains("offset 1 of the batch is 3"), Error);
  CHECK_THROWS_WITH_AS(net.logits(TokenBatch{{1, 16}, {}, {0, 2}}), doctest::Contains("token 16"), Error);
  CHECK_THROWS_WITH_AS((Inference<logits_of<model>>({.threads = 0})), doctest::Contains("threads is 0"), Error);
}

TEST_CASE("it computes logits where the caller wants them, aligned or not, and writes nothing else") {
  Inference<logits_of<model>> net({.seed = 5});
  const auto tokens = test::some_tokens(7, 16);
  const auto inside = net.logits(tokens);
  std::vector<float> memory(7 * 16 + 2, -1.0f);
  const auto outside = std::span(memory).subspan(1, 7 * 16);
  CHECK(test::allocations_of([&] { net.logits(tokens, outside); }) == 0);
  CHECK(std::ranges::equal(outside, inside));
  CHECK(memory.front() == -1.0f);
  CHECK(memory.back() == -1.0f);
  CHECK_THROWS_WITH_AS(net.logits(tokens, memory), doctest::Contains("room for 114 logits of 7 tokens"), Error);
}

TEST_CASE("it refuses sequences that the model does not know") {
  Inference<logits_of<model>> net;
  CHECK_THROWS_WITH_AS(net.logits(test::some_tokens(31, 16)), doctest::Contains("positions end at 30"), Error);
  CHECK_THROWS_AS(net.logits({}), Error);
  CHECK_THROWS_WITH_AS(net.logits(std::vector<std::int32_t>{16}), doctest::Contains("token 16, but the model knows 16"),
                       Error);
  Inference<two_tables> small;
  CHECK_THROWS_WITH_AS(small.logits(std::vector<std::int32_t>{5}), doctest::Contains("token 5, but the model knows 5"),
                       Error);
  CHECK_THROWS_WITH_AS(small.logits(test::some_tokens(4, 5)), doctest::Contains("positions end at 3"), Error);
}

TEST_CASE("of threads that need work done the first does it, and the others find it done") {
  detail::DoneOnce once;
  std::atomic<int> begun{0}, ended{0};
  std::atomic<bool> early{false};
  const auto by_four_threads = [&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        once([&] {
          ++begun;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ++ended;
        });
        if (ended != begun) early = true;
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  by_four_threads();
  by_four_threads();
  CHECK(begun == 1);
  once.again();
  by_four_threads();
  CHECK(begun == 2);
  CHECK(!early);
}

TEST_CASE("without initial values parameters are zeros, and constants what they are with them") {
  test::check_without_initial_values<Inference<logits_of<test::with_bases>, Cpu<float>>>();
}

TEST_SUITE_END();
