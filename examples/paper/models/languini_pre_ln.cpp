// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Decoder model = paper::languini(simplx::pre_ln);
const paper::Offer<model> offer{"languini_pre_ln"};
}  // namespace
