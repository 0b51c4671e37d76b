// SPDX-License-Identifier: MIT
#include "../learner_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::norm_former_decoder(simplx::post_ln);
const paper::Offer<model> offer{"post_ln"};
}  // namespace
