// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/linear_cross_entropy.hpp
/// Cross-entropy of logits = x W^T + c that never holds all of them, for vocabularies beside which a model is small:
///
///     loss = log sum exp(logits) - logits[label],   dlogits = (softmax(logits) - onehot(label)) * dloss
///
/// On a CPU logits are computed for some hundred classes at a time; while they are in the cache, forward adds them to
/// each row's sum of exponentials, and backward takes dx, dW and dc from them. Rows without a label are left out of all
/// products. The price is one more product in backward, which computes the logits again. A GPU has all logits of some
/// thousand rows at a time, and in training computes them once (cuda/linear_cross_entropy.cuh).
///
/// Source  Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models"

#include <simplx/cpu/linear_product.hpp>
#include <simplx/ops/cross_entropy.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"linear_cross_entropy"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool adds_by_itself = true;
  static constexpr int index_operand = 1;
  static constexpr bool takes_ignored = true;
  static constexpr Shape looked_up(Shape table) { return table; }
  /// All gradients are taken from the logits, which are computed again.
  static constexpr bool reads(int, int operand) { return operand != 1; }

  static constexpr Checked shape(const Attributes& attributes, Shape table, Shape labels, Shape x) {
    if (!table.is_fixed()) return {"static right operand", static_cast<Index>(table.axis), 0};
    if (x.cols != table.cols) return {"inner widths", x.cols, table.cols};
    if (x.axis != labels.axis) return {"labels", static_cast<Index>(labels.axis), static_cast<Index>(x.axis)};
    if (tile(attributes) < 1) return {"tile", tile(attributes), 1};
    return rows_of(x.axis, 1);
  }
  static constexpr Checked shape(const Attributes& attributes, Shape table, Shape labels, Shape x, Shape bias) {
    if (!(bias == fixed_shape(1, table.rows))) return {"gain width", bias.cols, table.rows};
    return shape(attributes, table, labels, x);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // highest, log sum exp(logits - highest)

  static std::string settings(const Attributes& attributes) {
    return "tiles of " + std::to_string(tile(attributes));
  }

  /// Classes whose logits a CPU computes together.
  static constexpr Index tile(Attributes attributes) { return attributes.integers[0]; }
  static constexpr int packs = 0;
  static constexpr Index packed(const Attributes& attributes, Shape table, auto...) {
    const auto room = [&](Index classes) { return cpu::packed_room(classes, table.cols); };
    const Index whole = table.rows / tile(attributes), rest = table.rows % tile(attributes);
    return whole * room(tile(attributes)) + (rest ? room(rest) : 0);
  }

  template <class F, class Backend>
  struct Tiles {
    static constexpr Index width = F::template shape<2>.cols, classes = F::template shape<0>.rows;
    static constexpr Index together = tile(F::attributes), whole = classes / together * together;
    static constexpr bool prepared = F::Graph::table.info[F::template argument<0>].kind == Kind::parameter;
    template <Index count>
    using Product = cpu::LinearProduct<Backend, width, count, true, prepared>;
    /// A tile in what is packed for forward or backward; of a table that is not prepared there is none.
    static auto packed_at(const F& frame, Index offset) { return prepared ? frame.packed() + offset : nullptr; }
    static auto turned_at(const F& frame, Index offset) { return prepared ? frame.turned() + offset : nullptr; }
    using Whole = Product<together>;
    using Rest = Product<classes - whole>;

    /// Calls f(Product, first class, offset in what is packed) for each tile.
    template <class Action>
    static void each(const Action& f) {
      if constexpr (whole > 0) {
        for (Index begin = 0; begin < whole; begin += together) f(Whole(), begin, begin / together * Whole::room);
      }
      if constexpr (whole < classes) f(Rest(), whole, whole / together * Whole::room);
    }
    /// Of scratch: a tile of logits, x and dx of the labelled rows, and what a product needs.
    static constexpr Index logits(Index rows) { return round_up(rows * std::min(together, classes), alignment); }
    static constexpr Index inputs(Index rows) { return round_up(rows * width, alignment); }
    static constexpr Index scratch(Index rows) {
      Index product = 0;
      if constexpr (whole > 0) product = Whole::scratch(rows);
      if constexpr (whole < classes) product = std::max(product, Rest::scratch(rows));
      return logits(rows) + 2 * inputs(rows) + product;
    }
  };

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    return Tiles<F, Backend>::scratch(rows.count(F::out_shape.axis));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    constexpr Shape table = F::template shape<0>;
    const auto count = static_cast<double>(rows.count(F::out_shape.axis));
    return 2 * count * static_cast<double>(table.cols) * static_cast<double>(table.rows);
  }

  template <class G, int node, class S, Path path>
  static void prepare(Cpu<S, path>, const S* parameters, S* packed, S* turned) {
    using F = Frame<G, node, S>;
    using T = Tiles<F, Cpu<S, path>>;
    if constexpr (T::prepared) {
      const S* table = parameters + G::layout.parameter[F::template argument<0>];
      T::each([&]<class Product>(Product, Index begin, Index offset) {
        Product::prepare(table + begin * T::width, packed + offset, turned ? turned + offset : turned);
      });
    }
  }

  /// The rows that have a label, one after the other, and where the parts of scratch are.
  template <class F, class S>
  struct Labelled {
    const std::int32_t* labels;
    Index all, count = 0;
    const S* x;
    S *logits, *dx, *product;

    template <class T>
    Labelled(const F& frame, T)
        : labels(frame.template indices<1>()), all(frame.rows()), x(frame.template in<2>()), logits(frame.scratch()) {
      S* const gathered = logits + T::logits(all);
      dx = gathered + T::inputs(all);
      product = dx + T::inputs(all);
      for (Index row = 0; row < all; ++row) count += labels[row] != ignored_label;
      if (count == all) return;
      each([&](Index i, Index row) { std::copy_n(x + row * T::width, T::width, gathered + i * T::width); });
      x = gathered;
    }
    /// Calls f(i, row) for the i-th of them.
    template <class Action>
    void each(const Action& f) const {
      for (Index row = 0, i = 0; row < all; ++row) {
        if (labels[row] != ignored_label) f(i++, row);
      }
    }
  };

  template <class F>
  static constexpr bool has_bias = F::info.argument_count == 4;
  template <class F>
  static constexpr Write bias_write() {
    if constexpr (has_bias<F>) {
      return F::template write<3>;
    } else {
      return Write::skip;
    }
  }
  /// logits += c of so many classes.
  template <Index classes, class F, class S>
  static void add_bias([[maybe_unused]] const F& frame, [[maybe_unused]] Index begin, [[maybe_unused]] S* logits) {
    if constexpr (has_bias<F>) {
      const S* bias = frame.template in<3>() + begin;
      cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<Write::accumulate, V>(logits + c, load<V>(bias + c));
      });
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    using T = Tiles<F, Cpu<S, path>>;
    const Labelled<F, S> rows(frame, T());
    S *loss = frame.out(), *saved = frame.saved();  // the labels' logits and the sums, before their logarithm
    std::fill_n(loss, rows.all, S(0));
    for (Index i = 0; i < rows.count; ++i) saved[2 * i] = minus_infinity<S>, saved[2 * i + 1] = S(0);
    T::each([&]<class Product>(Product, Index begin, Index offset) {
      constexpr Index classes = Product::outputs;
      Product::forward(rows.count, rows.x, frame.template in<0>() + begin * T::width, T::packed_at(frame, offset),
                       rows.product, rows.logits);
      rows.each([&](Index i, Index row) {
        S* logits = rows.logits + i * classes;
        add_bias<classes>(frame, begin, logits);
        add_tile<classes>(logits, saved[2 * i], saved[2 * i + 1]);
        const Index own = rows.labels[row] - begin;
        if (own >= 0 && own < classes) loss[row] = logits[own];
      });
    });
    rows.each([&](Index i, Index row) {
      saved[2 * i + 1] = log(saved[2 * i + 1]);
      loss[row] = saved[2 * i + 1] + (saved[2 * i] - loss[row]);
    });
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using T = Tiles<F, Cpu<S, path>>;
    constexpr bool wants_dx = F::template write<2> != Write::skip, wants_dw = F::template write<0> != Write::skip;
    constexpr bool wants_bias = bias_write<F>() != Write::skip;
    const Labelled<F, S> rows(frame, T());
    const S *dloss = frame.out_grad(), *saved = frame.saved(), *table = frame.template in<0>();
    S* const dtable = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dtable, T::classes * T::width, S(0));
    [[maybe_unused]] S* dbias = nullptr;
    if constexpr (wants_bias) {
      dbias = frame.template grad<3>();
      if constexpr (bias_write<F>() == Write::store) std::fill_n(dbias, T::classes, S(0));
    }
    T::each([&]<class Product>(Product, Index begin, Index offset) {
      constexpr Index classes = Product::outputs;
      const S* weight = table + begin * T::width;
      Product::forward(rows.count, rows.x, weight, T::packed_at(frame, offset), rows.product, rows.logits);
      rows.each([&](Index i, Index row) {
        S* logits = rows.logits + i * classes;
        add_bias<classes>(frame, begin, logits);
        cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> below = load<V>(logits + c) - splat<V>(saved[2 * i]);
          store<V>(logits + c, exp(cpu::Register<V>(below - splat<V>(saved[2 * i + 1]))) * splat<V>(dloss[row]));
        });
        const Index own = rows.labels[row] - begin;
        if (own >= 0 && own < classes) logits[own] -= dloss[row];
      });
      if constexpr (wants_dw) {
        Product::add_weight_gradient(rows.count, rows.x, rows.logits, dtable + begin * T::width, rows.product,
                                     frame.template turn<0>());
      }
      if constexpr (wants_bias) {
        const detail::Addition addition(frame.template turn<3>());
        for (Index i = 0; i < rows.count; ++i) {
          cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
            put<Write::accumulate, V>(dbias + begin + c, load<V>(rows.logits + i * classes + c));
          });
        }
      }
      if constexpr (wants_dx) {
        const auto add = [&]<Write mode>() {
          Product::template input_gradient<mode>(rows.count, rows.logits, weight, T::turned_at(frame, offset),
                                                 rows.product, rows.dx);
        };
        begin == 0 ? add.template operator()<Write::store>() : add.template operator()<Write::accumulate>();
      }
    });
    if constexpr (wants_dx) {
      constexpr Write mode = F::template write<2>;
      S* const dx = frame.template grad<2>();
      if constexpr (mode == Write::store) {
        if (rows.count < rows.all) std::fill_n(dx, rows.all * T::width, S(0));
      }
      rows.each([&](Index i, Index row) {
        cpu::each_column<S, T::width>([&]<class V>(Index c) __attribute__((always_inline)) {
          put<mode, V>(dx + row * T::width + c, load<V>(rows.dx + i * T::width + c));
        });
      });
    }
  }

 private:
  template <class S>
  static constexpr S minus_infinity = S(-std::numeric_limits<double>::infinity());
  /// The highest logit so far and the sum of exp(logit - highest), and those of a tile more.
  template <Index classes, class S>
  static void add_tile(const S* logits, S& highest, S& sum) {
    const S before = std::exchange(highest, max(highest, detail::highest_of<classes>(logits)));
    if (highest > minus_infinity<S>) {
      const S kept = before > minus_infinity<S> ? sum * exp(before - highest) : sum;
      sum = kept + detail::sum_below<classes>(logits, highest);
    } else {  // of logits that all are -inf nothing is added, of a NaN one
      const S all = cpu::sum_columns<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(logits + c);
      });
      if (!(all == minus_infinity<S>)) sum = all;
    }
  }
};

