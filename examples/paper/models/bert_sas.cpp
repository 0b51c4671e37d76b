// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
constexpr simplx::Encoder model = paper::encoder(simplx::bert_sas);
const paper::Offer<model> offer{"bert_sas"};
}  // namespace
