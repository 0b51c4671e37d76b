// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/finished_product.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/activation.hpp>

using namespace simplx;

namespace {

/// relu(x W), x W + b, relu(b + x W), and what cuBLASLt cannot finish: a product that backward reads again.
constexpr auto finished = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 8));
  const auto w = [](const char* name) { return weight(name, 8, 8, normal(1)); };
  const Expr b = vector("b", 8, normal(1));
  return relu(x * w("relu")) * w("a") + (x * w("bias") + b) * w("c") + relu(b + x * w("both")) * w("d") +
         gelu(x * w("kept")) * w("e");
};
using G = GraphOf<finished>;

/// How many groups are finished in such a way.
constexpr int groups(Epilogue epilogue) {
  int count = 0;
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    if constexpr (G::fusion.group[i] == i) count += FinishedProduct<G, i>::epilogue == epilogue;
  });
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/finished_product");

TEST_CASE("cuBLASLt finishes what it can, and gives what separate kernels give") {
  static_assert(groups(Epilogue::relu) == 1 && groups(Epilogue::bias) == 1 && groups(Epilogue::relu_bias) == 1);
  const auto exact = test::all_of<finished, Cpu<double, Path::reference>>(9, {}, {});
  test::check_close(test::all_of<finished, Cuda<>>(9, {}, {}), exact, 1e-6);
  test::check_close(test::all_of<finished, Cuda<Precision::float64>>(9, {}, {}), exact, 1e-12);
}

TEST_SUITE_END();
