// SPDX-License-Identifier: MIT
#include "cuda/kernels.hpp"

#include <simplx/cuda/cross_entropy.cuh>

using namespace simplx;

namespace {

template <class S, int classes, int stride>
struct Problem {
  Index rows;
  std::vector<S> logits, dloss;
  std::vector<std::int32_t> labels;
  S smoothing;

  Problem(Index count, double smooth)
      : rows(count), logits(test::numbers<S>(rows * stride, 1)), dloss(test::numbers<S>(rows, 2)),
        smoothing(static_cast<S>(smooth)) {
    for (Index row = 0; row < rows; ++row) {
      labels.push_back(row % 4 == 2 ? ignored_label : static_cast<std::int32_t>((row * 7 + classes - 1) % classes));
      for (int c = 0; c < stride; ++c) {
        S& z = logits[static_cast<std::size_t>(row * stride + c)];
        z = c < classes ? 20 * z + (row == 1 ? S(1000) : S(0)) : S(1e30);  // large ones, which exp alone could not take
      }
    }
  }

  /// Losses, then what the logits have become.
  std::vector<S> run(bool gradient) const {
    auto loss = test::unwritten<S>(rows), z = logits;
    cross_entropy<S, classes, stride>(nullptr, z.data(), labels.data(), smoothing != 0 ? &smoothing : nullptr,
                                      gradient ? dloss.data() : nullptr, loss.data(), rows);
    return test::joined<S>({loss, z});
  }

  std::vector<double> exact() const {
    std::vector<double> losses, gradient;
    for (Index row = 0; row < rows; ++row) {
      const S* z = &logits[static_cast<std::size_t>(row * stride)];
      const std::int32_t label = labels[static_cast<std::size_t>(row)];
      const bool counts = label != ignored_label;
      double highest = z[0], sum = 0, mean = 0;
      for (int c = 0; c < classes; ++c) highest = std::max<double>(highest, z[c]), mean += double(z[c]) / classes;
      for (int c = 0; c < classes; ++c) sum += std::exp(z[c] - highest);
      const double log_sum = highest + std::log(sum), s = smoothing;
      losses.push_back(counts ? log_sum - z[label] + s * (z[label] - mean) : 0);
      for (int c = 0; c < stride; ++c) {
        const double p = std::exp(z[c] - log_sum), target = (1 - s) * (c == label) + s / classes;
        gradient.push_back(counts && c < classes ? (p - target) * dloss[static_cast<std::size_t>(row)] : 0);
      }
    }
    losses.insert(losses.end(), gradient.begin(), gradient.end());
    return losses;
  }
};

template <class S, int classes, int stride = classes>
void check(Index rows, double smoothing) {
  CAPTURE(classes);
  const Problem<S, classes, stride> problem(rows, smoothing);
  const auto all = test::same_bits([&] { return problem.run(true); });
  const auto exact = problem.exact();
  const auto split = rows, size = static_cast<Index>(all.size());
  const auto part = [](const auto& v, Index begin, Index end) {
    return std::remove_cvref_t<decltype(v)>(v.begin() + begin, v.begin() + end);
  };
  CHECK(test::distance(part(all, 0, split), part(exact, 0, split)) < 16);
  // log sum exp is known to a rounding of itself, up to 1000 in a row: so much is the likelihood off.
  CHECK(test::distance(part(all, split, size), part(exact, split, size)) < 600);
  const auto forward = test::same_bits([&] { return problem.run(false); });
  CHECK(part(forward, 0, split) == part(all, 0, split));
  CHECK(part(forward, split, size) == problem.logits);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/cross_entropy");

TEST_CASE("losses and gradients are those of double") {
  check<double, 1>(3, 0);
  check<double, 5>(7, 0.1);
  check<float, 33>(6, 0);
  check<float, 257, 264>(3, 0.2);
  check<float, 700>(2, 0);
}

TEST_CASE("a vocabulary with padding") { check<float, 5003, 5056>(2, 0); }

TEST_CASE("rows without labels are zero whatever their logits are") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  std::vector<float> logits(40, nan), loss(2, nan);
  const std::vector<std::int32_t> labels(2, ignored_label);
  cross_entropy<float, 20>(nullptr, logits.data(), labels.data(), nullptr, &one, loss.data(), 2);
  CHECK(logits == std::vector<float>(40));
  CHECK(loss == std::vector<float>(2));
}

TEST_CASE("a logit of minus infinity has no likelihood; NaN is seen") {
  const float infinity = std::numeric_limits<float>::infinity(), one = 1;
  std::vector<float> logits{0, -infinity, 0}, loss(1);
  const std::int32_t label = 0;
  cross_entropy<float, 3>(nullptr, logits.data(), &label, nullptr, &one, loss.data(), 1);
  CHECK(loss[0] == doctest::Approx(std::log(2)));
  CHECK(logits[1] == 0);
  CHECK(logits[2] == doctest::Approx(0.5));
  std::vector<float> masked(300, -infinity);  // threads that meet nothing else
  masked[1] = 3;
  const std::int32_t second = 1;
  cross_entropy<float, 300>(nullptr, masked.data(), &second, nullptr, &one, loss.data(), 1);
  CHECK(loss[0] == 0);
  CHECK(masked == std::vector<float>(300));
  logits = {0, std::numeric_limits<float>::quiet_NaN(), 0};
  cross_entropy<float, 3>(nullptr, logits.data(), &label, nullptr, &one, loss.data(), 1);
  CHECK(std::isnan(loss[0]));
}

TEST_SUITE_END();
