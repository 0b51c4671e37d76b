// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/kernel.hpp
/// Base of ops that are not elementwise: what they keep, what they need, and how much work they are.

#include <simplx/cpu/cpu.hpp>
#include <simplx/ops/elementwise.hpp>

#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// A kernel redefines what differs from these answers, and supplies
///
///     static constexpr Checked shape(const Attributes&, Shape...);      // the result's shape, or a broken rule
///     template <class S, Path p, class F> static void forward(Cpu<S, p>, const F& frame);
///     template <class S, Path p, class F> static void backward(Cpu<S, p>, const F& frame);
///
/// Backward writes each grad<i>() as F::write<i> says: Write::store, Write::accumulate, or Write::skip, for a gradient
/// that nobody wants and whose grad<i>() is nullptr. put<F::template write<i>, S>(place, value) does so for a number.
///
/// Rows of Axis::tokens are those of one or several sequences, which frame.context.segments tells apart.
///
/// It may also have
///
///     static constexpr bool rows_apart(Axis);            // whether a row of the result, on that axis, reads that row
///                                                        // of the operands, and rows of its own sequence, alone:
///                                                        // if not, sequences are evaluated one by one
///     static constexpr unsigned char constant_operands;  // bit i: operand i has no gradient
///     static constexpr unsigned char overwrites;         // bit i: grad<i>() may be in<i>() itself: backward writes an
///                                                        // element when it and others have read it for the last time
///     static constexpr int packs;                        // the operand that is prepared, where it is a parameter
///     template <class G, int node, class S, Path p>
///     static void prepare(Cpu<S, p>, const S* parameters, S* packed, S* turned);  // null: there is no backward
///     static constexpr bool reads(int i, int operand);   // whether grad<i>() needs that operand; by default all,
///                                                        // where needs_inputs
///     static constexpr Term derive(const Node*, int argument, const Term& gradient);  // backward as an expression
///     static constexpr int index_operand;                // that operand is indices(...), whose numbers are rows of
///     static constexpr Shape looked_up(Shape first);     // a value of this shape, that of operand 0 being given
///     static std::string settings(const Attributes&);    // what `describe` prints after the operands: "heads 4"
struct kernel_op {
  static constexpr Kind kind = Kind::kernel;
  static constexpr bool needs_inputs = false;
  static constexpr bool needs_output = false;
  static constexpr bool rows_apart(Axis) { return false; }
  /// Its indices may be -100.
  static constexpr bool takes_ignored = false;
  /// Its backward takes the frame's turns itself, to hold them no longer than it adds.
  static constexpr bool adds_by_itself = false;
  /// Columns that forward saves for backward, on the axis of the result.
  static constexpr Index saved(const Attributes&, auto...) { return 0; }
  /// Elements that `prepare` makes from the parameters once for each step, for forward and for backward each.
  static constexpr Index packed(const Attributes&, auto...) { return 0; }
  /// Elements of scratch for these rows; the largest of a model is allocated once for each thread.
  template <class Backend, class F>
  static constexpr Index scratch(const Rows&) {
    return 0;
  }
  /// Multiply-adds count 2; only matrix products count. `causal`: without what a causal mask leaves out.
  template <class F>
  static constexpr double flops(const Rows&, bool /*causal*/) {
    return 0;
  }
};

}  // namespace simplx
