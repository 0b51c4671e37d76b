// SPDX-License-Identifier: MIT
#pragma once

/// One step of an LSTM for a batch of rows:
///
///     [i f g o] = x W + h U + b,   c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

namespace functions {
using namespace simplx;

struct LstmState {
  Expr hidden, cell;
};

struct LstmCell {
  Index inputs, units;

  constexpr LstmState operator()() const {
    auto x = variable("x", rows_of(Axis::batch, inputs));
    auto h = variable("h", rows_of(Axis::batch, units)), c = variable("c", rows_of(Axis::batch, units));
    auto W = variable("W", fixed_shape(inputs, 4 * units)), U = variable("U", fixed_shape(units, 4 * units));
    auto gates = x * W + h * U + variable("b", fixed_shape(1, 4 * units));
    const auto gate = [&](Index k) { return slice_columns(gates, k * units, units); };
    auto next = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
    return {sigmoid(gate(3)) * tanh(next), next};
  }
};

}  // namespace functions
