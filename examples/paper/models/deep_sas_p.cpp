// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::sas_p, 18);
const paper::Offer<model> offer{"deep_sas_p"};
}  // namespace
