// SPDX-License-Identifier: MIT
#include "../learner_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::shaped_reparam_trainable);
const paper::Offer<model> offer{"shaped_reparam_trainable"};
}  // namespace
