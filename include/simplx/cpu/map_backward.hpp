// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/map_backward.hpp
/// The backward loop of a group is reverse mode in miniature: it evaluates again what the pull-backs read, then sweeps
/// the members of the group from the root to the leaves.

#include <simplx/cpu/map.hpp>

#include <utility>

namespace simplx::inline SIMPLX_TARGET::cpu {

template <class G, int root, class S>
struct MapBackward {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  static constexpr Index cols = Grp::shape.cols;
  static constexpr bool reads_value = G::plan.kept[root] && !Grp::reduces;

  /// Sums over all elements, or over the current row: of vectors, of the elements that are left, and of both before.
  struct Sums {
    Vec<S> vectors[Grp::leaves + 1]{};
    S singles[Grp::leaves + 1]{};
    std::conditional_t<std::is_same_v<S, float>, double, S> totals[Grp::leaves + 1]{};

    template <int l, class V>
    void add(Register<V> term) {
      if constexpr (std::is_same_v<Register<V>, Vec<S>>) {
        vectors[l] += counted<V>(term);
      } else {
        singles[l] += term;
      }
    }
    void fold(int l) {
      totals[l] += sum(vectors[l]) + singles[l];
      vectors[l] = Vec<S>{};
      singles[l] = S(0);
    }
    S take(int l) {
      fold(l);
      return static_cast<S>(std::exchange(totals[l], 0));
    }
  };

  const Operands<G, root, S> operands;
  const S* value = nullptr;  ///< of the group, where a pull-back reads it
  const S* out_gradient;
  S scale = S(1);  ///< of a mean
  S* gradient[Grp::leaves + 1]{};
  Sums sums;

  explicit MapBackward(const Context<S>& context)
      : operands(context, product_value(context)), out_gradient(Address<G>::template gradient<root>(context)) {
    if constexpr (reads_value) value = Address<G>::template value<root>(context);
    if constexpr (Grp::reduces) {
      const Index rows = context.rows_of(Grp::shape);
      scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
    }
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l)) {
        gradient[l] = Address<G>::template gradient<Grp::leaf(l), G::plan.leaf_use[Grp::slot(l)]>(context);
      }
    });
  }

  __attribute__((noinline, flatten)) static void run(const Context<S>& context) {
    detail::stores();
    MapBackward self(context);
    const Index rows = context.rows_of(Grp::shape);
    constexpr Index step = Grp::flat() ? std::max<Index>(1, added_at_once * lanes<S> / cols) : added_at_once;
    for (Index begin = 0; begin < rows; begin += step) {
      const Index end = std::min(rows, begin + step);
      if constexpr (Grp::flat()) {
        each_element<S, cols, true>(end - begin, [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
          Register<V> down[Grp::leaves + 1]{};  // unused: there are no rows
          self.template at<V>(begin + row, col, down);
        });
      } else if constexpr (down_columns()) {
        each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
          Register<V> down[Grp::leaves + 1]{};
          for (Index row = begin; row < end; ++row) self.template at<V>(row, col, down);
          self.template add_down<V>(down, col);
        });
      } else {
        for (Index row = begin; row < end; ++row) {
          each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
            Register<V> down[Grp::leaves + 1]{};
            self.template at<V>(row, col, down);
            self.template add_down<V>(down, col);
          });
          self.template finish<Spread::column>(row);
        }
      }
      if constexpr (writes(Spread::one)) self.template fold<Spread::one>();
    }
    self.template finish<Spread::one>(0);
  }

 private:
  static constexpr bool writes(Spread spread) {
    for (int l = 0; l < Grp::leaves; ++l) {
      if (Grp::writes(l) && Grp::spread(l) == spread) return true;
    }
    return false;
  }
  /// Columns of a few vectors are run down one after the other, so that the gradients of rows stay in registers.
  static constexpr bool down_columns() {
    return cols <= 4 * lanes<S> && writes(Spread::row) && !writes(Spread::column);
  }
  static const S* product_value(const Context<S>& context) {
    if constexpr (Grp::product >= 0) {
      if constexpr (G::plan.kept[Grp::product]) return Address<G>::template value<Grp::product>(context);
    }
    return nullptr;
  }

  template <class V>
  __attribute__((always_inline)) void at(Index row, Index col, Register<V>* down) {
    detail::Sweep<G, root, Register<V>> sweep;
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      constexpr bool read = G::plan.leaf_read[Grp::slot(l)];
      if constexpr (read) sweep.at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      constexpr bool again = m != sweep.last && G::plan.recomputed[Grp::member(m)];
      if constexpr (Grp::kept(m)) {
        sweep.at.member[m] = load<V>(operands.kept[m] + row * cols + col);
      } else if constexpr (again) {
        sweep.at.template evaluate<m>();
      }
    });
    if constexpr (reads_value) sweep.at.member[sweep.last] = load<V>(value + row * cols + col);
    sweep.adjoint[sweep.last] = incoming<V>(row, col);
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      sweep.template pull<Grp::members - 1 - m>();
    });
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      write<l, V>(sweep.leaf_adjoint[l], row, col, down);
    });
  }

  template <class V>
  __attribute__((always_inline)) Register<V> incoming(Index row, Index col) const {
    constexpr Spread target = Grp::target();
    if constexpr (target == Spread::one) {
      return splat<V>(scale * *out_gradient);
    } else if constexpr (target == Spread::column) {
      return splat<V>(scale * out_gradient[row]);
    } else if constexpr (target == Spread::row) {
      return splat<V>(scale) * load<V>(out_gradient + col);
    } else {
      return load<V>(out_gradient + row * cols + col);
    }
  }

  template <int l, class V>
  __attribute__((always_inline)) void write(Register<V> adjoint, Index row, Index col, Register<V>* down) {
    if constexpr (!Grp::writes(l)) {
      return;
    } else if constexpr (Grp::spread(l) == Spread::one || Grp::spread(l) == Spread::column) {
      sums.template add<l, V>(adjoint);
    } else if constexpr (Grp::spread(l) == Spread::row) {
      down[l] += adjoint;
    } else {
      S* place = gradient[l] + row * cols + col;
      if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::accumulate) adjoint += load<V>(place);
      store<V>(place, adjoint);
    }
  }
  /// Adds sums down the rows to the gradients of leaves that are rows, which never store: they are cleared before.
  template <class V>
  __attribute__((always_inline)) void add_down(const Register<V>* down, Index col) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == Spread::row) {
        store<V>(gradient[l] + col, load<V>(gradient[l] + col) + down[l]);
      }
    });
  }
  template <Spread kind>
  void fold() {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == kind) sums.fold(l);
    });
  }
  template <Spread kind>
  void finish(Index row) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l) && Grp::spread(l) == kind) {
        if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::store) {
          gradient[l][row] = sums.take(l);
        } else {
          gradient[l][row] += sums.take(l);
        }
      }
    });
  }
};

}  // namespace simplx::cpu
