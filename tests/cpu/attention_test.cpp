// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention.hpp>
#include <simplx/cpu/attention_reference.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace simplx;

template <class S>
using Values = std::vector<S>;

template <class S>
Values<S> random_values(Index size, unsigned seed, double spread = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, spread);
  Values<S> values(size);
  for (S& value : values) value = S(normal(generator));
  return values;
}

Values<Index> offsets_of(const Values<Index>& lengths) {
  Values<Index> offsets{0};
  for (Index length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

/// Largest difference, relative to the largest element.
template <class S>
double difference(const Values<S>& a, const Values<S>& b) {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    largest = std::max(largest, std::abs(double(b[i])));
    if (std::isnan(a[i]) || std::isnan(b[i])) return NAN;
  }
  return worst / largest;
}

/// Inputs, outputs and gradients of one attention.
template <class S>
struct Problem {
  AttentionSize size;
  Values<Index> offsets;
  Index longest, rows;
  Values<S> q, k, v, alpha, beta, gamma, dout;
  Values<S> out, log_sum_exp, dq, dk, dv, dalpha, dbeta, dgamma, scratch;

  Problem(AttentionSize size, const Values<Index>& lengths, unsigned seed = 1)
      : size(size), offsets(offsets_of(lengths)), longest(*std::max_element(lengths.begin(), lengths.end())),
        rows(offsets.back()) {
    const Index keys = rows * size.heads * size.key_width, values = rows * size.heads * size.value_width;
    q = random_values<S>(keys, seed), k = random_values<S>(keys, seed + 1);
    v = random_values<S>(values, seed + 2);
    dout = random_values<S>(values, seed + 3);
    alpha = random_values<S>(size.heads, seed + 4), beta = random_values<S>(size.heads, seed + 5);
    gamma = random_values<S>(size.heads, seed + 6);
    out = Values<S>(values, S(NAN)), log_sum_exp = Values<S>(rows * size.heads, S(NAN));
    dq = random_values<S>(keys, seed + 7), dk = random_values<S>(keys, seed + 8);
    dv = random_values<S>(values, seed + 9), dalpha = random_values<S>(size.heads, seed + 10);
    dbeta = random_values<S>(size.heads, seed + 11), dgamma = random_values<S>(size.heads, seed + 12);
  }

  Segments sequences() const { return {offsets.data(), Index(offsets.size()) - 1}; }
  void reference_scratch() { scratch.assign(attention_reference_scratch(longest), S(NAN)); }

  void reference_forward() {
    reference_scratch();
    attention_reference_forward(size, sequences(), q.data(), k.data(), v.data(), alpha.data(), beta.data(),
                                gamma.data(), out.data(), log_sum_exp.data(), scratch.data());
  }
  void reference_backward(Write dq_mode, Write dk_mode, Write dv_mode) {
    reference_scratch();
    attention_reference_backward(size, dq_mode, dk_mode, dv_mode, sequences(), q.data(), k.data(), v.data(),
                                 alpha.data(), beta.data(), gamma.data(), log_sum_exp.data(), dout.data(),
                                 dq.data(), dk.data(), dv.data(), dalpha.data(), dbeta.data(), dgamma.data(),
                                 scratch.data());
  }
  /// Scratch of exactly the promised size, so that sanitizers see a step beyond it.
  void fast_scratch() {
    scratch.assign(attention_scratch(size.key_width, size.value_width, longest), S(NAN));
  }

  template <int heads, int key_width, int value_width, Mixing mixing>
  void fast_forward() {
    fast_scratch();
    attention_forward<heads, key_width, value_width, mixing>(
        sequences(), q.data(), k.data(), v.data(), alpha.data(), beta.data(), gamma.data(), out.data(),
        log_sum_exp.data(), scratch.data());
  }
  template <int heads, int key_width, int value_width, Mixing mixing, Write dq_mode, Write dk_mode,
            Write dv_mode>
  void fast_backward() {
    fast_scratch();
    attention_backward<heads, key_width, value_width, mixing, dq_mode, dk_mode, dv_mode>(
        sequences(), q.data(), k.data(), v.data(), alpha.data(), beta.data(), gamma.data(),
        log_sum_exp.data(), dout.data(), dq.data(), dk.data(), dv.data(), dalpha.data(), dbeta.data(),
        dgamma.data(), scratch.data());
  }
};

template <int heads, int key_width, int value_width, Mixing mixing, Write dq_mode, Write dk_mode,
          Write dv_mode, class S>
void check_fast(const Values<Index>& lengths) {
  const double tolerance = sizeof(S) == 8 ? 1e-12 : 2e-5;
  Problem<S> fast({heads, key_width, value_width, mixing}, lengths), dense = fast;
  CAPTURE(heads);
  CAPTURE(fast.longest);
  CAPTURE(sizeof(S));
  fast.template fast_forward<heads, key_width, value_width, mixing>();
  dense.reference_forward();
  CHECK(difference(fast.out, dense.out) <= tolerance);
  CHECK(difference(fast.log_sum_exp, dense.log_sum_exp) <= tolerance);
  fast.template fast_backward<heads, key_width, value_width, mixing, dq_mode, dk_mode, dv_mode>();
  dense.reference_backward(dq_mode, dk_mode, dv_mode);
  CHECK(difference(fast.dq, dense.dq) <= tolerance);
  CHECK(difference(fast.dk, dense.dk) <= tolerance);
  CHECK(difference(fast.dv, dense.dv) <= tolerance);
  CHECK(difference(fast.dalpha, dense.dalpha) <= tolerance);
  CHECK(difference(fast.dbeta, dense.dbeta) <= tolerance);
  CHECK(difference(fast.dgamma, dense.dgamma) <= tolerance);
}

template <int heads, int key_width, int value_width, class S>
void check_fast_both(const Values<Index>& lengths) {
  constexpr Write set = Write::store, add = Write::accumulate;
  check_fast<heads, key_width, value_width, Mixing::softmax, set, add, set, S>(lengths);
  check_fast<heads, key_width, value_width, Mixing::shaped, add, set, add, S>(lengths);
}

TEST_CASE_TEMPLATE("vector kernels equal the reference at every length", S, float, double) {
  for (Index length : {1, 2, 5, 15, 16, 17, 63, 64, 65, 129, 300}) check_fast_both<1, 16, 32, S>({length});
  check_fast_both<3, 32, 16, S>({128});
  check_fast_both<4, 32, 32, S>({5, 1, 129, 17, 64, 16});
  check_fast_both<1, 48, 80, S>({37, 70});
}

TEST_CASE("gradients are skipped, stored and accumulated as told") {
  constexpr Write skip = Write::skip, set = Write::store, add = Write::accumulate;
  auto check = []<Write dq_mode, Write dk_mode, Write dv_mode>() {
    check_fast<1, 8, 8, Mixing::shaped, dq_mode, dk_mode, dv_mode, double>({3, 70});
  };
  // Every mode of one gradient meets every mode of another.
  check.operator()<skip, skip, skip>();
  check.operator()<skip, set, add>();
  check.operator()<skip, add, set>();
  check.operator()<set, skip, add>();
  check.operator()<set, set, set>();
  check.operator()<set, add, skip>();
  check.operator()<add, skip, set>();
  check.operator()<add, set, skip>();
  check.operator()<add, add, add>();
  check_fast<1, 8, 8, Mixing::softmax, skip, set, skip, double>({3, 70});
  check_fast<1, 8, 8, Mixing::softmax, add, skip, add, double>({3, 70});
}

TEST_CASE("gradients of query, key and value may be added into one buffer") {
  constexpr Write add = Write::accumulate;
  Problem<double> one({3, 16, 16, Mixing::shaped}, {70, 5});
  one.k = one.v = one.q;
  Problem<double> apart = one;
  one.fast_forward<3, 16, 16, Mixing::shaped>();
  apart.log_sum_exp = one.log_sum_exp;
  Values<double> together(one.dq.size());
  one.fast_scratch();
  const double* x = one.q.data();
  attention_backward<3, 16, 16, Mixing::shaped, add, add, add>(
      one.sequences(), x, x, x, one.alpha.data(), one.beta.data(), one.gamma.data(), one.log_sum_exp.data(),
      one.dout.data(), together.data(), together.data(), together.data(), static_cast<double*>(nullptr),
      static_cast<double*>(nullptr), static_cast<double*>(nullptr), one.scratch.data());
  apart.reference_backward(Write::store, Write::store, Write::store);
  for (std::size_t i = 0; i < together.size(); ++i) apart.dq[i] += apart.dk[i] + apart.dv[i];
  CHECK(difference(together, apart.dq) <= 1e-13);
}

/// Worst relative error of the reference gradient of `values` against central differences of <dout, out>.
double gradient_error(Problem<double>& problem, Values<double>& values, const Values<double>& gradient) {
  auto objective = [&] {
    problem.reference_forward();
    double total = 0;
    for (std::size_t i = 0; i < problem.out.size(); ++i) total += problem.out[i] * problem.dout[i];
    return total;
  };
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double kept = values[i], step = 1e-5;
    values[i] = kept + step;
    const double above = objective();
    values[i] = kept - step;
    const double below = objective();
    values[i] = kept;
    worst = std::max(worst, std::abs((above - below) / (2 * step) - gradient[i]));
    largest = std::max(largest, std::abs(gradient[i]));
  }
  return worst / largest;
}

