// SPDX-License-Identifier: MIT
#include <simplx/differentiate/function_memory.hpp>

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

#include <doctest/doctest.h>

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

using namespace simplx;

namespace {
inline constexpr auto energy = [] { return sum(square(variable("x", rows_of(Axis::batch, 2)))); };
inline constexpr auto total = [] { return sum(variable("x", rows_of(Axis::batch, 3))); };
inline constexpr auto line = [] { return sum(variable("x", rows_of(Axis::batch, 1)) * scalar("slope", zeros)); };
inline constexpr auto placed = [] {
  return sum(square(variable("x", rows_of(Axis::tokens, 2)) + positions(fixed("table", 4, 2, zeros))));
};
}  // namespace

TEST_CASE("differentiate/function_memory: of one number type, shared by functions") {
  using Memory = detail::FunctionMemory<double>;
  static_assert(std::is_base_of_v<Memory, Function<energy>> && std::is_base_of_v<Memory, Function<total>>);
  static_assert(!std::is_base_of_v<Memory, Function<energy, Cpu<float>>>);
  static_assert(!std::is_copy_constructible_v<Function<energy>>);
}

TEST_CASE("differentiate/function_memory: a function that is moved keeps what it was given and what it found") {
  std::array<double, 4> x{1, 2, 3, 4};
  Function<energy> first;
  first.bind<"x">(std::span<const double>(x));
  CHECK(first.value_and_grad() == 30);
  Function<energy> second = std::move(first);
  CHECK(second.gradient<"x">()(1, 1) == 8);
  x[3] = 5;  // bound, not copied
  CHECK(second.value_and_grad() == 39);
  CHECK(second.gradient<"x">()(1, 1) == 10);
  Function<energy> third;
  third = std::move(second);
  CHECK(third.value() == 39);
}

TEST_CASE("differentiate/function_memory: what was moved from refuses all but to be assigned to") {
  std::array<double, 4> x{1, 2, 3, 4};
  Function<line> first;
  first.bind<"x">(std::span<const double>(x));
  first.parameter<"slope">()(0) = 2;
  CHECK(first.value_and_grad() == 20);
  Function<line> second = std::move(first);
  const auto refused = [](const auto& use) {
    CHECK_THROWS_WITH_AS(use(), doctest::Contains("this function was moved from"), Error);
  };
  refused([&] { first.forward(); });
  refused([&] { first.value_and_grad(); });
  refused([&] { first.backward(); });
  refused([&] { first.output(); });
  refused([&] { first.output_gradient(); });
  refused([&] { first.gradient<"x">(); });
  refused([&] { first.gradient("slope"); });
  refused([&] { first.parameter<"slope">(); });
  refused([&] { first.set<"x">(x); });
  refused([&] { first.set<"slope">(3.0); });
  refused([&] { first.bind<"x">(x); });
  refused([&] { first.set_sequences({}); });
  CHECK(first.parameters().empty());
  CHECK(second.value_and_grad() == 20);
  CHECK(second.gradient<"slope">()(0) == 10);
  first = std::move(second);
  refused([&] { second.value(); });
  CHECK(first.value() == 20);
  first = Function<line>(1);
  CHECK_THROWS_WITH_AS(first.value(), doctest::Contains("the input 'x' was never set"), Error);
}

TEST_CASE("differentiate/function_memory: sequences of negative or too great length are refused") {
  Function<placed> f;
  const std::vector<Index> negative{5, -2}, two{2, 1};
  f.set<"x">(std::vector<double>(3 * 2));
  CHECK_THROWS_WITH_AS(f.set_sequences(negative), doctest::Contains("a sequence of -2 tokens"), Error);
  CHECK(f.value() == 0);
  f.set<"x">(std::vector<double>(5 * 2));
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("5 tokens, but the model's positions end at 4"), Error);
  f.set<"x">(std::vector<double>(3 * 2)).set_sequences(two);
  CHECK_NOTHROW(f.forward());
}

TEST_CASE("differentiate/function_memory: there is room for the most rows of each kind so far, and values are of these") {
  struct Open : Function<placed> {
    using Function<placed>::arena_;
  } f;
  Function<energy> g;
  const auto sum_of = [&](Index tokens, const std::vector<Index>& lengths) {
    f.set<"x">(std::vector<double>(static_cast<std::size_t>(2 * tokens), 1)).set_sequences(lengths);
    return f.value_and_grad();
  };
  const auto energy_of = [&](std::size_t rows) {
    g.set<"x">(std::vector<double>(2 * rows, 3));
    return g.value_and_grad();
  };
  CHECK(sum_of(4, {4}) == 8);
  CHECK(energy_of(100) == 1800);
  const Index room = f.arena_->size();
  CHECK(sum_of(3, {1, 2}) == 6);  // more sequences
  const std::vector<Index> ten(10, 4), twenty(20, 2);
  CHECK(sum_of(40, ten) == 80);
  const Index more = f.arena_->size();
  CHECK(sum_of(4, {4}) == 8);
  CHECK(sum_of(40, ten) == 80);
  CHECK(more > room);
  CHECK(f.arena_->size() == more);
  CHECK(sum_of(40, twenty) == 80);
  const std::vector<Index> many(20, 4), lone(40, 1);
  CHECK(sum_of(80, many) == 160);
  CHECK(sum_of(40, lone) == 80);  // fewer tokens, more sequences
  const Index most = f.arena_->size();
  CHECK(sum_of(80, many) == 160);
  CHECK(f.arena_->size() == most);
  CHECK(f.arena_->capacity().hold({.tokens = 80, .sequences = 40}));
  CHECK(sum_of(40, ten) == 80);
  CHECK(f.gradient<"x">().sum() == 160);
  CHECK(energy_of(1) == 18);
  CHECK(g.gradient<"x">().size() == 2);
  CHECK(g.gradient<"x">()(1) == 6);
}

TEST_CASE("differentiate/function_memory: results and gradients wait for the first evaluation") {
  Function<energy> f;
  CHECK_THROWS_WITH_AS(f.output(), doctest::Contains("output() without a forward()"), Error);
  CHECK_THROWS_WITH_AS(f.output_gradient(), doctest::Contains("output_gradient() without a forward()"), Error);
  CHECK_THROWS_WITH_AS(f.gradient<"x">(), doctest::Contains("gradient() without a forward()"), Error);
  f.set<"x">(std::vector<double>{1, 2});
  CHECK_THROWS_AS(f.gradient<"x">(), Error);
  f.value_and_grad();
  f.set<"x">(std::vector<double>{1, 2, 3, 4});  // more rows, not evaluated yet
  CHECK(f.gradient<"x">()(1) == 4);
}
