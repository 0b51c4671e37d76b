// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::shaped_reparam_trainable);
const paper::Offer<model> offer{"shaped_reparam_trainable"};
}  // namespace
