// SPDX-License-Identifier: MIT
#include <simplx/generate/logits_model.hpp>

#include "support.hpp"

#include <simplx/models/decoder.hpp>

using namespace simplx;

namespace {

inline constexpr Decoder model{.block = pre_ln, .vocab = 40, .width = 32, .heads = 2, .layers = 1, .context = 24};

struct Seen : detail::LogitsModel<logits_of<model>> {
  using LogitsModel::checked_length, LogitsModel::checked_lengths, LogitsModel::check_room, LogitsModel::logits_before,
      LogitsModel::logits_of_all, LogitsModel::room_for, LogitsModel::together;
};
constexpr std::int32_t three[]{1, 39, 0}, unknown[]{1, 40}, negative[]{-1};

}  // namespace

TEST_SUITE_BEGIN("generate/logits_model");

TEST_CASE("a model says how many logits there are, and how long sequences may be") {
  static_assert(Seen::vocab() == 40 && Seen::longest_sequence() == 24 && Seen::usual_context() == 24);
  static_assert(Seen::together());
  CHECK(Seen::logits_of_all(three) == 120);
  const TokenBatch batch{{9, 9, 1, 2, 3, 4, 5}, {}, {2, 4, 7}};
  CHECK(Seen::logits_before(batch, 0) == 0);
  CHECK(Seen::logits_before(batch, 1) == 80);
  CHECK(Seen::logits_before(batch, 2) == 200);
  CHECK(Seen::checked_lengths(batch) == 3);
  const Rows room = Seen::room_for({.tokens = 5, .sequences = 2}, {.tokens = 2, .sequences = 9, .longest_sequence = 1});
  CHECK(room.tokens == 24);  // of sequences to come, up to the longest
  CHECK(room.sequences == 9);
  CHECK(room.longest_sequence == 24);
}

TEST_CASE("tokens that are none of the model's are refused, and so is what does not fit") {
  CHECK(Seen::checked_length(three) == 3);
  CHECK_THROWS_WITH_AS(Seen::check(unknown), doctest::Contains("token 40, but the model knows 40"), Error);
  CHECK_THROWS_WITH_AS(Seen::check(negative), doctest::Contains("token -1"), Error);
  CHECK_THROWS_WITH_AS(Seen::checked_length({}), doctest::Contains("there is no token"), Error);
  CHECK_THROWS_WITH_AS(Seen::checked_length(std::vector<std::int32_t>(25, 1)), doctest::Contains("a sequence"), Error);
  CHECK_THROWS_WITH_AS(Seen::checked_lengths({{1, 2}, {}, {0, 2, 2}}), doctest::Contains("sequence 1 of the batch"), Error);
  CHECK_THROWS_WITH_AS(Seen::checked_lengths({}), doctest::Contains("the batch has no sequences"), Error);
  CHECK_THROWS_WITH_AS(Seen::check_room(3, 120, 80), doctest::Contains("room for 80 logits of 3 tokens"), Error);
}

TEST_CASE("further tokens fit what is left of a context") {
  detail::check_feed<Seen>(three, 5, 8);
  CHECK_THROWS_WITH_AS(detail::check_feed<Seen>(three, 6, 8),
                       "the context is full: 6 tokens and 3 more, of 8\n  hint: reset() and feed the last tokens again",
                       Error);
  CHECK_THROWS_WITH_AS(detail::check_feed<Seen>({}, 0, 8), doctest::Contains("there is no token"), Error);
  CHECK_THROWS_WITH_AS(detail::check_feed<Seen>(unknown, 0, 8), doctest::Contains("token 40"), Error);
}

TEST_SUITE_END();
