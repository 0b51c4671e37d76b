// SPDX-License-Identifier: MIT
#include <simplx/cpu/cpu.hpp>

#include <doctest/doctest.h>

using namespace simplx;

static_assert(Cpu<float>::vectorises(lanes<float>) && Cpu<float>::vectorises(3 * lanes<float>));
static_assert(!Cpu<float>::vectorises(lanes<float> + 1) && !Cpu<float, Path::reference>::vectorises(lanes<float>));

TEST_CASE("cpu/cpu: clear, copy and add touch exactly what they are given") {
  const Context<double> context;
  double data[4] = {1, 2, 3, 4}, other[4] = {10, 20, 30, 40};
  const auto is = [](const double (&found)[4], double a, double b, double c, double d) {
    CHECK(found[0] == a);
    CHECK(found[1] == b);
    CHECK(found[2] == c);
    CHECK(found[3] == d);
  };
  Cpu<double>::clear(context, data + 1, 2);
  is(data, 1, 0, 0, 4);
  Cpu<double>::add(context, other, 3, data);
  is(data, 11, 20, 30, 4);
  Cpu<double>::copy(context, data + 1, 2, other + 2);
  is(other, 10, 20, 20, 30);
}
