// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::languini(simplx::sas_p);
const paper::Offer<model> offer{"languini_sas_p"};
}  // namespace
