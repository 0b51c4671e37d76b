// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::norm_former_decoder(simplx::post_ln);
const paper::Offer<model> offer{"post_ln"};
}  // namespace
