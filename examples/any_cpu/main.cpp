// SPDX-License-Identifier: MIT
// One binary for several instruction sets: it runs the kernels of the widest vectors that this CPU has.
//
//     any_cpu
#include "net.hpp"

#include <simplx/core/for_this_cpu.hpp>

#include <cstdio>

int main() {
  const auto learn = simplx::for_this_cpu(app::sse2::learn, app::avx2_fma::learn, app::avx512::learn,
                                          app::avx512_bf16::learn, app::amx_bf16::learn);
  const Lesson lesson = learn(100);
  std::printf("%s: vectors of %d bytes, loss %.3f -> %.3f\n", lesson.instructions, lesson.vector_bytes,
              lesson.first_loss, lesson.last_loss);
}
