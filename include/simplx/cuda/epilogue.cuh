// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/epilogue.cuh
/// What a product becomes before it is stored. cuBLASLt does that in the kernel of the product (products.cuh); where it
/// has no algorithm for an epilogue, and for the pull-back of ReLU, finish_product does it after the plain product:
///
///     y = x w                       by cuBLASLt, in the type of y
///     y = gelu(y + bias)            one kernel, in place, in float
///     sums = its sums over rows     another, in an order of the sizes alone
///
/// Nothing is needed but y itself: there is no scratch memory to plan, and all of it can be captured. Numbers of
/// bfloat16 are rounded once more, between the two.

#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>
#include <simplx/ops/activation.hpp>

#if defined(__CUDACC__)
#include <cublasLt.h>
#endif

#include <compare>
#include <cstdint>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// What a product becomes before it is stored, in fp32; p is op(a) op(b), and y too if that is added to, or a residual.
///
/// Shapes  bias (cols); aux (rows, cols), its rows ld_aux elements apart, a multiple of 8; relu as y; sums (cols),
///         those of a (rows): stored, never added to
enum class Epilogue : signed char {
  none,
  bias,           ///< p + bias
  relu,           ///< max(p, 0)
  relu_bias,      ///< max(p + bias, 0)
  gelu,           ///< of the tanh form
  gelu_bias,      ///< gelu(p + bias)
  gelu_aux,       ///< gelu(p); aux = p
  gelu_aux_bias,  ///< gelu(p + bias); aux = p + bias
  drelu,          ///< p where relu is positive, else 0
  drelu_sums,     ///< that; sums = its sums over rows, the gradient of a bias
  dgelu,          ///< p times the derivative of gelu at aux
  dgelu_sums,     ///< that; sums = its sums over rows
  sums_of_b,      ///< p; sums = those of op(b) over its rows: with b = dy the gradient of a bias
  sums_of_a,      ///< p; sums = those of op(a) over its columns
};

/// How the factors of a product of floats are read; sums are fp32.
enum class Factors : signed char {
  exact,  ///< as they are
  tf32,   ///< with ten bits of mantissa, on tensor cores
};

/// y = op(a) op(b), or y += with Write::accumulate.
///
/// Shapes  op(a) (rows, inner), op(b) (inner, cols), y (rows, cols); what is transposed is stored the other way,
///         a (inner, rows)
struct ProductShape {
  Index rows, cols, inner;
  bool transpose_a = false, transpose_b = false;
  Write write = Write::store;
  Factors factors = Factors::exact;
  Index ld_a = 0, ld_b = 0, ld_y = 0;  ///< elements from one row to the next as stored; 0: as many as it has
  bool residual = false;  ///< y = op(a) op(b) + residual; true where ProductEpilogue has one that is not y

  auto operator<=>(const ProductShape&) const = default;
};

/// With pointers for what the function needs.
template <class Y>
struct ProductEpilogue {
  Epilogue function = Epilogue::none;
  const Y* bias = nullptr;
  Y* aux = nullptr;
  Index ld_aux = 0;
  Y* sums = nullptr;
  const Y* residual = nullptr;  ///< (rows, cols), its rows ld_y elements apart; y itself, or elsewhere
  const Y* relu = nullptr;      ///< for a pull-back of ReLU: its value, the same way
};

struct EpilogueInfo {
  const char* name;
  cublasLtEpilogue_t function;
  bool bias = false, sums = false;
  bool aux = false;
};
inline EpilogueInfo info_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: break;
    case Epilogue::bias: return {"bias", CUBLASLT_EPILOGUE_BIAS, true};
    case Epilogue::relu: return {"relu", CUBLASLT_EPILOGUE_RELU};
    case Epilogue::relu_bias: return {"relu_bias", CUBLASLT_EPILOGUE_RELU_BIAS, true};
    case Epilogue::gelu: return {"gelu", CUBLASLT_EPILOGUE_GELU};
    case Epilogue::gelu_bias: return {"gelu_bias", CUBLASLT_EPILOGUE_GELU_BIAS, true};
    case Epilogue::gelu_aux: return {"gelu_aux", CUBLASLT_EPILOGUE_GELU_AUX, false, false, true};
    case Epilogue::gelu_aux_bias: return {"gelu_aux_bias", CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, false, true};
    // Never asked for: cuBLASLt applies its bit mask in a second kernel, on an H100 2.7 times as slow as ours.
    case Epilogue::drelu: return {"drelu", CUBLASLT_EPILOGUE_DRELU};
    case Epilogue::drelu_sums: return {"drelu_sums", CUBLASLT_EPILOGUE_DRELU_BGRAD, false, true};
    case Epilogue::dgelu: return {"dgelu", CUBLASLT_EPILOGUE_DGELU, false, false, true};
    case Epilogue::dgelu_sums: return {"dgelu_sums", CUBLASLT_EPILOGUE_DGELU_BGRAD, false, true, true};
    // b is the A of cuBLASLt.
    case Epilogue::sums_of_b: return {"sums_of_b", CUBLASLT_EPILOGUE_BGRADA, false, true};
    case Epilogue::sums_of_a: return {"sums_of_a", CUBLASLT_EPILOGUE_BGRADB, false, true};
  }
  return {"none", CUBLASLT_EPILOGUE_DEFAULT};
}

