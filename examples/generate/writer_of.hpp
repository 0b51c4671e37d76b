// SPDX-License-Identifier: MIT
#pragma once

// The models: a decoder for each block, evaluated token by token.

#include "writer.hpp"

#include <simplx/generate/generate.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/models/decoder.hpp>

namespace generate_text {

using namespace simplx;

template <auto const& block>
inline constexpr Decoder model{.block = block, .context = 128, .positions = Positions::learned};

template <auto const& block>
class WriterOf final : public Writer {
 public:
  static constexpr auto const& logits = logits_of<model<block>>;

  explicit WriterOf(std::uint64_t seed) : net_(seed) {}

  Sizes sizes() const override {
    constexpr const Decoder& m = model<block>;
    return {m.vocab, m.width, m.heads, m.layers, m.context, "learned"};
  }
  const TensorList& tensors() const override { return net_.tensors(); }
  std::span<float> parameters() override { return net_.parameters(); }
  std::span<float> constants() override { return net_.constants(); }
  Index cache_bytes() const override { return simplx::cache_bytes<logits>(model<block>.context); }

  void write(std::span<const std::int32_t> prompt, long count, Sampler& draw, bool cached,
             const std::function<bool(std::int32_t)>& emit) override {
    const auto continue_with = [&](auto source) { generate(source, prompt, count, draw, emit); };
    if (cached) {
      continue_with(Stream<logits>(net_));
    } else {
      continue_with(Replay<logits>(net_));
    }
  }

 private:
  Inference<logits> net_;
};

template <auto const& block>
std::unique_ptr<Writer> make_writer(std::uint64_t seed) {
  return std::make_unique<WriterOf<block>>(seed);
}

}  // namespace generate_text
