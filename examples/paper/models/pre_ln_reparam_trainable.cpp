// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::pre_ln_reparam_trainable);
const paper::Offer<model> offer{"pre_ln_reparam_trainable"};
}  // namespace
