// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/schedule.hpp
/// The learning rate over a run: linear warm-up, then linear decay.

#include <algorithm>

namespace simplx {

/// Rises to `peak` over the first `warmup` steps and falls to `floor` at step `total`.
///
/// Steps count from 0: step 0 has peak / warmup, step warmup - 1 has the peak, the last step is one decrement
/// above the floor. Without warm-up, step 0 has the peak.
struct LinearSchedule {
  double peak = 1e-3;
  long warmup = 0;
  long total = 1;
  double floor = 0;

  double at(long step) const {
    if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double left = static_cast<double>(total - step) / static_cast<double>(std::max(1L, total - warmup));
    return floor + (peak - floor) * std::clamp(left, 0.0, 1.0);
  }
};

}  // namespace simplx
