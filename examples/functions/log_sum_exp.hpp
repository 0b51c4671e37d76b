// SPDX-License-Identifier: MIT
#pragma once

/// log(exp(x_1) + ... + exp(x_n)); its gradient is softmax(x).

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/softmax.hpp>

namespace functions {
using namespace simplx;

struct LogSumExp {
  constexpr Expr operator()() const { return log_sum_exp(variable("x", rows_of(Axis::batch, 1))); }
};

}  // namespace functions
