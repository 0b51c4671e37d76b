// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/map.hpp
/// Fused elementwise groups: one loop forward, one loop backward, every intermediate value in a register.
///
/// The backward loop is reverse mode in miniature: it evaluates again what the pull-backs read, then sweeps
/// the members of the group from the root to the leaves. All tables are constants of the graph.

#include <simplx/core/execute.hpp>
#include <simplx/cpu/simd.hpp>

namespace simplx {

template <class G, int root>
struct Group {
  static constexpr int members = G::fusion.member_end[root] - G::fusion.member_begin[root];
  static constexpr int leaves = G::fusion.leaf_end[root] - G::fusion.leaf_begin[root];
  static constexpr Shape shape = G::table.info[root].shape;
  static constexpr int product = G::fusion.epilogue_of[root];

  static constexpr int member(int m) { return G::fusion.members[G::fusion.member_begin[root] + m]; }
  static constexpr int leaf(int l) { return G::fusion.leaves[G::fusion.leaf_begin[root] + l]; }
  static constexpr int slot(int l) { return G::fusion.leaf_begin[root] + l; }

  /// Operand `a` of member `m`: a member's position (>= 0), or a leaf's position l as -1 - l.
  static constexpr int operand(int m, int a) {
    const int node = G::table.info[member(m)].arguments[a];
    for (int i = 0; i < members; ++i) {
      if (member(i) == node) return i;
    }
    for (int l = 0; l < leaves; ++l) {
      if (leaf(l) == node) return -1 - l;
    }
    return 0;
  }

  /// How a leaf is spread over the group's shape.
  enum class Spread : signed char { full, row, column, one };
  static constexpr Spread spread(int l) {
    const Shape s = G::table.info[leaf(l)].shape;
    if (s == shape) return Spread::full;
    if (s.is_fixed() && s.rows * s.cols == 1) return Spread::one;
    return s.is_fixed() && s.rows == 1 ? Spread::row : Spread::column;
  }
  static constexpr bool wanted(int l) { return G::fusion.wanted[leaf(l)]; }
  /// The pull-back of member m to its argument a is of use.
  static constexpr bool pulls(int m, int a) {
    return G::fusion.wanted[G::table.info[member(m)].arguments[a]];
  }
  static constexpr bool writes(int l) { return wanted(l) && G::plan.leaf_write[slot(l)] != Write::skip; }
  /// Rows and columns need not be told apart.
  static constexpr bool flat() {
    for (int l = 0; l < leaves; ++l) {
      if (spread(l) == Spread::row || spread(l) == Spread::column) return false;
    }
    return true;
  }
  /// Whether this contribution is the first to the adjoint of its operand, in the order of the sweep.
  static constexpr bool first_contribution(int m, int a) {
    const int target = operand(m, a);
    for (int later = members - 1; later >= m; --later) {
      const int count = later == m ? a : G::table.info[member(later)].argument_count;
      for (int b = 0; b < count; ++b) {
        if (operand(later, b) == target && pulls(later, b)) return false;
      }
    }
    return true;
  }
};

/// Where the leaves of a group are; single numbers are loaded once.
template <class G, int root, class S>
struct Operands {
  using Grp = Group<G, root>;
  const S* pointer[Grp::leaves + 1]{};
  S one[Grp::leaves + 1]{};

  /// `product` stands in for the value of the product that the group finishes.
  explicit Operands(const Context<S>& context, const S* product = nullptr) {
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      constexpr int node = Grp::leaf(l);
      if constexpr (G::table.info[node].kind == Kind::number) {
        one[l] = static_cast<S>(G::flat.label[node].attributes.reals[0]);
      } else if constexpr (node == Grp::product) {
        pointer[l] = product;
      } else {
        pointer[l] = Address<G>::template value<node>(context);
        if constexpr (Grp::spread(l) == Grp::Spread::one) one[l] = *pointer[l];
      }
    });
  }

  template <int l, class V>
  __attribute__((always_inline)) V load_leaf(Index row, Index col) const {
    constexpr auto spread = Grp::spread(l);
    if constexpr (spread == Grp::Spread::one) {
      return splat<V>(one[l]);
    } else if constexpr (spread == Grp::Spread::row) {
      return load<V>(pointer[l] + col);
    } else if constexpr (spread == Grp::Spread::column) {
      return splat<V>(pointer[l][row]);
    } else {
      return load<V>(pointer[l] + row * Grp::shape.cols + col);
    }
  }
};

