// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A loss for each row is what a Trainer takes; a Learner trains one number.
// expect: error: .*simplx: the first result of a Learner is its loss, one number: mean\(cross_entropy
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto f = [] {
  const Expr logits = named("head", Linear{.out = 10})(input("x", rows_of(Axis::batch, 8)));
  const Expr losses = cross_entropy(logits, indices("label", Axis::batch));
#ifdef FIXED
  return mean(losses);
#else
  return losses;
#endif
};

double check() {
  Learner<f> learner;
  return learner.step(AdamW{.learning_rate = 1e-3}).loss + learner.loss();
}
