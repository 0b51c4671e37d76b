// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::languini(simplx::parallel);
const paper::Offer<model> offer{"languini_parallel"};
}  // namespace
