// SPDX-License-Identifier: MIT
#include <simplx/cpu/cpu.hpp>

#include <doctest/doctest.h>

using namespace simplx;

static_assert(Cpu<float>::vectorises(lanes<float>) && Cpu<float>::vectorises(3 * lanes<float>));
static_assert(!Cpu<float>::vectorises(lanes<float> + 1) && !Cpu<float, Path::reference>::vectorises(lanes<float>));

TEST_CASE("cpu/cpu: clear sets exactly what it is given to zero") {
  double data[4] = {1, 2, 3, 4};
  Cpu<double>::clear(data + 1, 2);
  CHECK(data[0] == 1);
  CHECK(data[1] == 0);
  CHECK(data[2] == 0);
  CHECK(data[3] == 4);
}