/// The values of a group at one place. `Wants` says which leaves and members are evaluated.
template <class G, int root, class V>
struct GroupValues {
  using Grp = Group<G, root>;
  V leaf[Grp::leaves + 1];
  V member[Grp::members];

  template <int m, int a>
  __attribute__((always_inline)) V operand() const {
    constexpr int where = Grp::operand(m, a);
    if constexpr (where >= 0) {
      return member[where];
    } else {
      return leaf[-1 - where];
    }
  }
  template <int m>
  __attribute__((always_inline)) void evaluate() {
    constexpr int node = Grp::member(m);
    member[m] = [&]<int... a>(std::integer_sequence<int, a...>) {
      return op_of<G, node>::f(operand<m, a>()...);
    }(std::make_integer_sequence<int, G::table.info[node].argument_count>{});
  }
};

/// The group's result at [row, col ...]; `product` is the accumulator of the product it finishes.
template <class G, int root, class V, class S>
__attribute__((always_inline)) inline V map_value(const Operands<G, root, S>& operands, Index row, Index col,
                                                  V product) {
  using Grp = Group<G, root>;
  GroupValues<G, root, V> at;
  detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
    if constexpr (Grp::leaf(l) == Grp::product) {
      at.leaf[l] = product;
    } else {
      at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    }
  });
  detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) { at.template evaluate<m>(); });
  return at.member[Grp::members - 1];
}

/// Calls f<V>(row, col) over a whole shape, vectors first and single elements at the end of each row.
template <class S, Index cols, bool flat, class F>
__attribute__((always_inline)) inline void each_element(Index rows, F&& f) {
  using V = Vec<S>;
  if constexpr (flat) {
    const Index size = rows * cols;
    Index i = 0;
    for (; i + lanes<S> <= size; i += lanes<S>) f.template operator()<V>(0, i);
    for (; i < size; ++i) f.template operator()<S>(0, i);
  } else {
    for (Index row = 0; row < rows; ++row) {
      constexpr Index whole = cols / lanes<S> * lanes<S>;
      for (Index col = 0; col < whole; col += lanes<S>) f.template operator()<V>(row, col);
      for (Index col = whole; col < cols; ++col) f.template operator()<S>(row, col);
    }
  }
}

template <class G, int root, class S>
__attribute__((noinline)) void map_forward_loop(const Context<S>& context, const S* product, S* out) {
  using Grp = Group<G, root>;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context, product);
  each_element<S, cols, Grp::flat()>(context.rows_of(Grp::shape), [&]<class V>(Index row, Index col)
                                                                      __attribute__((always_inline)) {
    V accumulator{};
    if constexpr (Grp::product >= 0) accumulator = load<V>(product + row * cols + col);
    store(out + row * cols + col, map_value<G, root, V>(operands, row, col, accumulator));
  });
}

template <class G, int root, class S>
struct MapBackward {
  using Grp = Group<G, root>;
  static constexpr Index cols = Grp::shape.cols;
  /// Sums over all elements, or over the current row, one for vectors and one for single elements.
  struct Sums {
    Vec<S> vector[Grp::leaves + 1]{};
    S single[Grp::leaves + 1]{};

    template <int l, class V>
    __attribute__((always_inline)) void add(V value) {
      if constexpr (std::is_same_v<V, S>) {
        single[l] += value;
      } else {
        vector[l] += value;
      }
    }
    S take(int l) {
      const S total = sum(vector[l]) + single[l];
      vector[l] = Vec<S>{};
      single[l] = 0;
      return total;
    }
  };

