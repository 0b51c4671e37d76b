// SPDX-License-Identifier: MIT
#include <simplx/core/describe.hpp>

#include "support.hpp"

#include <simplx/ops/attention.hpp>
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/norm.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>

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

TEST_CASE("core/describe: settings of kernels, after their operands") {
  static constexpr auto every = [] {
    auto x = variable("x", rows_of(Axis::tokens, 8)), epsilon = hyper("epsilon", 1e-8);
    auto y = rms_norm(rotary(shift(x, -1), 2, hyper("base", 10000)), vector("gain", 8), epsilon);
    auto a = softmax_attention(y, y, x, {.count = 1}) + softmax_attention(x, y, y, {.count = 4, .mask = Mask::full});
    auto b = batched_matmul(slice_columns(a, 2, 6), slice_columns(a, 0, 6), 2, 3, 2);
    auto rows = slice_rows(weight("table", 9, 8), 3, 4);
    return repeat_columns(sum(b, Over::columns), 8) * a + cumulative_sum(rms_norm_inside(x, vector("g", 8), epsilon)) *
           sum(rows);
  };
  const std::string text = describe<every>();
  for (const char* call :
       {"shift(x; by -1)", "rotary(%1, base; heads 2)", "rms_norm(%3, gain, epsilon) ",
        "; heads 1, causal)", "; heads 4, full)", "; columns 2 to 7)", "; columns 0 to 5)", "; 2 x 3 by 3 x 2)",
        "slice_rows(table; rows 3 to 6)", "; each 8 times)", "rms_norm(x, g, epsilon; epsilon within the root)"}) {
    CAPTURE(text);
    CHECK(text.find(call) != std::string::npos);
  }
}
