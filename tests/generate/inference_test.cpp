// SPDX-License-Identifier: MIT
#include <simplx/generate/inference.hpp>

#include <simplx/models/classifier.hpp>
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
  Inference<logits_of<model>, Cpu<double>> net(5);
  test::stir(trainer.tensors(), trainer.parameters());
  std::ranges::copy(trainer.parameters(), net.parameters().begin());
  const auto tokens = test::some_tokens(30, 16);
  for (const std::size_t length : {1, 17, 30}) {
    const auto some = std::span(tokens).first(length);
    CHECK(std::ranges::equal(trainer.logits(some), net.logits(some)));
  }
  CHECK(test::allocations_of([&] { net.logits(tokens); }) == 0);
}

TEST_CASE("logits of a classifier are one row, of a model without rows as many as it has") {
  Trainer<classifier> trainer({.batch = 1, .seed = 4});
  Inference<logits_of<classifier>> net(4);
  const auto tokens = test::some_tokens(12, 16);
  const auto logits = net.logits(tokens);
  CHECK(logits.size() == 3);
  CHECK(std::ranges::equal(trainer.logits(tokens), logits));
  std::vector<float> memory(3);
  net.logits(tokens, memory);
  CHECK(std::ranges::equal(memory, logits));
  CHECK_THROWS_WITH_AS(net.logits(tokens, std::span(memory).first(2)), doctest::Contains("they have 3"), Error);
  CHECK(Inference<over_rows>().logits(tokens).size() == 4);
}

TEST_CASE("it computes logits where the caller wants them, aligned or not, and writes nothing else") {
  Inference<logits_of<model>> net(5);
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

TEST_SUITE_END();
