// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/finished_product.cuh
/// Which elementwise groups cuBLASLt finishes in the kernel of their product: x W + b, x W + r for a residual stream r,
/// both, and ReLU or the tanh form of GELU of x W and x W + b.

#include <simplx/cpu/group.hpp>
#include <simplx/cuda/products.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <class G, int root>
struct FinishedProduct {
  using Grp = detail::Group<G, root>;
  enum class Activation : signed char { none, relu, gelu };

 private:
  struct Found {
    bool whole = false;
    Activation activation = Activation::none;
    int bias = -1, residual = -1;
  };
  /// Follows the product through the group's members: each takes what the one before gives, and no one else needs that.
  static constexpr Found find() {
    Found found;
    for (int m = 0; m < Grp::members; ++m) {
      const Tag op = G::flat.label[Grp::member(m)].op;
      const auto& [a, b, unused] = Grp::tables.operand[m];
      const auto is_last_value = [&](int operand) {
        return m == 0 ? operand < 0 && Grp::leaf(-1 - operand) == Grp::product : operand == m - 1;
      };
      if (m + 1 < Grp::members && Grp::kept(m)) return {};
      if (op == Tag("output") && is_last_value(a)) continue;  // the place of a result
      if (found.activation != Activation::none) return {};
      if (op == Tag("relu") && is_last_value(a)) {
        found.activation = Activation::relu;
      } else if (op == Tag("gelu_tanh") && is_last_value(a)) {
        found.activation = Activation::gelu;
      } else if (op == Tag("add") && is_last_value(a) != is_last_value(b)) {
        const int added = is_last_value(a) ? b : a;
        if (added >= 0) return {};
        const bool row = Grp::spread(-1 - added) == Grp::Spread::row;
        int& place = row ? found.bias : found.residual;
        if (place >= 0 || (!row && Grp::spread(-1 - added) != Grp::Spread::full)) return {};
        place = -1 - added;
      } else {
        return {};
      }
    }
    // What GELU's pull-back reads is kept: z, which BetweenProducts leaves to cuBLASLt.
    const bool kept = G::plan.kept[Grp::product] && found.activation != Activation::gelu;
    found.whole = !kept && !(found.activation != Activation::none && found.residual >= 0);
    return found;
  }
  static constexpr Found found = [] {
    if constexpr (!Grp::reduces && Grp::product >= 0) {
      if (G::flat.label[Grp::product].op == Tag("matmul")) return find();
    }
    return Found{};
  }();

 public:
  static constexpr bool whole = found.whole;  ///< nothing of the group is left to do
  /// The leaves that are added, one to all rows and one of the product's shape, or -1.
  static constexpr int bias = found.bias, residual = found.residual;
  static constexpr Activation activation = found.activation;
  static constexpr Epilogue epilogue =
      activation == Activation::relu   ? bias >= 0 ? Epilogue::relu_bias : Epilogue::relu
      : activation == Activation::gelu ? bias >= 0 ? Epilogue::gelu_bias : Epilogue::gelu
      : bias >= 0                      ? Epilogue::bias
                                       : Epilogue::none;
};

}  // namespace simplx::gpu
