// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/adamw.hpp
/// AdamW over a flat range of parameters, in one pass.
///
///     p <- p (1 - lr decay)
///     m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   g = scale * gradient
///     p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
///
/// As in PyTorch: decay is decoupled and comes first, epsilon is added after the bias correction. The
/// gradient is set to zero in the same pass, ready for the next step.

#include <simplx/cpu/math.hpp>

#include <cmath>

namespace simplx {

struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// One step over [begin, end); `step` counts from 1, `gradient_scale` is the clip factor.
///
/// Cost    28 bytes of memory traffic for each float parameter; an element's result does not depend on the range
template <class S>
void adamw_update(const AdamW& optimiser, long step, bool decays, double gradient_scale, S* __restrict parameter,
                  S* __restrict gradient, S* __restrict first_moment, S* __restrict second_moment, Index begin,
                  Index end) {
  const double correction1 = 1 - std::pow(optimiser.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(optimiser.beta2, static_cast<double>(step));
  const S b1 = static_cast<S>(optimiser.beta1), b2 = static_cast<S>(optimiser.beta2);
  const S c1 = static_cast<S>(1 - optimiser.beta1), c2 = static_cast<S>(1 - optimiser.beta2);
  const S rate = static_cast<S>(optimiser.learning_rate / correction1);
  const S root = static_cast<S>(1 / std::sqrt(correction2));
  const S epsilon = static_cast<S>(optimiser.epsilon);
  const S keep = static_cast<S>(decays ? 1 - optimiser.learning_rate * optimiser.weight_decay : 1);
  const S scale = static_cast<S>(gradient_scale);
  const auto update = [&]<class V>(Index i) __attribute__((always_inline)) {
    const V g = load<V>(gradient + i) * scale;
    const V m = b1 * load<V>(first_moment + i) + c1 * g;
    const V v = b2 * load<V>(second_moment + i) + c2 * (g * g);
    store(first_moment + i, m);
    store(second_moment + i, v);
    store(parameter + i, load<V>(parameter + i) * keep - rate * m / (sqrt(v) * root + epsilon));
    store(gradient + i, V{});
  };
  Index i = begin;
  for (; i + lanes<S> <= end; i += lanes<S>) update.template operator()<Vec<S>>(i);
  for (; i < end; ++i) update.template operator()<S>(i);
}

}  // namespace simplx
