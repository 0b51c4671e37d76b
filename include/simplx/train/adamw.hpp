// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/adamw.hpp
/// AdamW.
///
///     p <- p (1 - lr decay)
///     m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   g = scale * gradient
///     p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
///
/// As in PyTorch: decay is decoupled and comes first, epsilon is added after the bias correction.

#include <simplx/cpu/math.hpp>
#include <simplx/train/optimiser.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

/// What one step multiplies with: the numbers of AdamW, bias corrections included.
template <class S>
struct AdamWStep {
  static constexpr bool second_moment = true;
  S beta1, beta2, rest1, rest2, rate, root, epsilon, keep;

  /// The next state of an element, or of a vector of them, here or on a GPU; g is the clipped gradient.
  template <class V>
  SIMPLX_HD __attribute__((always_inline)) void operator()(V& p, V g, V& m, V& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    p = p * keep - rate * m / (sqrt(v) * root + epsilon);
  }
};

/// The settings of AdamW, decoupled decay included; moments and count of steps are those of the trainer.
struct AdamW {
  static constexpr const char* name = "adamw";

  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.1;

  /// Errors  throws Error for a rate, decay, beta or epsilon that would spoil the parameters
  template <class S>
  void check() const {
    check_setting<S>("AdamW's learning_rate", learning_rate);
    check_setting<S>("AdamW's beta1", beta1, 1);
    check_setting<S>("AdamW's beta2", beta2, 1);
    check_positive_setting<S>("AdamW's epsilon", epsilon);
    check_setting<S>("AdamW's weight_decay", weight_decay);
  }

  AdamW with(const ParameterSettings& settings) const {
    AdamW own = *this;
    own.learning_rate *= settings.learning_rate_factor;
    own.weight_decay = settings.weight_decay_or(weight_decay);
    own.epsilon = settings.epsilon.value_or(epsilon);
    return own;
  }

  template <class S>
  AdamWStep<S> at(long step) const {
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    return {.beta1 = static_cast<S>(beta1),
            .beta2 = static_cast<S>(beta2),
            .rest1 = static_cast<S>(1 - beta1),
            .rest2 = static_cast<S>(1 - beta2),
            .rate = static_cast<S>(learning_rate / correction1),
            .root = static_cast<S>(1 / std::sqrt(correction2)),
            .epsilon = static_cast<S>(epsilon),
            .keep = static_cast<S>(1 - learning_rate * weight_decay)};
  }
};

}  // namespace simplx
