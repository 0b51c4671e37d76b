// SPDX-License-Identifier: MIT
#include <simplx/train/trainer_options.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/trainer_options");

TEST_CASE("what is not given follows from the batch and the model") {
  const TrainerOptions plain = checked({.batch = 6}, 128, 100);
  CHECK(plain.sequences_per_step == 6);
  CHECK(plain.context == 100);
  const TrainerOptions given = checked({.batch = 6, .context = 128, .sequences_per_step = 2}, 128, 100);
  CHECK(given.sequences_per_step == 2);
  CHECK(given.context == 128);
}

TEST_CASE("counts below their least value, and a context that the model does not have, are refused with the numbers") {
  CHECK_THROWS_WITH_AS(checked({.batch = 0}, 128, 128), doctest::Contains("batch is 0"), Error);
  CHECK_THROWS_WITH_AS(checked({.batch = Index(1) << 60}, 128, 128), doctest::Contains("no step has as many"), Error);
  CHECK_THROWS_WITH_AS(checked({.sequences_per_step = -1}, 128, 128), doctest::Contains("sequences_per_step is -1"),
                       Error);
  CHECK_THROWS_WITH_AS(checked({.clip = -1}, 128, 128), doctest::Contains("clip is -1"), Error);
  CHECK_THROWS_WITH_AS(checked({.clip = NAN}, 128, 128), doctest::Contains("clip is nan"), Error);
  CHECK(checked({.clip = 0}, 128, 128).clip == 0);
  CHECK_THROWS_WITH_AS(checked({.context = 129}, 128, 128),
                       doctest::Contains("a context of 129 tokens, but the model's positions end at 128"), Error);
  CHECK_THROWS_WITH_AS(checked({.context = -3}, 128, 128), doctest::Contains("a context of -3 tokens"), Error);
  CHECK_THROWS_WITH_AS(checked({}, no_limit, 0), doctest::Contains("`context` of TrainerOptions"), Error);
}

TEST_SUITE_END();
