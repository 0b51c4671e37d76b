// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/cross_entropy.hpp
/// Cross-entropy of each row: loss = log sum exp(logits) - logits[label], in nats. A label of -100 carries no loss.
///
///     dlogits = (softmax(logits) - onehot(label)) * dloss
///
/// With label smoothing s the target is (1 - s) onehot(label) + s / classes: the loss gains
/// s mean(logits[label] - logits).
///
/// The loss of each row is a result of its own; who trains divides by the labelled rows of the whole batch.

#include <simplx/ops/softmax.hpp>

#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"cross_entropy"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b100, overwrites = 0b001;
  static constexpr int index_operand = 1;
  static constexpr bool takes_ignored = true;
  static constexpr Shape looked_up(Shape logits) { return fixed_shape(logits.cols, 1); }
  static constexpr bool reads(int, int operand) { return operand == 0; }
  static constexpr Checked shape(const Attributes&, Shape logits, Shape labels, Shape smoothing = fixed_shape(1, 1)) {
    if (!(smoothing == fixed_shape(1, 1))) return {"one number", smoothing.columns(), 1};
    if (logits.axis != labels.axis) {
      return {"labels", static_cast<Index>(labels.axis), static_cast<Index>(logits.axis)};
    }
    return rows_of(logits.axis, 1);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // highest, log sum exp(logits - highest)
  template <class F>
  static constexpr bool smooths = F::info.argument_count == 3;
  template <class F>
  static auto smoothing(const F& frame) {
    if constexpr (smooths<F>) {
      return *frame.template in<2>();
    } else {
      return typename F::Scalar(0);
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    const S* logits = frame.template in<0>();
    const std::int32_t* labels = frame.template indices<1>();
    S *loss = frame.out(), *saved = frame.saved();
    const auto labelled = [&](Index row) { return labels[row] != ignored_label; };
    const auto finish = [&](Index row, S highest, S log_sum) {
      loss[row] = saved[2 * row] = saved[2 * row + 1] = S(0);
      if (!labelled(row)) return;
      const S *of_row = logits + row * classes, own = of_row[labels[row]];
      saved[2 * row] = highest, saved[2 * row + 1] = log_sum;
      loss[row] = log_sum + (highest - own);
      if constexpr (smooths<F>) {
        if constexpr (std::is_floating_point_v<S>) {
          if (smoothing(frame) == S(0)) return;  // a logit may be -inf
        }
        loss[row] += smoothing(frame) * (own - cpu::ConstMatrixMap<S>(of_row, 1, classes).array()).mean();
      }
    };
    if constexpr (path == Path::reference) {
      for (Index row = 0; row < frame.rows(); ++row) {
        const cpu::ConstMatrixMap<S> of_row(logits + row * classes, 1, classes);
        const S highest = of_row.maxCoeff();
        finish(row, highest, log(S((of_row.array() - highest).exp().sum())));
      }
    } else {
      detail::log_sums_below<classes>(frame.rows(), logits, labelled, finish);
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    constexpr Write mode = F::template write<0>;
    const S *logits = frame.template in<0>(), *dloss = frame.out_grad(), *saved = frame.saved();
    const std::int32_t* labels = frame.template indices<1>();
    S* dlogits = frame.template grad<0>();
    const S uniform = smoothing(frame) / S(classes);
    for (Index row = 0; row < frame.rows(); ++row, logits += classes, dlogits += classes) {
      if (labels[row] == ignored_label) {
        if constexpr (mode == Write::store) std::fill_n(dlogits, classes, S(0));
        continue;
      }
      const S scale = dloss[row], highest = saved[2 * row], log_sum = saved[2 * row + 1];
      cpu::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> below = load<V>(logits + c) - splat<V>(highest);
        const cpu::Register<V> probability = exp(cpu::Register<V>(below - splat<V>(log_sum)));
        put<mode, V>(dlogits + c, (probability - splat<V>(uniform)) * splat<V>(scale));
      });
      dlogits[labels[row]] -= scale * (S(1) - smoothing(frame));
    }
  }
};

namespace detail {
constexpr Expr with_labels(Expr loss, At labels) {
  if (loss.node->kind != Kind::error && labels.node->kind != Kind::indices) broken(loss.node, "labels", 0, 1);
  return loss;
}
}  // namespace detail

/// Loss of each row in nats; 0 where the label is -100.
///
/// Shapes  logits (rows, classes); labels (rows), whole numbers -> (rows, 1)
/// Errors  does not compile unless the second operand is indices(...) along the rows of the logits: rule "labels"
/// Cost    keeps the logits and two numbers for each row
constexpr Expr cross_entropy(At logits, At labels) {
  return detail::with_labels(apply<"cross_entropy">({}, logits, labels), labels);
}
/// The same with label smoothing: the target is 1 - smoothing of the label, and smoothing / classes of each class.
///
/// Shapes  as above; smoothing (1, 1), not trained, usually hyper("smoothing", 0.1)
/// Errors  as above, and for a smoothing of another shape or one that is trained: rules "one number" and "constant
///         operand"
/// Cost    as above
constexpr Expr cross_entropy(At logits, At labels, At smoothing) {
  return detail::with_labels(apply<"cross_entropy">({}, logits, labels, smoothing), labels);
}

}  // namespace simplx
