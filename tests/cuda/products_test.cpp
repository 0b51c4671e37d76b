// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/products.cuh>

#include "cuda/kernels.hpp"
#include "cuda/products.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

using namespace simplx;
using namespace simplx::gpu;
using emulation::device;

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

using emulation::Refusing;
using How = Refusing::How;
/// A product that ends in more than itself.
bool has_epilogue(const std::string& name) { return !has(name, ", default"); }

/// Whether all products are right where a card refuses some; a result of bfloat16 is rounded before its epilogue, too.
void check_refusing(How how, const Refusing::What& what, ProductShape sizes, Index apart = 0) {
  const Refusing refusing(how, what);
  Products products;
  test::each_product(sizes, [&]<class S, class Y>(const ProductShape& shape, Epilogue function) {
    const std::string name = test::name_of<S, Y>(shape, function);
    CAPTURE(name);
    CHECK(test::error_of<S, Y>(products, shape, function, apart) < (std::is_same_v<Y, __nv_bfloat16> ? 2 : 1));
  });
}

/// How often f calls a function of cuBLASLt.
template <class F>
long calls_of(std::string_view name, const F& f) {
  static std::string_view counted;
  static long count;
  counted = name, count = 0;
  emulation::Call::watch = [](const char* called, bool begins) { count += begins && called == counted; };
  f();
  emulation::Call::watch = nullptr;
  return count;
}

/// Captures what f does, and launches that so many times.
template <class F>
void launch_captured(const GpuStream& stream, int times, const F& f) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  f();
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  for (int i = 0; i < times; ++i) check(cudaGraphLaunch(exec, stream), "launch");
  stream.synchronize();
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

}  // namespace

TEST_CASE("cuda/products: all that the library multiplies, against double; nothing else is in the table") {
  {
    Products products;
    test::each_product({.rows = 5, .cols = 7, .inner = 9}, [&]<class S, class Y>(const ProductShape& shape,
                                                                                 Epilogue function) {
      const std::string name = test::name_of<S, Y>(shape, function);
      CAPTURE(name);
      CHECK(test::error_of<S, Y>(products, shape, function) < 1);
      CHECK(emulation::used_products().contains(name));
    });
    CHECK(products.not_fused().empty());
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
          test::each_product({.rows = rows, .cols = cols, .inner = inner},
                             [&]<class S, class Y>(const ProductShape& shape, Epilogue function) {
                               const std::string name = test::name_of<S, Y>(shape, function);
                               CAPTURE(name);
                               CHECK(test::error_of<S, Y>(products, shape, function, apart) < 1);
                             });
        }
      }
    }
  }
}

TEST_CASE("cuda/products: a plan serves all products of its kind") {
  Products products;
  const GpuStream stream;
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
  products.multiply(stream, shape, x, x + 1025, x + 2048);
  CHECK(products.plans() == 3);
  products.multiply(stream, shape, x, x + 1024, x + 2049);
  CHECK(products.plans() == 4);
  CHECK(plans_after({.rows = 3, .cols = 8, .inner = 16}) == 5);
  CHECK(plans_after({.rows = 4, .cols = 7, .inner = 16}) == 6);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 15}) == 7);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .transpose_a = true}) == 8);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .transpose_b = true}) == 9);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .write = Write::accumulate}) == 10);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .factors = Factors::tf32}) == 11);
  CHECK(plans_after({.rows = 4, .cols = 8, .inner = 16, .ld_a = 20}) == 12);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3072}) == 13);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3072 + 64}) == 13);
  CHECK(plans_after(shape, 0, {.function = Epilogue::bias, .bias = x + 3073}) == 14);
  CHECK(plans_after(shape, 0, {.function = Epilogue::gelu_aux, .aux = x + 3072, .ld_aux = 8}) == 15);
  CHECK(plans_after(shape, 0, {.function = Epilogue::gelu_aux, .aux = x + 3072, .ld_aux = 16}) == 16);
  const Products moved = std::move(products);
  CHECK(moved.plans() == 16);
}

TEST_CASE("cuda/products: where no batch is as long as one before, plans are given up before they are too many") {
  Products products;
  const GpuStream stream;
  DeviceBuffer<float> numbers(64);
  numbers.fill_with_zero(stream);
  float* const x = numbers.data();
  for (Index length = 1; length <= Products::most_plans; ++length) {
    products.multiply(stream, {.rows = 1, .cols = 1, .inner = 1, .ld_a = length}, x, x, x + 32);
    CHECK(products.plans() == length);
  }
  products.multiply(stream, {.rows = 2, .cols = 1, .inner = 1}, x, x, x + 32);
  CHECK(products.plans() == 1);
}

