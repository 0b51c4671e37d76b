// SPDX-License-Identifier: MIT
// Thirty expressions, each used twice by the next: as types, names would double at every step.
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/train/evaluation.hpp>

using namespace simplx;

struct Chain {
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::batch, 64));
    for (int i = 0; i < 30; ++i) x = x * x + relu(x) * 0.5;
    return x;
  }
};
inline constexpr Chain chain{};

int main() {
  Evaluation<chain> run(Rows{.batch = 4});
  run.forward();
  run.backward();
}