/// Loss of each row in nats, as cross_entropy(x * transpose(table), labels) has it; 0 where the label is -100.
/// On a CPU logits of `tile` classes are there at a time, on a GPU all logits of 8 `tile` rows in bfloat16, of 4 `tile`
/// in float, or of as many as have half a gigabyte.
///
/// Shapes  x (rows, d); table (classes, d), static; labels (rows), whole numbers -> (rows, 1)
/// Errors  does not compile unless labels are indices(...) along the rows of x, the table's rows are static, widths
///         agree, and tile is at least 1: rules "labels", "static right operand", "inner widths" and "tile"
/// Cost    2 rows d classes FLOPs forward, three times that backward, of rows that have a label, or 6 rows d classes
///         for a training step on a GPU; keeps x and two numbers for each row; scratch holds tile + 2 d numbers for
///         each, on a GPU 16 tile bytes for each class, half a gigabyte at most
constexpr Expr linear_cross_entropy(At x, At table, At labels, Index tile = 512) {
  return detail::with_labels(apply<"linear_cross_entropy">({.integers = {tile}}, table, labels, x), labels);
}
/// The same with a bias of each class, as cross_entropy(x * transpose(table) + bias, labels) has it.
///
/// Shapes  as above; bias (1, classes)
/// Errors  as above, and for a bias of another width: rule "gain width"
/// Cost    as above
constexpr Expr linear_cross_entropy(At x, At table, At labels, At bias, Index tile = 512) {
  return detail::with_labels(apply<"linear_cross_entropy">({.integers = {tile}}, table, labels, x, bias), labels);
}

}  // namespace simplx
