// SPDX-License-Identifier: MIT
#include "cuda/kernels.hpp"

#include <simplx/cuda/products.cuh>

#include <algorithm>
#include <initializer_list>
#include <string>

using namespace simplx;
using emulation::device;

template <>
inline constexpr double test::rounding<__nv_bfloat16> = 1.0 / 128;

namespace {

/// What the products say when they refuse.
template <class F>
std::string said(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Numbers on the device, and as double on the host; what lies between the rows is NaN on both.
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
  std::vector<S> now(cudaStream_t stream) const {
    std::vector<S> values(host.size());
    on_device.copy_to(values, stream);
    return values;
  }
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double step = 1e-5;
  return (gelu(x + step) - gelu(x - step)) / (2 * step);
}

/// Largest difference allowed, in roundings of Y.
template <class S, class Y>
double tolerance(const ProductShape& shape) {
  if (shape.precision == Precision::tf32) return 16384;  // 13 bits less
  return std::is_same_v<Y, __nv_bfloat16> ? 1 : 4 + static_cast<double>(shape.inner + shape.rows);
}

/// One product, with all that its epilogue reads and writes, compared with the same in double. A row takes a multiple
/// of `multiple` elements, and `apart` multiples more.
template <class S, class Y = S>
void compare(Products& products, ProductShape shape, Epilogue function = Epilogue::none, Index apart = 0,
             Index multiple = std::is_same_v<S, __nv_bfloat16> ? 8 : 1) {
  const detail::EpilogueInfo info = detail::info_of(function);
  CAPTURE(shape.rows);
  CAPTURE(shape.cols);
  CAPTURE(shape.inner);
  CAPTURE(shape.transpose_a);
  CAPTURE(shape.transpose_b);
  CAPTURE(std::string(info.name));
  const auto width = [&](Index cols) { return round_up(cols, multiple) + apart * multiple; };
  const Stream stream;
  Index rows_a = shape.rows, cols_a = shape.inner, rows_b = shape.inner, cols_b = shape.cols;
  if (shape.transpose_a) std::swap(rows_a, cols_a);
  if (shape.transpose_b) std::swap(rows_b, cols_b);
  shape.ld_a = width(cols_a), shape.ld_b = width(cols_b), shape.ld_y = width(shape.cols);
  const bool mask = info.aux_multiple == 128;
  const Index ld_aux = round_up(shape.cols, info.aux_multiple ? info.aux_multiple : 1) + apart * info.aux_multiple;
  const bool by_rows = function == Epilogue::sums_of_a;
  const Index length = by_rows ? shape.rows : shape.cols;
  Numbers<S> a(stream, rows_a, cols_a, shape.ld_a, 1), b(stream, rows_b, cols_b, shape.ld_b, 2);
  Numbers<Y> y(stream, shape.rows, shape.cols, shape.ld_y, 3), vector(stream, 1, length, length, 4);
  Numbers<Y> aux(stream, mask ? 0 : shape.rows, shape.cols, ld_aux, 5);
  std::vector<unsigned char> bits(static_cast<std::size_t>(mask ? shape.rows * ld_aux / 8 : 0));
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<unsigned char>(uniform(6, i) * 256);
  DeviceBuffer<unsigned char> bits_on_device(static_cast<Index>(bits.size()));
  bits_on_device.copy_from(bits, stream);
  const auto bit = [&](Index at) { return bits[static_cast<std::size_t>(at / 8)] >> (at % 8) & 1; };

  products.multiply(stream, shape, a.data(), b.data(), y.data(),
                    ProductEpilogue<Y>{function, vector.data(),
                                       mask ? static_cast<void*>(bits_on_device.data()) : aux.data(), ld_aux,
                                       vector.data()});

  std::vector<double> exact, exact_aux, sums(static_cast<std::size_t>(length));
  const auto values = y.now(stream), saved = aux.now(stream), sums_now = vector.now(stream);
  std::vector<unsigned char> bits_now(bits.size());
  bits_on_device.copy_to(bits_now, stream);
  stream.synchronize();
  std::vector<Y> inside, saved_inside;
  for (Index i = 0; i < shape.rows; ++i) {
    for (Index j = 0; j < shape.cols; ++j) {
      const Index at = i * shape.ld_y + j, at_aux = i * ld_aux + j;
      double p = shape.write == Write::accumulate ? y[at] : 0;
      for (Index k = 0; k < shape.inner; ++k) {
        const double from_a = a[shape.transpose_a ? k * shape.ld_a + i : i * shape.ld_a + k];
        const double from_b = b[shape.transpose_b ? j * shape.ld_b + k : k * shape.ld_b + j];
        p += from_a * from_b;
        if (function == Epilogue::sums_of_a && j == 0) sums[static_cast<std::size_t>(i)] += from_a;
        if (function == Epilogue::sums_of_b && i == 0) sums[static_cast<std::size_t>(j)] += from_b;
      }
      if (info.bias) p += vector[j];
      const bool saves = function == Epilogue::gelu_aux || function == Epilogue::gelu_aux_bias;
      const bool saves_mask = function == Epilogue::relu_aux || function == Epilogue::relu_aux_bias;
      if (saves) {
        exact_aux.push_back(p);
        saved_inside.push_back(saved[static_cast<std::size_t>(at_aux)]);
      }
      if (saves_mask) CHECK(bool(bits_now[static_cast<std::size_t>(at_aux / 8)] >> (at_aux % 8) & 1) == (p > 0));
      switch (function) {
        case Epilogue::relu:
        case Epilogue::relu_bias:
        case Epilogue::relu_aux:
        case Epilogue::relu_aux_bias: p = std::max(p, 0.0); break;
        case Epilogue::gelu:
        case Epilogue::gelu_bias:
        case Epilogue::gelu_aux:
        case Epilogue::gelu_aux_bias: p = gelu(p); break;
        case Epilogue::drelu:
        case Epilogue::drelu_sums: p = bit(at_aux) ? p : 0; break;
        case Epilogue::dgelu:
        case Epilogue::dgelu_sums: p *= gelu_slope(aux[at_aux]); break;
        default: break;
      }
      if (function == Epilogue::drelu_sums || function == Epilogue::dgelu_sums) sums[static_cast<std::size_t>(j)] += p;
      exact.push_back(p);
      inside.push_back(values[static_cast<std::size_t>(at)]);
    }
    for (Index j = shape.cols; j < shape.ld_y; ++j) {
      CHECK(std::isnan(static_cast<double>(values[static_cast<std::size_t>(i * shape.ld_y + j)])));
    }
  }
  const double most = tolerance<S, Y>(shape);
  CHECK(test::distance(inside, exact) < most);
  CHECK(test::distance(saved_inside, exact_aux) < most);
  if (info.sums) CHECK(test::distance(sums_now, sums) < most);
}

/// Every product that the library makes, of one kind of numbers.
template <class S, class Y = S>
void compare_all(Products& products, Precision precision = Precision::exact) {
  const ProductShape shape{.rows = 5, .cols = 7, .inner = 9, .precision = precision};
  for (const Write write : {Write::store, Write::accumulate}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        ProductShape one = shape;
        one.transpose_a = transpose_a, one.transpose_b = transpose_b, one.write = write;
        compare<S, Y>(products, one);
      }
    }
  }
  if (std::is_same_v<S, double>) return;
  ProductShape forward = shape, tied = shape, to_input = shape, to_weight = shape;
  tied.transpose_b = to_input.transpose_b = true;
  to_weight.transpose_a = true;
  for (const Epilogue function :
       {Epilogue::bias, Epilogue::relu, Epilogue::relu_bias, Epilogue::relu_aux, Epilogue::relu_aux_bias,
        Epilogue::gelu, Epilogue::gelu_bias, Epilogue::gelu_aux, Epilogue::gelu_aux_bias}) {
    compare<S, Y>(products, forward, function);
    compare<S, Y>(products, tied, function);
  }
  for (const Epilogue function : {Epilogue::drelu, Epilogue::drelu_sums, Epilogue::dgelu, Epilogue::dgelu_sums}) {
    compare<S, Y>(products, to_input, function);
  }
  for (const Write write : {Write::store, Write::accumulate}) {
    forward.write = to_weight.write = write;
    compare<S, Y>(products, forward, Epilogue::bias);  // a residual stream
    compare<S, Y>(products, to_weight, Epilogue::sums_of_b);
    compare<S, Y>(products, to_weight, Epilogue::sums_of_a);
  }
}

}  // namespace

