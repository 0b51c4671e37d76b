// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/between_products.cuh
/// An activation between two products, h = f(z) and h W2 of z = x W1 or x W1 + b, where f is ReLU or the tanh form of
/// GELU, with Precision::bfloat16:
///
///     z -> h           the product that makes z stores f(z), and for GELU's derivative z itself
///     dz = dh f'(z)    the product dh = dy W2^T stores dz where dh would lie
///     db = sum dz      the product dW1 = x^T dz adds up its right factor in passing
///
/// ReLU's derivative is known from h, and one kernel after the product zeroes dh by it in place, 6 bytes an element.
/// cuBLASLt could by a mask that the first product writes: it has a kernel of its own for that after the product, too,
/// which on an H100 takes 277 us where the 300 MB that ours moves take 100.

#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/finished_product.cuh>
#include <simplx/ops/matmul.hpp>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Of the activation whose value is node `root`, if it is one.
template <class Backend, class G, int root>
class BetweenProducts {
  static constexpr bool is_map = G::table.info[root].kind == Kind::map && G::fusion.group[root] == root;

  /// Whether it is h of an h W2. A gradient in bfloat16 is stored once: no other reader passes one back.
  static constexpr bool read_by_a_product() {
    for (int i = 0; i < G::count; ++i) {
      const Label& label = G::flat.label[i];
      if (label.op == Tag("matmul") && G::table.info[i].arguments[0] == root && G::fusion.wanted[i]) {
        return !op<"matmul">::transposed(label.attributes);
      }
    }
    return false;
  }
  static constexpr bool whole() {
    if constexpr (is_map && stores_bfloat16<Backend, G, root>) {
      using Finished = FinishedProduct<G, root>;
      if constexpr (Finished::whole && Finished::activation != Finished::Activation::none) {
        constexpr int made = detail::Group<G, root>::product;
        constexpr bool relu = Finished::activation == Finished::Activation::relu;
        const Info& z = G::table.info[made];
        if (relu ? !G::plan.kept[root] : !G::plan.kept[made] || z.observed || z.result) return false;
        return read_by_a_product() && stores_bfloat16_gradient<Backend, G, root> &&
               stores_bfloat16_gradient<Backend, G, made> && G::plan.shares[made] == G::plan.shares[root] &&
               adds(wanted_bias(), made);
      }
    }
    return false;
  }
  /// The node of a bias that has a gradient, or -1.
  static constexpr int wanted_bias() {
    constexpr int leaf = FinishedProduct<G, root>::bias;
    if constexpr (leaf >= 0) {
      if (detail::Group<G, root>::wanted(leaf)) return detail::Group<G, root>::leaf(leaf);
    }
    return -1;
  }
  /// Whether the product dW1 can add up the gradient of that bias, if there is one.
  static constexpr bool adds(int node, int made) {
    return node < 0 || (G::table.info[node].kind == Kind::parameter &&
                        !op<"matmul">::transposed(G::flat.label[made].attributes) &&
                        G::fusion.wanted[G::table.info[made].arguments[1]]);
  }

 public:
  /// Whether the products do all of it.
  static constexpr bool taken = whole();
  /// The parameter whose gradient dW1's product adds up, or -1.
  static constexpr int bias = [] {
    if constexpr (taken) return wanted_bias();
    return -1;
  }();
  /// Where backward reads GELU's z, or -1.
  static constexpr int z = [] {
    if constexpr (taken) {
      using Finished = FinishedProduct<G, root>;
      if (Finished::activation == Finished::Activation::gelu) return detail::Group<G, root>::product;
    }
    return -1;
  }();
  /// What the product that makes z, and the one that gives dz, end in.
  template <class S>
  static auto making(const Context<S>& context) {
    using Finished = FinishedProduct<G, root>;
    constexpr bool relu = Finished::activation == Finished::Activation::relu, biased = Finished::bias >= 0;
    return epilogue(context, relu ? biased ? Epilogue::relu_bias : Epilogue::relu
                                  : biased ? Epilogue::gelu_aux_bias : Epilogue::gelu_aux);
  }
  template <class S>
  static auto pulling_back(const Context<S>& context) {
    using Finished = FinishedProduct<G, root>;
    return epilogue(context, Finished::activation == Finished::Activation::relu ? Epilogue::drelu : Epilogue::dgelu);
  }

 private:
  template <class S>
  static auto epilogue(const Context<S>& context, Epilogue function) {
    using Finished = FinishedProduct<G, root>;
    constexpr Index cols = G::table.info[root].shape.cols;
    const auto place = [&]<int node>(std::integral_constant<int, node>) {
      return stored<true>(const_cast<S*>(Address<G>::template value<node>(context)));
    };
    ProductEpilogue<__nv_bfloat16> result{.function = function};
    if constexpr (Finished::activation == Finished::Activation::relu) {
      result.relu = place(std::integral_constant<int, root>{});
    } else {
      result.aux = place(std::integral_constant<int, detail::Group<G, root>::product>{}), result.ld_aux = cols;
    }
    return result;
  }
};

}  // namespace simplx::gpu
