// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/cross_entropy.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

template <class S, int classes, class Logit = S>
struct Problem {
  Index rows;
  std::vector<Logit> logits;
  std::vector<S> dloss;
  std::vector<std::int32_t> labels;
  std::vector<S> smoothing;

  Problem(Index count, double smooth)
      : rows(count), dloss(test::numbers<S>(rows, 2)), smoothing(1, static_cast<S>(smooth)) {
    const std::vector<S> numbers = test::numbers<S>(rows * classes, 1);
    for (Index row = 0; row < rows; ++row) {
      labels.push_back(row % 4 == 2 ? ignored_label : static_cast<std::int32_t>((row * 7 + classes - 1) % classes));
      for (int c = 0; c < classes; ++c) {
        const S large = row == 1 ? S(1000) : S(0);  // which exp alone could not take
        logits.push_back(Logit(20 * numbers[static_cast<std::size_t>(row * classes + c)] + large));
      }
    }
  }

  /// Losses, then the gradient of the logits, stored or added to the logits.
  template <Write mode>
  std::vector<S> run() const {
    auto loss = test::unwritten<S>(rows), saved = test::unwritten<S>(2 * rows);
    auto gradient = mode == Write::store ? test::unwritten<S>(rows * classes)
                                         : std::vector<S>(logits.begin(), logits.end());
    cross_entropy<S, classes>(nullptr, logits.data(), labels.data(), smoothing.data(), loss.data(),
                              saved.data(), rows);
    cross_entropy_backward<S, classes, mode>(nullptr, logits.data(), labels.data(), smoothing.data(),
                                             saved.data(), dloss.data(), gradient.data(), rows);
    return test::joined<S>({loss, gradient});
  }

  /// Losses, then the gradient in the logits' place, by one kernel or two; rows lie `stride` apart, NaN between them.
  template <bool at_once, int stride = classes>
  std::vector<S> run_in_place() const {
    auto loss = test::unwritten<S>(rows), saved = test::unwritten<S>(2 * rows);
    auto place = test::unwritten<Logit>(rows * stride);
    for (Index row = 0; row < rows; ++row) {
      std::copy_n(logits.begin() + row * classes, classes, place.begin() + row * stride);
    }
    if (at_once) {
      cross_entropy_and_backward<S, classes, Write::store, stride>(nullptr, place.data(), labels.data(),
                                                                   smoothing.data(), dloss.data(), loss.data(),
                                                                   place.data(), rows);
    } else {
      cross_entropy<S, classes, stride>(nullptr, place.data(), labels.data(), smoothing.data(), loss.data(),
                                        saved.data(), rows);
      cross_entropy_backward<S, classes, Write::store, stride>(nullptr, place.data(), labels.data(), smoothing.data(),
                                                               saved.data(), dloss.data(), place.data(), rows);
    }
    for (Index row = 0; row < rows; ++row) {
      const auto begin = place.begin() + row * stride;
      loss.insert(loss.end(), begin, begin + classes);
    }
    return loss;
  }

  std::vector<double> exact() const {
    std::vector<double> losses, gradient;
    for (Index row = 0; row < rows; ++row) {
      const auto begin = logits.begin() + row * classes;
      const std::vector<double> z(begin, begin + classes);
      const std::int32_t label = labels[static_cast<std::size_t>(row)];
      const bool counts = label != ignored_label;
      double highest = z[0], sum = 0, mean = 0;
      for (int c = 0; c < classes; ++c) highest = std::max(highest, z[c]), mean += double(z[c]) / classes;
      for (int c = 0; c < classes; ++c) sum += std::exp(z[c] - highest);
      const double log_sum = highest + std::log(sum), s = smoothing[0];
      losses.push_back(counts ? log_sum - z[label] + s * (z[label] - mean) : 0);
      for (int c = 0; c < classes; ++c) {
        const double p = std::exp(z[c] - log_sum), target = (1 - s) * (c == label) + s / classes;
        gradient.push_back(counts ? (p - target) * dloss[static_cast<std::size_t>(row)] : 0);
      }
    }
    losses.insert(losses.end(), gradient.begin(), gradient.end());
    return losses;
  }
};

