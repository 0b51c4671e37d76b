// SPDX-License-Identifier: MIT
#include <simplx/differentiate/function_memory.hpp>

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>

#include <doctest/doctest.h>

#include <array>
#include <type_traits>
#include <utility>

using namespace simplx;

namespace {
inline constexpr auto energy = [] { return sum(square(variable("x", rows_of(Axis::batch, 2)))); };
inline constexpr auto total = [] { return sum(variable("x", rows_of(Axis::batch, 3))); };
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