TEST_CASE("cuda/products: what is stored as bfloat16 is summed in float, also in parts") {
  Products products;
  const GpuStream stream;
  std::vector<__nv_bfloat16> a(64), b(64, __nv_bfloat16(1.0f)), y(64);
  for (std::size_t row = 0; row < 8; ++row) {  // 256 + 1 is no bfloat16
    a[8 * row] = __nv_bfloat16(256.0f), a[8 * row + 3] = __nv_bfloat16(1.0f), a[8 * row + 4] = __nv_bfloat16(-256.0f);
  }
  DeviceBuffer<__nv_bfloat16> on_a(64), on_b(64), on_y(64);
  on_a.copy_from(a, stream), on_b.copy_from(b, stream);
  products.multiply(stream, {.rows = 8, .cols = 8, .inner = 8}, on_a.data(), on_b.data(), on_y.data());
  on_y.copy_to(y, stream);
  stream.synchronize();
  CHECK(std::ranges::all_of(y, [](__nv_bfloat16 sum) { return static_cast<float>(sum) == 1.0f; }));
}

TEST_CASE("cuda/products: a plan takes pointers and workspace of each call") {
  Products products;
  const GpuStream stream;
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
  CHECK(y[1] == doctest::Approx(test::gelu(4)));
  CHECK(y[64] == doctest::Approx(test::gelu(8)));
}

TEST_CASE("cuda/products: a product of nothing is zero, or adds nothing") {
  Products products;
  const GpuStream stream;
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
  const GpuStream stream;
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
  CHECK(has(refused(shape, {.function = Epilogue::drelu}), ": there is no relu"));
  CHECK(has(refused(shape, {.function = Epilogue::gelu_aux, .aux = x, .ld_aux = 12}),
            ": ld_aux is 12\n  hint: at least as many elements as columns, a multiple of 8"));
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
  const GpuStream stream;
  DeviceBuffer<double> x(4), y(4);
  std::vector<double> values{1, 2, 3, 4};
  x.copy_from(values, stream);
  y.fill_with_zero(stream);
  stream.synchronize();
  launch_captured(stream, 3, [&] {
    products.multiply(stream, {.rows = 2, .cols = 2, .inner = 2, .write = Write::accumulate}, x.data(), x.data(),
                      y.data());
  });
  y.copy_to(values, stream);
  stream.synchronize();
  CHECK(values == std::vector<double>{21, 30, 45, 66});
}

TEST_CASE("cuda/products: kernels do the epilogues that cuBLASLt refuses, in every way that it can") {
  for (const How how : {How::by_status, How::without_algorithm, How::when_it_runs}) {
    check_refusing(how, has_epilogue, {.rows = 5, .cols = 7, .inner = 9});
  }
  for (const Index rows : {1, 33}) {
    for (const Index cols : {1, 8, 31}) {
      for (const Index inner : {1, 65}) {
        check_refusing(How::by_status, has_epilogue, {.rows = rows, .cols = cols, .inner = inner}, rows % 2 * 3);
      }
    }
  }
}

TEST_CASE("cuda/products: the pull-back of ReLU is a plain product and a kernel, in numbers of any kind but double") {
  Products products;
  const ProductShape shape{.rows = 5, .cols = 7, .inner = 9, .transpose_b = true};
  for (const Epilogue function : {Epilogue::drelu, Epilogue::drelu_sums}) {
    CHECK(test::error_of<float, float>(products, shape, function) < 1);
    CHECK(test::error_of<__nv_bfloat16, float>(products, shape, function) < 1);
    CHECK(test::error_of<__nv_bfloat16, __nv_bfloat16>(products, shape, function, 2) < 2);
  }
  CHECK(products.not_fused().empty());
}

TEST_CASE("cuda/products: each epilogue may be refused alone") {
  std::set<std::string> epilogues;
  for (const emulation::ProvenProduct& one : emulation::proven_products) {
    const std::string name = std::string(one.name) + ",";  // types, ops, epilogue
    const std::size_t begin = name.find(", ", name.find(", ") + 1);
    epilogues.insert(name.substr(begin, name.find(",", begin + 1) + 1 - begin));
  }
  REQUIRE(epilogues.size() == 12);
  for (const std::string& epilogue : epilogues) {
    CAPTURE(epilogue);
    if (epilogue == ", default,") continue;
    check_refusing(How::by_status, [&](const std::string& name) { return has(name + ",", epilogue); },
                   {.rows = 5, .cols = 7, .inner = 9});
  }
}

TEST_CASE("cuda/products: kernels add a residual that cuBLASLt does not; one in the place of y is y += ...") {
  const auto residual = [](const std::string& name) { return name.ends_with(", residual") && !has(name, "f64"); };
  check_refusing(How::when_it_runs, residual, {.rows = 5, .cols = 7, .inner = 9}, 1);
  Products products;
  const GpuStream stream;
  DeviceBuffer<__nv_bfloat16> numbers(4096);
  numbers.fill_with_zero(stream);
  __nv_bfloat16* const x = numbers.data();
  const ProductShape shape{.rows = 4, .cols = 8, .inner = 16};
  const auto refused = [&](__nv_bfloat16* y, __nv_bfloat16* added) {
    return said([&] { products.multiply(stream, shape, x, x + 1024, y, {.residual = added}); });
  };
  CHECK(refused(x + 2048, x + 3072) == "");
  CHECK(products.not_fused().empty());
  CHECK(refused(x + 2048, x + 3073) == "");  // not on 16 bytes
  CHECK(products.not_fused().size() == 1);

  const Refusing refusing(How::when_it_runs, residual);
  std::vector<float> ones(128, 1);
  DeviceBuffer<float> one(128), y(128);
  one.copy_from(ones, stream);
  for (float* const added : {one.data(), y.data(), one.data()}) {
    y.copy_from(std::vector<float>(128, 1), stream);
    products.multiply(stream, {.rows = 8, .cols = 16, .inner = 8}, one.data(), one.data(), y.data(),
                      {.residual = added});
    y.copy_to(ones, stream);
    stream.synchronize();
    CHECK(ones == std::vector<float>(128, 9));
  }
  CHECK(products.not_fused().size() == 2);
}