  template <class V>
  __attribute__((always_inline)) static void pull(const Context<S>& context, const Operands<G, root, S>& operands,
                                                  const S* out_gradient, S* const* gradient, Sums& sums, Index row,
                                                  Index col) {
    GroupValues<G, root, V> at;
    V adjoint[Grp::members], leaf_adjoint[Grp::leaves + 1];
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      if constexpr (G::plan.leaf_read[Grp::slot(l)]) at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      if constexpr (m == Grp::members - 1) {
        if constexpr (G::plan.kept[root]) {
          at.member[m] = load<V>(Address<G>::template value<root>(context) + row * cols + col);
        }
      } else if constexpr (G::plan.recomputed[Grp::member(m)]) {
        at.template evaluate<m>();
      }
    });
    adjoint[Grp::members - 1] = load<V>(out_gradient + row * cols + col);
    detail::unroll<0, Grp::members>([&]<int back>(std::integral_constant<int, back>) __attribute__((always_inline)) {
      constexpr int m = Grp::members - 1 - back, node = Grp::member(m);
      constexpr Info info = G::table.info[node];
      detail::unroll<0, info.argument_count>([&]<int a>(std::integral_constant<int, a>) __attribute__((always_inline)) {
        if constexpr (Grp::pulls(m, a)) {
          const V part = [&]<int... b>(std::integer_sequence<int, b...>) __attribute__((always_inline)) {
            return op_of<G, node>::template d<a>(adjoint[m], read<m, (info.reads_output >> a & 1) != 0>(at),
                                                 read_operand<m, b, (info.reads[a] >> b & 1) != 0>(at)...);
          }(std::make_integer_sequence<int, info.argument_count>{});
          constexpr int target = Grp::operand(m, a);
          V& sum_so_far = target >= 0 ? adjoint[target >= 0 ? target : 0] : leaf_adjoint[target < 0 ? -1 - target : 0];
          if constexpr (Grp::first_contribution(m, a)) {
            sum_so_far = part;
          } else {
            sum_so_far += part;
          }
        }
      });
    });
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      if constexpr (Grp::writes(l)) {
        constexpr auto spread = Grp::spread(l);
        if constexpr (spread == Grp::Spread::one || spread == Grp::Spread::column) {
          sums.template add<l>(leaf_adjoint[l]);
        } else {
          S* place = gradient[l] + (spread == Grp::Spread::row ? col : row * cols + col);
          if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::store) {
            store(place, leaf_adjoint[l]);
          } else {
            store(place, load<V>(place) + leaf_adjoint[l]);
          }
        }
      }
    });
  }

  __attribute__((noinline)) static void run(const Context<S>& context) {
    const S* product = nullptr;
    if constexpr (Grp::product >= 0) {
      if constexpr (G::plan.kept[Grp::product]) product = Address<G>::template value<Grp::product>(context);
    }
    const Operands<G, root, S> operands(context, product);
    const S* out_gradient = Address<G>::template gradient<root>(context);
    S* gradient[Grp::leaves + 1]{};
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      if constexpr (Grp::writes(l)) gradient[l] = Address<G>::template gradient<Grp::leaf(l)>(context);
    });
    Sums sums;
    const Index rows = context.rows_of(Grp::shape);
    const auto at = [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
      pull<V>(context, operands, out_gradient, gradient, sums, row, col);
    };
    if constexpr (Grp::flat()) {
      each_element<S, cols, true>(rows, at);
    } else {
      for (Index row = 0; row < rows; ++row) {
        each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
          at.template operator()<V>(row, col);
        });
        finish<Grp::Spread::column>(sums, gradient, row);
      }
    }
    finish<Grp::Spread::one>(sums, gradient, 0);
  }

 private:
  template <int m, bool needed, class V>
  __attribute__((always_inline)) static V read(const GroupValues<G, root, V>& at) {
    if constexpr (needed) {
      return at.member[m];
    } else {
      return V{};
    }
  }
  template <int m, int b, bool needed, class V>
  __attribute__((always_inline)) static V read_operand(const GroupValues<G, root, V>& at) {
    if constexpr (needed) {
      return at.template operand<m, b>();
    } else {
      return V{};
    }
  }
  template <typename Grp::Spread kind>
  __attribute__((always_inline)) static void finish(Sums& sums, S* const* gradient, Index row) {
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

}  // namespace simplx
