// SPDX-License-Identifier: MIT
/// Every kernel at the width of a GPT-2 and at a wide and an odd one, for nvcc: compiled, not run, by nvcc.py.
#include <simplx/cuda/attention_backward.cuh>
#include <simplx/cuda/attention_step.cuh>
#include <simplx/cuda/bfloat16.cuh>
#include <simplx/cuda/cross_entropy.cuh>
#include <simplx/cuda/embedding.cuh>
#include <simplx/cuda/labelled_losses.cuh>
#include <simplx/cuda/memory.cuh>
#include <simplx/cuda/norm.cuh>
#include <simplx/cuda/products.cuh>
#include <simplx/cuda/tensor_cores.cuh>
#include <simplx/cuda/update.cuh>
#include <simplx/train/adamw.hpp>
#include <simplx/train/sgd.hpp>

#include "attention_kernels.hpp"

template class simplx::DeviceBuffer<float>;

namespace simplx::inline SIMPLX_TARGET::gpu {

template void Products::multiply(cudaStream_t, ProductShape, const float*, const float*, float*,
                                 const ProductEpilogue<float>&);
template void Products::multiply(cudaStream_t, ProductShape, const double*, const double*, double*,
                                 const ProductEpilogue<double>&);
template void Products::multiply(cudaStream_t, ProductShape, const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*,
                                 const ProductEpilogue<__nv_bfloat16>&);
template void Products::multiply(cudaStream_t, ProductShape, const __nv_bfloat16*, const __nv_bfloat16*, float*,
                                 const ProductEpilogue<float>&);
template void sum_losses<Write::store, float>(cudaStream_t, const float*, const std::int32_t*, Index, double*);

#define SIMPLX_NORMS(cols)                                                                                             \
  template void rms_norm<float, cols>(cudaStream_t, const float*, const float*, One<float>, float*, float*, Index);    \
  template void rms_norm<float, cols, true>(cudaStream_t, const float*, const float*, One<float>, float*, float*,      \
                                            Index);                                                                    \
  template void rms_norm_backward<float, cols>(cudaStream_t, const float*, const float*, One<float>, const float*,     \
                                               const float*, float*, float*, float*, Index);                           \
  template void rms_norm_backward<float, cols, true, Write::accumulate>(cudaStream_t, const float*, const float*,      \
                                                                        One<float>, const float*, const float*,        \
                                                                        float*, float*, float*, Index);                \
  template void layer_norm<float, cols>(cudaStream_t, const float*, const float*, const float*, One<float>, float*,    \
                                        float*, Index);                                                                \
  template void layer_norm_backward<float, cols>(cudaStream_t, const float*, const float*, const float*, const float*, \
                                                 float*, float*, float*, float*, Index);
SIMPLX_NORMS(77)
SIMPLX_NORMS(768)
SIMPLX_NORMS(1024)
SIMPLX_NORMS(4096)

template void cross_entropy<float, 256>(cudaStream_t, const float*, const std::int32_t*, One<float>, float*, float*,
                                        Index);
template void cross_entropy<float, 50257>(cudaStream_t, const float*, const std::int32_t*, One<float>, float*, float*,
                                          Index);
template void cross_entropy_backward<float, 50257>(cudaStream_t, const float*, const std::int32_t*, One<float>,
                                                   const float*, const float*, float*, Index);
template void cross_entropy<float, 50304>(cudaStream_t, const __nv_bfloat16*, const std::int32_t*, One<float>, float*,
                                          float*, Index);
template void cross_entropy_backward<float, 50304>(cudaStream_t, const __nv_bfloat16*, const std::int32_t*, One<float>,
                                                   const float*, const float*, __nv_bfloat16*, Index);
template void cross_entropy_and_backward<float, 50304>(cudaStream_t, const __nv_bfloat16*, const std::int32_t*,
                                                       One<float>, const float*, float*, __nv_bfloat16*, Index);
template void embedding<float, 768>(cudaStream_t, const float*, const std::int32_t*, float*, Index);
template void embedding_backward<float, 768>(cudaStream_t, const std::int32_t*, const IndexRun*, Index, const float*,
                                             float*);
template void positions<float, 768>(cudaStream_t, const float*, const Index*, const Segments&, Index, float*);
template void positions_backward<float, 768>(cudaStream_t, const Segments&, Index, const float*, float*);
template Rounded round_to_bfloat16<768>(cudaStream_t, const float*, Index, float*&);
template Rounded round_to_bfloat16<77>(cudaStream_t, const float*, Index, float*&);

SIMPLX_ATTENTION(CudaCores<float>, AttentionOperands<float>, float, float,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped})
SIMPLX_ATTENTION(TensorCores<>, AttentionOperands<float>, float, float,
                 AttentionSize{3, 77, 77, AttentionMatrix::skip_init})
SIMPLX_ATTENTION(TensorCores<>, Narrow, __nv_bfloat16, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::softmax})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, __nv_bfloat16, AttentionSize{12, 64, 64, AttentionMatrix::shaped})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, float,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::full, true})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, float,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::causal, true})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, __nv_bfloat16, AttentionSize{8, 128, 128, AttentionMatrix::shaped})
// Of a window.
SIMPLX_ATTENTION(TensorCores<>, Narrow, __nv_bfloat16, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::softmax, Mask::causal, false, false, 1024})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::causal, false, false, 1024})
// Of dropped weights.
SIMPLX_ATTENTION(CudaCores<float>, AttentionOperands<float>, float, float,
                 AttentionSize{12, 64, 64, AttentionMatrix::softmax, Mask::causal, false, true})
SIMPLX_ATTENTION(TensorCores<>, Narrow, __nv_bfloat16, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::softmax, Mask::causal, false, true})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::causal, false, true})
SIMPLX_ATTENTION(TensorCores<>, Narrow, float, __nv_bfloat16,
                 AttentionSize{12, 64, 64, AttentionMatrix::shaped, Mask::full, true, true})

#define SIMPLX_STEPS(operands, stored, out, ...)                                                                       \
  template void attention_steps<__VA_ARGS__>(cudaStream_t, const StepSequences&, Index, const operands&,               \
                                             const AttentionStores<stored>&, out*, float*);
SIMPLX_STEPS(AttentionOperands<float>, float, float, AttentionSize{12, 64, 64, AttentionMatrix::shaped})
SIMPLX_STEPS(AttentionOperands<float>, float, float, AttentionSize{3, 77, 77, AttentionMatrix::skip_init})
SIMPLX_STEPS(Narrow, __nv_bfloat16, __nv_bfloat16, AttentionSize{12, 64, 64, AttentionMatrix::softmax})
SIMPLX_STEPS(Narrow, __nv_bfloat16, float, AttentionSize{8, 128, 128, AttentionMatrix::shaped, Mask::causal, true})
SIMPLX_STEPS(Narrow, __nv_bfloat16, __nv_bfloat16,
             AttentionSize{12, 64, 64, AttentionMatrix::softmax, Mask::causal, false, false, 1024})
template void squared_norm(cudaStream_t, const UpdateSegment<AdamWStep<float>>*, int, Index, const float*, double*);
template void update(cudaStream_t, const UpdateSegment<AdamWStep<float>>*, int, Index, const UpdateBuffers<float>&,
                     __nv_bfloat16*, const double*, double, const double*, double*);
template void update(cudaStream_t, const UpdateSegment<SgdStep<float>>*, int, Index, const UpdateBuffers<float>&,
                     __nv_bfloat16*, const double*, double, const double*, double*);
}  // namespace simplx::gpu
