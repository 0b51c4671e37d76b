// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Trainer on a GPU takes all sequences of a batch at once. It asks as this source does, which needs no nvcc.
// expect: error: .*simplx: on a GPU the sequences of a batch are evaluated together, and this model would mix them
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  auto x = embedding(weight("table", 16, 8), indices("tokens", Axis::tokens));
#ifdef FIXED
  x = x + cumulative_sum(x);
#else
  x = x + mean(x, Over::rows);
#endif
  return cross_entropy(x * weight("head", 8, 16), indices("labels", Axis::tokens));
};
static_assert(detail::TrainedModel<GraphOf<model>>::takes_sequences_together());
