// SPDX-License-Identifier: MIT
#pragma once

// A language model behind a function: what crosses between the instruction sets are types of no library.

struct Lesson {
  const char* instructions;  ///< whose kernels ran
  int vector_bytes;
  double first_loss, last_loss;  ///< nats per token
};

namespace app {
namespace sse2 {
Lesson learn(int steps);
}
namespace avx2_fma {
Lesson learn(int steps);
}
namespace avx512 {
Lesson learn(int steps);
}
namespace avx512_bf16 {
Lesson learn(int steps);
}
namespace amx_bf16 {
Lesson learn(int steps);
}
}  // namespace app
