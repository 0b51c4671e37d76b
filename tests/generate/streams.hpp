// SPDX-License-Identifier: MIT
#pragma once

/// What every stream is held to: the logits of the whole sequence, evaluated at once.

#include <simplx/blocks/tokens.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/models/decoder.hpp>

#include "support.hpp"

namespace test {

inline std::vector<std::int32_t> some_tokens(Index count, Index vocab, std::uint64_t key = 1) {
  std::vector<std::int32_t> tokens;
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<std::int32_t>(bits(key, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

/// Moves all parameters away from their initial values: queries are zero there and gains one.
template <class Parameters>
void stir(const TensorList& tensors, Parameters parameters) {
  for (const TensorInfo& tensor : tensors.parameters) {
    for (Index i = 0; i < tensor.size(); ++i) {
      auto& p = parameters[static_cast<std::size_t>(tensor.offset + i)];
      p += static_cast<std::remove_reference_t<decltype(p)>>(
          0.3 * normal(key_of(9, tensor.name), static_cast<std::uint64_t>(i)));
    }
  }
}

/// The largest difference between logits streamed in feeds of these sizes, again and again, and those of
/// Evaluation in double on the reference path; relative to the largest logit.
template <auto const& model, class S>
double stream_error(Index context, std::vector<Index> feeds, Index chunk = 64) {
  using Net = Inference<model, Cpu<S>>;
  Net net({.seed = 3});
  stir(net.tensors(), net.parameters());
  const auto tokens = some_tokens(context, Net::vocab());
  Evaluation<model, Cpu<double, Path::reference>> whole(simplx::tokens{context}, 3);
  std::ranges::copy(net.parameters(), whole.parameters().begin());
  std::ranges::copy(net.constants(), whole.constants().begin());
  std::ranges::copy(tokens, whole.indices("tokens").begin());
  whole.forward();

  Stream<model, Cpu<S>> stream(net, {.context = context, .chunk = chunk});
  double worst = 0, largest = 0;
  std::size_t next = 0;
  for (Index begin = 0; begin < context;) {
    const Index count = std::min(feeds[next++ % feeds.size()], context - begin);
    stream.feed(std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    begin += count;
    const auto logits = stream.logits();
    const std::size_t first = static_cast<std::size_t>(begin * Net::vocab()) - logits.size();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double expected = whole.output()[first + i],
                   difference = std::abs(static_cast<double>(logits[i]) - expected);
      if (!(difference <= worst)) worst = difference;  // NaN, too
      largest = std::max(largest, std::abs(expected));
    }
  }
  return stream.size() == context ? worst / largest : 1;
}

/// With constants that are drawn, the bases of Eq. (6).
inline constexpr Decoder with_bases{.block = shaped_reparam, .vocab = 9, .width = 8, .heads = 2, .layers = 1,
                                    .context = 10};

/// Parameters are zeros, and constants what they are with initial values.
template <class Net>
void check_without_initial_values() {
  Net net({.seed = 3, .initial_values = false}), drawn({.seed = 3});
  CHECK(std::ranges::count(net.parameters(), 0.0f) == std::ssize(net.parameters()));
  CHECK(std::ranges::equal(net.constants(), drawn.constants()));
  CHECK(net.constants().size() > 64);
  std::ranges::copy(drawn.parameters(), net.parameters().begin());
  const auto tokens = some_tokens(5, 9);
  CHECK(std::ranges::equal(net.logits(tokens), drawn.logits(tokens)));
}

}  // namespace test
