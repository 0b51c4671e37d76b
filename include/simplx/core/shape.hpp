// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/shape.hpp
/// Shapes: the number of columns is always static, the rows are static or counted by a named axis.
///
/// One row count is not enough: a decoder has one row per token, a classifier one per sequence, a regression
/// one per sample. A shape therefore names the axis its rows run along, and the counts come at run time.

#include <simplx/core/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace simplx::inline SIMPLX_TARGET {

using Index = std::ptrdiff_t;

/// What the rows of a value count. `fixed` rows are known at compile time.
enum class Axis : signed char { fixed, tokens, sequences, labelled, batch };
inline constexpr int axis_count = 5;

/// Its name in models and texts; none of fixed rows.
constexpr const char* name_of(Axis axis) {
  constexpr const char* names[axis_count] = {"", "tokens", "sequences", "labelled", "batch"};
  return names[static_cast<int>(axis)];
}

/// Rows and columns of a value. For `Axis::fixed`, `rows` is their number; otherwise `rows` is 0.
struct Shape {
  Axis axis = Axis::fixed;
  Index rows = 1;
  Index cols = 1;

  constexpr bool operator==(const Shape&) const = default;
  constexpr bool is_fixed() const { return axis == Axis::fixed; }
  /// Elements for each row of the axis; all elements of a fixed shape.
  constexpr Index columns() const { return is_fixed() ? rows * cols : cols; }
};

constexpr Shape fixed_shape(Index rows, Index cols) { return {Axis::fixed, rows, cols}; }
constexpr Shape rows_of(Axis axis, Index cols) { return {axis, 0, cols}; }

/// How many rows each axis has in one evaluation: `Rows{.tokens = 1024, .sequences = 8}`.
struct Rows {
  Index tokens = 0;
  Index sequences = 1;
  Index labelled = 0;
  Index batch = 0;
  Index longest_sequence = 0;  ///< 0 if all sequences are equally long

  constexpr Index count(Axis axis) const {
    switch (axis) {
      case Axis::tokens: return tokens;
      case Axis::sequences: return sequences;
      case Axis::labelled: return labelled;
      case Axis::batch: return batch;
      case Axis::fixed: break;
    }
    return 1;
  }
  /// Rows of a value of that shape.
  constexpr Index count(const Shape& shape) const { return shape.is_fixed() ? shape.rows : count(shape.axis); }
  /// Tokens of the longest sequence.
  constexpr Index longest() const {
    return longest_sequence ? longest_sequence : sequences > 0 ? (tokens + sequences - 1) / sequences : 0;
  }

  bool operator==(const Rows&) const = default;
  /// Whether memory for these rows is enough for others.
  constexpr bool hold(const Rows& others) const {
    return tokens >= others.tokens && sequences >= others.sequences && labelled >= others.labelled &&
           batch >= others.batch && longest() >= others.longest();
  }
  /// As many as either has.
  constexpr Rows or_more(const Rows& others) const {
    const auto more = [](Index one, Index other) { return one > other ? one : other; };
    return {more(tokens, others.tokens), more(sequences, others.sequences), more(labelled, others.labelled),
            more(batch, others.batch), more(longest(), others.longest())};
  }
};

/// One sequence of that many tokens, for `arena_bytes<model>(tokens{128})`.
struct tokens {
  Index count = 0;
  constexpr operator Rows() const { return {.tokens = count}; }
};

/// Packed sequences: sequence s occupies the rows offsets[s] .. offsets[s + 1].
struct Segments {
  const Index* offsets = nullptr;
  Index count = 0;

  /// Calls visit(sequence, first row, rows) for each.
  template <class Visit>
  constexpr void each(const Visit& visit) const {
    for (Index s = 0; s < count; ++s) visit(s, offsets[s], offsets[s + 1] - offsets[s]);
  }
};

/// What a reduction sums: all rows of a column, all columns of a row, everything.
enum class Over : signed char { rows, columns, all };

/// What a backward kernel does with a gradient: not wanted, first writer, later writer.
enum class Write : signed char { skip, store, accumulate };

constexpr Index round_up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace simplx
