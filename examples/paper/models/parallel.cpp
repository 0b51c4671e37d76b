// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::parallel);
const paper::Offer<model> offer{"parallel"};
}  // namespace
