// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/context.hpp
/// What a kernel is handed at run time: a handful of pointers and counts, trivially copyable, by value.

#include <simplx/core/info.hpp>

#include <cstdint>

namespace simplx::inline SIMPLX_TARGET {

/// The label that carries no loss.
inline constexpr std::int32_t ignored_label = -100;

/// From what dropout draws: masks depend on nothing else, so that threads, micro-batches and recomputation agree.
struct Randomness {
  bool training = false;      ///< otherwise nothing is dropped
  std::uint64_t key = 0;      ///< of the seed and the step
  std::uint64_t scope = 0;    ///< of the names of the stacks and layers around (detail::extended)
  Index first_sequence = 0;   ///< number of the first sequence (or row) among those of the whole step
};

/// By which kernels a CPU computes.
///
/// fast: vector kernels for static shapes, Eigen for products of computed values whose width is no multiple of the
/// vector; products of floats with parameters are the matrix unit's where there is one (cpu/gemm_pieces.hpp).
/// vectors: as fast, without a matrix unit.
/// reference: products, attention and the values of norms and cross-entropy by Eigen, for every width; what tests
/// compare with.
/// bfloat16: as fast, but products with parameters round both operands to bfloat16 and add up in float. Parameters,
/// gradients, moments and everything else stay float, as do products whose widths are no multiple of a vector. Faster
/// where the CPU multiplies pairs (AVX-512 BF16 of AMD, AMX of Intel).
/// int8: as vectors, but products with parameters read bytes, to which each column of them is rounded (cpu/int8.hpp),
/// so that forward passes of few rows, such as tokens of a stream, wait for a quarter of the memory. Products of less
/// than a third of a vector of columns stay float, and keys that a stream folds into queries. It has no backward.
enum class Path : int { fast, reference, bfloat16, vectors, int8 };

class Gpu;   // cuda/gpu.cuh
namespace cpu {
class Team;  // cpu/threads.hpp
}
namespace detail {
class Turn;  // core/turn.hpp
}

/// Memory of one evaluation. Offsets are constants of the graph: address = base[axis] + columns * stride[axis].
template <class S>
struct Context {
  const S* parameters = nullptr;
  const S* packed = nullptr;     ///< what kernels prepared from the parameters for forward
  const S* turned = nullptr;     ///< and for backward: as much, in the same places
  const S* constants = nullptr;
  S* gradients = nullptr;        ///< of the parameters; backward adds to them
  S* further_gradients = nullptr;  ///< what further uses of a parameter add to; null: `gradients`, too
  detail::Turn* turn = nullptr;  ///< among the threads that share these gradients; null: alone
  cpu::Team* team = nullptr;     ///< that shares out products and attention where no backward follows; null: alone
  S* kept[axis_count]{};
  S* temporary[axis_count]{};
  S* scratch = nullptr;          ///< of the op that runs, nothing survives in it

  Index rows[axis_count]{};
  Index stride[axis_count]{};    ///< rows rounded up, so that every buffer is aligned; 1 on the fixed axis
  Segments segments{};           ///< where the sequences of Axis::tokens begin
  Index longest = 0;             ///< tokens of the longest sequence
  const Index* past = nullptr;   ///< of a stream: how many tokens each sequence had before these; null: none
  Randomness random{};
  bool results_after_backward = false;  ///< it follows, and nobody reads them before: forward may leave them to it
  Gpu* gpu = nullptr;            ///< of a backend whose memory all this is

  const void* inputs[max_inputs]{};
  S* input_gradients[max_inputs]{};
  S* outputs[max_outputs]{};
  S* output_gradients[max_outputs]{};  ///< seeded by the caller; backward may overwrite them

  /// On a host.
  Index past_of(Index sequence) const { return past ? past[sequence] : 0; }
  Index rows_of(const Shape& shape) const {
    return shape.is_fixed() ? shape.rows : rows[static_cast<int>(shape.axis)];
  }
};

/// Row counts as they are seen by kernels; axes of length 0 take no memory.
template <class S>
void set_rows(Context<S>& context, const Rows& rows) {
  for (int i = 0; i < axis_count; ++i) {
    const Axis axis = static_cast<Axis>(i);
    context.rows[i] = rows.count(axis);
    context.stride[i] = axis == Axis::fixed ? 1 : round_up(context.rows[i], alignment);
  }
}

/// Elements of a region of that many columns.
constexpr Index elements(const Columns& columns, const Rows& rows) {
  Index total = 0;
  for (int i = 0; i < axis_count; ++i) {
    const Axis axis = static_cast<Axis>(i);
    total += columns.on[i] * (axis == Axis::fixed ? 1 : round_up(rows.count(axis), alignment));
  }
  return total;
}

}  // namespace simplx
