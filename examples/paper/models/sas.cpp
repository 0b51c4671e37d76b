// SPDX-License-Identifier: MIT
#include "../learner_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::decoder(simplx::sas);
const paper::Offer<model> offer{"sas"};
}  // namespace
