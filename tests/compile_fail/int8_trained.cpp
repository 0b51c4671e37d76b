// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model is trained with its weights as bytes.
// expect: error: .*simplx: Path::int8 rounds weights to bytes, which have no backward: train on Cpu<float>, and load what was trained into an Inference or Evaluation on Cpu<float, Path::int8>
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto squares = [] {  // no gradient but of the weights
  const Expr x = input("x", rows_of(Axis::batch, 8)), y = input("y", rows_of(Axis::batch, 16));
  return mean(square(x * weight("w", 8, 16) - y));
};

double train() {
#ifdef FIXED
  Learner<squares> learner;
#else
  Learner<squares, Cpu<float, Path::int8>> learner;
#endif
  return learner.step(AdamW{.learning_rate = 1e-3}).loss;
}