TEST_CASE("reference gradients equal central differences") {
  for (Mixing mixing : {Mixing::softmax, Mixing::shaped}) {
    Problem<double> p({2, 3, 5, mixing}, {1, 7, 4});
    p.reference_forward();
    for (auto* gradient : {&p.dalpha, &p.dbeta, &p.dgamma}) gradient->assign(gradient->size(), 0.0);
    p.reference_backward(Write::store, Write::store, Write::store);
    CHECK(gradient_error(p, p.q, p.dq) <= 1e-7);
    CHECK(gradient_error(p, p.k, p.dk) <= 1e-7);
    CHECK(gradient_error(p, p.v, p.dv) <= 1e-7);
    if (mixing == Mixing::softmax) continue;
    CHECK(gradient_error(p, p.alpha, p.dalpha) <= 1e-7);
    CHECK(gradient_error(p, p.beta, p.dbeta) <= 1e-7);
    CHECK(gradient_error(p, p.gamma, p.dgamma) <= 1e-7);
  }
}

TEST_CASE_TEMPLATE("shaped attention begins as the identity", S, float, double) {
  Problem<S> p({2, 16, 16, Mixing::shaped}, {300, 1, 40});
  std::fill(p.q.begin(), p.q.end(), S(0));
  for (auto* gain : {&p.alpha, &p.beta, &p.gamma}) std::fill(gain->begin(), gain->end(), S(1));
  const double tolerance = sizeof(S) == 8 ? 1e-14 : 1e-6;
  p.reference_forward();
  CHECK(difference(p.out, p.v) <= tolerance);
  p.template fast_forward<2, 16, 16, Mixing::shaped>();
  CHECK(difference(p.out, p.v) <= tolerance);

  // The two mixtures are one there, so their gains have opposite gradients, and keys have none.
  for (auto* gradient : {&p.dbeta, &p.dgamma}) std::fill(gradient->begin(), gradient->end(), S(0));
  p.template fast_backward<2, 16, 16, Mixing::shaped, Write::store, Write::store, Write::store>();
  for (S& value : p.dgamma) value = -value;
  CHECK(difference(p.dbeta, p.dgamma) <= 100 * tolerance);
  CHECK(std::all_of(p.dk.begin(), p.dk.end(), [](S value) { return value == 0; }));
}

