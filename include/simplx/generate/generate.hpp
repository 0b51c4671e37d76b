// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/generate.hpp
/// Text from a model, token by token:
///
///     Sampler draw({.temperature = 0.8, .top_k = 40, .seed = 1});
///     generate(stream, prompt, 400, draw, [](std::int32_t token) { std::putchar(token); });
///
/// and several at once, each with a sampler of its own:
///
///     generate(stream, copies_of(prompt, 8), 400, draws, [](Index text, std::int32_t token) { ... });
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

namespace detail {

/// Tokens that the context of a source has of a text, at most as many.
template <class Source>
class Seen {
 public:
  Seen(std::span<const std::int32_t> prompt, long more, const Source& source)
      : context_(static_cast<std::size_t>(source.capacity())) {
    if (prompt.empty()) throw Error("the prompt is empty", "begin with at least one token");
    const auto end = prompt.last(std::min(context_, prompt.size()));
    tokens_.reserve(std::min(context_, end.size() + static_cast<std::size_t>(std::max(more, 0L))) + 1);
    tokens_.assign(end.begin(), end.end());
  }

  std::span<const std::int32_t> all() const { return tokens_; }
  /// What is evaluated for the next token: this one, or, where the context is full, the last half of all, anew.
  std::span<const std::int32_t> after(std::int32_t token) {
    tokens_.push_back(token);
    if (tokens_.size() <= context_) return all().last(1);
    const std::size_t rest = std::max<std::size_t>(context_ / 2, 1);
    tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<Index>(rest));
    return all();
  }

 private:
  std::size_t context_;
  std::vector<std::int32_t> tokens_;
};

/// Calls emit(arguments...), which returns nothing or whether the text goes on; says whether it does.
template <class Emit, class... Arguments>
bool emitted(Emit& emit, Arguments... arguments) {
  using Result = decltype(emit(arguments...));
  if constexpr (std::is_void_v<Result>) {
    return emit(arguments...), true;
  } else {
    static_assert(std::is_same_v<Result, bool>,
                  "simplx: emit(token) returns a bool, false to end the text, or nothing");
    return emit(arguments...);
  }
}

}  // namespace detail

/// Continues a prompt by `count` tokens, each given to emit(token) as it comes; ends where emit returns false.
///
/// Of a prompt longer than the context its end is seen. `source` is a Stream or a Replay, which is reset before.
/// Errors  throws Error for an empty prompt, for tokens and logits that are none, and what emit throws
/// Cost    allocates before the first token alone
template <class Source, class Emit>
void generate(Source& source, std::span<const std::int32_t> prompt, long count, Sampler& draw, Emit emit) {
  detail::Seen<Source> seen(prompt, count, source);
  source.reset();
  auto logits = source.feed(seen.all());
  for (long i = 0; i < count; ++i) {
    const std::int32_t token = draw(logits);
    if (!detail::emitted(emit, token) || i + 1 == count) return;
    const auto next = seen.after(token);
    if (source.size() == source.capacity()) source.reset();
    logits = source.feed(next);
  }
}

/// A batch of equal sequences, such as a prompt for so many texts.
inline TokenBatch copies_of(std::span<const std::int32_t> tokens, Index count) {
  TokenBatch batch;
  batch.offsets.assign(1, 0);
  for (Index s = 0; s < count; ++s) {
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    batch.offsets.push_back(std::ssize(batch.tokens));
  }
  return batch;
}

/// Continues each of several prompts, text s by draws[s], its tokens given to emit(s, token); where that returns false
/// this text ends.
///
/// `source` is a Stream of as many sequences, which is reset before. Prompts that follow equal ones are not evaluated
/// again. A text is that of its prompt and draws alone, but for the rounding of products, which several rows share.
/// Errors  as above, and throws Error for another number of prompts or draws
/// Cost    weights are read once for one token of each text; allocates before the second tokens, and where contexts are
///         first full
template <class Source, class Emit>
void generate(Source& source, const TokenBatch& prompts, long count, std::span<Sampler> draws, Emit emit) {
  const Index texts = source.sequences(), vocab = Source::Net::vocab();
  if (prompts.sequences() != texts || std::ssize(draws) != texts) {
    throw Error(std::to_string(prompts.sequences()) + " prompts and " + std::to_string(draws.size()) +
                    " samplers for a stream of " + std::to_string(texts) + " sequences",
                "give one of each for each text");
  }
  check_offsets(prompts);
  std::vector<detail::Seen<Source>> seen;
  std::vector<Index> row(draws.size());  // of the logits, for each text
  TokenBatch next;
  const auto begin = [&] { next.tokens.clear(), next.offsets.assign(1, 0); };
  const auto give = [&](std::span<const std::int32_t> tokens) {
    next.tokens.insert(next.tokens.end(), tokens.begin(), tokens.end());
    next.offsets.push_back(std::ssize(next.tokens));
  };
  begin();
  for (std::size_t s = 0; s < row.size(); ++s) {
    seen.emplace_back(detail::sequence_of(prompts, static_cast<Index>(s)), count, source);
    const bool is_new = s == 0 || !std::ranges::equal(seen[s].all(), seen[s - 1].all());
    row[s] = s == 0 ? 0 : row[s - 1] + is_new;
    give(is_new ? seen[s].all() : std::span<const std::int32_t>());
  }
  source.reset();
  auto logits = source.feed(next);
  for (std::size_t s = 1; s < row.size(); ++s) {
    if (row[s] == row[s - 1]) source.copy(static_cast<Index>(s) - 1, static_cast<Index>(s));
  }
  constexpr Index ended = -1;
  /// What a text goes on with: nothing once it has ended.
  const auto continued = [&](std::size_t s, bool is_last) -> std::span<const std::int32_t> {
    if (row[s] == ended) return {};
    const auto text = static_cast<Index>(s);
    const std::int32_t token =
        draws[s](logits.subspan(static_cast<std::size_t>(row[s] * vocab), static_cast<std::size_t>(vocab)));
    if (!detail::emitted(emit, text, token)) row[s] = ended;
    if (row[s] == ended || is_last) return {};
    if (source.size(text) == source.capacity()) source.reset(text);
    return seen[s].after(token);
  };
  for (long i = 0; i < count; ++i) {
    begin();
    for (std::size_t s = 0; s < row.size(); ++s) give(continued(s, i + 1 == count));
    if (next.tokens.empty()) return;
    logits = source.feed(next);
    Index fed = 0;
    for (Index& of_text : row) of_text = of_text == ended ? ended : fed++;
  }
}

template <class Source, class Emit>
  requires(!requires(Source& source) { source.sequences(); })
void generate(Source&, const TokenBatch&, long, std::span<Sampler>, Emit) {
  static_assert(requires(Source& source) { source.sequences(); },
                "simplx: several prompts are continued by a Stream made with {.sequences = n}; a Replay has one text, "
                "so give it one prompt after the other");
}

}  // namespace simplx
