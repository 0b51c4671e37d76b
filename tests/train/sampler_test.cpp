// SPDX-License-Identifier: MIT
#include <simplx/train/sampler.hpp>

#include <doctest/doctest.h>

#include <map>
#include <numeric>

using namespace simplx;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// The probabilities that the options ask for, as one would write them down.
std::vector<double> probabilities(const std::vector<double>& logits, const Sampling& options) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::exp((logits[i] - largest) / options.temperature);
  std::vector<std::size_t> ranks(p.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t(0));
  std::stable_sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && options.top_k < static_cast<Index>(p.size())) {
    ranks.resize(static_cast<std::size_t>(options.top_k));
  }
  double total = 0, share = 0;
  for (const std::size_t i : ranks) total += p[i];
  std::vector<double> kept(p.size());
  double sum = 0;
  for (const std::size_t i : ranks) {
    if (share >= options.top_p) break;
    kept[i] = p[i], sum += p[i], share += p[i] / total;
  }
  for (double& x : kept) x /= sum;
  return kept;
}

/// Chi-square of the frequencies of many draws, with its degrees of freedom; infinite if what cannot be was drawn.
std::pair<double, int> chi_square(const std::vector<double>& logits, const Sampling& options, int draws) {
  Sampler draw(options);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(draw(std::span<const double>(logits)))];
  const auto p = probabilities(logits, options);
  double sum = 0;
  int possible = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (expected == 0) {
      sum += counts[i] ? inf : 0;
    } else {
      ++possible;
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return {sum, possible - 1};
}

std::int32_t one_of(const std::vector<double>& logits, const Sampling& options) {
  return Sampler(options)(std::span<const double>(logits));
}

}  // namespace

TEST_SUITE_BEGIN("train/sampler");

TEST_CASE("tokens come as often as temperature, top k and top p say") {
  const std::vector<double> logits{0.3, -1, 2, 1.5, 0.3, -3, 1, -inf, 0.2};
  for (const double temperature : {0.5, 1.0, 2.5}) {
    for (const Index top_k : {0, 1, 3, 5, 50}) {
      for (const double top_p : {0.1, 0.5, 0.9, 1.0}) {
        CAPTURE(temperature);
        CAPTURE(top_k);
        CAPTURE(top_p);
        const auto [sum, freedom] = chi_square(logits, {temperature, top_k, top_p, 5}, 20000);
        // Mean `freedom`, variance twice that: five deviations.
        CHECK(sum <= freedom + 5 * std::sqrt(2.0 * freedom) + 1e-9);
      }
    }
  }
  CHECK(chi_square({std::log(1.0), std::log(2.0), std::log(5.0)}, {.seed = 2}, 8000).first < 14);
}

TEST_CASE("of many tokens those that top k and top p keep are found in parts") {
  std::vector<double> logits(2000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<double>(i * 1999 % 2000) / 700;
  for (const auto& [top_k, top_p] : {std::pair{0, 0.05}, {0, 0.9}, {1500, 1.0}, {1500, 0.9}, {100, 0.5}}) {
    CAPTURE(top_k);
    CAPTURE(top_p);
    const auto [sum, freedom] = chi_square(logits, {1.0, top_k, top_p, 5}, 2000);
    CHECK(sum <= freedom + 5 * std::sqrt(2.0 * freedom) + 1e-9);
    CHECK(sum >= freedom - 5 * std::sqrt(2.0 * freedom));
  }
}

TEST_CASE("of equal logits the first tokens are kept") {
  const std::vector<double> flat(6, 1.0);
  std::map<std::int32_t, int> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed) ++drawn[one_of(flat, {.top_k = 2, .seed = seed})];
  CHECK(drawn.size() == 2);
  CHECK(drawn.count(0) == 1);
  CHECK(drawn.count(1) == 1);
  drawn.clear();
  for (std::uint64_t seed = 0; seed < 200; ++seed) ++drawn[one_of(flat, {.top_p = 0.5, .seed = seed})];
  CHECK(drawn.size() == 3);
  CHECK(drawn.rbegin()->first == 2);
}

TEST_CASE("logits are any numbers that lie one after the other") {
  std::vector<float> logits{1, 3, 2};
  Sampler sampler({.temperature = 0});
  CHECK(sampler(logits) == 1);
  CHECK(sampler(std::span(logits).last(2)) == 0);
  CHECK(sampler(std::array{2.0, 1.0}) == 0);
}

TEST_CASE("a temperature of zero takes the largest, the first of several") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(one_of({1, 3, 2, 3}, {.temperature = 0, .top_k = 3, .top_p = 0.3, .seed = seed}) == 1);
    CHECK(one_of({1, 3, 2}, {.temperature = 1e-300, .seed = seed}) == 1);
  }
}

TEST_CASE("a seed determines all draws, and each draw is another") {
  const std::vector<float> logits(50, 0.f);
  Sampler a({.seed = 1}), again({.seed = 1}), other({.seed = 2});
  std::vector<std::int32_t> x, y, z;
  for (int i = 0; i < 20; ++i) {
    x.push_back(a(std::span<const float>(logits)));
    y.push_back(again(std::span<const float>(logits)));
    z.push_back(other(std::span<const float>(logits)));
  }
  CHECK(x == y);
  CHECK(x != z);
  CHECK(std::adjacent_find(x.begin(), x.end(), std::not_equal_to<>()) != x.end());
  CHECK(a.draws() == 20);
}

TEST_CASE("what is no distribution is refused") {
  for (const double bad : {std::nan(""), inf}) {
    CHECK_THROWS_WITH_AS(one_of({1, bad, 2}, {}), doctest::Contains("logit 1 is"), Error);
  }
  CHECK_THROWS_AS(one_of({1, std::nan("")}, {.temperature = 0}), Error);
  CHECK_THROWS_AS(one_of({-inf, -inf}, {}), Error);
  CHECK_THROWS_AS(one_of({}, {}), Error);
  for (const double bad : {-1.0, std::nan(""), inf}) CHECK_THROWS_AS(Sampler({.temperature = bad}), Error);
  for (const double bad : {0.0, -1.0, 1.1, std::nan("")}) CHECK_THROWS_AS(Sampler({.top_p = bad}), Error);
  CHECK_THROWS_AS(Sampler({.top_k = -1}), Error);
}

TEST_SUITE_END();
