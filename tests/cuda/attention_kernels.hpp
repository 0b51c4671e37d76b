// SPDX-License-Identifier: MIT
#pragma once

/// Kernels of attention, for nvcc to compile.

#include <simplx/cuda/attention_backward.cuh>
#include <simplx/cuda/bfloat16_values.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

using Narrow = MixedOperands<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float>;
#define SIMPLX_ATTENTION(cores, operands, out, dout, ...)                                                      \
  template void attention<__VA_ARGS__, cores>(cudaStream_t, const Index*, Index, Index, const operands&, out*, \
                                              float*);                                                         \
  template void attention_backward<__VA_ARGS__, cores, Write::store, Write::store, Write::store>(              \
      cudaStream_t, const Index*, Index, Index, const operands&, const float*, const out*, const dout*,        \
      const AttentionGradients<float>&, float*);

}  // namespace simplx::gpu
