// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/sgd.hpp
/// Gradient descent with heavy-ball momentum; m begins at zero, so that no step is special.
///
///     d = scale * gradient + decay p,   m <- momentum m + d
///     p <- p - lr m;   with Nesterov's look-ahead p <- p - lr (d + momentum m)
///
/// As in PyTorch with dampening 0: the rate is outside of m, so that a schedule acts at once, and decay is coupled
/// (a part of the gradient, and so of m, after clipping), unlike AdamW's.

#include <simplx/train/optimiser.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// The numbers of one step.
template <class S>
struct SgdStep {
  static constexpr bool second_moment = false;
  S rate, momentum, decay;
  bool nesterov;

  /// The next state of an element, or of a vector of them, here or on a GPU; g is the clipped gradient.
  template <class V>
  SIMPLX_HD __attribute__((always_inline)) void operator()(V& p, V g, V& m, V&) const {
    const V d = g + decay * p;
    m = momentum * m + d;
    p = p - rate * (nesterov ? d + momentum * m : m);
  }
};

/// The settings of gradient descent with momentum; decay is a part of the gradient, unlike that of AdamW.
struct Sgd {
  static constexpr const char* name = "sgd";

  double learning_rate = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;

  /// Errors  throws Error for a rate, momentum or decay that would spoil the parameters
  template <class S>
  void check() const {
    check_setting<S>("Sgd's learning_rate", learning_rate);
    check_setting<S>("Sgd's momentum", momentum, 1);
    check_setting<S>("Sgd's weight_decay", weight_decay);
  }

  Sgd with(const ParameterSettings& settings) const {
    Sgd own = *this;
    own.learning_rate *= settings.learning_rate_factor;
    own.momentum = settings.momentum.value_or(momentum);
    own.weight_decay = settings.weight_decay_or(weight_decay);
    return own;
  }

  template <class S>
  SgdStep<S> at(long) const {
    return {static_cast<S>(learning_rate), static_cast<S>(momentum), static_cast<S>(weight_decay), nesterov};
  }
};

}  // namespace simplx
