// SPDX-License-Identifier: MIT
#include <simplx/train/optimiser.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/train/sgd.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;

// What an optimiser is, and what it is not.
static_assert(OptimiserOf<AdamW, float> && OptimiserOf<AdamW, double>);
static_assert(OptimiserOf<Sgd, float> && OptimiserOf<Sgd, double>);
static_assert(!OptimiserOf<ParameterSettings, float>);

TEST_SUITE_BEGIN("train/optimiser");

TEST_CASE("a range is visited once, in vectors and then one by one") {
  for (const Index begin : {Index(0), Index(3)}) {
    for (Index end = begin; end < 70; ++end) {
      std::vector<float> visits(80);
      each_vector<float>(begin, end, [&]<class V>(Index i) {
        const bool single = std::is_same_v<V, float>;
        CHECK(single == (end - i < lanes<float>));
        store(visits.data() + i, load<V>(visits.data() + i) + 1.0f);
      });
      for (Index i = 0; i < 80; ++i) REQUIRE(visits[static_cast<std::size_t>(i)] == (i >= begin && i < end ? 1 : 0));
    }
  }
}

TEST_CASE("decay is the optimiser's own for what decays, unless one is given") {
  CHECK(ParameterSettings{}.weight_decay_or(0.1) == 0.1);
  CHECK(ParameterSettings{.decays = false}.weight_decay_or(0.1) == 0);
  CHECK(ParameterSettings{.decays = false, .weight_decay = 0.2}.weight_decay_or(0.1) == 0.2);
  CHECK(ParameterSettings{.decays = true, .weight_decay = 0.0}.weight_decay_or(0.1) == 0);
  CHECK(ParameterSettings{.learning_rate_factor = 0}.frozen());
  CHECK(!ParameterSettings{}.frozen());
}

TEST_CASE("numbers that would be infinite, or nothing to divide by, in the parameters' precision are refused") {
  const auto of_float = [](const AdamW& optimiser) { check_optimiser<float>(optimiser); };
  CHECK_NOTHROW(of_float({}));
  CHECK_THROWS_WITH_AS(of_float({.epsilon = 1e-46}), doctest::Contains("AdamW's epsilon is 1e-46"), Error);
  CHECK_THROWS_WITH_AS(of_float({.learning_rate = 1e39}), doctest::Contains("AdamW's learning_rate is 1e+39"), Error);
  CHECK_THROWS_WITH_AS(of_float({.beta2 = 1}), doctest::Contains("it must be a number from 0 on, below 1"), Error);
  CHECK_NOTHROW(check_optimiser<double>(AdamW{.learning_rate = 1e39, .epsilon = 1e-46}));
}

TEST_SUITE_END();
