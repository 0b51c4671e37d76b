// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

template std::unique_ptr<train_lm::AnyTrainer> train_lm::make_trainer<simplx::v_skip_init_shaped>(
    Device, const simplx::TrainerOptions&);
