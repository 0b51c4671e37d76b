// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Encoder model = paper::encoder(simplx::bert_parallel);
const paper::Offer<model> offer{"bert_parallel"};
}  // namespace
