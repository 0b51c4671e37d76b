// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/finished_product.cuh
/// Which elementwise groups cuBLASLt finishes in the kernel of their product: relu(x W), x W + b, relu(x W + b).

#include <simplx/cpu/group.hpp>
#include <simplx/cuda/products.cuh>

namespace simplx::inline SIMPLX_TARGET {

template <class G, int root>
struct FinishedProduct {
  using Grp = Group<G, root>;

 private:
  static constexpr bool is(int m, Tag op) { return G::flat.label[Grp::member(m)].op == op; }
  static constexpr bool is_product(int operand) { return operand < 0 && Grp::leaf(-1 - operand) == Grp::product; }
  static constexpr bool is_row(int operand) {
    return operand < 0 && Grp::spread(-1 - operand) == Grp::Spread::row;
  }
  static constexpr bool adds_row() {
    const auto& [a, b, unused] = Grp::tables.operand[0];
    return is(0, "add") && ((is_product(a) && is_row(b)) || (is_row(a) && is_product(b)));
  }

 public:
  static constexpr Epilogue epilogue = [] {
    if constexpr (!Grp::reduces && Grp::product >= 0) {
      if (G::plan.kept[Grp::product] || !(G::flat.label[Grp::product].op == Tag("matmul"))) return Epilogue::none;
      if (Grp::members == 1 && is(0, "relu")) return Epilogue::relu;
      if (Grp::members == 1 && adds_row()) return Epilogue::bias;
      if (Grp::members == 2 && adds_row() && !Grp::kept(0) && is(1, "relu")) return Epilogue::relu_bias;
    }
    return Epilogue::none;
  }();
  /// The leaf that is added to all rows, or -1.
  static constexpr int bias = [] {
    for (int a = 0; a < 2 && epilogue != Epilogue::none && epilogue != Epilogue::relu; ++a) {
      if (is_row(Grp::tables.operand[0][a])) return -1 - Grp::tables.operand[0][a];
    }
    return -1;
  }();
};

}  // namespace simplx
