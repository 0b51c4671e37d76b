// SPDX-License-Identifier: MIT
#include <simplx/train/trainer.hpp>

#include "allocations.hpp"
#include "support.hpp"

#include <simplx/train/average.hpp>
#include <simplx/train/batches.hpp>

using namespace simplx;

namespace {
// As long as the vectors of every instruction set, so that all products run on the fast path.
inline constexpr Decoder model{.block = sas_p, .vocab = 64, .width = 64, .heads = 2, .hidden = 128, .layers = 3, .context = 40};
}  // namespace

TEST_CASE("train/allocation: assembling a batch, steps in one part or two and averages allocate nothing, on one thread and on two") {
  Corpus corpus;
  for (int i = 0; i < 2000; ++i) corpus.bytes.push_back(static_cast<std::uint8_t>(i % 61));
  corpus.training = {{"a", 0, 2000}};
  for (const int threads : {1, 2}) {
    Trainer<model> trainer({.batch = 6, .threads = threads, .sequences_per_step = 12,
                            .groups = {{.name = "*.mlp.*", .learning_rate_factor = 0.5}, {.name = "*.gain", .weight_decay = 0.1}}});
    WeightAverage<float> average(trainer.parameters().size(), 0.9);
    Batches batches(corpus, corpus.training, 40, 6, 1);
    TokenBatch batch = make_batch(6, 40);
    batches.next(batch);
    trainer.step(batch, {});
    average.update(trainer.parameters());
    const long allocations = test::allocations_of([&] {
      for (int i = 0; i < 20; ++i) {  // several epochs
        batches.next(batch);
        trainer.step(batch, {});
        const Index labelled = 2 * labelled_tokens(batch);
        trainer.accumulate(batch, labelled);
        trainer.accumulate(batch, labelled);
        trainer.update(Sgd{.momentum = 0.9});
        average.update(trainer.parameters());
        const auto in_place = average.swap_into(trainer.parameters());
        trainer.loss(batch);
      }
    });
    CHECK(allocations == 0);
  }
  CHECK(test::allocations_of([] { ::operator delete(::operator new(8)); }) == 1);  // the counter counts
}
