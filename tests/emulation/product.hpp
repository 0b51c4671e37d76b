// SPDX-License-Identifier: MIT
#pragma once

/// D = epilogue(alpha op(A) op(B) + beta C), column-major: whether cuBLASLt promises it, and what comes out.

#include "emulation/bfloat16.hpp"
#include "emulation/blas_types.hpp"
#include "emulation/runtime.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace emulation {

/// The largest power of two, up to 256, that divides an address; nowhere is aligned.
inline std::uint64_t alignment_of(const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  return address ? std::min<std::uint64_t>(address & -address, 256) : 256;
}
inline std::size_t size_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
inline const char* name_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? "f64" : type == CUDA_R_32F ? "f32" : "bf16";
}
/// Tensor cores read 16 bytes at once.
inline std::size_t needed_alignment(cudaDataType_t type) { return type == CUDA_R_16BF ? 16 : size_of(type); }

struct ProvenProduct {
  const char* name;
  bool on_hardware;
};
inline constexpr bool proven = true, not_yet = false;
inline constexpr ProvenProduct proven_products[] = {
#include "emulation/proven_products.inc"
};
/// How often each combination was used.
inline std::map<std::string, long>& used_products() {
  static std::map<std::string, long> uses;
  return uses;
}
inline void use(const std::string& name) {
  const auto is_it = [&](const ProvenProduct& one) { return one.name == name; };
  if (std::none_of(std::begin(proven_products), std::end(proven_products), is_it)) {
    throw Fault("nobody knows whether hardware takes this product; add it to proven_products.inc:\n  {\"" + name +
                "\", not_yet},");
  }
  ++used_products()[name];
}

