// SPDX-License-Identifier: MIT
// Stands for the blocks that a test's train_lm and generate do not have: a model takes 5 to 10 s to compile.
#include "../../examples/generate/writer.hpp"
#include "../../examples/train_lm/any_trainer.hpp"

namespace {
[[noreturn]] void refuse() { throw simplx::Error("this program of the tests does not have the block", "take sas_p"); }
}  // namespace

template <auto const& block>
std::unique_ptr<train_lm::AnyTrainer> train_lm::make_trainer(Device, const simplx::TrainerOptions&) {
  refuse();
}
template <auto const& block>
std::unique_ptr<generate_text::Writer> generate_text::make_writer(Device, std::uint64_t) {
  refuse();
}

#define SIMPLX_OTHER_BLOCK(name)                                                                                      \
  template std::unique_ptr<train_lm::AnyTrainer> train_lm::make_trainer<simplx::name>(Device,                         \
                                                                                      const simplx::TrainerOptions&); \
  template std::unique_ptr<generate_text::Writer> generate_text::make_writer<simplx::name>(Device, std::uint64_t);
SIMPLX_OTHER_BLOCK(pre_ln)
SIMPLX_OTHER_BLOCK(parallel)
SIMPLX_OTHER_BLOCK(v_skip_init_shaped)
SIMPLX_OTHER_BLOCK(sas)
SIMPLX_OTHER_BLOCK(sas_p_norm_free)
