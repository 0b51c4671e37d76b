// SPDX-License-Identifier: MIT
#include <simplx/differentiate/function_inputs.hpp>

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/sequences.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

using namespace simplx;

namespace {
inline constexpr auto two_axes = [] {
  return sum(input("x", rows_of(Axis::tokens, 2))) + sum(input("y", rows_of(Axis::batch, 1)));
};
inline constexpr auto firsts = [] { return first_of_sequence(input("x", rows_of(Axis::tokens, 1))); };
inline constexpr auto repeated = [] { return repeat_over_sequence(variable("q", rows_of(Axis::sequences, 1))); };
}  // namespace

TEST_CASE("differentiate/function_inputs: tokens that no input has are those of the sequences") {
  Function<repeated> f;
  f.set<"q">(std::vector<double>{1, 2});
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("nothing that was given has tokens"), Error);
  for (const std::vector<Index>& lengths : {std::vector<Index>{2, 3}, {5, 1}}) {
    f.set_sequences(lengths).forward();
    CHECK(f.output().size() == lengths[0] + lengths[1]);
    CHECK(f.output().sum() == static_cast<double>(lengths[0] + 2 * lengths[1]));
    f.output_gradient<0>().setOnes();
    f.backward();
    CHECK(f.gradient<"q">()(1) == static_cast<double>(lengths[1]));
  }
}

TEST_CASE("differentiate/function_inputs: as many sequences of other lengths are others") {
  Function<firsts> f;
  const std::vector<Index> short_first{1, 2}, long_first{2, 1};
  f.set<"x">(std::vector<double>{1, 2, 3}).set_sequences(short_first).forward();
  CHECK(f.output()(1) == 2);
  f.set_sequences(long_first).forward();
  CHECK(f.output()(1) == 3);
  f.set_sequences(long_first).forward();
  CHECK(f.output()(1) == 3);
}

TEST_CASE("differentiate/function_inputs: of one number type, shared by functions") {
  static_assert(std::is_base_of_v<detail::FunctionInputs<double>, Function<two_axes>>);
  static_assert(!std::is_base_of_v<detail::FunctionInputs<double>, Function<two_axes, Cpu<float>>>);
}

TEST_CASE("differentiate/function_inputs: rows of each axis are those given last, whoever holds them") {
  Function<two_axes> f;
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, y{10, 20};
  CHECK(f.set<"x">(x).bind<"y">(y).value() == 51);
  CHECK(f.bind<"x">(std::span(x).first(2)).value() == 33);
  CHECK(f.set<"y">(std::vector<double>{}).value() == 3);
  const std::vector<Index> none{};
  CHECK_THROWS_WITH_AS(f.set_sequences(none).value(), doctest::Contains("0 tokens together, not 1"), Error);
}