/// Of all products that ran.
inline long& multiply_adds() {
  static long count = 0;
  return count;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

class Product {
 public:
  Product(const cublasLtMatmulDescOpaque_t& desc, const cublasLtMatrixLayoutOpaque_t& a,
          const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& c,
          const cublasLtMatrixLayoutOpaque_t& d)
      : desc_(desc), a_(a), b_(b), c_(c), d_(d), m_(index(d.rows)), n_(index(d.cols)),
        k_(index(desc.op_a == CUBLAS_OP_N ? a.cols : a.rows)) {}

  /// What the documentation of cublasLtMatmul says to the types, shapes and the epilogue.
  cublasStatus_t verdict() const {
    const bool transposed_a = desc_.op_a == CUBLAS_OP_T, transposed_b = desc_.op_b == CUBLAS_OP_T;
    const auto is = [](const Layout& x, long rows, long cols) {
      return index(x.rows) == rows && index(x.cols) == cols;
    };
    const bool fits = is(a_, transposed_a ? k_ : m_, transposed_a ? m_ : k_) &&
                      is(b_, transposed_b ? n_ : k_, transposed_b ? k_ : n_) && is(c_, m_, n_);
    if (!fits || m_ <= 0 || n_ <= 0 || k_ <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout* x : {&a_, &b_, &c_, &d_}) {
      if (x->ld < index(x->rows)) return CUBLAS_STATUS_INVALID_VALUE;
      if (x->ld * size_of(x->type) % needed_alignment(x->type) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const bool in_double = desc_.compute == CUBLAS_COMPUTE_64F;
    const cudaDataType_t in = a_.type, out = d_.type;
    const bool types = desc_.compute == CUBLAS_COMPUTE_64F             ? in == CUDA_R_64F && out == CUDA_R_64F
                       : desc_.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? in == CUDA_R_32F && out == CUDA_R_32F
                       : in == CUDA_R_16BF                             ? out == CUDA_R_16BF || out == CUDA_R_32F
                                                                       : in == CUDA_R_32F && out == CUDA_R_32F;
    if (!types || b_.type != in || c_.type != out || desc_.scale != (in_double ? CUDA_R_64F : CUDA_R_32F)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!epilogue_name()) return CUBLAS_STATUS_INVALID_VALUE;
    if (in_double && desc_.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (vector_length() && !desc_.bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (has(128)) {
      const bool good = desc_.aux && desc_.ld_aux >= m_ && desc_.ld_aux % (bits() ? 128 : 8) == 0;
      if (!good) return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
  }

  /// Of all that an algorithm depends on, but for places.
  std::uint64_t fingerprint() const {
    std::uint64_t hash = 1;
    const auto add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u + 1; };
    for (const Layout* x : {&a_, &b_, &c_, &d_}) add(x->type), add(x->rows), add(x->cols), add(x->ld);
    add(desc_.compute), add(desc_.scale), add(desc_.op_a), add(desc_.op_b), add(desc_.epilogue), add(desc_.ld_aux);
    return hash;
  }

  void scale_by(const void* alpha, const void* beta) {
    alpha_ = desc_.scale == CUDA_R_64F ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    beta_ = desc_.scale == CUDA_R_64F ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  }

  /// Whether the sums of two halves of the inner dimension meet in the type of the result.
  void add_as_stored(bool as_stored) { as_stored_ = as_stored; }

  /// Errors  throws Fault if something is not whole in device memory, or the result overlaps an operand
  void place(const void* a, const void* b, const void* c, void* d, void* workspace, std::size_t workspace_bytes) {
    on_a_ = a, on_b_ = b, on_c_ = c, on_d_ = d, workspace_ = workspace, workspace_bytes_ = workspace_bytes;
    const Range range_a = range(a, a_), range_b = range(b, b_), range_c = range(c, c_), range_d = range(d, d_);
    whole("A", range_a), whole("B", range_b), whole("D", range_d);
    if (beta_ != 0) whole("C", range_c);
    if (const long length = vector_length()) {
      whole("the bias", {desc_.bias, static_cast<std::size_t>(length) * size_of(d_.type)});
    }
    if (has(128)) {
      const auto elements = static_cast<std::size_t>(desc_.ld_aux * (n_ - 1) + m_);
      whole("the auxiliary matrix", {desc_.aux, bits() ? (elements + 7) / 8 : elements * size_of(d_.type)});
    }
    if (workspace_bytes) whole("the workspace", {workspace, workspace_bytes});
    if (overlap(range_a, range_d) || overlap(range_b, range_d)) throw Fault("a product overwrites its operand");
    if (c != d && overlap(range_c, range_d)) throw Fault("D overlaps C, and is not in its place");
  }

  /// As in proven_products.inc.
  std::string name() const {
    return std::string(name_of(a_.type)) + (desc_.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? " tf32" : "") + " to " +
           name_of(d_.type) + ", " + "NT"[desc_.op_a] + "NT"[desc_.op_b] + ", " + epilogue_name() +
           (beta_ == 0 ? "" : on_c_ == on_d_ ? ", added" : ", residual");
  }

  void run() const {
    multiply_adds() += m_ * n_ * k_;
    if (workspace_bytes_) std::memset(workspace_, Allocations::poison, workspace_bytes_);
    if (desc_.compute == CUBLAS_COMPUTE_64F) {
      run_in<double>();
    } else {
      run_in<float>();
    }
  }

 private:
  using Layout = cublasLtMatrixLayoutOpaque_t;
  struct Range {
    const void* begin;
    std::size_t bytes;
  };
  static long index(std::uint64_t value) { return static_cast<long>(value); }
  bool has(std::uint32_t bit) const { return (desc_.epilogue & bit) != 0; }
  bool bits() const { return has(2) || has(8); }
  /// Of a bias, or of its gradient.
  long vector_length() const { return has(4) || has(16) || has(256) ? m_ : has(512) ? n_ : 0; }
  const char* epilogue_name() const {
    switch (desc_.epilogue) {
      case CUBLASLT_EPILOGUE_DEFAULT: return "default";
      case CUBLASLT_EPILOGUE_RELU: return "relu";
      case CUBLASLT_EPILOGUE_RELU_AUX: return "relu_aux";
      case CUBLASLT_EPILOGUE_BIAS: return "bias";
      case CUBLASLT_EPILOGUE_RELU_BIAS: return "relu_bias";
      case CUBLASLT_EPILOGUE_RELU_AUX_BIAS: return "relu_aux_bias";
      case CUBLASLT_EPILOGUE_DRELU: return "drelu";
      case CUBLASLT_EPILOGUE_DRELU_BGRAD: return "drelu_bgrad";
      case CUBLASLT_EPILOGUE_GELU: return "gelu";
      case CUBLASLT_EPILOGUE_GELU_AUX: return "gelu_aux";
      case CUBLASLT_EPILOGUE_GELU_BIAS: return "gelu_bias";
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: return "gelu_aux_bias";
      case CUBLASLT_EPILOGUE_DGELU: return "dgelu";
      case CUBLASLT_EPILOGUE_DGELU_BGRAD: return "dgelu_bgrad";
      case CUBLASLT_EPILOGUE_BGRADA: return "bgrada";
      case CUBLASLT_EPILOGUE_BGRADB: return "bgradb";
    }
    return nullptr;
  }

  static Range range(const void* place, const Layout& x) {
    const auto elements = static_cast<std::size_t>(x.ld * (index(x.cols) - 1) + index(x.rows));
    return {place, elements * size_of(x.type)};
  }
  static void whole(const std::string& what, const Range& range) {
    if (device().allocations.kind_of(range.begin, range.bytes) == Memory::device) return;
    throw Fault(what + " of a product is not in device memory, or goes over its end");
  }
  static bool overlap(const Range& x, const Range& y) {
    const auto a = reinterpret_cast<std::uintptr_t>(x.begin), b = reinterpret_cast<std::uintptr_t>(y.begin);
    return a < b + y.bytes && b < a + x.bytes;
  }

  static double read(const void* values, cudaDataType_t type, long i) {
    if (type == CUDA_R_64F) return static_cast<const double*>(values)[i];
    if (type == CUDA_R_32F) return static_cast<const float*>(values)[i];
    return static_cast<const __nv_bfloat16*>(values)[i];
  }
  static void write(void* values, cudaDataType_t type, long i, double value) {
    if (type == CUDA_R_64F) static_cast<double*>(values)[i] = value;
    if (type == CUDA_R_32F) static_cast<float*>(values)[i] = static_cast<float>(value);
    if (type == CUDA_R_16BF) static_cast<__nv_bfloat16*>(values)[i] = static_cast<float>(value);
  }
  /// What of a float the multiplier sees: with TF32 ten bits of the mantissa.
  double factor(double value) const {
    if (desc_.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || !std::isfinite(value)) return value;
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x1000) & ~0x1fffu);
  }
  /// op(x), packed, each of its columns in one piece.
  template <class T>
  std::vector<T> operand(const void* values, const Layout& x, std::int32_t op) const {
    const bool transposed = op == CUBLAS_OP_T;
    const long rows = index(transposed ? x.cols : x.rows), cols = index(transposed ? x.rows : x.cols);
    std::vector<T> all(static_cast<std::size_t>(rows * cols));
    for (long j = 0; j < cols; ++j) {
      for (long i = 0; i < rows; ++i) {
        const double value = read(values, x.type, transposed ? j + x.ld * i : i + x.ld * j);
        all[static_cast<std::size_t>(i + rows * j)] = static_cast<T>(factor(value));
      }
    }
    return all;
  }

  template <class T>
  void run_in() const {
    const std::vector<T> a = operand<T>(on_a_, a_, desc_.op_a), b = operand<T>(on_b_, b_, desc_.op_b);
    std::vector<T> row_sums(static_cast<std::size_t>(m_)), column(static_cast<std::size_t>(m_));
    for (long j = 0; j < n_; ++j) {
      std::fill(column.begin(), column.end(), T(0));
      for (long l = 0; l < k_; ++l) {
        const T* const of_a = a.data() + m_ * l;
        const T of_b = b[static_cast<std::size_t>(l + k_ * j)];
        for (std::size_t i = 0; i < column.size(); ++i) column[i] += of_a[i] * of_b;
        if (as_stored_ && l == k_ / 2 - 1) round_as_stored(column);
      }
      for (long i = 0; i < m_; ++i) {
        T value = static_cast<T>(alpha_) * column[static_cast<std::size_t>(i)];
        if (beta_ != 0) value += static_cast<T>(beta_ * read(on_c_, c_.type, i + c_.ld * j));
        value = static_cast<T>(finished(value, i, j));
        write(on_d_, d_.type, i + d_.ld * j, value);
        row_sums[static_cast<std::size_t>(i)] += value;
      }
    }
    if (has(16)) write_vector(row_sums);
    if (has(256)) write_vector(sums(a, m_, 1));
    if (has(512)) write_vector(sums(b, 1, k_));
  }
  template <class T>
  void round_as_stored(std::vector<T>& values) const {
    if (d_.type != CUDA_R_16BF) return;
    for (T& value : values) value = static_cast<T>(static_cast<float>(__nv_bfloat16(static_cast<float>(value))));
  }
  /// Over k: of the rows of op(A), or of the columns of op(B), whose elements are so far apart.
  template <class T>
  std::vector<T> sums(const std::vector<T>& values, long step, long next) const {
    std::vector<T> all(static_cast<std::size_t>(vector_length()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const T* const first = values.data() + static_cast<long>(i) * next;
      for (long l = 0; l < k_; ++l) all[i] += first[l * step];
    }
    return all;
  }
  template <class T>
  void write_vector(const std::vector<T>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) write(desc_.bias, d_.type, static_cast<long>(i), values[i]);
  }

  /// The element (i, j) after its epilogue.
  double finished(double value, long i, long j) const {
    const long at = i + desc_.ld_aux * j;
    if (has(4)) value += read(desc_.bias, d_.type, i);
    if (has(2)) {
      if (has(128)) set_bit(at, value > 0);
      return value > 0 ? value : 0;
    }
    if (has(8)) return bit(at) ? value : 0;
    if (has(32)) {
      if (has(128)) write(desc_.aux, d_.type, at, value);
      return gelu(value);
    }
    return has(64) ? value * gelu_slope(read(desc_.aux, d_.type, at)) : value;
  }
  bool bit(long at) const { return static_cast<const unsigned char*>(desc_.aux)[at / 8] >> (at % 8) & 1; }
  void set_bit(long at, bool on) const {
    unsigned char& byte = static_cast<unsigned char*>(desc_.aux)[at / 8];
    byte = static_cast<unsigned char>((byte & ~(1u << at % 8)) | unsigned(on) << at % 8);
  }

  cublasLtMatmulDescOpaque_t desc_;
  Layout a_, b_, c_, d_;
  long m_, n_, k_;
  double alpha_ = 1, beta_ = 0;
  bool as_stored_ = false;
  const void *on_a_ = nullptr, *on_b_ = nullptr, *on_c_ = nullptr;
  void *on_d_ = nullptr, *workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace emulation