TEST_CASE("the running mean is the product with dense C, whose rows sum to one") {
  constexpr int width = 16;
  constexpr Index length = 37;
  Problem<double> p({1, width, width, Mixing::shaped}, {length});
  p.alpha = {0}, p.beta = {0}, p.gamma = {-1};
  p.fast_forward<1, width, width, Mixing::shaped>();
  Eigen::MatrixXd c = Eigen::MatrixXd::Zero(length, length);
  for (Index i = 0; i < length; ++i) c.row(i).head(i + 1).setConstant(1.0 / double(i + 1));
  CHECK((c.rowwise().sum().array() - 1).abs().maxCoeff() <= 1e-14);
  const auto values = detail::head_of<double>(std::as_const(p).v.data(), 0, length, 0, 1, width);
  const auto out = detail::head_of<double>(std::as_const(p).out.data(), 0, length, 0, 1, width);
  CHECK((out - c * values).cwiseAbs().maxCoeff() <= 1e-14);
}

TEST_CASE_TEMPLATE("a token is blind to later tokens and to other sequences", S, float, double) {
  constexpr int heads = 2, width = 16;
  Problem<S> before({heads, width, width, Mixing::shaped}, {20, 100, 30});
  before.template fast_forward<heads, width, width, Mixing::shaped>();
  for (Index changed : {20, 21, 50, 90, 119}) {
    Problem<S> after = before;
    for (Index c = 0; c < heads * width; ++c) {
      for (auto* input : {&after.q, &after.k, &after.v}) (*input)[changed * heads * width + c] *= S(-3);
    }
    after.template fast_forward<heads, width, width, Mixing::shaped>();
    const auto row = [&](const Problem<S>& p, Index i) { return p.out.begin() + i * heads * width; };
    CHECK(std::equal(row(before, 0), row(before, changed), row(after, 0)));
    CHECK_FALSE(std::equal(row(before, changed), row(before, 120), row(after, changed)));
    CHECK(std::equal(row(before, 120), row(before, 150), row(after, 120)));
  }
}

