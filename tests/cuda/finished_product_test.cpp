// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/finished_product.cuh>

#include "cuda/on_device.hpp"

#include <simplx/blocks/pre_ln.hpp>
#include <simplx/ops/activation.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// What cuBLASLt finishes, and what not: a product that backward reads again, one that is scaled, two residuals, a sum
/// that somebody else reads, relu of a residual stream.
constexpr auto finished = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 8)), r = variable("r", rows_of(Axis::tokens, 8));
  const auto w = [](const char* name) { return weight(name, 8, 8, normal(1)); };
  const auto out = [&](const char* name, Expr y) { return tanh(y) * w(name); };  // the end of a group
  const Expr b = vector("row", 8, normal(1));
  const Expr read_twice = x * w("twice") + b;
  return out("a", relu(x * w("relu")) * w("of relu")) + out("b", (x * w("bias") + b) * w("of bias")) +
         out("c", relu(b + x * w("both")) * w("of both")) + out("d", gelu(x * w("kept")) * w("of kept")) +
         out("e", (r + x * w("residual")) * w("of residual")) +
         out("f", (x * w("all") + b + r) * w("of all")) + out("g", ((r + x * w("order")) + b) * w("of order")) +
         out("h", (2 * (x * w("scaled")) + r) * w("of scaled")) + out("i", (x * w("two") + r + x) * w("of two")) +
         out("j", (read_twice + r) * w("of twice")) * read_twice + out("k", relu(x * w("rr") + r) * w("of rr"));
};
/// Both branches of a Pre-LN block end in the residual stream.
constexpr auto block = [] { return PreLn{{.heads = 2}, {.hidden = 16}}(variable("x", rows_of(Axis::tokens, 8))); };

/// How many groups are finished in such a way.
template <auto const& model = finished>
constexpr int groups(Epilogue epilogue, bool residual = false) {
  using G = GraphOf<model>;
  int count = 0;
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    if constexpr (G::fusion.group[i] == i) {
      using Finished = FinishedProduct<G, i>;
      count += Finished::whole && Finished::epilogue == epilogue && (Finished::residual >= 0) == residual;
    }
  });
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/finished_product");

TEST_CASE("cuBLASLt finishes what it can, and gives what separate kernels give") {
  static_assert(groups(Epilogue::none) == 0 && groups(Epilogue::bias) == 2);
  static_assert(groups(Epilogue::relu) == 1 && groups(Epilogue::relu_bias) == 1);
  static_assert(groups(Epilogue::none, true) == 1 && groups(Epilogue::bias, true) == 2);
  static_assert(groups(Epilogue::relu, true) == 0 && groups(Epilogue::relu_bias, true) == 0);
  static_assert(groups<block>(Epilogue::none, true) == 2);
  const auto exact = test::expected<finished>(9);
  test::check_close(test::all_of<finished, Cuda<>>(9, {}, {}), exact, 1e-5);
  test::check_close(test::all_of<finished, Cuda<Precision::float64>>(9, {}, {}), exact, 1e-12);
  test::float_on_device<block>(9);
}

TEST_SUITE_END();
