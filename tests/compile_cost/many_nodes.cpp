// SPDX-License-Identifier: MIT
// A graph of over 1500 nodes is evaluated and planned under the compilers' default limits.
#include <simplx/core/graph.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

struct Many {
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::tokens, 16));
    for (int i = 0; i < 400; ++i) {
      const char name[] = {'w', static_cast<char>('0' + i / 100), static_cast<char>('0' + i / 10 % 10),
                           static_cast<char>('0' + i % 10), 0};
      x = i % 7 == 6 ? relu(x * weight(name, 16, 16)) : x + relu(x) * 0.5;
    }
    return x;
  }
};
inline constexpr Many many{};
static_assert(GraphOf<many>::count > 1500 && GraphOf<many>::layout.trained == 57 * 16 * 16);
