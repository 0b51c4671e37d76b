// SPDX-License-Identifier: MIT
#include "../cuda_learner_of.hpp"

template std::unique_ptr<train_lm::Learner> train_lm::make_cuda_learner<simplx::parallel>(
    Device, const simplx::TrainerOptions&);