template <class S, int classes, class Logit = S>
void check(Index rows, double smoothing) {
  CAPTURE(classes);
  const Problem<S, classes, Logit> problem(rows, smoothing);
  const auto all = test::same_bits([&] { return problem.template run<Write::store>(); });
  const auto exact = problem.exact();
  const auto part = [](const auto& v, Index begin, Index end) {
    return std::remove_cvref_t<decltype(v)>(v.begin() + begin, v.begin() + end);
  };
  const auto size = static_cast<Index>(all.size());
  CHECK(test::distance(part(all, 0, rows), part(exact, 0, rows)) < 16);
  // log sum exp is known to a rounding of itself, up to 1000 in a row: so much is the likelihood off.
  CHECK(test::distance(part(all, rows, size), part(exact, rows, size)) < 600);
  const auto added = problem.template run<Write::accumulate>();
  for (Index i = rows; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const S before = S(problem.logits[at - static_cast<std::size_t>(rows)]);
    // nvcc makes one instruction of a product and a sum, which rounds once.
    CHECK(std::abs(added[at] - (before + all[at])) <=
          std::numeric_limits<S>::epsilon() * (std::abs(before) + std::abs(all[at])));
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/cross_entropy");

TEST_CASE("losses and gradients are those of double") {
  check<double, 1>(3, 0);
  check<double, 5>(7, 0.1);
  check<float, 33>(6, 0);
  check<float, 257>(3, 0.2);
  check<float, 700>(2, 0);
}

TEST_CASE("a vocabulary, its logits one by one, in fours and in eights of bfloat16") {
  check<float, 5003>(2, 0);
  check<float, 9004>(2, 0.1);
  check<float, 9008, __nv_bfloat16>(2, 0.1);
}

TEST_CASE("logits that are stored as bfloat16") {
  check<float, 33, __nv_bfloat16>(6, 0.1);  // one by one
  check<float, 700, __nv_bfloat16>(2, 0);   // in fours
  check<float, 1032, __nv_bfloat16>(7, 0.2);
}

TEST_CASE("a gradient that is stored as bfloat16 is the one in float, rounded") {
  const Problem<float, 40> problem(5, 0.1);
  const auto all = problem.run<Write::store>();
  std::vector<float> loss(5), saved(10);
  std::vector<__nv_bfloat16> gradient(5 * 40);
  cross_entropy<float, 40>(nullptr, problem.logits.data(), problem.labels.data(), problem.smoothing.data(), loss.data(),
                           saved.data(), 5);
  cross_entropy_backward<float, 40>(nullptr, problem.logits.data(), problem.labels.data(), problem.smoothing.data(),
                                    saved.data(), problem.dloss.data(), gradient.data(), 5);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CHECK(__bfloat162float(gradient[i]) == __bfloat162float(__float2bfloat16(all[5 + i])));
  }
}

TEST_CASE("a gradient may take the place of its logits, by two kernels or by one, which gives the losses, too") {
  const auto in_place = []<int classes, int stride, class Logit>(std::integer_sequence<int, classes, stride>, Logit) {
    CAPTURE(classes);
    const Problem<float, classes, Logit> problem(4, 0.1);
    auto elsewhere = problem.template run<Write::store>();
    for (std::size_t i = 4; i < elsewhere.size(); ++i) elsewhere[i] = float(Logit(elsewhere[i]));
    const auto by_two = test::same_bits([&] { return problem.template run_in_place<false, stride>(); });
    if (stride == classes) CHECK(by_two == elsewhere);
    const auto by_one = test::same_bits([&] { return problem.template run_in_place<true, stride>(); });
    // Sums of more or fewer threads, whose last bits may round a gradient in bfloat16 the other way.
    const double once = sizeof(Logit) == 2 ? 1.0 / 128 : 1e-4;
    for (const auto& found : {by_two, by_one}) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(std::abs(found[i] - elsewhere[i]) <= (i < 4 ? 1e-6 : once) * std::abs(elsewhere[i]) + 1e-9);
      }
    }
  };
  const std::integer_sequence<int, 40, 40> few;
  const std::integer_sequence<int, 9008, 9008> many;  // several turns of the threads, the last not whole
  in_place(few, float());
  in_place(few, __nv_bfloat16());
  in_place(many, float());
  in_place(many, __nv_bfloat16());
  in_place(std::integer_sequence<int, 5, 8>{}, float());  // what lies after a row is no class
  in_place(std::integer_sequence<int, 5, 8>{}, __nv_bfloat16());
  in_place(std::integer_sequence<int, 9001, 9008>{}, __nv_bfloat16());
}

