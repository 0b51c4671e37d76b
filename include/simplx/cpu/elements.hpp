// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/elements.hpp
/// Loops over the elements of a shape, and of one row of it, by vectors.

#include <simplx/core/shape.hpp>
#include <simplx/cpu/part.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Writes a gradient as its mode says: over what is there, added to it, or not at all. V is a vector, or S: one number,
/// which compilers see as one, to make vectors of it themselves.
template <Write mode, class V, class S>
__attribute__((always_inline)) inline void put(S* place, cpu::Register<V> value) {
  if constexpr (std::is_same_v<V, S>) {
    if constexpr (mode == Write::store) *place = value;
    if constexpr (mode == Write::accumulate) *place += value;
  } else {
    if constexpr (mode == Write::store) store<V>(place, value);
    if constexpr (mode == Write::accumulate) store<V>(place, load<V>(place) + value);
  }
}

namespace cpu {

/// Whether the last `count` numbers of a row are taken as a part of a vector; few are faster one by one.
template <class S, Index count>
inline constexpr bool takes_part = lanes<S> >= 8 && count >= 3;

/// Calls f<V>(col) for the `count` numbers from `col` on with which a row ends: for a part of a vector, or for each.
template <class S, Index count, class F>
__attribute__((always_inline)) inline void each_left(Index col, F&& f) {
  if constexpr (takes_part<S, count>) {
    f.template operator()<Part<S, count>>(col);
  } else {
    for (Index i = 0; i < count; ++i) f.template operator()<S>(col + i);
  }
}

/// Calls f<V>(row, col) over a whole shape: for vectors first, then for what is left at the end of each row, or at the
/// end of all rows where they need not be told apart.
template <class S, Index cols, bool flat, class F>
__attribute__((always_inline)) inline void each_element(Index rows, F&& f) {
  constexpr Index whole = cols / lanes<S> * lanes<S>;
  if constexpr (flat) {
    const Index size = rows * cols, end = size / lanes<S> * lanes<S>;
    for (Index i = 0; i < end; i += lanes<S>) f.template operator()<Vec<S>>(0, i);
    if constexpr (whole < cols) {
      for (Index i = end; i < size; ++i) f.template operator()<S>(0, i);
    }
  } else {
    for (Index row = 0; row < rows; ++row) {
      for (Index col = 0; col < whole; col += lanes<S>) f.template operator()<Vec<S>>(row, col);
      if constexpr (whole < cols) {
        each_left<S, cols - whole>(whole, [&]<class V>(Index col) __attribute__((always_inline)) {
          f.template operator()<V>(row, col);
        });
      }
    }
  }
}

/// Calls f<V>(col) over a row.
template <class S, Index cols, class F>
__attribute__((always_inline)) inline void each_column(F&& f) {
  each_element<S, cols, false>(1, [&]<class V>(Index, Index col) __attribute__((always_inline)) {
    f.template operator()<V>(col);
  });
}

/// Sums f<V>(col) over a row.
template <class S, Index cols, class F>
__attribute__((always_inline)) inline S sum_columns(F&& f) {
  Vec<S> vectors{};
  S singles = 0;
  each_column<S, cols>([&]<class V>(Index col) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<V, S>) {
      singles += f.template operator()<V>(col);
    } else {
      vectors += counted<V>(f.template operator()<V>(col));
    }
  });
  return sum(vectors) + singles;
}

/// A number for each column of a row, in registers where they are few.
template <class S, Index cols>
class ColumnValues {
 public:
  explicit ColumnValues(S value) {
    for (Vec<S>& v : vectors_) v = splat<Vec<S>>(value);
    for (S& single : singles_) single = value;
  }
  /// Calls f<V>(col, numbers from col on) over the row.
  template <class F>
  __attribute__((always_inline)) void each(F&& f) {
    each_column<S, cols>([&]<class V>(Index col) __attribute__((always_inline)) {
      if constexpr (std::is_same_v<V, Vec<S>> || PartOfVector<V>) {
        f.template operator()<V>(col, vectors_[col / lanes<S>]);
      } else {
        f.template operator()<V>(col, singles_[col - whole]);
      }
    });
  }

 private:
  static constexpr Index whole = cols / lanes<S> * lanes<S>;
  Vec<S> vectors_[whole / lanes<S> + 1];  // the last one for a part
  S singles_[lanes<S>];
};

}  // namespace cpu
}  // namespace simplx
