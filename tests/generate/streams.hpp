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

/// The largest difference of logits, relative to the largest of them.
struct LogitsDifference {
  double worst = 0, largest = 0;

  template <class Logits>
  void add(const Logits& logits, std::span<const double> expected) {
    REQUIRE(logits.size() == expected.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double difference = std::abs(static_cast<double>(logits[i]) - expected[i]);
      if (!(difference <= worst)) worst = difference;  // NaN, too
      largest = std::max(largest, std::abs(expected[i]));
    }
  }
};

/// The largest difference between logits streamed in feeds of these sizes, again and again, and those of
/// Evaluation in double on the reference path; relative to the largest logit. Of one sequence, and of three at once: the
/// first gets one token with each feed, the last one with every second, the one between them as many as are said.
template <auto const& model, class S>
double stream_error(Index context, std::vector<Index> feeds, Index chunk = 64) {
  using Net = Inference<model, Cpu<S>>;
  constexpr std::size_t sequences = 3, said = 1;
  Net net({.seed = 3});
  stir(net.tensors(), net.parameters());
  Evaluation<model, Cpu<double, Path::reference>> whole(simplx::tokens{context}, 3);
  std::ranges::copy(net.parameters(), whole.parameters().begin());
  std::ranges::copy(net.constants(), whole.constants().begin());
  std::vector<std::int32_t> tokens[sequences];
  std::vector<double> expected[sequences];
  for (std::size_t s = 0; s < sequences; ++s) {
    tokens[s] = some_tokens(context, Net::vocab(), s);
    std::ranges::copy(tokens[s], whole.indices("tokens").begin());
    whole.forward();
    expected[s].assign(whole.output().begin(), whole.output().end());
  }
  /// Logits expected of some tokens that end there.
  const auto ending = [&](std::size_t sequence, Index end, std::size_t count) {
    return std::span<const double>(expected[sequence]).first(static_cast<std::size_t>(end * Net::vocab())).last(count);
  };

  Stream<model, Cpu<S>> stream(net, {.context = context, .chunk = chunk});
  Stream<model, Cpu<S>> several(net, {.context = context, .chunk = chunk, .sequences = sequences});
  LogitsDifference difference;
  std::size_t next = 0;
  for (Index begin = 0; begin < context;) {
    const Index count = std::min(feeds[next++ % feeds.size()], context - begin);
    stream.feed(std::span(tokens[said]).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    begin += count;
    difference.add(stream.logits(), ending(said, begin, stream.logits().size()));

    const Index news[sequences] = {1, count, static_cast<Index>(next % 2)};
    TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
    for (std::size_t s = 0; s < sequences; ++s) {
      const auto first = tokens[s].begin() + several.size(static_cast<Index>(s));
      batch.tokens.insert(batch.tokens.end(), first, first + news[s]);
      batch.offsets.push_back(std::ssize(batch.tokens));
    }
    auto logits = several.feed(batch);
    for (std::size_t s = 0; s < sequences; ++s) {
      if (news[s] == 0) continue;
      const auto columns = static_cast<std::size_t>(Net::vocab());
      difference.add(logits.first(columns), ending(s, several.size(static_cast<Index>(s)), columns));
      logits = logits.subspan(columns);
    }
    CHECK(logits.empty());
  }
  return stream.size() == context ? difference.worst / difference.largest : 1;
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