TEST_CASE("logits far from 0 lose nothing, by two kernels or by one") {
  for (const float level : {1e6f, -1e8f, 1e30f, 3e38f}) {
    CAPTURE(level);
    const std::vector<float> logits(8, level), one{1};
    const std::vector<std::int32_t> labels{3};
    const One<float> none(0.0);
    std::vector<float> loss(1), saved(2), gradient(8);
    const auto check = [&] {
      CHECK(loss[0] == doctest::Approx(std::log(8)));
      for (std::size_t c = 0; c < 8; ++c) CHECK(gradient[c] == doctest::Approx(c == 3 ? -0.875 : 0.125));
    };
    cross_entropy<float, 8>(nullptr, logits.data(), labels.data(), none, loss.data(), saved.data(), 1);
    cross_entropy_backward<float, 8>(nullptr, logits.data(), labels.data(), none, saved.data(), one.data(),
                                     gradient.data(), 1);
    check();
    cross_entropy_and_backward<float, 8>(nullptr, logits.data(), labels.data(), none, one.data(), loss.data(),
                                         gradient.data(), 1);
    check();
  }
}

TEST_CASE("rows without labels are zero whatever their logits are") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits(40, nan), ones(2, 1.0f);
  std::vector<float> loss(2, nan), saved(4), gradient(40, nan);
  const std::vector<std::int32_t> labels(2, ignored_label);
  const One<float> none(0.0);
  cross_entropy<float, 20>(nullptr, logits.data(), labels.data(), none, loss.data(), saved.data(), 2);
  cross_entropy_backward<float, 20>(nullptr, logits.data(), labels.data(), none, saved.data(), ones.data(),
                                    gradient.data(), 2);
  CHECK(gradient == std::vector<float>(40));
  CHECK(loss == std::vector<float>(2));
  loss.assign(2, nan), gradient.assign(40, nan);
  cross_entropy_and_backward<float, 20>(nullptr, logits.data(), labels.data(), none, ones.data(), loss.data(),
                                        gradient.data(), 2);
  CHECK(gradient == std::vector<float>(40));
  CHECK(loss == std::vector<float>(2));
}

TEST_CASE("a logit of minus infinity has no likelihood; NaN is seen") {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto loss_and_gradient = []<int classes>(std::integral_constant<int, classes>, const std::vector<float>& logits,
                                                 std::int32_t label) {
    const std::vector<float> one{1};
    const std::vector<std::int32_t> labels{label};
    std::vector<float> result(1), saved(2), gradient(classes);
    const One<float> none(0.0);
    cross_entropy<float, classes>(nullptr, logits.data(), labels.data(), none, result.data(), saved.data(), 1);
    cross_entropy_backward<float, classes>(nullptr, logits.data(), labels.data(), none, saved.data(), one.data(),
                                           gradient.data(), 1);
    return test::joined<float>({result, gradient});
  };
  const std::integral_constant<int, 3> three;
  const auto found = loss_and_gradient(three, {0, -infinity, 0}, 0);
  CHECK(found[0] == doctest::Approx(std::log(2)));
  CHECK(found[2] == 0);
  CHECK(found[3] == doctest::Approx(0.5));
  std::vector<float> masked(300, -infinity);  // threads that meet nothing else
  masked[1] = 3;
  CHECK(loss_and_gradient(std::integral_constant<int, 300>{}, masked, 1) == std::vector<float>(301));
  CHECK(std::isnan(loss_and_gradient(three, {0, std::numeric_limits<float>::quiet_NaN(), 0}, 0)[0]));
}

TEST_SUITE_END();
