// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/cross_entropy.hpp
/// Cross-entropy of each row: loss = log sum exp(logits) - logits[label], in nats. A label of -100 carries no loss.
///
///     dlogits = (softmax(logits) - onehot(label)) * dloss
///
/// The loss of each row is a result of its own; who trains divides by the labelled rows of the whole batch.

#include <simplx/cpu/math.hpp>
#include <simplx/ops/kernel.hpp>
#include <simplx/ops/norm.hpp>

#include <cmath>

namespace simplx {

/// The label that carries no loss.
inline constexpr std::int32_t ignored_label = -100;

template <>
struct op<"cross_entropy"> : kernel_op {
  static constexpr bool reads(int, int operand) { return operand == 0; }
  static constexpr Checked shape(const Attributes&, Shape logits, Shape labels) {
    if (logits.axis != labels.axis) {
      return {"labels", static_cast<Index>(labels.axis), static_cast<Index>(logits.axis)};
    }
    return rows_of(logits.axis, 1);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 1; }  // log sum exp

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    const S* logits = frame.template in<0>();
    const std::int32_t* labels = frame.template indices<1>();
    S *loss = frame.out(), *saved = frame.saved();
    for (Index row = 0; row < frame.rows(); ++row, logits += classes) {
      S highest = logits[0];
      if constexpr (path == Path::reference) {
        const ConstMatrixMap<S> z(logits, 1, classes);
        highest = z.maxCoeff();
        saved[row] = highest + std::log((z.array() - highest).exp().sum());
      } else {
        Vec<S> highest_of = splat<Vec<S>>(highest);
        detail::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
          if constexpr (std::is_same_v<V, S>) {
            highest = max(highest, load<V>(logits + c));
          } else {
            highest_of = max(highest_of, load<V>(logits + c));
          }
        });
        highest = max(highest, largest(highest_of));
        saved[row] = highest + std::log(detail::sum_columns<S, classes>([&]<class V>(Index c)
                                                                            __attribute__((always_inline)) {
          return exp(load<V>(logits + c) - splat<V>(highest));
        }));
      }
      loss[row] = labels[row] == ignored_label ? S(0) : saved[row] - logits[labels[row]];
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index classes = F::template shape<0>.cols;
    constexpr Write mode = F::template write<0>;
    const S *logits = frame.template in<0>(), *dloss = frame.out_grad(), *saved = frame.saved();
    const std::int32_t* labels = frame.template indices<1>();
    S* dlogits = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, logits += classes, dlogits += classes) {
      const bool labelled = labels[row] != ignored_label;
      const S scale = labelled ? dloss[row] : S(0);
      if (!labelled && mode == Write::accumulate) continue;
      detail::each_column<S, classes>([&]<class V>(Index c) __attribute__((always_inline)) {
        detail::put<mode>(dlogits + c, exp(load<V>(logits + c) - splat<V>(saved[row])) * splat<V>(scale));
      });
      if (labelled) dlogits[labels[row]] -= scale;
    }
  }
};

/// Loss of each row in nats; 0 where the label is -100.
///
/// Shapes  logits (rows, classes); labels (rows), whole numbers -> (rows, 1)
/// Errors  does not compile unless the second operand is indices(...) along the rows of the logits
/// Cost    keeps the logits and one number for each row
constexpr Expr cross_entropy(At logits, At labels) {
  Expr result = apply<"cross_entropy">({}, logits, labels);
  if (result.node->kind != Kind::error && labels.node->kind != Kind::indices) {
    detail::broken(result.node, "labels", 0, 1);
  }
  return result;
}

}  // namespace simplx
