// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/map.hpp
/// Fused elementwise groups: one loop forward, one loop backward, every intermediate value in a register. The
/// result of a group is stored, or summed where a reduction is its root.
///
/// The backward loop is reverse mode in miniature: it evaluates again what the pull-backs read, then sweeps
/// the members of the group from the root to the leaves. All tables are constants of the graph.

#include <simplx/core/execute.hpp>
#include <simplx/cpu/simd.hpp>

#include <algorithm>

namespace simplx {

template <class G, int root>
struct Group {
  static constexpr int members = G::fusion.member_end[root] - G::fusion.member_begin[root];
  static constexpr int leaves = G::fusion.leaf_end[root] - G::fusion.leaf_begin[root];
  static constexpr Shape shape = loop_shape(G::table.info, root);
  static constexpr bool reduces = G::table.info[root].kind == Kind::reduction;
  static constexpr int product = G::fusion.epilogue_of[root];

  static constexpr int member(int m) { return G::fusion.members[G::fusion.member_begin[root] + m]; }
  static constexpr int leaf(int l) { return G::fusion.leaves[G::fusion.leaf_begin[root] + l]; }
  static constexpr int arguments(int m) { return G::table.info[member(m)].argument_count; }
  static constexpr int slot(int l) { return G::fusion.leaf_begin[root] + l; }

  struct Tables {
    int operand[members + 1][3]{};  ///< a member's position (>= 0), or a leaf's position l as -1 - l
    bool first[members + 1][3]{};   ///< the first contribution to that operand's adjoint, in the order of the sweep
  };
  static constexpr Tables tables = [] {
    Tables t;
    bool begun_member[members + 1]{}, begun_leaf[leaves + 1]{};
    for (int m = members - 1; m >= 0; --m) {
      const Info& info = G::table.info[member(m)];
      for (int a = 0; a < info.argument_count; ++a) {
        const int node = info.arguments[a];
        int position = 0;
        if (G::fusion.group[node] == root) {
          while (member(position) != node) ++position;
          t.operand[m][a] = position;
        } else {
          while (leaf(position) != node) ++position;
          t.operand[m][a] = -1 - position;
        }
        bool& begun = t.operand[m][a] >= 0 ? begun_member[position] : begun_leaf[position];
        t.first[m][a] = !begun;
        begun |= G::fusion.wanted[node];
      }
    }
    return t;
  }();