TEST_CASE("cuda/products: what is refused is asked once, told with its reason, and serves all of its kind") {
  Products products;
  const GpuStream stream;
  DeviceBuffer<float> numbers(4096);
  numbers.fill_with_zero(stream);
  float* const x = numbers.data();
  const auto multiply = [&](Index rows = 4) {
    products.multiply(stream, {.rows = rows, .cols = 8, .inner = 16}, x, x + 1024, x + 2048,
                      {.function = Epilogue::bias, .bias = x + 3072});
  };
  const char *heuristic = "cublasLtMatmulAlgoGetHeuristic", *run = "cublasLtMatmul";
  {
    const Refusing refusing(How::when_it_runs, has_epilogue);
    CHECK(calls_of(run, multiply) == 2);
    CHECK(calls_of(run, multiply) == 1);
    CHECK(calls_of(heuristic, multiply) == 0);
  }
  {
    const Refusing refusing(How::by_status, has_epilogue);
    CHECK(calls_of(heuristic, [&] { multiply(3); }) == 2);
    CHECK(calls_of(heuristic, [&] { multiply(3); }) == 0);
    CHECK(calls_of(run, [&] { multiply(3); }) == 1);
    CHECK(calls_of("launch", [&] { multiply(3); }) == 1);
  }
  CHECK(calls_of(heuristic, multiply) == 0);  // though now it would be taken
  CHECK(calls_of("launch", multiply) == 1);
  CHECK(products.plans() == 2);
  CHECK(products.not_fused() ==
        std::vector<std::string>{"the product y (4, 8; ld 8) = a (4, 16; ld 16) b (16, 8; ld 8) of float, epilogue "
                                 "bias, was refused: the requested functionality is not supported"});
  multiply(5);
  CHECK(calls_of("launch", [&] { multiply(5); }) == 0);
  CHECK(products.not_fused().size() == 1);
}

TEST_CASE("cuda/products: what is refused without its epilogue, too, is told as it was wanted") {
  Products products;
  const GpuStream stream;
  DeviceBuffer<float> numbers(4096);
  DeviceBuffer<double> wide(1024);
  float* const x = numbers.data();
  const Refusing refusing(How::without_algorithm, [](const std::string&) { return true; });
  const std::string words = ", was refused: the requested functionality is not supported";
  const ProductShape shape{.rows = 4, .cols = 8, .inner = 16};
  CHECK(has(said([&] {
              products.multiply(stream, shape, x, x + 1024, x + 2048, {.function = Epilogue::bias, .bias = x});
            }), "of float, epilogue bias" + words));
  CHECK(has(said([&] { products.multiply(stream, shape, x, x + 1024, x + 2048); }), "of float, epilogue none" + words));
  CHECK(has(said([&] {
              products.multiply(stream, shape, wide.data(), wide.data(), wide.data() + 512, {.residual = wide.data()});
            }), "of double, residual, epilogue none" + words));
  CHECK(products.plans() == 0);
  CHECK(products.not_fused().empty());
}

TEST_CASE("cuda/products: kernels that finish a product can be captured with it") {
  const Refusing refusing(How::by_status, has_epilogue);
  Products products;
  const GpuStream stream;
  DeviceBuffer<float> x(4), y(4), sums(2);
  std::vector<float> values{1, 2, 3, 4};
  x.copy_from(values, stream);
  y.fill_with_zero(stream);
  stream.synchronize();
  launch_captured(stream, 2, [&] {
    products.multiply(stream, {.rows = 2, .cols = 2, .inner = 2, .write = Write::accumulate}, x.data(), x.data(),
                      y.data(), {.function = Epilogue::bias, .bias = x.data()});
    products.multiply(stream, {.rows = 2, .cols = 2, .inner = 2, .write = Write::accumulate}, x.data(), x.data(),
                      y.data(), {.function = Epilogue::sums_of_b, .sums = sums.data()});
  });
  y.copy_to(values, stream);
  stream.synchronize();
  CHECK(values == std::vector<float>{4 * 7 + 2 * 1, 4 * 10 + 2 * 2, 4 * 15 + 2 * 1, 4 * 22 + 2 * 2});
  values.resize(2);
  sums.copy_to(values, stream);
  stream.synchronize();
  CHECK(values == std::vector<float>{4, 6});
  CHECK(products.not_fused().size() == 2);
}
