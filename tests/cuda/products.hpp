// SPDX-License-Identifier: MIT
#pragma once

/// Every kind of product that the library makes, compared with the same in double: under the stand-in of cuBLASLt by
/// products_test.cpp, on a GPU by prove_products.cu.

#include <simplx/cpu/random_numbers.hpp>
#include <simplx/cuda/products.cuh>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace test {

using namespace simplx;
using namespace simplx::gpu;

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double step = 1e-5;
  return (gelu(x + step) - gelu(x - step)) / (2 * step);
}

/// Numbers on the host and on the device; what lies between the rows is NaN on both.
template <class S>
struct Numbers {
  std::vector<S> host;
  DeviceBuffer<S> on_device;

  Numbers(cudaStream_t stream, Index rows, Index cols, Index ld, std::uint64_t seed)
      : host(static_cast<std::size_t>(rows * ld), S(std::numeric_limits<float>::quiet_NaN())), on_device(rows * ld) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const auto number = static_cast<std::size_t>(i * ld + j);
        host[number] = static_cast<S>(static_cast<float>(normal(seed, number)));
      }
    }
    on_device.copy_from(host, stream);
  }
  double operator[](Index i) const { return static_cast<double>(host[static_cast<std::size_t>(i)]); }
  S* data() { return on_device.data(); }
  /// Takes the numbers back; the stream must be waited for.
  void fetch(cudaStream_t stream) { on_device.copy_to(host, stream); }
};

/// The largest difference of numbers that are added one by one, over the largest exact number.
struct Difference {
  double largest = 0, worst = 0;

