// SPDX-License-Identifier: MIT
#include <simplx/core/describe.hpp>

#include "support.hpp"

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
}  // namespace

TEST_CASE("core/describe: the schedule of a small network, forward and as derived") {
  CHECK(describe<net>() ==
        "73 parameters\n"
        "forward\n"
        "  %5 = max(x * up + bias, 0)                                      (tokens, 8)     kept\n"
        "  %10 = x + gain * (%5 * down)                                    (tokens, 4)     result\n"
        "    with %7 = %5 * down                                           (tokens, 4)     kept\n"
        "backward\n"
        "  d(x) = d%10\n"
        "  d(gain) += sum d%10 * %7\n"
        "  d%7 = d%10 * gain\n"
        "  d(down) += %5^T * d%7\n"
        "  d%5 = d%7 * down^T\n"
        "  d%2 = (%5 > 0 ? d%5 : 0)\n"
        "  d(bias) += sum of rows (%5 > 0 ? d%5 : 0)\n"
        "  d(up) += x^T * d%2\n"
        "  d(x) += d%2 * up^T\n");
}
