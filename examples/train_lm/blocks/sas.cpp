// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

template std::unique_ptr<train_lm::AnyTrainer> train_lm::make_trainer<simplx::sas>(
    Device, const simplx::TrainerOptions&);
