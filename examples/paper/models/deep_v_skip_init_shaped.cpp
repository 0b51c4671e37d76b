// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::v_skip_init_shaped, 18);
const paper::Offer<model> offer{"deep_v_skip_init_shaped"};
}  // namespace
