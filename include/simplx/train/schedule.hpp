// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/schedule.hpp
/// The learning rate over a run: linear warm-up, then linear decay, half a cosine or nothing.
///
/// Steps count from 0. With a warm-up of w steps, step w - 1 has the peak and step s < w the share (s + 1) / w of
/// the way from `start` to it; step w has the peak as well, unless it is step `total`, which is no longer run and has
/// the floor.
/// Without warm-up, step 0 has the peak.
///
/// Errors  at() throws Error for a rate that no optimiser takes, NaN among them, for a negative number of steps, and
///         for a total that is not given or that ends before the warm-up does

#include <simplx/train/optimiser.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
inline void check_steps(const std::string& name, long steps) {
  if (steps < 0) throw Error(name + " is " + std::to_string(steps), "it must be a number of steps from 0 on");
}
template <class Schedule>
void check_schedule(const std::string& name, const Schedule& schedule, long step) {
  check_steps("the step that " + name + " is asked for", step);
  check_setting(name + "'s peak", schedule.peak);
  check_setting(name + "'s start", schedule.start);
  check_steps(name + "'s warmup", schedule.warmup);
  if constexpr (requires { schedule.floor; }) {
    check_setting(name + "'s floor", schedule.floor);
    if (schedule.total < std::max(1L, schedule.warmup)) {
      throw Error(name + "'s total is " + std::to_string(schedule.total) + ", its warmup " +
                      std::to_string(schedule.warmup),
                  "total is the number of steps of the run, the warm-up included: more steps, or a shorter warm-up");
    }
  }
}
inline double warm_up(double start, double peak, long step, long warmup) {
  return start + (peak - start) * static_cast<double>(step + 1) / static_cast<double>(warmup);
}
/// The share of the decay that is left: 1 at step `warmup`, 0 from step `total`.
inline double decay_left(long step, long warmup, long total) {
  return std::clamp(static_cast<double>(total - step) / static_cast<double>(std::max(1L, total - warmup)), 0.0, 1.0);
}
}  // namespace detail

/// Rises to `peak` over the first `warmup` steps and stays there.
struct ConstantSchedule {
  double peak = 1e-3;
  long warmup = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("ConstantSchedule", *this, step);
    return step < warmup ? detail::warm_up(start, peak, step, warmup) : peak;
  }
};

/// Rises to `peak` over the first `warmup` steps and falls to `floor` at step `total`, by equal decrements: the last
/// step is one decrement above the floor.
struct LinearSchedule {
  double peak = 1e-3;
  long warmup = 0;
  long total = 0;  ///< steps of the run; has to be given
  double floor = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("LinearSchedule", *this, step);
    if (step < warmup) return detail::warm_up(start, peak, step, warmup);
    return floor + (peak - floor) * detail::decay_left(step, warmup, total);
  }
};

/// The same with half a cosine for the way down [Loshchilov & Hutter 2017, Eq. (5)]: flat at both of its ends.
struct CosineSchedule {
  double peak = 1e-3;
  long warmup = 0;
  long total = 0;  ///< steps of the run; has to be given
  double floor = 0;
  double start = 0;

  double at(long step) const {
    detail::check_schedule("CosineSchedule", *this, step);
    if (step < warmup) return detail::warm_up(start, peak, step, warmup);
    const double left = detail::decay_left(step, warmup, total);
    return floor + (peak - floor) * (1 - std::cos(std::numbers::pi * left)) / 2;
  }
};

}  // namespace simplx
