// SPDX-License-Identifier: MIT
/// Attention by warpgroups, for nvcc: compiled for sm_90a, not run, by nvcc.py.
#include <simplx/cuda/warpgroups.cuh>

#include "attention_kernels.hpp"

namespace simplx::inline SIMPLX_TARGET::gpu {

SIMPLX_ATTENTION(Warpgroups, Narrow, __nv_bfloat16, __nv_bfloat16, AttentionSize{12, 64, 64, AttentionMatrix::softmax})
SIMPLX_ATTENTION(Warpgroups, Narrow, float, __nv_bfloat16, AttentionSize{12, 64, 64, AttentionMatrix::shaped})
SIMPLX_ATTENTION(Warpgroups, Narrow, float, float, AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::full, true})
SIMPLX_ATTENTION(Warpgroups, Narrow, float, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::full})
SIMPLX_ATTENTION(Warpgroups, Narrow, float, __nv_bfloat16, AttentionSize{8, 128, 128, AttentionMatrix::shaped})
static_assert(std::is_same_v<BFloat16Cores, Warpgroups>);

}  // namespace simplx::gpu
