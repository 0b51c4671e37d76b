// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/products.cuh
/// Products of matrices by cuBLASLt, row-major, with what comes after them in the same kernel.
///
///     gpu::Products products;
///     // y = x w; dx = dy w^T; dw += x^T dy; y = gelu(x w + bias), with h = x w + bias
///     products.multiply(stream, {.rows = n, .cols = out, .inner = in}, x, w, y);
///     products.multiply(stream, {.rows = n, .cols = in, .inner = out, .transpose_b = true}, dy, w, dx);
///     products.multiply(stream, {.rows = in, .cols = out, .inner = n, .transpose_a = true,
///                                .write = Write::accumulate}, x, dy, dw);
///     products.multiply(stream, {.rows = n, .cols = out, .inner = in}, x, w, y,
///                       {.function = gpu::Epilogue::gelu_aux_bias, .bias = bias, .aux = h, .ld_aux = out});
///
/// cuBLASLt is column-major: it sees each matrix transposed, and computes y^T = b^T a^T. Programs link with -lcublasLt.
/// What it has algorithms for depends on the card, its version and the addresses, and is asked once for each kind of
/// product: one that it refuses is multiplied without its epilogue, which kernels do after it (epilogue.cuh).

#include <simplx/cuda/epilogue.cuh>
#include <simplx/cuda/memory.cuh>

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <class S>
inline constexpr cudaDataType_t data_type = CUDA_R_32F;
template <>
inline constexpr cudaDataType_t data_type<double> = CUDA_R_64F;
template <>
inline constexpr cudaDataType_t data_type<__nv_bfloat16> = CUDA_R_16BF;

/// Objects of cuBLASLt that destroy themselves.
template <auto destroy>
struct Destroys {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroys<destroy>>;
using OwnedLayout = Owned<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;

/// All that an algorithm is chosen by.
struct ProductPlanKey {
  ProductShape shape;  ///< with leading dimensions
  cudaDataType_t in, out;
  Epilogue epilogue;
  Index ld_aux;
  std::array<std::uint32_t, 6> alignments;  ///< of a, b, y, what is added, aux, and bias or sums: bytes

  auto operator<=>(const ProductPlanKey&) const = default;
};
/// How much of an epilogue the product's own kernel does.
struct Fused {
  Epilogue function;
  bool residual;
};
struct ProductPlan {
  Fused fused;
  Owned<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy> what;
  OwnedLayout a, b, y;
  cublasLtMatmulAlgo_t algorithm;
};

/// A product with its types erased.
struct ProductCall {
  const void *a, *b, *added;  ///< added: y, or a residual
  void *y, *aux, *vector;     ///< vector: bias or sums

  /// What cuBLASLt is given if that is all it does.
  ProductCall of(const Fused& fused) const {
    const bool has_function = fused.function != Epilogue::none;
    return {a, b, fused.residual ? added : y, y, has_function ? aux : nullptr, has_function ? vector : nullptr};
  }
};

inline std::uint32_t alignment_of(const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  return static_cast<std::uint32_t>(address % 256 == 0 ? 256 : address & -address);
}

/// Multiplies, with a plan for each kind of product that it has seen, and kernels for what that leaves of an epilogue;
/// for one stream at a time.
class Products {
 public:
  /// Errors  throws Error if there is no GPU, or the workspace does not fit
  explicit Products(Index workspace_bytes = Index(32) << 20) : workspace_(workspace_bytes) {
    cublasLtHandle_t handle = nullptr;
    if (const cublasStatus_t status = cublasLtCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
      throw Error("cuBLASLt does not start: " + std::string(cublasLtGetStatusString(status)), no_device_hint);
    }
    handle_.reset(handle);
  }

  /// Of the workspace.
  std::size_t bytes() const { return workspace_.bytes(); }