  void add(double value, double exact) {
    largest = std::max(largest, std::abs(exact));
    const double difference = std::abs(value - exact);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  double relative() const { return worst == 0 ? 0 : worst / largest; }
};

/// What Difference::relative() may be: the rounding of the result, that of the terms, and the tanh of the card, whose
/// instruction knows eleven bits.
template <class S, class Y>
double tolerance(const ProductShape& shape, [[maybe_unused]] bool gelu) {
  const double terms = static_cast<double>(4 + shape.inner + shape.rows);
  if (std::is_same_v<S, double>) return terms * std::numeric_limits<double>::epsilon();
  const bool tf32 = std::is_same_v<S, float> && shape.factors == Factors::tf32;
#if defined(__CUDACC__)
  const double of_tanh = gelu ? 1.0 / 1024 : 0;
#else
  const double of_tanh = 0;
#endif
  return of_tanh + (tf32 ? 1.0 / 512 : 0) + (std::is_same_v<Y, __nv_bfloat16> ? 1.0 / 128 : 0) +
         terms * std::numeric_limits<float>::epsilon();
}

/// The error of one product and of all that its epilogue writes, over what it may be: right below 1, infinite if
/// something was written between rows. A row of bfloat16 takes a multiple of 8 elements; rows are `apart` such further.
template <class S, class Y>
double error_of(Products& products, ProductShape shape, Epilogue function = Epilogue::none, Index apart = 0) {
  const EpilogueInfo info = info_of(function);
  const auto width = [&]<class T>(std::type_identity<T>, Index cols) {
    const Index multiple = std::is_same_v<T, __nv_bfloat16> ? 8 : 1;
    return round_up(cols, multiple) + apart * multiple;
  };
  Index rows_a = shape.rows, cols_a = shape.inner, rows_b = shape.inner, cols_b = shape.cols;
  if (shape.transpose_a) std::swap(rows_a, cols_a);
  if (shape.transpose_b) std::swap(rows_b, cols_b);
  shape.ld_a = width(std::type_identity<S>{}, cols_a), shape.ld_b = width(std::type_identity<S>{}, cols_b);
  shape.ld_y = width(std::type_identity<Y>{}, shape.cols);
  const bool drelu = function == Epilogue::drelu || function == Epilogue::drelu_sums;
  const bool dgelu = function == Epilogue::dgelu || function == Epilogue::dgelu_sums;
  const bool relu = !drelu && info.function & CUBLASLT_EPILOGUE_RELU, of_gelu = info.function & CUBLASLT_EPILOGUE_GELU;
  const bool saves = of_gelu && info.aux;
  const Index ld_aux = info.aux ? round_up(shape.cols, 8) + apart * 8 : 0;

  const GpuStream stream;
  Numbers<S> a(stream, rows_a, cols_a, shape.ld_a, 1), b(stream, rows_b, cols_b, shape.ld_b, 2);
  Numbers<Y> y(stream, shape.rows, shape.cols, shape.ld_y, 3);
  Numbers<Y> residual(stream, shape.residual ? shape.rows : 0, shape.cols, shape.ld_y, 8);
  Numbers<Y> vector(stream, 1, std::max(shape.rows, shape.cols), std::max(shape.rows, shape.cols), 4);
  Numbers<Y> aux(stream, ld_aux ? shape.rows : 0, shape.cols, ld_aux, 5);
  Numbers<Y> relu_of(stream, drelu ? shape.rows : 0, shape.cols, shape.ld_y, 6);
  const std::vector<Y> y_before = y.host, vector_before = vector.host, aux_before = aux.host;
  products.multiply(stream, shape, a.data(), b.data(), y.data(),
                    ProductEpilogue<Y>{function, vector.data(), aux.data(), ld_aux, vector.data(),
                                       shape.residual ? residual.data() : nullptr, relu_of.data()});
  y.fetch(stream), vector.fetch(stream), aux.fetch(stream), relu_of.fetch(stream);
  stream.synchronize();

  Difference of_y, of_aux, of_sums;
  std::vector<double> sums(vector.host.size());
  for (Index i = 0; i < shape.rows; ++i) {
    for (Index j = 0; j < shape.cols; ++j) {
      const auto at = static_cast<std::size_t>(i * shape.ld_y + j), row = static_cast<std::size_t>(i),
                 col = static_cast<std::size_t>(j);
      double p = shape.write == Write::accumulate ? static_cast<double>(y_before[at]) : 0;
      if (shape.residual) p += static_cast<double>(residual.host[at]);
      for (Index k = 0; k < shape.inner; ++k) {
        const double from_a = a[shape.transpose_a ? k * shape.ld_a + i : i * shape.ld_a + k];
        const double from_b = b[shape.transpose_b ? j * shape.ld_b + k : k * shape.ld_b + j];
        p += from_a * from_b;
        if (function == Epilogue::sums_of_a && j == 0) sums[row] += from_a;
        if (function == Epilogue::sums_of_b && i == 0) sums[col] += from_b;
      }
      if (info.bias) p += static_cast<double>(vector_before[col]);
      if (saves) of_aux.add(aux[i * ld_aux + j], p);
      if (relu) p = std::max(p, 0.0);
      if (of_gelu) {
        of_y.largest = std::max(of_y.largest, std::abs(p));  // far below 0 it is the difference of such numbers
        p = gelu(p);
      }
      if (drelu) p = static_cast<double>(relu_of.host[at]) > 0 ? p : 0;
      if (dgelu) p *= gelu_slope(static_cast<double>(aux_before[static_cast<std::size_t>(i * ld_aux + j)]));
      if (drelu || dgelu) sums[col] += p;
      of_y.add(static_cast<double>(y.host[at]), p);
    }
    for (Index j = shape.cols; j < shape.ld_y; ++j) {
      if (!std::isnan(y[i * shape.ld_y + j])) of_y.add(std::numeric_limits<double>::infinity(), 1);
    }
  }
  if (info.sums) {
    const Index count = function == Epilogue::sums_of_a ? shape.rows : shape.cols;
    for (Index i = 0; i < count; ++i) of_sums.add(vector[i], sums[static_cast<std::size_t>(i)]);
  }
  return std::max({of_y.relative(), of_aux.relative(), of_sums.relative()}) /
         tolerance<S, Y>(shape, of_gelu || dgelu);
}

/// As in the table of proven products, where b is A.
template <class S, class Y>
std::string name_of(const ProductShape& shape, Epilogue function) {
  const auto type = [](cudaDataType_t number) {
    return std::string(number == CUDA_R_64F ? "f64" : number == CUDA_R_32F ? "f32" : "bf16");
  };
  std::string name = info_of(function).name;
  if (function == Epilogue::none) name = "default";
  if (function == Epilogue::dgelu_sums) name = "dgelu_bgrad";
  if (function == Epilogue::sums_of_b) name = "bgrada";
  if (function == Epilogue::sums_of_a) name = "bgradb";
  return type(data_type<S>) + (shape.factors == Factors::tf32 ? " tf32" : "") + " to " +
         type(data_type<Y>) + ", " + (shape.transpose_b ? "T" : "N") + (shape.transpose_a ? "T" : "N") + ", " +
         name + (shape.residual ? ", residual" : shape.write == Write::accumulate ? ", added" : "");
}

/// Calls f(transpose_a, transpose_b, write, epilogue) for all that floats are multiplied with.
template <class F>
void each_epilogue(const F& f) {
  for (const Epilogue function :
       {Epilogue::bias, Epilogue::relu, Epilogue::relu_bias, Epilogue::gelu, Epilogue::gelu_bias, Epilogue::gelu_aux,
        Epilogue::gelu_aux_bias}) {
    f(false, false, Write::store, function);
    f(false, true, Write::store, function);  // tied weights
  }
  f(false, false, Write::accumulate, Epilogue::bias);  // into a residual stream
  for (const Epilogue function : {Epilogue::dgelu, Epilogue::dgelu_sums}) {
    f(false, true, Write::store, function);  // the gradient of an input
  }
  for (const Write write : {Write::store, Write::accumulate}) {  // those of weights
    f(true, false, write, Epilogue::sums_of_b);
    f(true, false, write, Epilogue::sums_of_a);
  }
}

/// Calls f.template operator()<S, Y>(shape, epilogue) for all products of such numbers, with these sizes.
template <class S, class Y, class F>
void each_product_of(ProductShape sizes, const F& f) {
  const auto call = [&](bool transpose_a, bool transpose_b, Write write, Epilogue function) {
    ProductShape shape = sizes;
    shape.transpose_a = transpose_a, shape.transpose_b = transpose_b, shape.write = write;
    f.template operator()<S, Y>(shape, function);
  };
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const Write write : {Write::store, Write::accumulate}) {
        call(transpose_a, transpose_b, write, Epilogue::none);
      }
    }
  }
  if constexpr (!std::is_same_v<S, double>) each_epilogue(call);
  sizes.residual = true;
  for (const bool transpose_b : {false, true}) {
    call(false, transpose_b, Write::store, Epilogue::none);
    if constexpr (!std::is_same_v<S, double>) call(false, transpose_b, Write::store, Epilogue::bias);
  }
}
template <class F>
void each_product(ProductShape sizes, const F& f) {
  sizes.factors = Factors::exact;
  each_product_of<double, double>(sizes, f);
  each_product_of<float, float>(sizes, f);
  each_product_of<__nv_bfloat16, __nv_bfloat16>(sizes, f);
  each_product_of<__nv_bfloat16, float>(sizes, f);
  sizes.factors = Factors::tf32;
  each_product_of<float, float>(sizes, f);
}

}  // namespace test
