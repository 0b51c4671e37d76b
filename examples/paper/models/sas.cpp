// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::sas);
const paper::Offer<model> offer{"sas"};
}  // namespace