TEST_CASE("cuda/products: all that the library multiplies, against double; nothing else is in the table") {
  {
    Products products;
    compare_all<float>(products);
    compare_all<float>(products, Precision::tf32);
    compare_all<double>(products);
    compare_all<__nv_bfloat16>(products);
    compare_all<__nv_bfloat16, float>(products);
  }
  for (const emulation::ProvenProduct& one : emulation::proven_products) {
    CAPTURE(std::string(one.name));
    CHECK(emulation::used_products().contains(one.name));
  }
  CHECK(emulation::live_blas_objects() == 0);
  CHECK(device().allocations.count(emulation::Memory::device) == 0);
}

TEST_CASE("cuda/products: sizes from 1 to odd ones, rows apart") {
  Products products(0);  // without workspace
  for (const Index rows : {1, 2, 33}) {
    for (const Index cols : {1, 8, 31}) {
      for (const Index inner : {1, 4, 65}) {
        for (const Index apart : {0, 3}) {
          compare<float>(products, {.rows = rows, .cols = cols, .inner = inner}, Epilogue::gelu_aux_bias, apart);
          compare<float>(products, {.rows = rows, .cols = cols, .inner = inner, .transpose_a = true,
                                    .write = Write::accumulate}, Epilogue::sums_of_b, apart);
          compare<float>(products, {.rows = rows, .cols = cols, .inner = inner, .transpose_b = true},
                         Epilogue::drelu_sums, apart);
          compare<double>(products, {.rows = rows, .cols = cols, .inner = inner, .transpose_b = true}, Epilogue::none,
                          apart);
          compare<__nv_bfloat16>(products, {.rows = rows, .cols = cols, .inner = inner}, Epilogue::relu_aux_bias,
                                 apart);
        }
      }
    }
  }
}

