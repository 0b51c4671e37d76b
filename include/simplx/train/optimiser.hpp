// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/optimiser.hpp
/// What an optimiser is: a handful of numbers, adjusted for some tensors, and the rule of a step of one element.
///
/// Optimisers are plain aggregates given anew for each step, so that a schedule is a number written into one.
/// Their state lies in the buffers of whoever trains; a rule with a single moment leaves the second alone. The rule is
/// written once, over V: a vector of elements, or a number on a GPU (docs/training.md has one in full).

#include <simplx/core/error.hpp>
#include <simplx/cpu/simd.hpp>

#include <concepts>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

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

/// Holds a number of an optimiser or of a group of parameters, such as "learning_rate", against [0, end); without an
/// end it must be finite in the parameters' type.
///
/// Errors  throws Error where it is outside, or no number
template <class S = double>
void check_setting(std::string_view name, double value, std::optional<double> end = {}) {
  if (value >= 0 && (end ? value < *end : value <= std::numeric_limits<S>::max())) return;
  throw Error(std::string(name) + " is " + shortest(value),
              end ? "it must be a number from 0 on, below " + shortest(*end)
                  : "it must be a number from 0 on, finite in the parameters' precision");
}
/// The same of what is added to a divisor that may be 0: it must not become 0 in that type.
template <class S = double>
void check_positive_setting(std::string_view name, double value) {
  if (static_cast<S>(value) > 0 && value <= std::numeric_limits<S>::max()) return;
  throw Error(std::string(name) + " is " + shortest(value),
              "it must be a number above 0, finite in the parameters' precision");
}

/// `name` tells whose moments there are; `with` gives the optimiser of a tensor; `at<S>` gives the rule of a step,
/// counted from 1: rule(p, g, m, v) takes parameter and moments to their next state, g being the clipped gradient, and
/// `second_moment` tells whether it uses v.
template <class O, class S>
concept OptimiserOf = requires(const O& optimiser, const ParameterSettings& settings, long step, Vec<S> p, Vec<S> g,
                               Vec<S> m, Vec<S> v) {
  { O::name } -> std::convertible_to<std::string_view>;
  requires !std::string_view(O::name).empty();
  { optimiser.with(settings) } -> std::same_as<O>;
  requires std::same_as<decltype(std::remove_cvref_t<decltype(optimiser.template at<S>(step))>::second_moment),
                        const bool>;  // static constexpr
  optimiser.template at<S>(step)(p, g, m, v);
};

namespace detail {

/// What step and update say of anything else.
template <class S, class Other>
void no_optimiser() {
  static_assert(OptimiserOf<Other, S>,
                "simplx: step and update need an optimiser, such as AdamW{.learning_rate = 1e-3} or "
                "Sgd{.learning_rate = 0.1}; one of your own needs a name, with(settings) and at<S>(step), which gives "
                "the rule of a step: second_moment and operator()(p, g, m, v) of any V, as train/sgd.hpp has them");
}

}  // namespace detail

/// Errors  throws what the optimiser's own check<S>(), or check(), has to say about its numbers for parameters of S
template <class S, class Optimiser>
void check_optimiser(const Optimiser& optimiser) {
  if constexpr (requires { optimiser.template check<S>(); }) {
    optimiser.template check<S>();
  } else if constexpr (requires { optimiser.check(); }) {
    optimiser.check();
  }
}

/// Calls f(i, count) over [begin, end): count is lanes<S>, a constant, and fewer for what is left, which is computed as
/// vectors are, since compilers do not contract a * b + c of single numbers in the same way.
template <class S, class F>
__attribute__((always_inline)) inline void each_vector(Index begin, Index end, const F& f) {
  constexpr std::integral_constant<Index, lanes<S>> all;
  Index i = begin;
  for (; i + all <= end; i += all) f(i, all);
  if (i < end) f(i, end - i);
}
/// A step over [begin, end) by its rule, in one pass: the gradient is read times a scale (the clip factor), and zeros
/// are left in its place, ready for the next step. An element's result does not depend on the range.
///
/// Cost    memory traffic of 32 bytes for each float parameter, 24 by a rule without a second moment
template <class Rule, class S>
void update_range(Rule rule, double gradient_scale, const UpdateBuffers<S>& buffers, Index begin, Index end) {
  S *__restrict parameter = buffers.parameters, *__restrict gradient = buffers.gradients;
  S *__restrict first_moment = buffers.first_moments, *__restrict second_moment = buffers.second_moments;
  const S scale = static_cast<S>(gradient_scale);
  each_vector<S>(begin, end, [&](Index i, auto count) __attribute__((always_inline)) {
    Vec<S> p = load_lanes(parameter + i, count), m = load_lanes(first_moment + i, count), v{};
    if constexpr (Rule::second_moment) v = load_lanes(second_moment + i, count);
    rule(p, Vec<S>(load_lanes(gradient + i, count) * scale), m, v);
    store_lanes(parameter + i, p, count);
    store_lanes(first_moment + i, m, count);
    if constexpr (Rule::second_moment) store_lanes(second_moment + i, v, count);
    store_lanes(gradient + i, Vec<S>{}, count);
  });
}

}  // namespace simplx
