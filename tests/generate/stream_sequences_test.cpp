// SPDX-License-Identifier: MIT
#include <simplx/generate/stream_sequences.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

struct Net {
  using S = double;
  static Index vocab() { return 1; }
  static Index usual_context() { return 10; }
  static Index longest_sequence() { return 10; }
  static void check(std::span<const std::int32_t>) {}
};

/// Remembers the chunks it is given; the one logit of a sequence is its last token.
class Recorder : public detail::StreamSequences<Recorder, Net> {
 public:
  struct Given {
    std::vector<std::int32_t> tokens;
    std::vector<Index> numbers, past;
    bool is_last;
    bool operator==(const Given&) const = default;
  };
  explicit Recorder(const StreamOptions& options) : StreamSequences(options, /*usual chunk*/ 4) {}
  std::span<const double> evaluate(std::span<const std::int32_t> tokens, const detail::ChunkSequences& of_chunk,
                                   detail::Chunk chunk) {
    given.push_back({{tokens.begin(), tokens.end()},
                     {of_chunk.numbers.begin(), of_chunk.numbers.end()},
                     {of_chunk.past.begin(), of_chunk.past.end()},
                     chunk == detail::Chunk::last});
    logits_.clear();
    of_chunk.segments.each([&](Index, Index first, Index rows) {
      logits_.push_back(tokens[static_cast<std::size_t>(first + rows - 1)]);
    });
    return logits_;
  }
  std::vector<Given> given;

 private:
  std::vector<double> logits_;
};

std::vector<double> copy_of(std::span<const double> logits) { return {logits.begin(), logits.end()}; }

}  // namespace

TEST_CASE("generate/stream_sequences: single tokens go on together, then each other sequence in chunks") {
  Recorder stream({.sequences = 4});
  const TokenBatch batch{.tokens = {1, 21, 22, 23, 24, 25, 26, 3}, .offsets = {0, 1, 1, 7, 8}};
  CHECK(copy_of(stream.feed(batch)) == std::vector<double>{1, 26, 3});
  const std::vector<Recorder::Given> expected{{{1, 3}, {0, 3}, {0, 0}, true},
                                              {{21, 22, 23, 24}, {2}, {0}, false},
                                              {{25, 26}, {2}, {4}, true}};
  CHECK(stream.given == expected);
  CHECK((stream.size(0) == 1 && stream.size(1) == 0 && stream.size(2) == 6 && stream.size(3) == 1));

  const TokenBatch all{.tokens = {2, 11, 27, 4}, .offsets = {0, 1, 2, 3, 4}};
  CHECK(copy_of(stream.feed(all)) == std::vector<double>{2, 11, 27, 4});
  CHECK(stream.given.back() == Recorder::Given{{2, 11, 27, 4}, {0, 1, 2, 3}, {1, 0, 6, 1}, true});
}

TEST_CASE("generate/stream_sequences: one sequence goes on in chunks of the size that is asked for") {
  Recorder stream({.chunk = 2});
  const std::vector<std::int32_t> tokens{1, 2, 3};
  CHECK(copy_of(stream.feed(tokens)) == std::vector<double>{3});
  const std::vector<Recorder::Given> expected{{{1, 2}, {0}, {0}, false}, {{3}, {0}, {2}, true}};
  CHECK(stream.given == expected);
  CHECK((stream.size() == 3 && stream.capacity() == 10));
}
