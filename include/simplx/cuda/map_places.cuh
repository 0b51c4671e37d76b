// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/map_places.cuh
/// A fused group of elementwise ops at one place of its rows: what is loaded, evaluated, swept in reverse and stored.
///
/// Group, GroupValues and Sweep (cpu/group.hpp) serve here too, over up to four Numbers of a row that one request
/// moves, instead of vectors.

#include <simplx/cpu/group.hpp>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/number.cuh>

#include <numeric>

namespace simplx::inline SIMPLX_TARGET::gpu {
SIMPLX_HD_BEGIN

/// Neighbours of a row that a thread has at a time.
template <Index cols>
inline constexpr int map_together = std::gcd(static_cast<int>(cols), 4);

/// Where a group reads, writes and sums, on the device; by value to its kernels. Where the backend rounds, values and
/// gradients are stored as bfloat16 as bfloat16_values and bfloat16_gradients say.
template <class G, int root, class S, bool rounds>
struct MapPlaces {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  static constexpr Index cols = Grp::shape.cols;
  static constexpr int together = map_together<cols>;
  using V = Numbers<S, together>;
  SIMPLX_HD static constexpr bool rounds_value(int node) {
    if constexpr (rounds) return bfloat16_values<G>[static_cast<std::size_t>(node)];
    return false;
  }
  SIMPLX_HD static constexpr bool rounds_gradient(int node) {
    if constexpr (rounds) return bfloat16_gradients<G>[static_cast<std::size_t>(node)];
    return false;
  }
  /// What a leaf is stored as; a product that is not kept lies where the group's value will.
  SIMPLX_HD static constexpr bool rounds_leaf(int l) {
    const int node = Grp::leaf(l);
    return rounds_value(node == Grp::product && !G::plan.kept[node] ? root : node);
  }

  /// Numbers from element `at` of a place on.
  template <bool rounded>
  __device__ static V load(const S* place, Index at) {
    return load_numbers<together>(stored<rounded>(place) + at);
  }
  template <bool rounded>
  __device__ static void store(S* place, Index at, const V& numbers) {
    store_numbers(stored<rounded>(place) + at, numbers);
  }

  const S* leaf[Grp::leaves + 1]{};
  S* kept[Grp::members]{};
  S* gradient[Grp::leaves + 1]{};  ///< null where none is wanted
  S* value = nullptr;              ///< of the group
  const S* out_gradient = nullptr;
  S* parts = nullptr;              ///< sums of each block
  S scale = S(1);                  ///< of a mean
  Index rows = 0;

  /// `product` stands in for the value of the product that the group finishes.
  MapPlaces(const Context<S>& context, const S* product)
      : value(const_cast<S*>(Address<G>::template value<root>(context))), parts(context.scratch),
        rows(context.rows_of(Grp::shape)) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      constexpr int node = Grp::leaf(l);
      if constexpr (node == Grp::product) {
        leaf[l] = product;
      } else if constexpr (G::table.info[node].kind != Kind::number) {
        leaf[l] = Address<G>::template value<node>(context);
      }
      if constexpr (Grp::writes(l)) gradient[l] = Address<G>::template gradient<node>(context);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      if constexpr (Grp::kept(m)) kept[m] = const_cast<S*>(Address<G>::template value<Grp::member(m)>(context));
    });
    if constexpr (Grp::reduces) {
      scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
    }
    if constexpr (G::fusion.wanted[root]) out_gradient = Address<G>::template gradient<root>(context);
  }

  template <int l>
  __device__ V load_leaf(Index row, Index col) const {
    constexpr Spread spread = Grp::spread(l);
    if constexpr (G::table.info[Grp::leaf(l)].kind == Kind::number) {
      constexpr double number = G::flat.label[Grp::leaf(l)].attributes.reals[0];
      return V(number);
    } else if constexpr (spread == Spread::one) {
      return V(*leaf[l]);
    } else if constexpr (spread == Spread::row) {
      return load<false>(leaf[l], col);
    } else if constexpr (spread == Spread::column) {
      return V(leaf[l][row]);
    } else {
      return load<rounds_leaf(l)>(leaf[l], row * cols + col);
    }
  }

  /// The group's values from a place on; members that backward reads are stored in passing.
  __device__ V evaluate(Index row, Index col) const {
    detail::GroupValues<G, root, V> at;
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) { at.leaf[l] = load_leaf<l>(row, col); });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      at.template evaluate<m>();
      if constexpr (Grp::kept(m)) store<false>(kept[m], row * cols + col, at.member[m]);
    });
    return at.member[Grp::members - 1];
  }

  __device__ V incoming(Index row, Index col) const {
    constexpr Spread target = Grp::target();
    if constexpr (target == Spread::one) {
      return V(scale * *out_gradient);
    } else if constexpr (target == Spread::column) {
      return V(scale * out_gradient[row]);
    } else if constexpr (target == Spread::row) {
      return V(scale) * load<false>(out_gradient, col);
    } else {
      return load<rounds_gradient(root)>(out_gradient, row * cols + col);
    }
  }

  /// Sweeps the group at a place and calls take<l>(adjoints) for each leaf whose gradient is wanted.
  template <class Take>
  __device__ void sweep(Index row, Index col, const Take& take) const {
    detail::Sweep<G, root, V> sweep;
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      constexpr bool read = G::plan.leaf_read[Grp::slot(l)];
      if constexpr (read) sweep.at.leaf[l] = load_leaf<l>(row, col);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      constexpr bool again = m != sweep.last && G::plan.recomputed[Grp::member(m)];
      if constexpr (Grp::kept(m)) {
        sweep.at.member[m] = load<false>(kept[m], row * cols + col);
      } else if constexpr (again) {
        sweep.at.template evaluate<m>();
      }
    });
    constexpr bool reads_value = G::plan.kept[root] && !Grp::reduces;
    if constexpr (reads_value) {
      sweep.at.member[sweep.last] = load<rounds_value(root)>(value, row * cols + col);
    }
    sweep.adjoint[sweep.last] = incoming(row, col);
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      sweep.template pull<Grp::members - 1 - m>();
    });
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l> index) {
      if constexpr (Grp::writes(l)) take(index, sweep.leaf_adjoint[l]);
    });
  }

  template <int l>
  __device__ void write_full(Index row, Index col, V adjoints) const {
    constexpr bool narrow = rounds_gradient(Grp::leaf(l));
    constexpr bool adds = G::plan.leaf_write[Grp::slot(l)] == Write::accumulate;
    static_assert(!(adds && narrow), "a sum of gradients is never narrow");
    const Index at = row * cols + col;
    if constexpr (adds) adjoints += load<false>(gradient[l], at);
    store<narrow>(gradient[l], at, adjoints);
  }
};

SIMPLX_HD_END
}  // namespace simplx::gpu
