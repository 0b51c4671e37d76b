// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Encoder model = paper::encoder(simplx::bert_v_skip_init_shaped);
const paper::Offer<model> offer{"bert_v_skip_init_shaped"};
}  // namespace
