// SPDX-License-Identifier: MIT
#include "../any_trainer.hpp"

simplx::Index train_lm::model_vocab() { return SIMPLX_VOCAB; }
