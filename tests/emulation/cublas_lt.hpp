// SPDX-License-Identifier: MIT
#pragma once

/// cuBLASLt for tests, with the names and the column-major matrices of cublasLt.h.
///
/// Stricter than cuBLASLt: it refuses what the documentation does not promise, an algorithm that the heuristic did not
/// give for this very problem, matrices that are not whole in device memory, and a result that overlaps an operand.
/// Each combination of types, transposes and epilogue must be in proven_products.inc, which says what ran on hardware.

#include "emulation/product.hpp"

#include <functional>

inline const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the requested functionality is not supported";
  }
  return "unknown cuBLAS status";
}

namespace emulation {

/// Handles, descriptors and layouts that are not destroyed.
inline long& live_blas_objects() {
  static long count = 0;
  return count;
}
template <class T>
cublasStatus_t make(T** object, T value) {
  *object = new T(value);
  ++live_blas_objects();
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t unmake(T* object) {
  live_blas_objects() -= object != nullptr;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}
/// An attribute has a size of its own.
template <class T>
cublasStatus_t assign(T& place, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// While it lives, the card refuses more than the documentation does: products by their names of proven_products.inc,
/// which the heuristic is asked without what is added.
class Refusing {
 public:
  enum class How : signed char { by_status, without_algorithm, when_it_runs };
  using What = std::function<bool(const std::string& name)>;

  Refusing(How how, What what) : how_(how), what_(std::move(what)) { current() = this; }
  Refusing(const Refusing&) = delete;
  ~Refusing() { current() = nullptr; }

  static bool refuses(How how, const Product& product) {
    return current() && current()->how_ == how && current()->what_(product.name());
  }

 private:
  static const Refusing*& current() {
    static const Refusing* one = nullptr;
    return one;
  }

  How how_;
  What what_;
};

}  // namespace emulation

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (emulation::forbidden_in_captures() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  return emulation::make(handle, {});
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return emulation::unmake(handle); }

inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return emulation::make(desc, {compute, scale});
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return emulation::unmake(desc); }
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                     std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return emulation::assign(desc->op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return emulation::assign(desc->op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return emulation::assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return emulation::assign(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return emulation::assign(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return emulation::assign(desc->ld_aux, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t cols, std::int64_t ld) {
  return emulation::make(layout, {type, rows, cols, ld});
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return emulation::unmake(layout); }

inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return emulation::make(preference, {});
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return emulation::unmake(preference);
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t attribute,
                                                           const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return emulation::assign(preference->workspace, value, bytes);
  }
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    return emulation::assign(preference->reductions, value, bytes);
  }
  const int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return matrix < 0 || matrix > 3 ? CUBLAS_STATUS_INVALID_VALUE
                                  : emulation::assign(preference->alignment[matrix], value, bytes);
}

/// One algorithm, which needs some workspace if it may; it holds for this problem and these alignments. The sums of two
/// halves of the inner dimension meet in the type of the result unless that is ruled out.
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int requested,
                                                     cublasLtMatmulHeuristicResult_t results[], int* returned) {
  const emulation::Call call("cublasLtMatmulAlgoGetHeuristic");
  *returned = 0;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  emulation::Product product{*desc, *a, *b, *c, *d};
  if (const cublasStatus_t status = product.verdict()) return status;
  const auto& least = preference->alignment;
  for (const auto& [layout, bytes] : {std::pair(a, least[0]), {b, least[1]}, {c, least[2]}, {d, least[3]}}) {
    if (bytes < emulation::needed_alignment(layout->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  using How = emulation::Refusing::How;
  if (emulation::Refusing::refuses(How::by_status, product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (emulation::Refusing::refuses(How::without_algorithm, product)) return CUBLAS_STATUS_SUCCESS;
  *returned = 1;
  results[0] = {};
  results[0].workspaceSize = std::min<std::size_t>(preference->workspace, 1024);
  results[0].algo.data[0] = product.fingerprint();
  for (int i = 0; i < 4; ++i) results[0].algo.data[1 + i] = least[i];
  results[0].algo.data[5] = emulation::alignment_of(desc->bias);
  results[0].algo.data[6] = emulation::alignment_of(desc->aux);
  const std::uint32_t as_stored = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  results[0].algo.data[7] = results[0].workspaceSize * 2 + ((preference->reductions & as_stored) != 0);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                                     const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                                     cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                                     cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                                     const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                                     cudaStream_t stream) {
  const emulation::Call call("cublasLtMatmul");
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  emulation::Product product{*desc, *layout_a, *layout_b, *layout_c, *layout_d};
  if (!algo || !a || !b || !c || !d || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t status = product.verdict()) return status;
  if (algo->data[0] != product.fingerprint()) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const pointers[] = {a, b, c, d, desc->bias, desc->aux};
  for (int i = 0; i < 6; ++i) {
    if (emulation::alignment_of(pointers[i]) < algo->data[1 + i]) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::size_t needed = algo->data[7] / 2;
  if (needed && (workspace_bytes < needed || emulation::alignment_of(workspace) < 256)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  product.scale_by(alpha, beta);
  product.add_as_stored(algo->data[7] % 2 != 0);
  product.place(a, b, c, d, workspace, needed);
  if (emulation::Refusing::refuses(emulation::Refusing::How::when_it_runs, product)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  emulation::use(product.name());
  return emulation::enqueue(stream, [product] { product.run(); }) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}
