// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::norm_former_decoder(simplx::pre_ln_biased);
const paper::Offer<model> offer{"pre_ln_biased"};
}  // namespace