  /// Shapes  of ProductShape and Epilogue; S and Y are float, double or bfloat16, or S is bfloat16 and Y float
  /// Errors  throws Error if cuBLASLt refuses the product without its epilogue, too. Numbers of bfloat16 must lie on 16
  ///         bytes, as must each row; double has no epilogues
  /// Cost    2 rows cols inner operations; the first product of its kind makes a plan, a kilobyte on the host, by trial
  ///         and error if it is refused. All of it can be captured. Where kernels finish it, y is read and written anew
  template <class S, class Y>
  void multiply(cudaStream_t stream, ProductShape shape, const S* a, const S* b, Y* y,
                const ProductEpilogue<Y>& epilogue = {}) {
    static_assert(std::is_same_v<S, Y> || (std::is_same_v<S, __nv_bfloat16> && std::is_same_v<Y, float>),
                  "a product has the type of its factors, or of bfloat16 is float");
    const EpilogueInfo info = info_of(epilogue.function);
    if (shape.ld_a == 0) shape.ld_a = shape.transpose_a ? shape.rows : shape.inner;
    if (shape.ld_b == 0) shape.ld_b = shape.transpose_b ? shape.inner : shape.cols;
    if (shape.ld_y == 0) shape.ld_y = shape.cols;
    void* const vector = info.sums ? epilogue.sums : info.bias ? const_cast<Y*>(epilogue.bias) : nullptr;
    void* const aux = info.aux ? epilogue.aux : nullptr;
    shape.residual = epilogue.residual != nullptr;
    if (epilogue.residual == y && shape.write == Write::store) shape.residual = false, shape.write = Write::accumulate;
    const Y* const added = shape.residual ? epilogue.residual : y;
    const ProductPlanKey key{shape, data_type<S>, data_type<Y>, epilogue.function, aux ? epilogue.ld_aux : 0,
                             {alignment_of(a), alignment_of(b), alignment_of(y), alignment_of(added), alignment_of(aux),
                              alignment_of(vector)}};
    check_arguments(key, info, vector, aux, epilogue.relu);
    if (shape.rows == 0 || shape.cols == 0 || shape.inner == 0) {
      return multiply_nothing(stream, key, y, vector, sizeof(Y));
    }
    const Fused fused = run(stream, key, {a, b, added, y, aux, vector});
    if constexpr (!std::is_same_v<Y, double>) {
      if (fused.function == epilogue.function && fused.residual == shape.residual) return;
      ProductEpilogue<Y> rest = epilogue;
      if (fused.residual == shape.residual) rest.residual = nullptr;
      finish_product(stream, shape, a, b, y, rest);
    }
  }

  /// What kernels finish, as cuBLASLt refused the epilogue: the first product of each kind with the reason, a line
  /// each.
  std::vector<std::string> not_fused() const {
    std::vector<std::string> lines;
    for (const auto& [kind, refusal] : not_fused_) lines.push_back(refusal);
    return lines;
  }

  /// Where batches are never as long as one before, each makes plans of its own: so many are held, then none.
  static constexpr Index most_plans = 4096;
  /// Plans that are held.
  Index plans() const { return static_cast<Index>(plans_.size()); }

 private:
  using Status = cublasStatus_t;

  static bool is_pull_back_of_relu(Epilogue epilogue) {
    return epilogue == Epilogue::drelu || epilogue == Epilogue::drelu_sums;
  }

  /// Multiplies, and tells how much of the epilogue is done. What cuBLASLt refuses when a plan is made it is not asked
  /// for again.
  Fused run(cudaStream_t stream, const ProductPlanKey& key, const ProductCall& call) {
    if (const auto found = plans_.find(key); found != plans_.end()) {
      start(stream, key, found->second, call);
      return found->second.fused;
    }
    if (plans() == most_plans) plans_.clear();
    std::optional<Error> refusal;
    for (const Fused& fused : attempts(key)) {
      try {
        ProductPlan plan = make_plan(key, fused, call.of(fused));
        start(stream, key, plan, call);  // before it is kept: what the heuristic promised may be refused here
        if (refusal) note(key, *refusal);
        plans_.emplace(key, std::move(plan));
        return fused;
      } catch (const Error& error) {
        static_cast<void>(cudaGetLastError());  // or the next launch would be blamed
        if (!refusal) refusal = error;
      }
    }
    throw *refusal;
  }
  /// All that is wanted, then less; no kernel finishes doubles.
  static std::vector<Fused> attempts(const ProductPlanKey& key) {
    const bool residual = key.shape.residual;
    if (key.in == CUDA_R_64F) return {{key.epilogue, residual}};
    std::vector<Fused> all;
    if (!is_pull_back_of_relu(key.epilogue)) all.push_back({key.epilogue, residual});
    if (key.epilogue != Epilogue::none) all.push_back({Epilogue::none, residual});
    if (residual) all.push_back({Epilogue::none, false});
    return all;
  }
  /// Keeps what was refused, for the user.
  void note(const ProductPlanKey& key, const Error& refusal) {
    ProductPlanKey kind = key;
    ProductShape& shape = kind.shape;
    for (Index* size : {&shape.rows, &shape.cols, &shape.inner, &shape.ld_a, &shape.ld_b, &shape.ld_y, &kind.ld_aux}) {
      *size = 0;
    }
    kind.alignments = {};
    const std::string words = refusal.what();
    not_fused_.emplace(kind, words.substr(0, words.find('\n')));
  }