TEST_CASE_TEMPLATE("the first token is independent of query and key", S, float, double) {
  Problem<S> p({1, 16, 16, Mixing::shaped}, {9});
  p.alpha = {S(0.5)}, p.beta = {S(2)}, p.gamma = {S(0.25)};
  p.template fast_forward<1, 16, 16, Mixing::shaped>();
  for (int c = 0; c < 16; ++c) CHECK(p.out[c] == doctest::Approx(2.25 * p.v[c]));
  p.template fast_backward<1, 16, 16, Mixing::shaped, Write::store, Write::store, Write::store>();
  for (int c = 0; c < 16; ++c) CHECK(std::abs(p.dq[c]) <= 1e-5);
}

TEST_CASE_TEMPLATE("scores of ten thousand do no harm", S, float, double) {
  Problem<S> p({1, 16, 16, Mixing::softmax}, {40});
  for (S& value : p.q) value *= 100;
  for (S& value : p.k) value *= 100;
  Problem<S> dense = p;
  p.template fast_forward<1, 16, 16, Mixing::softmax>();
  dense.reference_forward();
  CHECK(difference(p.out, dense.out) <= (sizeof(S) == 8 ? 1e-10 : 2e-2));
  p.template fast_backward<1, 16, 16, Mixing::softmax, Write::store, Write::store, Write::store>();
  for (const auto* gradient : {&p.dq, &p.dk, &p.dv}) CHECK(std::isfinite(difference(*gradient, *gradient)));
}

TEST_CASE("scratch is linear in the context") {
  CHECK(attention_scratch(32, 32, 1600) == 100 * attention_scratch(32, 32, 16));
  CHECK(attention_scratch(32, 32, 5) == attention_scratch(32, 32, 16));
}

}  // namespace