TEST_CASE("cuda/products: a plan serves all products of its kind") {
  Products products;
  const Stream stream;
  DeviceBuffer<float> numbers(4096);
  numbers.fill_with_zero(stream);
  float* const x = numbers.data();
  const ProductShape shape{.rows = 4, .cols = 8, .inner = 16};
  const auto plans_after = [&](const ProductShape& one, Index offset = 0, const ProductEpilogue<float>& by = {}) {
    products.multiply(stream, one, x + offset, x + 1024, x + 2048, by);
    return products.plans();
  };
  CHECK(products.plans() == 0);
  CHECK(plans_after(shape) == 1);
  CHECK(plans_after(shape, 64) == 1);  // elsewhere, as well aligned
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .ld_a = 16, .ld_b = 8, .ld_y = 8}) == 1);
  CHECK(plans_after(shape, 1) == 2);
  CHECK(plans_after(shape, 3) == 2);
  CHECK(plans_after({.rows = 3, .cols = 8, .inner = 16}) == 3);
  CHECK(plans_after({.rows = 4, .cols = 7, .inner = 16}) == 4);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 15}) == 5);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .transpose_a = true}) == 6);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .transpose_b = true}) == 7);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .write = Write::accumulate}) == 8);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .precision = Precision::tf32}) == 9);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .ld_a = 20}) == 10);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3072}) == 11);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3072 + 64}) == 11);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3073}) == 12);
  CHECK(plans_after(shape, 0, {.function = Epilogue::gelu_aux, .aux = x + 3072, .ld_aux = 8}) == 13);
  CHECK(plans_after(shape, 0, {.function = Epilogue::gelu_aux, .aux = x + 3072, .ld_aux = 16}) == 14);
  const Products moved = std::move(products);
  CHECK(moved.plans() == 14);
}

