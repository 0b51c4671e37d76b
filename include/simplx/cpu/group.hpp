// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/group.hpp
/// A fused elementwise group: its members and leaves as constants of the graph, and its value at one place, every
/// intermediate value in a register.

#include <simplx/core/execute.hpp>
#include <simplx/cpu/elements.hpp>
#include <simplx/cpu/simd.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Numbers that are added up one after the other before their sum is added to others': of more, float would round the
/// last ones away.
inline constexpr Index added_at_once = 4096;

SIMPLX_HD_BEGIN

template <class G, int root>
struct Group {
  static constexpr int members = G::fusion.member_end[root] - G::fusion.member_begin[root];
  static constexpr int leaves = G::fusion.leaf_end[root] - G::fusion.leaf_begin[root];
  static constexpr Shape shape = loop_shape(G::table.info, root);
  static constexpr bool reduces = G::table.info[root].kind == Kind::reduction;
  static constexpr int product = G::fusion.epilogue_of[root];

  SIMPLX_HD static constexpr int member(int m) { return G::fusion.members[G::fusion.member_begin[root] + m]; }
  SIMPLX_HD static constexpr int leaf(int l) { return G::fusion.leaves[G::fusion.leaf_begin[root] + l]; }
  SIMPLX_HD static constexpr int arguments(int m) { return G::table.info[member(m)].argument_count; }
  /// A value on the way that backward reads from memory.
  SIMPLX_HD static constexpr bool kept(int m) { return G::plan.kept[member(m)] && member(m) != root; }
  SIMPLX_HD static constexpr int slot(int l) { return G::fusion.leaf_begin[root] + l; }
  /// Whether one evaluation takes so long that the next need not begin beside it.
  SIMPLX_HD static constexpr bool costly() {
    for (int m = 0; m < members; ++m) {
      if (G::table.info[member(m)].costly) return true;
    }
    return false;
  }

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
  SIMPLX_HD static constexpr Spread spread(int l) {
    const Shape s = G::table.info[leaf(l)].shape;
    if (G::table.info[leaf(l)].kind == Kind::number) return Spread::one;  // a literal is nowhere in memory
    if (s == shape) return Spread::full;
    if (s.is_fixed() && s.rows * s.cols == 1) return Spread::one;
    return s.is_fixed() && s.rows == 1 ? Spread::row : Spread::column;
  }
  SIMPLX_HD static constexpr bool wanted(int l) { return G::fusion.wanted[leaf(l)]; }
  /// The pull-back of member m to its argument a is of use.
  SIMPLX_HD static constexpr bool pulls(int m, int a) {
    return a < arguments(m) && G::fusion.wanted[G::table.info[member(m)].arguments[a]];
  }
  SIMPLX_HD static constexpr bool writes(int l) { return wanted(l) && G::plan.leaf_write[slot(l)] != Write::skip; }
  /// Where the elements of a reduction go, and where their gradient comes from.
  SIMPLX_HD static constexpr Spread target() {
    if constexpr (!reduces) {
      return Spread::full;
    } else {
      switch (detail::over_of(G::flat.label[root].attributes)) {
        case Over::rows: return Spread::row;
        case Over::columns: return Spread::column;
        default: return Spread::one;
      }
    }
  }
  /// Rows and columns need not be told apart.
  SIMPLX_HD static constexpr bool flat() {
    if (target() == Spread::row || target() == Spread::column) return false;
    for (int l = 0; l < leaves; ++l) {
      if (spread(l) == Spread::row || spread(l) == Spread::column) return false;
    }
    return true;
  }
};

/// Where the leaves of a group are, and the members that are kept; single numbers are loaded once.
template <class G, int root, class S>
struct Operands {
  using Grp = Group<G, root>;
  const S* pointer[Grp::leaves + 1]{};
  S one[Grp::leaves + 1]{};
  S* kept[Grp::members]{};

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
    detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
      if constexpr (Grp::kept(m)) kept[m] = const_cast<S*>(Address<G>::template value<Grp::member(m)>(context));
    });
  }

  template <int l, class V>
  __attribute__((always_inline)) Register<V> load_leaf(Index row, Index col) const {
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

/// The values of a group at one place.
template <class G, int root, class V>
struct GroupValues {
  using Grp = Group<G, root>;
  V leaf[Grp::leaves + 1];
  V member[Grp::members];

  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V operand() const {
    constexpr int where = Grp::tables.operand[m][a];
    if constexpr (where >= 0) {
      return member[where];
    } else {
      return leaf[-1 - where];
    }
  }
  template <int m>
  SIMPLX_HD __attribute__((always_inline)) void evaluate() {
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
__attribute__((always_inline)) inline Register<V> map_value(const Operands<G, root, S>& operands, Index row, Index col,
                                                            Register<V> product) {
  using Grp = Group<G, root>;
  GroupValues<G, root, Register<V>> at;
  detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
    if constexpr (Grp::leaf(l) == Grp::product) {
      at.leaf[l] = product;
    } else {
      at.leaf[l] = operands.template load_leaf<l, V>(row, col);
    }
  });
  detail::unroll<0, Grp::members>([&]<int m>(std::integral_constant<int, m>) {
    at.template evaluate<m>();
    if constexpr (Grp::kept(m)) store<V>(operands.kept[m] + row * Grp::shape.cols + col, at.member[m]);
  });
  return at.member[Grp::members - 1];
}

SIMPLX_HD_END
}  // namespace simplx
