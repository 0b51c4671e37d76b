// SPDX-License-Identifier: MIT
#include "../learner_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::languini(simplx::parallel);
const paper::Offer<model> offer{"languini_parallel"};
}  // namespace
