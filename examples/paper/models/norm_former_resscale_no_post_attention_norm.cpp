// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::norm_former_decoder(simplx::norm_former_resscale_no_post_attention_norm);
const paper::Offer<model> offer{"norm_former_resscale_no_post_attention_norm"};
}  // namespace
