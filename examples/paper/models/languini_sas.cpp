// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::languini(simplx::sas);
const paper::Offer<model> offer{"languini_sas"};
}  // namespace
