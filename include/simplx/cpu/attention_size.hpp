// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_size.hpp
/// What one attention is: its sizes, how a head mixes values and what it sees, and the addresses of its operands.
///
/// | mixing    | O = M V with M =             |   | mask   | query i sees       |
/// |-----------|------------------------------|---|--------|--------------------|
/// | softmax   | A                            |   | causal | keys j <= i        |
/// | skip_init | alpha I + beta A             |   | full   | the whole sequence |
/// | shaped    | alpha I + beta A - gamma C   |
///
/// A = softmax(Q K^T / sqrt(key_width) + mask + bias) and C = A at Q = 0. The bias is zero, or -m |i - j| with the
/// slope m of the head: ALiBi (He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Press et al. 2022).

#include <simplx/core/shape.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// How a head mixes its values: by A, by alpha I + beta A, or by alpha I + beta A - gamma C.
enum class AttentionMatrix : signed char { softmax, skip_init, shaped };

/// What a query sees of its sequence: itself and what comes before, or all of it.
enum class Mask : signed char { causal, full };

/// Heads and widths of one attention and how its heads attend; any width of at least 1.
struct AttentionSize {
  int heads = 1;
  int key_width = 1;
  int value_width = 1;
  AttentionMatrix matrix = AttentionMatrix::softmax;
  Mask mask = Mask::causal;
  bool alibi = false;
};

/// What an attention is given. Shapes: query, key (rows, heads * key_width); value (rows, heads * value_width);
/// alpha, beta, gamma, slopes (heads), nullptr where mixing and bias do without. The first three may be one buffer.
template <class S>
struct AttentionOperands {
  const S *query = nullptr, *key = nullptr, *value = nullptr;
  const S *alpha = nullptr, *beta = nullptr, *gamma = nullptr, *slopes = nullptr;
};

/// Where gradients go; shapes as the operands. Those of query, key and value are skipped, stored or accumulated as
/// their modes say, and may be one buffer if all accumulate; the others accumulate, and nullptr is skipped.
template <class S, class Query = S, class Key = S, class Value = S>
struct AttentionGradients {
  Query* query = nullptr;
  Key* key = nullptr;
  Value* value = nullptr;
  S *alpha = nullptr, *beta = nullptr, *gamma = nullptr;
};

}  // namespace simplx
