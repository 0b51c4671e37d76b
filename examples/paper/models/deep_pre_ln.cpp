// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::pre_ln, 18);
const paper::Offer<model> offer{"deep_pre_ln"};
}  // namespace
