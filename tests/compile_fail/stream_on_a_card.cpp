// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: What a stream remembers lies in the host's memory. `Card` stands for `Cuda<>`, which only sources of nvcc have.
// expect: error: .*simplx: Stream evaluates on the CPU, with Cpu<float> or Cpu<double>; on a GPU there is Inference, of
#include <simplx/simplx.hpp>

using namespace simplx;

struct Card : Cpu<float> {
  static constexpr bool on_device = true;
};
inline constexpr Decoder model{.block = sas_p, .width = 64, .layers = 2};
#ifdef FIXED
using Backend = Cpu<float>;
#else
using Backend = Card;
#endif
Index capacity(const Stream<logits_of<model>, Backend>& stream) { return stream.capacity(); }
