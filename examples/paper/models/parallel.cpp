// SPDX-License-Identifier: MIT
#include "../learner_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::parallel);
const paper::Offer<model> offer{"parallel"};
}  // namespace
