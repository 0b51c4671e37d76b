// SPDX-License-Identifier: MIT
#include <simplx/core/describe.hpp>

#include "support.hpp"

#include <simplx/ops/reduce.hpp>

using namespace simplx;

namespace {
struct Net {
  constexpr Expr operator()() const {
    auto x = variable("x", rows_of(Axis::tokens, 4));
    auto h = relu(x * weight("up", 4, 8) + vector("bias", 8));
    return x + scalar("gain") * (h * weight("down", 8, 4));
  }
};
inline constexpr Net net{};

inline constexpr auto regression = [] {
  auto A = input("A", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  auto w = variable("w", fixed_shape(3, 1));
  auto h = sin(A * w) + sum(abs(A) * min(A, pow(A, 2.0)), Over::columns);
  return mean(square(h - y)) + hyper("penalty", 0.01) * sum(square(w));
};
}  // namespace

TEST_CASE("core/describe: the schedule of a small network, forward and as derived") {
  CHECK(describe<net>() ==
        "73 parameters\n"
        "forward\n"
        "  %6 = max(0, x * up + bias)                                      (tokens, 8)     kept\n"
        "  %11 = x + gain * (%6 * down)                                    (tokens, 4)     result\n"
        "    with %8 = %6 * down                                           (tokens, 4)     kept\n"
        "backward\n"
        "  d(gain) += sum d%11 * %8\n"
        "  d%8 = d%11 * gain\n"
        "  d(x) = d%11\n"
        "  d(down) += %6^T * d%8\n"
        "  d%6 = d%8 * down^T\n"
        "  d%3 = (%6 > 0 ? d%6 : 0)\n"
        "  d(bias) += sum of rows (%6 > 0 ? d%6 : 0)\n"
        "  d(up) += x^T * d%3\n"
        "  d(x) += d%3 * up^T\n");
}

TEST_CASE("core/describe: functions by name, and sums as what ends a loop") {
  CHECK(describe<regression>() ==
        "0 parameters\n"
        "forward\n"
        "  %2 = A * w                                                      (batch, 1)      kept\n"
        "  %9 = sum of columns(abs(A) * min(A, pow(A, 2)))                 (batch, 1)      kept\n"
        "  %14 = mean((sin(%2) + %9 - y) * (sin(%2) + %9 - y))             (1, 1)\n"
        "  %17 = sum(w * w)                                                (1, 1)\n"
        "  %20 = %14 + penalty * %17                                       (1, 1)          result\n"
        "backward\n"
        "  d%17 = d%20 * penalty\n"
        "  d%14 is d%20\n"
        "  d(w) = 2 * d%17 * w\n"
        "  d%2 = 2 * (d%14 / n) * (sin(%2) + %9 - y) * cos(%2)\n"
        "  d(w) += A^T * d%2\n");
}
