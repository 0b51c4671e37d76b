// SPDX-License-Identifier: MIT
#pragma once

// A trained language model that writes, whatever its block: what the program asks of one. Each model is compiled in a
// source of its own (blocks/), side by side.

#include "../device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/train/sampler.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace generate_text {

using devices::Device;

/// The sizes of a model, as run.json records them.
struct Sizes {
  simplx::Index vocab, width, heads, layers, context;
  const char* positions;
};

class Writer {
 public:
  virtual ~Writer() = default;

  virtual Sizes sizes() const = 0;
  virtual const simplx::TensorList& tensors() const = 0;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> constants() = 0;

  /// Continues the prompt to a text of each sampler; emit is given the number of a text and its next token, and says
  /// whether it goes on. With a cache they grow at once, without it one after the other. Returns the bytes that the
  /// cache takes.
  virtual simplx::Index write(std::span<const std::int32_t> prompt, long count, std::span<simplx::Sampler> draws,
                              bool cached, const std::function<bool(simplx::Index, std::int32_t)>& emit) = 0;
};

/// A decoder of SIMPLX_VOCAB tokens, 6 layers, width 128 and 4 heads around a block, as train_lm trains them; for the
/// blocks of blocks/*.cpp. The seed is that of the run: constants such as the bases of Eq. (6) come from it.
///
/// Errors  throws Error for a GPU if the program was built without CUDA, or if there is none
template <auto const& block>
std::unique_ptr<Writer> make_writer(Device device, std::uint64_t seed);
/// The same on a GPU; defined in blocks/*.cu, which are part of programs built with CUDA.
template <auto const& block>
std::unique_ptr<Writer> make_cuda_writer(Device device, std::uint64_t seed);

}  // namespace generate_text
