// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Encoder model = paper::encoder(simplx::bert_pre_ln);
const paper::Offer<model> offer{"bert_pre_ln"};
}  // namespace
