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
        "  %6 = max(x * up + bias, 0)                                      (tokens, 8)     kept\n"
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
