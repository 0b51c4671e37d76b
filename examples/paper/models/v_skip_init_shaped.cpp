// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::v_skip_init_shaped);
const paper::Offer<model> offer{"v_skip_init_shaped"};
}  // namespace