TEST_CASE("cuda/products: a plan takes pointers and workspace of each call") {
  Products products;
  const Stream stream;
  std::vector<float> numbers(256, 1), y(128);
  for (std::size_t i = 64; i < 128; ++i) numbers[i] = 2;
  DeviceBuffer<float> x(256), result(128), aux(128);
  x.copy_from(numbers, stream);
  for (const Index half : {0, 64}) {
    products.multiply(stream, {.rows = 1, .cols = 2, .inner = 3}, x.data() + half, x.data() + 192, result.data() + half,
                      {.function = Epilogue::gelu_aux_bias, .bias = x.data() + half, .aux = aux.data() + half,
                       .ld_aux = 8});
  }
  CHECK(products.plans() == 1);
  aux.copy_to(y, stream);
  stream.synchronize();
  CHECK(y[0] == 4);
  CHECK(y[65] == 8);
  result.copy_to(y, stream);
  stream.synchronize();
  CHECK(y[1] == doctest::Approx(gelu(4)));
  CHECK(y[64] == doctest::Approx(gelu(8)));
}

TEST_CASE("cuda/products: a product of nothing is zero, or adds nothing") {
  Products products;
  const Stream stream;
  std::vector<float> host(24, 3), sums(4);
  DeviceBuffer<float> y(24), x(24), of(4);
  const auto multiply = [&](const ProductShape& shape, const ProductEpilogue<float>& by = {}) {
    y.copy_from(std::vector<float>(24, 3), stream);
    of.copy_from(std::vector<float>(4, 3), stream);
    products.multiply(stream, shape, x.data(), x.data(), y.data(), by);
    y.copy_to(host, stream);
    of.copy_to(sums, stream);
    stream.synchronize();
    return std::count(host.begin(), host.end(), 0.0f) + 100 * std::count(sums.begin(), sums.end(), 0.0f);
  };
  CHECK(multiply({.rows = 5, .cols = 4, .inner = 0}) == 20);
  CHECK(multiply({.rows = 3, .cols = 4, .inner = 0, .ld_y = 6}) == 12);
  CHECK(host[4] == 3);
  CHECK(host[6] == 0);
  CHECK(multiply({.rows = 5, .cols = 4, .inner = 0, .write = Write::accumulate}) == 0);
  CHECK(multiply({.rows = 0, .cols = 4, .inner = 5}) == 0);
  CHECK(multiply({.rows = 4, .cols = 0, .inner = 5}) == 0);
  const ProductEpilogue<float> sums_of_b{.function = Epilogue::sums_of_b, .sums = of.data()};
  const ProductEpilogue<float> sums_of_a{.function = Epilogue::sums_of_a, .sums = of.data()};
  CHECK(multiply({.rows = 5, .cols = 4, .inner = 0, .write = Write::accumulate}, sums_of_b) == 400);
  CHECK(multiply({.rows = 3, .cols = 4, .inner = 0}, sums_of_a) == 312);
  const ProductEpilogue<float> dgelu{.function = Epilogue::dgelu_sums, .aux = x.data(), .ld_aux = 8, .sums = of.data()};
  CHECK(multiply({.rows = 0, .cols = 4, .inner = 5}, dgelu) == 400);
  CHECK(multiply({.rows = 0, .cols = 4, .inner = 5}, {.function = Epilogue::bias, .bias = x.data()}) == 0);
  const std::string words = "was refused: without numbers it has no such epilogue";
  CHECK(has(said([&] { multiply({.rows = 0, .cols = 4, .inner = 5}, sums_of_b); }), words));
  CHECK(has(said([&] { multiply({.rows = 5, .cols = 4, .inner = 0}, dgelu); }), words));
  CHECK(has(said([&] { multiply({.rows = 5, .cols = 4, .inner = 0}, {.function = Epilogue::bias, .bias = x.data()}); }),
            words));
  CHECK(products.plans() == 0);
}