  void start(cudaStream_t stream, const ProductPlanKey& key, const ProductPlan& plan, const ProductCall& wanted) {
    const ProductCall call = wanted.of(plan.fused);
    point(key, *plan.what, call);
    const bool adds = key.shape.write == Write::accumulate || plan.fused.residual;
    const float one = 1, beta = adds ? 1 : 0;
    const double one_in_double = 1, beta_in_double = beta;
    const bool in_double = key.in == CUDA_R_64F;
    const auto scale = [&](const double& wide, const float& narrow) -> const void* {
      return in_double ? static_cast<const void*>(&wide) : &narrow;
    };
    check(key, cublasLtMatmul(handle_.get(), plan.what.get(), scale(one_in_double, one), call.b, plan.b.get(), call.a,
                              plan.a.get(), scale(beta_in_double, beta), call.added, plan.y.get(), call.y, plan.y.get(),
                              &plan.algorithm, workspace_.data(), workspace_.bytes(), stream));
  }

  /// A product of no numbers: y becomes 0 or stays, sums become 0.
  static void multiply_nothing(cudaStream_t stream, const ProductPlanKey& key, void* y, void* vector,
                               std::size_t bytes) {
    const ProductShape& shape = key.shape;
    const bool empty = shape.rows == 0 || shape.cols == 0;
    const bool sums_factor = key.epilogue == Epilogue::sums_of_a || key.epilogue == Epilogue::sums_of_b;
    const bool plain = key.epilogue == Epilogue::none || sums_factor;
    if (empty ? sums_factor && shape.inner != 0 : (!plain || shape.residual)) {
      refuse(key, "without numbers it has no such epilogue");
    }
    const auto count = [](Index number) { return static_cast<std::size_t>(number); };
    if (!empty && shape.write == Write::store) {
      gpu::check(cudaMemset2DAsync(y, count(shape.ld_y) * bytes, 0, count(shape.cols) * bytes, count(shape.rows),
                                   stream),
                 "a product was not cleared");
    }
    if (vector && info_of(key.epilogue).sums) {
      const Index sums = key.epilogue == Epilogue::sums_of_a ? shape.rows : shape.cols;
      gpu::check(cudaMemsetAsync(vector, 0, count(sums) * bytes, stream), "sums of a product were not cleared");
    }
  }

