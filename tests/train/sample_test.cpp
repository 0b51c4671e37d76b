// SPDX-License-Identifier: MIT
#include <simplx/train/sample.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = pre_ln, .vocab = 16, .width = 16, .heads = 2, .layers = 1, .context = 8};
}

TEST_SUITE_BEGIN("train/sample");

TEST_CASE("a seed determines the text, which may grow beyond the context") {
  Trainer<model> trainer({.batch = 1, .seed = 3});
  const auto once = sample(trainer, {1, 2}, 30, {.seed = 5}), again = sample(trainer, {1, 2}, 30, {.seed = 5}),
             other = sample(trainer, {1, 2}, 30, {.seed = 6});
  CHECK(once.size() == 32);
  CHECK(once == again);
  CHECK(once != other);
  CHECK(std::ranges::all_of(once, [](int token) { return token >= 0 && token < 16; }));
  CHECK_THROWS_AS(sample(trainer, {}, 3), Error);
}

TEST_SUITE_END();
