// SPDX-License-Identifier: MIT
// Compiled three times, each with other -m flags and its own name in UNIT.
#include "unit.hpp"

#include <simplx/simplx.hpp>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

// As in the library: what is inline and made of the library has one name for each instruction set.
namespace outside::inline SIMPLX_TARGET {
using namespace simplx;

inline constexpr Decoder tiny{.block = sas_p, .vocab = 16, .width = 16, .heads = 1, .layers = 2, .context = 8};
inline constexpr auto misfit = [] {
  auto A = input("A", rows_of(Axis::batch, 2)), y = input("y", rows_of(Axis::batch, 1));
  return sum(square(A * variable("w", fixed_shape(2, 1)) - y));
};

inline Outcome run() {
  Outcome outcome{TEXT(SIMPLX_TARGET), vector_bytes, {}, {}};
  Trainer<tiny> trainer{{.batch = 1, .seed = 1}};
  TokenBatch batch = make_batch(1, 8);
  for (int i = 0; i < 8; ++i) {
    batch.tokens.push_back(i);
    batch.labels.push_back(i + 1);
  }
  batch.offsets = {0, 8};
  for (double& loss : outcome.loss) loss = trainer.step(batch, AdamW{.learning_rate = 1e-2}).loss;

  Eigen::MatrixXd A(33, 2), y = Eigen::MatrixXd::Ones(33, 1);
  for (int row = 0; row < 33; ++row) A.row(row) << row, 1 - row;
  Function<misfit> f;
  f.set<"A">(A).set<"y">(y).set<"w">(Eigen::Vector2d(1, -1));
  f.value_and_grad();
  const Eigen::Vector2d gradient = f.gradient<"w">();
  outcome.gradient[0] = gradient[0], outcome.gradient[1] = gradient[1];
  return outcome;
}
}  // namespace outside

Outcome UNIT() { return outside::run(); }
