// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/optimiser.hpp
/// What an optimiser is: a handful of numbers, adjusted for some tensors, that updates ranges of the flat buffers.
///
/// Optimisers are plain aggregates given anew for each step, so that a schedule is a number written into one.
/// Their state lies in the buffers of whoever trains; a rule with a single moment leaves the second alone.

#include <simplx/core/error.hpp>
#include <simplx/cpu/simd.hpp>

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

/// How the update of a tensor differs from what the optimiser says.
struct ParameterSettings {
  double learning_rate_factor = 1;            ///< 0 freezes
  bool decays = true;                         ///< the optimiser's own weight decay applies
  std::optional<double> weight_decay = {};    ///< instead of that, whatever `decays` says
  std::optional<double> epsilon = {}, momentum = {};

  bool frozen() const { return learning_rate_factor == 0; }
  double weight_decay_or(double own) const { return weight_decay.value_or(decays ? own : 0); }
  bool operator==(const ParameterSettings&) const = default;
};

/// The flat buffers of an update, all in the layout of the parameters.
template <class S>
struct UpdateBuffers {
  S *parameters, *gradients, *first_moments, *second_moments;
};

/// Holds a number of an optimiser or of a group of parameters, such as "learning_rate", against [0, end).
///
/// Errors  throws Error where it is outside, or no number
inline void check_setting(std::string_view name, double value, double end = std::numeric_limits<double>::infinity()) {
  if (value >= 0 && value < end) return;
  throw Error(std::string(name) + " is " + std::to_string(value),
              end == 1 ? "it must be a number from 0 on, below 1" : "it must be a finite number from 0 on");
}
/// The same against (0, infinity): what is added to a divisor that may be 0.
inline void check_positive_setting(std::string_view name, double value) {
  if (value > 0 && value < std::numeric_limits<double>::infinity()) return;
  throw Error(std::string(name) + " is " + std::to_string(value), "it must be a finite number above 0");
}

/// `with` gives the optimiser of a tensor; `update` takes step `step`, counted from 1, over [begin, end), reads
/// the gradient times a scale (the clip factor) and leaves zeros in its place.
template <class O, class S>
concept OptimiserOf = requires(const O& optimiser, const ParameterSettings& settings, const UpdateBuffers<S>& buffers,
                               long step, double scale, Index i) {
  { O::name } -> std::convertible_to<std::string_view>;
  requires !std::string_view(O::name).empty();  // it tells whose moments there are
  { optimiser.with(settings) } -> std::same_as<O>;
  optimiser.update(step, scale, buffers, i, i);
};

namespace detail {

/// What step and update say of anything else.
template <class S, class Other>
void no_optimiser() {
  static_assert(OptimiserOf<Other, S>,
                "simplx: step and update need an optimiser, such as AdamW{.learning_rate = 1e-3} or "
                "Sgd{.learning_rate = 0.1}; one of your own needs a name, with(settings) and update(...), as "
                "train/sgd.hpp has them");
}

}  // namespace detail

/// Errors  throws what the optimiser's own check() has to say about its numbers, if it has one
template <class Optimiser>
void check_optimiser(const Optimiser& optimiser) {
  if constexpr (requires { optimiser.check(); }) optimiser.check();
}

/// Calls f.operator()<V>(i) over [begin, end): V is a vector, and a single element for what is left.
template <class S, class F>
__attribute__((always_inline)) inline void each_vector(Index begin, Index end, const F& f) {
  Index i = begin;
  for (; i + lanes<S> <= end; i += lanes<S>) f.template operator()<Vec<S>>(i);
  for (; i < end; ++i) f.template operator()<S>(i);
}

}  // namespace simplx
