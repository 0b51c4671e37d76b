// SPDX-License-Identifier: MIT
#include <simplx/train/optimiser.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/blocks/tokens.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/train/sgd.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace simplx;

namespace {

/// "Symbolic Discovery of Optimization Algorithms": steps of one size, along the sign of a momentum.
template <class S>
struct LionRule {
  static constexpr bool second_moment = false;
  S rate, beta1, beta2, decay;

  /// V is a vector of elements, or a number on a GPU; g is the clipped gradient.
  template <class V>
  SIMPLX_HD void operator()(V& p, V g, V& m, V&) const {
    const V u = beta1 * m + (1 - beta1) * g, one = V{} + S(1), none{};
    const V sign = select(u > none, one, select(-u > none, V(-one), none));
    p = p - rate * (sign + decay * p);
    m = beta2 * m + (1 - beta2) * g;
  }
};

struct Lion {
  static constexpr const char* name = "lion";  // whose moments there are: of another optimiser they begin anew
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1;

  Lion with(const ParameterSettings& settings) const {  // of a group of parameters
    Lion own = *this;
    own.learning_rate *= settings.learning_rate_factor;
    own.weight_decay = settings.weight_decay_or(weight_decay);
    return own;
  }
  template <class S>
  LionRule<S> at(long) const {  // of a step, counted from 1: bias corrections would depend on it
    return {static_cast<S>(learning_rate), static_cast<S>(beta1), static_cast<S>(beta2), static_cast<S>(weight_decay)};
  }
};

/// A rule that takes one element, and no vector of them.
struct OneByOne {
  static constexpr const char* name = "one by one";
  struct Rule {
    static constexpr bool second_moment = false;
    void operator()(double& p, double g, double&, double&) const { p -= g; }
  };
  OneByOne with(const ParameterSettings&) const { return {}; }
  template <class S>
  Rule at(long) const {
    return {};
  }
};

inline constexpr Decoder model{.block = sas_p, .vocab = 11, .width = 16, .heads = 2, .layers = 1, .context = 8};

}  // namespace

// What an optimiser is, and what it is not.
static_assert(OptimiserOf<AdamW, float> && OptimiserOf<AdamW, double>);
static_assert(OptimiserOf<Sgd, float> && OptimiserOf<Sgd, double>);
static_assert(OptimiserOf<Lion, float> && !OptimiserOf<OneByOne, double>);
static_assert(!OptimiserOf<ParameterSettings, float>);

TEST_SUITE_BEGIN("train/optimiser");

TEST_CASE("a range is visited once, in vectors, of which the last may be a part") {
  for (const Index begin : {Index(0), Index(3)}) {
    for (Index end = begin; end < 70; ++end) {
      std::vector<float> visits(80);
      each_vector<float>(begin, end, [&](Index i, auto count) {
        CHECK(count == std::min<Index>(end - i, lanes<float>));
        const Vec<float> before = load_lanes(visits.data() + i, count);
        for (Index k = count; k < lanes<float>; ++k) CHECK(before[k] == 0);
        store_lanes(visits.data() + i, before + 1.0f, count);
      });
      for (Index i = 0; i < 80; ++i) REQUIRE(visits[static_cast<std::size_t>(i)] == (i >= begin && i < end ? 1 : 0));
    }
  }
}

TEST_CASE("an optimiser of one's own trains by its rule, groups of parameters and clipping as they are for others") {
  const TrainerOptions options{.batch = 1, .seed = 3, .clip = 0.5, .groups = {{.name = "*.up.*", .learning_rate_factor = 2}}};
  Trainer<model, Cpu<double>> trainer(options);
  const TokenBatch batch{{1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}, {0, 5}};
  const Lion lion{.learning_rate = 1e-3};
  const std::size_t size = trainer.parameters().size();
  std::vector<double> moment(size), gradient(size), expected(trainer.parameters().begin(), trainer.parameters().end());
  for (int step = 0; step < 3; ++step) {
    const double norm = trainer.loss_and_gradient(batch, gradient).gradient_norm;
    for (const SettingsRun& run : settings_runs(trainer.tensors().parameters, options.groups)) {
      const double rate = 1e-3 * run.settings.learning_rate_factor, decay = run.settings.weight_decay_or(0.1);
      for (Index k = run.begin; k < run.end; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const double g = gradient[i] * std::min(1.0, 0.5 / norm), u = 0.9 * moment[i] + 0.1 * g;
        expected[i] -= rate * ((u > 0) - (u < 0) + decay * expected[i]);
        moment[i] = 0.99 * moment[i] + 0.01 * g;
      }
    }
    CHECK(trainer.step(batch, lion).gradient_norm == doctest::Approx(norm));
    const std::span<const double> found = trainer.parameters();
    for (std::size_t i = 0; i < size; ++i) REQUIRE(found[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
  CHECK(trainer.state().count.optimiser == "lion");
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
