// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/group.hpp
/// A fused elementwise group: its members and leaves as constants of the graph, its values at one place, all of them in
/// registers, and the reverse sweep over them. Where its leaves are in memory a backend's loops say (map.hpp and
/// map_backward.hpp; on a GPU map_places.cuh).

#include <simplx/core/execute.hpp>
#include <simplx/cpu/simd.hpp>

#include <limits>

namespace simplx::inline SIMPLX_TARGET::detail {

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
      switch (over_of(G::flat.label[root].attributes)) {
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

/// The reverse sweep over a group at one place. A backend gives the values that pull-backs read and the adjoint of the
/// last member, and then calls pull<m>() from the last to the first.
template <class G, int root, class V>
struct Sweep {
  using Grp = Group<G, root>;
  static constexpr int last = Grp::members - 1;
  GroupValues<G, root, V> at;
  V adjoint[Grp::members];
  V leaf_adjoint[Grp::leaves + 1];

  /// Adds what member m passes on to its operands.
  template <int m>
  SIMPLX_HD __attribute__((always_inline)) void pull() {
    static_assert(Grp::arguments(m) <= 3, "simplx: an elementwise op has at most three operands");
    if constexpr (Grp::pulls(m, 0)) add<m, 0>(pull_back<m, 0>());
    if constexpr (Grp::pulls(m, 1)) add<m, 1>(pull_back<m, 1>());
    if constexpr (Grp::pulls(m, 2)) add<m, 2>(pull_back<m, 2>());
  }

 private:
  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V pull_back() const {
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
  SIMPLX_HD __attribute__((always_inline)) void add(V part) {
    constexpr int target = Grp::tables.operand[m][a];
    V& sum = target >= 0 ? adjoint[target >= 0 ? target : 0] : leaf_adjoint[target >= 0 ? 0 : -1 - target];
    if constexpr (Grp::tables.first[m][a]) {
      sum = part;
    } else {
      sum += part;
    }
  }
  /// In place of a value that an op does not declare to read: zero would make a gradient of zero where the declaration
  /// was forgotten, NaN is seen at once. Costs nothing where it is not read.
  static constexpr double not_read = std::numeric_limits<double>::quiet_NaN();
  /// The result of member m where the pull-back to operand a reads it, and its operand b.
  template <int m, int a>
  SIMPLX_HD __attribute__((always_inline)) V result() const {
    if constexpr ((G::table.info[Grp::member(m)].reads_output >> a & 1) != 0) {
      return at.member[m];
    } else {
      return literal<V>(not_read);
    }
  }
  template <int m, int a, int b>
  SIMPLX_HD __attribute__((always_inline)) V operand() const {
    if constexpr ((G::table.info[Grp::member(m)].reads[a] >> b & 1) != 0) {
      return at.template operand<m, b>();
    } else {
      return literal<V>(not_read);
    }
  }
};

SIMPLX_HD_END
}  // namespace simplx::detail
