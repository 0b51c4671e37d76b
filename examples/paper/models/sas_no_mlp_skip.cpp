// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::sas_no_mlp_skip);
const paper::Offer<model> offer{"sas_no_mlp_skip"};
}  // namespace
