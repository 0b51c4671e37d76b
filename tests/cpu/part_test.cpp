// SPDX-License-Identifier: MIT
#include <simplx/cpu/part.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

template <class S, int count>
void check_part() {
  using P = Part<S, count>;
  static_assert(std::is_same_v<Register<P>, Vec<S>> && PartOfVector<P> && !PartOfVector<Vec<S>>);
  // Memory of just so many numbers: a sanitizer sees what is read or written beyond.
  const std::vector<S> from = [] {
    std::vector<S> numbers(count);
    for (int i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<S>(i + 1);
    return numbers;
  }();
  const Vec<S> value = load<P>(from.data());
  const Vec<S> other = counted<P>(splat<P>(S(7)), splat<Vec<S>>(S(-1)));
  for (int i = 0; i < lanes<S>; ++i) {
    CHECK(value[i] == (i < count ? static_cast<S>(i + 1) : S(0)));
    CHECK(other[i] == (i < count ? S(7) : S(-1)));
  }
  Vec<S> broken = splat<Vec<S>>(std::numeric_limits<S>::quiet_NaN());
  for (int i = 0; i < count; ++i) broken[i] = S(1);
  CHECK(sum(counted<P>(broken)) == S(count));
  std::vector<S> to(count);
  store<P>(to.data(), value);
  CHECK(to == from);
  S around[lanes<S> + 1];
  for (S& number : around) number = S(-5);
  store<P>(around + 1, splat<P>(S(3)));
  for (int i = 0; i <= lanes<S>; ++i) CHECK(around[i] == (i >= 1 && i <= count ? S(3) : S(-5)));
}

template <class S, int... count>
void check_parts(std::integer_sequence<int, count...>) {
  (check_part<S, count + 1>(), ...);
}

}  // namespace

TEST_SUITE_BEGIN("cpu/part");

TEST_CASE_TEMPLATE("a part reads and writes its lanes and no others", S, float, double) {
  check_parts<S>(std::make_integer_sequence<int, lanes<S> - 1>{});
}

TEST_CASE("vectors and numbers are their own registers, all of whose lanes count") {
  static_assert(std::is_same_v<Register<Vec<float>>, Vec<float>> && std::is_same_v<Register<double>, double>);
  CHECK(counted<double>(2.0, 3.0) == 2.0);
  CHECK(sum(counted<Vec<float>>(splat<Vec<float>>(1.0f))) == lanes<float>);
}

TEST_SUITE_END();