/// So many neighbours of a product without its epilogue become what they would be with it.
template <class Y, int together>
struct FinishPart {
  Epilogue function;
  Index ld_y, ld_aux;
  const Y *residual, *bias, *relu;  ///< null where there is none
  Y *aux, *y;
  __device__ void operator()(Index row, Index part) const {
    using Relu = op<"relu">;
    using Gelu = op<"gelu_tanh">;
    using Part = Numbers<float, together>;
    const Index col = part * together, at = row * ld_y + col, at_aux = row * ld_aux + col;
    const auto apply = [](const auto& f, const auto&... x) { return Part::each(f, x...); };
    Part p = load_numbers<together>(y + at);
    if (residual) p += load_numbers<together>(residual + at);
    if (bias) p += load_numbers<together>(bias + col);
    switch (function) {
      case Epilogue::relu:
      case Epilogue::relu_bias: p = apply([](auto x) { return Relu::f(x); }, p); break;
      case Epilogue::gelu_aux:
      case Epilogue::gelu_aux_bias: store_numbers(aux + at_aux, p); [[fallthrough]];
      case Epilogue::gelu:
      case Epilogue::gelu_bias: p = apply([](auto x) { return Gelu::f(x); }, p); break;
      case Epilogue::drelu:
      case Epilogue::drelu_sums:
        p = apply([](auto d, auto value) { return Relu::d<0>(d, value, d); }, p, load_numbers<together>(relu + at));
        break;
      case Epilogue::dgelu:
      case Epilogue::dgelu_sums:
        p = apply([](auto d, auto x) { return Gelu::d<0>(d, d, x); }, p, load_numbers<together>(aux + at_aux));
        break;
      default: break;
    }
    store_numbers(y + at, p);
  }
};

/// Does what a product that lies in y lacks of its epilogue: the function, and a residual if there is one, which then
/// has not been added.
///
/// Shapes  of ProductShape, its strides given, and of Epilogue
/// Cost    reads and writes y; its sums, or those of a factor, read that once more
template <class S, class Y>
void finish_product(cudaStream_t stream, const ProductShape& shape, const S* a, const S* b, Y* y,
                    const ProductEpilogue<Y>& epilogue) {
  const EpilogueInfo info = info_of(epilogue.function);
  const bool of_a = epilogue.function == Epilogue::sums_of_a, of_b = epilogue.function == Epilogue::sums_of_b;
  if ((epilogue.function != Epilogue::none && !of_a && !of_b) || epilogue.residual) {
    const auto finish = [&]<int together>(std::integral_constant<int, together>) {
      each_cell(stream, shape.rows, shape.cols / together,
                FinishPart<Y, together>{epilogue.function, shape.ld_y, epilogue.ld_aux, epilogue.residual,
                                        info.bias ? epilogue.bias : nullptr, epilogue.relu, epilogue.aux, y});
    };
    constexpr int most = 16 / sizeof(Y);  // what one request moves
    const auto begins = [](const void* place) { return reinterpret_cast<std::uintptr_t>(place) % 16 == 0; };
    const bool parts = shape.cols % most == 0 && shape.ld_y % most == 0 && epilogue.ld_aux % most == 0 && begins(y) &&
                       begins(epilogue.residual) && begins(epilogue.bias) && begins(epilogue.relu) &&
                       begins(epilogue.aux);
    if (parts) {
      finish(std::integral_constant<int, most>{});
    } else {
      finish(std::integral_constant<int, 1>{});
    }
  }
  const auto sum = [&](const auto* matrix, Strides at, Index rows, Index cols) {
    column_sums<Write::store>(stream, matrix, at, static_cast<int>(rows), static_cast<int>(cols), epilogue.sums);
  };
  const auto stored = [](Index ld, bool transposed) { return transposed ? Strides{1, ld} : Strides{ld, 1}; };
  if (of_a) {
    sum(a, stored(shape.ld_a, !shape.transpose_a), shape.inner, shape.rows);
  } else if (of_b) {
    sum(b, stored(shape.ld_b, shape.transpose_b), shape.inner, shape.cols);
  } else if (info.sums) {
    sum(y, stored(shape.ld_y, false), shape.rows, shape.cols);
  }
}

}  // namespace simplx::gpu