  /// How a leaf is spread over the group's shape.
  enum class Spread : signed char { full, row, column, one };
  static constexpr Spread spread(int l) {
    const Shape s = G::table.info[leaf(l)].shape;
    if (G::table.info[leaf(l)].kind == Kind::number) return Spread::one;  // a literal is nowhere in memory
    if (s == shape) return Spread::full;
    if (s.is_fixed() && s.rows * s.cols == 1) return Spread::one;
    return s.is_fixed() && s.rows == 1 ? Spread::row : Spread::column;
  }
  static constexpr bool wanted(int l) { return G::fusion.wanted[leaf(l)]; }
  /// The pull-back of member m to its argument a is of use.
  static constexpr bool pulls(int m, int a) {
    return a < arguments(m) && G::fusion.wanted[G::table.info[member(m)].arguments[a]];
  }
  static constexpr bool writes(int l) { return wanted(l) && G::plan.leaf_write[slot(l)] != Write::skip; }
  /// Where the elements of a reduction go, and where their gradient comes from.
  static constexpr Spread target() {
    if constexpr (!reduces) {
      return Spread::full;
    } else {
      switch (static_cast<Over>(G::flat.label[root].attributes.integers[0])) {
        case Over::rows: return Spread::row;
        case Over::columns: return Spread::column;
        default: return Spread::one;
      }
    }
  }
  /// Rows and columns need not be told apart.
  static constexpr bool flat() {
    if (target() == Spread::row || target() == Spread::column) return false;
    for (int l = 0; l < leaves; ++l) {
      if (spread(l) == Spread::row || spread(l) == Spread::column) return false;
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
    constexpr int where = Grp::tables.operand[m][a];
    if constexpr (where >= 0) {
      return member[where];
    } else {
      return leaf[-1 - where];
    }
  }
  template <int m>
  __attribute__((always_inline)) void evaluate() {
    using Op = op_of<G, Grp::member(m)>;
    if constexpr (Grp::arguments(m) == 1) {
      member[m] = Op::f(operand<m, 0>());
    } else if constexpr (Grp::arguments(m) == 2) {
      member[m] = Op::f(operand<m, 0>(), operand<m, 1>());
    } else {
      member[m] = Op::f(operand<m, 0>(), operand<m, 1>(), operand<m, 2>());
    }
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

/// Calls f<V>(row, col) over a whole shape, vectors first and single elements at the end of each row, if any.
template <class S, Index cols, bool flat, class F>
__attribute__((always_inline)) inline void each_element(Index rows, F&& f) {
  constexpr Index whole = cols / lanes<S> * lanes<S>;
  if constexpr (flat) {
    const Index size = rows * cols;
    Index i = 0;
    for (; i + lanes<S> <= size; i += lanes<S>) f.template operator()<Vec<S>>(0, i);
    if constexpr (whole < cols) {
      for (; i < size; ++i) f.template operator()<S>(0, i);
    }
  } else {
    for (Index row = 0; row < rows; ++row) {
      for (Index col = 0; col < whole; col += lanes<S>) f.template operator()<Vec<S>>(row, col);
      if constexpr (whole < cols) {
        for (Index col = whole; col < cols; ++col) f.template operator()<S>(row, col);
      }
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

/// A sum in four chains of vectors, which need not wait for each other.
template <class S>
struct RunningSum {
  Vec<S> chain[4]{};
  S single = S(0);

  /// Adds value<V>(col) for all columns.
  template <class F>
  __attribute__((always_inline)) void add(Index cols, const F& value) {
    constexpr Index step = lanes<S>;
    Index col = 0;
    for (; col + 4 * step <= cols; col += 4 * step) {
      detail::unroll<0, 4>([&]<int k>(std::integral_constant<int, k>) __attribute__((always_inline)) {
        chain[k] += value.template operator()<Vec<S>>(col + k * step);
      });
    }
    for (; col + step <= cols; col += step) chain[0] += value.template operator()<Vec<S>>(col);
    for (; col < cols; ++col) single += value.template operator()<S>(col);
  }
  S total() const { return sum((chain[0] + chain[1]) + (chain[2] + chain[3])) + single; }
};

/// Evaluates the group and sums it over rows, columns or both; a mean divides by their number.
template <class G, int root, class S>
__attribute__((noinline)) void reduce_forward_loop(const Context<S>& context, S* out) {
  using Grp = Group<G, root>;
  using Spread = typename Grp::Spread;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context);
  const Index rows = context.rows_of(Grp::shape);
  const S scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
  const auto row_of = [&](Index row) {
    return [&operands, row]<class V>(Index col) __attribute__((always_inline)) {
      return map_value<G, root, V>(operands, row, col, V{});
    };
  };
  if constexpr (Grp::target() == Spread::one) {
    RunningSum<S> sum;
    if constexpr (Grp::flat()) {
      sum.add(rows * cols, row_of(0));
    } else {
      for (Index row = 0; row < rows; ++row) sum.add(cols, row_of(row));
    }
    *out = scale * sum.total();
  } else if constexpr (Grp::target() == Spread::column) {
    for (Index row = 0; row < rows; ++row) {
      RunningSum<S> sum;
      sum.add(cols, row_of(row));
      out[row] = scale * sum.total();
    }
  } else {
    std::fill_n(out, cols, S(0));
    for (Index row = 0; row < rows; ++row) {
      each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
        const V value = map_value<G, root, V>(operands, row, col, V{});
        store(out + col, V(load<V>(out + col) + splat<V>(scale) * value));
      });
    }
  }
}

/// The reverse sweep over a group at one place: values as far as pull-backs read them, then adjoints.
template <class G, int root, class V>
struct Sweep {
  using Grp = Group<G, root>;
  static constexpr int last = Grp::members - 1;
  GroupValues<G, root, V> at;
  V adjoint[Grp::members];
  V leaf_adjoint[Grp::leaves + 1];

  template <int l, class S>
  __attribute__((always_inline)) void load_leaf(const Operands<G, root, S>& operands, Index row, Index col) {
    if constexpr (G::plan.leaf_read[Grp::slot(l)]) at.leaf[l] = operands.template load_leaf<l, V>(row, col);
  }
  template <int m>
  __attribute__((always_inline)) void recompute() {
    if constexpr (m != last && G::plan.recomputed[Grp::member(m)]) at.template evaluate<m>();
  }
  /// Adds what member m passes on to its operands.
  template <int m>
  __attribute__((always_inline)) void pull() {
    static_assert(Grp::arguments(m) <= 3, "simplx: an elementwise op has at most three operands");
    if constexpr (Grp::pulls(m, 0)) add<m, 0>(pull_back<m, 0>());
    if constexpr (Grp::pulls(m, 1)) add<m, 1>(pull_back<m, 1>());
    if constexpr (Grp::pulls(m, 2)) add<m, 2>(pull_back<m, 2>());
  }

 private:
  template <int m, int a>
  __attribute__((always_inline)) V pull_back() const {
    using Op = op_of<G, Grp::member(m)>;
    if constexpr (Grp::arguments(m) == 1) {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>());
    } else if constexpr (Grp::arguments(m) == 2) {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>(), operand<m, a, 1>());
    } else {
      return Op::template d<a>(adjoint[m], result<m, a>(), operand<m, a, 0>(), operand<m, a, 1>(),
                               operand<m, a, 2>());
    }
  }
  template <int m, int a>
  __attribute__((always_inline)) void add(V part) {
    constexpr int target = Grp::tables.operand[m][a];
    V& sum = target >= 0 ? adjoint[target >= 0 ? target : 0] : leaf_adjoint[target >= 0 ? 0 : -1 - target];
    if constexpr (Grp::tables.first[m][a]) {
      sum = part;
    } else {
      sum += part;
    }
  }
  /// The result of member m where the pull-back to operand a reads it, and its operand b.
  template <int m, int a>
  __attribute__((always_inline)) V result() const {
    if constexpr ((G::table.info[Grp::member(m)].reads_output >> a & 1) != 0) {
      return at.member[m];
    } else {
      return V{};
    }
  }
  template <int m, int a, int b>
  __attribute__((always_inline)) V operand() const {
    if constexpr ((G::table.info[Grp::member(m)].reads[a] >> b & 1) != 0) {
      return at.template operand<m, b>();
    } else {
      return V{};
    }
  }
};

template <class G, int root, class S>
struct MapBackward {
  using Grp = Group<G, root>;
  using Spread = typename Grp::Spread;
  static constexpr Index cols = Grp::shape.cols;
  static constexpr bool reads_value = G::plan.kept[root] && !Grp::reduces;

