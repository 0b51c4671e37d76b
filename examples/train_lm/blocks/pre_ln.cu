// SPDX-License-Identifier: MIT
#include "../cuda_trainer_of.hpp"

template std::unique_ptr<train_lm::AnyTrainer> train_lm::make_cuda_trainer<simplx::pre_ln>(
    Device, const simplx::TrainerOptions&);
