// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model of one's own has no logits() that a model without its loss could be made from.
// expect: error: .*simplx: logits_of takes a model with a member logits\(\), as Decoder, Encoder and Classifier have it
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr auto logits = [] {
  return embedding(weight("embedding", 256, 64), indices("tokens", Axis::tokens)) * weight("head", 64, 256);
};
inline constexpr auto model = [] { return cross_entropy(logits(), indices("labels", Axis::tokens)); };
#ifdef FIXED
template class simplx::Inference<logits>;
#else
template class simplx::Inference<logits_of<model>>;
#endif
