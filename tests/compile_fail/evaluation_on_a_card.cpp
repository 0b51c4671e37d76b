// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Each has a form for a GPU in a header of its own. `Card` stands for `Cuda<>`, which only sources of nvcc have.
// expect: error: .*simplx: Trainer, Learner, Inference, Stream, Evaluation and Function on a GPU are those of
#include <simplx/simplx.hpp>

using namespace simplx;

struct Card : Cpu<float> {
  static constexpr bool on_device = true;
};
inline constexpr auto f = [] { return sum(square(weight("w", 3, 1))); };
#ifdef FIXED
using Backend = Cpu<float>;
#else
using Backend = Card;
#endif
void forward(Evaluation<f, Backend>& evaluation) { evaluation.forward(); }