  /// Errors  throws Error if cuBLASLt has no algorithm for it
  ProductPlan make_plan(const ProductPlanKey& key, const Fused& fused, const ProductCall& call) const {
    const ProductShape& shape = key.shape;
    const cublasComputeType_t compute = key.in == CUDA_R_64F ? CUBLAS_COMPUTE_64F
                                        : key.in == CUDA_R_32F && shape.factors == Factors::tf32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    ProductPlan plan;
    plan.fused = fused;
    cublasLtMatmulDesc_t what = nullptr;
    check(key, cublasLtMatmulDescCreate(&what, compute, key.in == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F));
    plan.what.reset(what);
    // A matrix that is not transposed is so in columns already, as cuBLASLt wants y^T = b^T a^T.
    set(key, *what, CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(key, *what, CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(key, *what, CUBLASLT_MATMUL_DESC_EPILOGUE, info_of(fused.function).function);
    if (call.aux) set(key, *what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(key.ld_aux));
    point(key, *what, call);
    plan.a = layout(key, key.in, shape.transpose_a, shape.rows, shape.inner, shape.ld_a);
    plan.b = layout(key, key.in, shape.transpose_b, shape.inner, shape.cols, shape.ld_b);
    plan.y = layout(key, key.out, false, shape.rows, shape.cols, shape.ld_y);

    cublasLtMatmulPreference_t created = nullptr;
    check(key, cublasLtMatmulPreferenceCreate(&created));
    const Owned<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy> wanted(created);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(key, cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_.bytes()));
    // Parts of sums that are made side by side are added as floats, not as what the result is stored as.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[fused.residual ? 3 : 2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[2]);
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    check(key, cublasLtMatmulAlgoGetHeuristic(handle_.get(), what, plan.b.get(), plan.a.get(), plan.y.get(),
                                              plan.y.get(), created, 1, &best, &count));
    check(key, count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : best.state);
    plan.algorithm = best.algo;
    return plan;
  }

  /// Where the epilogue finds its numbers: of each call.
  static void point(const ProductPlanKey& key, cublasLtMatmulDescOpaque_t& what, const ProductCall& call) {
    if (call.vector) set(key, what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector);
    if (call.aux) set(key, what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux);
  }
  template <class T>
  static void set(const ProductPlanKey& key, cublasLtMatmulDescOpaque_t& what, cublasLtMatmulDescAttributes_t attribute,
                  const T& value) {
    check(key, cublasLtMatmulDescSetAttribute(&what, attribute, &value, sizeof value));
  }
  /// Of a matrix op(x) (rows, cols).
  static OwnedLayout layout(const ProductPlanKey& key, cudaDataType_t type, bool transposed, Index rows, Index cols,
                            Index ld) {
    if (transposed) std::swap(rows, cols);
    cublasLtMatrixLayout_t created = nullptr;
    check(key, cublasLtMatrixLayoutCreate(&created, type, static_cast<std::uint64_t>(cols),
                                          static_cast<std::uint64_t>(rows), ld));
    return OwnedLayout(created);
  }

  static void check_arguments(const ProductPlanKey& key, const EpilogueInfo& info, const void* vector, const void* aux,
                              const void* relu) {
    const ProductShape& shape = key.shape;
    const Index width_a = shape.transpose_a ? shape.rows : shape.inner;
    const Index width_b = shape.transpose_b ? shape.inner : shape.cols;
    if (shape.rows < 0 || shape.cols < 0 || shape.inner < 0) refuse(key, "a size is negative");
    if (shape.ld_a < width_a || shape.ld_b < width_b || shape.ld_y < shape.cols) refuse(key, "rows overlap");
    if (shape.write == Write::skip) refuse(key, "it would not be written");
    if (shape.write == Write::accumulate && shape.residual) refuse(key, "it is added to y, and to a residual");
    if (info.bias && !vector) refuse(key, "there is no bias");
    if (info.sums && !vector) refuse(key, "there is no place for the sums");
    if (info.aux && !aux) refuse(key, "there is no aux");
    if (is_pull_back_of_relu(key.epilogue) && !relu) refuse(key, "there is no relu");
    if (aux && (key.ld_aux < shape.cols || key.ld_aux % 8 != 0)) {
      refuse(key, "ld_aux is " + std::to_string(key.ld_aux), "at least as many elements as columns, a multiple of 8");
    }
  }

  static void check(const ProductPlanKey& key, Status status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const bool bfloat16 = status == CUBLAS_STATUS_NOT_SUPPORTED && key.in == CUDA_R_16BF;
    refuse(key, cublasLtGetStatusString(status),
           bfloat16 ? "bfloat16 wants matrices on 16 bytes, and rows of a multiple of 8 numbers" : "");
  }
  [[noreturn]] static void refuse(const ProductPlanKey& key, const std::string& why, const std::string& hint = {}) {
    const ProductShape& shape = key.shape;
    const auto matrix = [](const char* name, bool transposed, Index rows, Index cols, Index ld) {
      return name + std::string(transposed ? "^T (" : " (") + std::to_string(rows) + ", " + std::to_string(cols) +
             "; ld " + std::to_string(ld) + ")";
    };
    const auto type = [](cudaDataType_t number) {
      return std::string(number == CUDA_R_64F ? "double" : number == CUDA_R_32F ? "float" : "bfloat16");
    };
    throw Error("the product " + matrix("y", false, shape.rows, shape.cols, shape.ld_y) +
                    (shape.write == Write::accumulate ? " += " : " = ") +
                    matrix("a", shape.transpose_a, shape.rows, shape.inner, shape.ld_a) + " " +
                    matrix("b", shape.transpose_b, shape.inner, shape.cols, shape.ld_b) + " of " + type(key.in) +
                    (key.in == key.out ? "" : " into " + type(key.out)) + (shape.residual ? ", residual" : "") +
                    ", epilogue " + info_of(key.epilogue).name + ", was refused: " + why,
                hint);
  }

  DeviceBuffer<std::byte> workspace_;
  Owned<cublasLtHandle_t, &cublasLtDestroy> handle_;
  std::map<ProductPlanKey, ProductPlan> plans_;
  std::map<ProductPlanKey, std::string> not_fused_;  ///< by kind: a key without sizes and places
};

}  // namespace simplx::gpu
