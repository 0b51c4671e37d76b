// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/map.hpp
/// Where the leaves of a group are in memory, its value at one place, and the forward loop: values are stored, or
/// summed where a reduction is the root.

#include <simplx/cpu/elements.hpp>
#include <simplx/cpu/group.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Numbers that are added up one after the other before their sum is added to others': of more, float would round the
/// last ones away.
inline constexpr Index added_at_once = 4096;

/// Where the leaves of a group are, and the members that are kept; single numbers are loaded once.
template <class G, int root, class S>
struct Operands {
  using Grp = detail::Group<G, root>;
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

/// The group's result at [row, col ...]; `product` is the accumulator of the product it finishes.
template <class G, int root, class V, class S>
__attribute__((always_inline)) inline Register<V> map_value(const Operands<G, root, S>& operands, Index row, Index col,
                                                            Register<V> product) {
  using Grp = detail::Group<G, root>;
  detail::GroupValues<G, root, Register<V>> at;
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

template <class G, int root, class S>
__attribute__((noinline, flatten)) void map_forward_loop(const Context<S>& context, const S* product, S* out) {
  detail::stores();
  using Grp = detail::Group<G, root>;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context, product);
  each_element<S, cols, Grp::flat()>(context.rows_of(Grp::shape), [&]<class V>(Index row, Index col)
                                                                      __attribute__((always_inline)) {
    Register<V> accumulator{};
    if constexpr (Grp::product >= 0) accumulator = load<V>(product + row * cols + col);
    store<V>(out + row * cols + col, map_value<G, root, V>(operands, row, col, accumulator));
  });
}

/// A sum in chains of vectors, which need not wait for each other.
template <class S, int chains>
struct RunningSum {
  Vec<S> chain[4]{};
  S single = S(0);

  /// Adds value<V>(i) for all i below `count`.
  template <class F>
  __attribute__((always_inline)) void add(Index count, const F& value) {
    for (Index i = add_vectors(count, value); i < count; ++i) single += value.template operator()<S>(i);
  }
  /// Adds value<V>(col) for all columns of a row.
  template <Index cols, class F>
  __attribute__((always_inline)) void add_row(const F& value) {
    constexpr Index whole = cols / lanes<S> * lanes<S>;
    add_vectors(whole, value);
    if constexpr (whole < cols) {
      each_left<S, cols - whole>(whole, [&]<class V>(Index col) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<V, S>) {
          single += value.template operator()<V>(col);
        } else {
          chain[0] += counted<V>(value.template operator()<V>(col));
        }
      });
    }
  }
  S total() const { return sum((chain[0] + chain[1]) + (chain[2] + chain[3])) + single; }

 private:
  /// Adds whole vectors; returns how many elements they were.
  template <class F>
  __attribute__((always_inline)) Index add_vectors(Index count, const F& value) {
    constexpr Index step = lanes<S>;
    Index i = 0;
    for (; chains > 1 && i + chains * step <= count; i += chains * step) {
      detail::unroll<0, chains>([&]<int k>(std::integral_constant<int, k>) __attribute__((always_inline)) {
        chain[k] += value.template operator()<Vec<S>>(i + k * step);
      });
    }
    for (; i + step <= count; i += step) chain[0] += value.template operator()<Vec<S>>(i);
    return i;
  }
};

/// Evaluates the group and sums it over rows, columns or both; a mean divides by their number.
template <class G, int root, class S>
__attribute__((noinline, flatten)) void reduce_forward_loop(const Context<S>& context, S* out) {
  detail::stores();
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  constexpr Index cols = Grp::shape.cols;
  const Operands<G, root, S> operands(context);
  const Index rows = context.rows_of(Grp::shape);
  const S scale = static_cast<S>(op_of<G, root>::scale(G::flat.label[root].attributes, rows, cols));
  const auto row_of = [&](Index row) {
    return [&operands, row]<class V>(Index col) __attribute__((always_inline)) {
      return map_value<G, root, V>(operands, row, col, Register<V>{});
    };
  };
  constexpr bool one_column = Grp::target() == Spread::row && cols == 1;
  if constexpr (Grp::target() == Spread::one || one_column) {
    constexpr Index step = std::max<Index>(1, added_at_once * lanes<S> / cols);  // rows
    std::conditional_t<std::is_same_v<S, float>, double, S> total(0);
    for (Index begin = 0; begin < rows; begin += step) {
      const Index end = std::min(rows, begin + step);
      RunningSum<S, Grp::costly() ? 1 : 4> sum;
      if constexpr (Grp::flat() || one_column) {
        sum.add((end - begin) * cols, [&]<class V>(Index i) __attribute__((always_inline)) {
          return map_value<G, root, V>(operands, 0, begin * cols + i, V{});
        });
      } else {
        for (Index row = begin; row < end; ++row) sum.template add_row<cols>(row_of(row));
      }
      total += sum.total();
    }
    *out = one_column && rows == 0 ? S(0) : scale * static_cast<S>(total);  // the mean over no rows is 0
  } else if constexpr (Grp::target() == Spread::column) {
    for (Index row = 0; row < rows; ++row) {
      RunningSum<S, Grp::costly() ? 1 : 4> sum;
      sum.template add_row<cols>(row_of(row));
      out[row] = scale * sum.total();
    }
  } else {
    std::fill_n(out, cols, S(0));
    for (Index begin = 0; begin < rows; begin += added_at_once) {
      const Index end = std::min(rows, begin + added_at_once);
      ColumnValues<S, cols> sums(S(0));
      for (Index row = begin; row < end; ++row) {
        sums.each([&]<class V>(Index col, Register<V>& sum) __attribute__((always_inline)) {
          sum += map_value<G, root, V>(operands, row, col, Register<V>{});
        });
      }
      sums.each([&]<class V>(Index col, Register<V>& sum) __attribute__((always_inline)) {
        store<V>(out + col, load<V>(out + col) + splat<V>(scale) * sum);
      });
    }
  }
}

}  // namespace simplx::cpu