  /// Sums over all elements, or over the current row: of vectors, and of the elements that are left.
  struct Sums {
    Vec<S> vectors[Grp::leaves + 1]{};
    S singles[Grp::leaves + 1]{};

    template <int l, class V>
    void add(V value) {
      if constexpr (std::is_same_v<V, Vec<S>>) {
        vectors[l] += value;
      } else {
        singles[l] += value;
      }
    }
    S take(int l) {
      const S total = sum(vectors[l]) + singles[l];
      vectors[l] = Vec<S>{};
      singles[l] = S(0);
      return total;
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
      if constexpr (Grp::writes(l)) gradient[l] = Address<G>::template gradient<Grp::leaf(l)>(context);
    });
  }

  __attribute__((noinline)) static void run(const Context<S>& context) {
    MapBackward self(context);
    const Index rows = context.rows_of(Grp::shape);
    if constexpr (Grp::flat()) {
      each_element<S, cols, true>(rows, [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
        self.template at<V>(row, col);
      });
    } else {
      for (Index row = 0; row < rows; ++row) {
        each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
          self.template at<V>(row, col);
        });
        self.template finish<Spread::column>(row);
      }
    }
    self.template finish<Spread::one>(0);
  }

 private:
  static const S* product_value(const Context<S>& context) {
    if constexpr (Grp::product >= 0) {
      if constexpr (G::plan.kept[Grp::product]) return Address<G>::template value<Grp::product>(context);
    }
    return nullptr;
  }

  template <class V>
  __attribute__((always_inline)) void at(Index row, Index col) {
    Sweep<G, root, V> sweep;
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      sweep.template load_leaf<l>(operands, row, col);
    });
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      sweep.template recompute<m>();
    });
    if constexpr (reads_value) sweep.at.member[sweep.last] = load<V>(value + row * cols + col);
    sweep.adjoint[sweep.last] = incoming<V>(row, col);
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) __attribute__((always_inline)) {
      sweep.template pull<Grp::members - 1 - m>();
    });
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) __attribute__((always_inline)) {
      write<l>(sweep.leaf_adjoint[l], row, col);
    });
  }

  template <class V>
  __attribute__((always_inline)) V incoming(Index row, Index col) const {
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
  __attribute__((always_inline)) void write(V adjoint, Index row, Index col) {
    if constexpr (!Grp::writes(l)) {
      return;
    } else if constexpr (Grp::spread(l) == Spread::one || Grp::spread(l) == Spread::column) {
      sums.template add<l>(adjoint);
    } else {
      S* place = gradient[l] + (Grp::spread(l) == Spread::row ? col : row * cols + col);
      if constexpr (G::plan.leaf_write[Grp::slot(l)] == Write::accumulate) adjoint += load<V>(place);
      store(place, adjoint);
    }
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

}  // namespace simplx