TEST_CASE("cuda/products: what is refused says shape, types and epilogue") {
  Products products;
  const Stream stream;
  DeviceBuffer<float> numbers(4096);
  numbers.fill_with_zero(stream);
  float* const x = numbers.data();
  const ProductShape shape{.rows = 4, .cols = 8, .inner = 16};
  const auto refused = [&](const ProductShape& one, const ProductEpilogue<float>& by = {}) {
    return said([&] { products.multiply(stream, one, x, x + 1024, x + 2048, by); });
  };
  CHECK(refused({.rows = 4, .cols = 8, .inner = 16, .transpose_a = true, .write = Write::accumulate, .ld_a = 3},
                {.function = Epilogue::bias, .bias = x}) ==
        "the product y (4, 8; ld 8) += a^T (4, 16; ld 3) b (16, 8; ld 8) of float, epilogue bias, was refused: rows "
        "overlap");
  CHECK(has(refused({.rows = 4, .cols = 8, .inner = 16, .ld_b = 7}), ": rows overlap"));
  CHECK(has(refused({.rows = 4, .cols = 8, .inner = 16, .ld_y = 7}), ": rows overlap"));
  CHECK(has(refused({.rows = 4, .cols = -8, .inner = 16}), ": a size is negative"));
  CHECK(has(refused({.rows = 4, .cols = 8, .inner = 16, .write = Write::skip}), ": it would not be written"));
  CHECK(has(refused(shape, {.function = Epilogue::gelu_bias}), "gelu_bias, was refused: there is no bias"));
  CHECK(has(refused(shape, {.function = Epilogue::sums_of_b}), ", was refused: there is no place for the sums"));
  CHECK(has(refused(shape, {.function = Epilogue::gelu_aux}), "gelu_aux, was refused: there is no aux"));
  CHECK(has(refused(shape, {.function = Epilogue::gelu_aux, .aux = x, .ld_aux = 12}),
            ": ld_aux is 12\n  hint: at least as many elements as columns, a multiple of 8"));
  CHECK(has(refused(shape, {.function = Epilogue::relu_aux, .aux = x, .ld_aux = 64}), "a multiple of 128"));
  CHECK(has(refused({.rows = 4, .cols = 9, .inner = 16}, {.function = Epilogue::dgelu, .aux = x, .ld_aux = 8}),
            ": ld_aux is 8"));
  CHECK(products.plans() == 0);

  DeviceBuffer<double> wide(1024);
  CHECK(said([&] {
          products.multiply(stream, shape, wide.data(), wide.data(), wide.data() + 512,
                            {.function = Epilogue::relu});
        }) ==
        "the product y (4, 8; ld 8) = a (4, 16; ld 16) b (16, 8; ld 8) of double, epilogue relu, was refused: the "
        "requested functionality is not supported");
  DeviceBuffer<__nv_bfloat16> half(1024);
  const auto of_half = [&](const ProductShape& one, Index offset) {
    return said([&] { products.multiply(stream, one, half.data() + offset, half.data() + 256, x); });
  };
  CHECK(of_half(shape, 8) == "");
  const std::string hint = "\n  hint: bfloat16 wants matrices on 16 bytes, and rows of a multiple of 8 numbers";
  CHECK(has(of_half(shape, 1), "of bfloat16 into float, epilogue none, was refused: the requested functionality is not "
                               "supported" + hint));
  CHECK(has(of_half({.rows = 4, .cols = 7, .inner = 16}, 0), hint));

  device().present = false;
  const std::string no_device = "\n  hint: this machine has no GPU, or a driver older than the CUDA of this program";
  CHECK(said([] { Products(); }) == "no memory was allocated: no CUDA-capable device is detected" + no_device);
  CHECK(said([] { Products(0); }) == "cuBLASLt does not start: the library was not initialized" + no_device);
  device().present = true;
}

TEST_CASE("cuda/products: a product can be captured, with its plan") {
  Products products;
  const Stream stream;
  DeviceBuffer<double> x(4), y(4);
  std::vector<double> values{1, 2, 3, 4};
  x.copy_from(values, stream);
  y.fill_with_zero(stream);
  stream.synchronize();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  products.multiply(stream, {.rows = 2, .cols = 2, .inner = 2, .write = Write::accumulate}, x.data(), x.data(),
                    y.data());
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(exec, stream), "launch");
  y.copy_to(values, stream);
  stream.synchronize();
  CHECK(values == std::vector<double>{21, 30, 45, 66});
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}
