// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/attention_size.hpp
/// What one attention is: its sizes, how a head mixes values and what it sees, and the addresses of its operands.
///
/// | mixing    | O = M V with M =             |   | mask   | query i sees       | with a window, keys |
/// |-----------|------------------------------|---|--------|--------------------|---------------------|
/// | softmax   | A                            |   | causal | keys j <= i        | i - window < j <= i |
/// | skip_init | alpha I + beta A             |   | full   | the whole sequence | |i - j| < window    |
/// | shaped    | alpha I + beta A - gamma C   |
///
/// A = softmax(Q K^T / sqrt(key_width) + mask + bias) and C = A at Q = 0. The bias is zero, or -m |i - j| with the
/// slope m of the head: ALiBi (He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Press et al. 2022).
///
/// With dropout A is A * R, element by element: R_ij is 0 with probability p, else 1 / (1 - p). It is never
/// stored: backward draws it anew. Neither I nor C is dropped.

#include <simplx/core/random.hpp>

#include <limits>

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
  bool drops = false;  ///< weights, as the operands say
  int window = 0;      ///< tokens that a query sees, itself the last, or the one in the middle; 0: there is no window

  /// Whether query i sees key j of its sequence.
  SIMPLX_HD constexpr bool sees(Index i, Index j) const {
    const bool near = window == 0 || (i - j < window && j - i < window);
    return near && (mask == Mask::full || j <= i);
  }
  /// The keys that queries first .. last - 1 of so many rows see between them.
  SIMPLX_HD constexpr Index first_key(Index first) const {
    return window == 0 || first < window ? 0 : first - window + 1;
  }
  SIMPLX_HD constexpr Index keys_end(Index last, Index rows) const {
    if (mask == Mask::causal) return last;
    return window == 0 || rows - last < window ? rows : last + window - 1;
  }
};

/// From what the dropped weights of an attention are drawn.
struct AttentionDraw {
  double rate = 0;                     ///< the probability p; below 0 it counts as 0, above 1 as 1
  const detail::Draw* step = nullptr;  ///< what is drawn from in this step
  std::uint64_t node = 0;              ///< the key of the node: detail::node_key
};

/// R of a head in a sequence.
template <class S>
struct DroppedWeights {
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::min();
  static constexpr std::int32_t all = std::numeric_limits<std::int32_t>::max();
  std::uint64_t key = 0;
  std::int32_t limit = none;  ///< words below it, signed, drop
  S kept{1.0};                ///< the factor of what is not dropped

  DroppedWeights() = default;
  /// By the number of the sequence among those of this call.
  SIMPLX_HD DroppedWeights(const AttentionDraw& draw, Index sequence, int head) {
    const double rate = draw.rate > 0 ? draw.rate : 0;
    const auto number = static_cast<std::uint64_t>(draw.step->first_sequence + sequence);
    key = bits(bits(detail::mask_key(draw.step->key, draw.node), number), static_cast<std::uint64_t>(head));
    const bool some = rate < 1;
    limit = some ? static_cast<std::int32_t>(rate * 0x1p32 - 0x1p31) : all;
    kept = S(some ? 1 / (1 - rate) : 0);
  }
  SIMPLX_HD detail::RowKey row(Index query) const {
    return detail::row_key(key, static_cast<std::uint32_t>(query));
  }
  SIMPLX_HD bool drops(detail::RowKey row, Index other) const {
    const auto word = detail::row_word(row.first, row.second, static_cast<std::uint32_t>(other));
    return static_cast<std::int32_t>(word) < limit;
  }
};

/// What an attention is given. Shapes: query, key (rows, heads * key_width); value (rows, heads * value_width);
/// alpha, beta, gamma, slopes (heads), nullptr where mixing and bias do without. The first three may be one buffer.
template <class S>
struct AttentionOperands {
  const S *query = nullptr, *key = nullptr, *value = nullptr;
  const S *alpha = nullptr, *beta = nullptr, *gamma = nullptr, *slopes = nullptr;
  AttentionDraw draw{};
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
