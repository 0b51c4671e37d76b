// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/generate.hpp
/// Text from a model, token by token:
///
///     Sampler draw({.temperature = 0.8, .top_k = 40, .seed = 1});
///     generate(stream, prompt, 400, draw, [](std::int32_t token) { std::putchar(token); });
///
/// Where the context is full its first half is forgotten: the last context / 2 tokens are fed again, from position 0
/// on, so that a text of any length costs two evaluations of each token at most.

#include <simplx/generate/inference.hpp>
#include <simplx/train/sampler.hpp>

#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// What a stream does, without remembering anything: the whole sequence is evaluated again for each token.
template <auto const& model, class Backend = Cpu<float>>
class Replay {
 public:
  using Net = Inference<model, Backend>;

  /// Uses the weights of `net`, which must outlive it.
  ///
  /// Errors  as Stream
  explicit Replay(Net& net, Index context = Net::usual_context())
      : net_(net), capacity_(checked_context(context, Net::longest_sequence())) {}

  /// As Stream::feed.
  auto feed(std::span<const std::int32_t> tokens) {
    detail::check_feed<Net>(tokens, size(), capacity_);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return net_.logits(tokens_).last(static_cast<std::size_t>(Net::vocab()));
  }
  void reset() { tokens_.clear(); }
  Index size() const { return static_cast<Index>(tokens_.size()); }
  Index capacity() const { return capacity_; }

 private:
  Net& net_;
  Index capacity_;
  std::vector<std::int32_t> tokens_;
};

/// Continues a prompt by `count` tokens, each given to emit(token) as it comes; ends where emit returns false.
///
/// Of a prompt longer than the context its end is seen. `source` is a Stream or a Replay, which is reset before.
/// Errors  throws Error for an empty prompt, for tokens and logits that are none, and what emit throws
/// Cost    allocates before the first token alone
template <class Source, class Emit>
void generate(Source& source, std::span<const std::int32_t> prompt, long count, Sampler& draw, Emit emit) {
  if (prompt.empty()) throw Error("the prompt is empty", "begin with at least one token");
  const auto context = static_cast<std::size_t>(source.capacity());
  std::vector<std::int32_t> seen;
  const auto forget_but = [&](std::size_t rest) { seen.erase(seen.begin(), seen.end() - static_cast<Index>(rest)); };
  seen.reserve(context + 1);
  const auto end_of_prompt = prompt.last(std::min(context, prompt.size()));
  seen.assign(end_of_prompt.begin(), end_of_prompt.end());
  source.reset();
  auto logits = source.feed(seen);
  for (long i = 0; i < count; ++i) {
    const std::int32_t token = draw(logits);
    if constexpr (std::is_void_v<decltype(emit(token))>) {
      emit(token);
    } else {
      static_assert(std::is_same_v<decltype(emit(token)), bool>,
                    "simplx: emit(token) returns a bool, false to end the text, or nothing");
      if (!emit(token)) return;
    }
    if (i + 1 == count) return;
    seen.push_back(token);
    if (source.size() == source.capacity()) {
      forget_but(std::max<std::size_t>(context / 2, 1));
      source.reset();
      logits = source.feed(seen);
    } else {
      logits = source.feed(std::span(seen).last(1));
    }
  }
}

}  // namespace simplx
