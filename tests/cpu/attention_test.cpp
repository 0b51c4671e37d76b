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
using namespace simplx::cpu;

constexpr Write skip = Write::skip, set = Write::store, add = Write::accumulate;

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
template <class S, class T>
double difference(const Values<S>& a, const Values<T>& b) {
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
  Values<S> q, k, v, alpha, beta, gamma, slopes, dout;
  Values<S> out, log_sum_exp, dq, dk, dv, dalpha, dbeta, dgamma, scratch;
  double rate = 0.25;
  detail::Draw step{.key = 5, .first_sequence = 3};

  Problem(AttentionSize size, const Values<Index>& lengths, unsigned seed = 1)
      : size(size), offsets(offsets_of(lengths)), longest(*std::max_element(lengths.begin(), lengths.end())),
        rows(offsets.back()) {
    const Index keys = rows * size.heads * size.key_width, values = rows * size.heads * size.value_width;
    q = random_values<S>(keys, seed), k = random_values<S>(keys, seed + 1);
    v = random_values<S>(values, seed + 2);
    dout = random_values<S>(values, seed + 3);
    alpha = random_values<S>(size.heads, seed + 4), beta = random_values<S>(size.heads, seed + 5);
    gamma = random_values<S>(size.heads, seed + 6);
    for (int h = 0; h < size.heads; ++h) slopes.push_back(S(0.7 / (1 << 3 * h)));
    out = Values<S>(values, S(NAN)), log_sum_exp = Values<S>(rows * size.heads, S(NAN));
    dq = random_values<S>(keys, seed + 7), dk = random_values<S>(keys, seed + 8);
    dv = random_values<S>(values, seed + 9), dalpha = random_values<S>(size.heads, seed + 10);
    dbeta = random_values<S>(size.heads, seed + 11), dgamma = random_values<S>(size.heads, seed + 12);
  }

  /// The same problem with other scalars.
  template <class T>
  Problem<T> in() const {
    const auto cast = [](const Values<S>& from) { return Values<T>(from.begin(), from.end()); };
    Problem<T> to(size, {longest});
    to.offsets = offsets, to.rows = rows;
    to.q = cast(q), to.k = cast(k), to.v = cast(v), to.alpha = cast(alpha), to.beta = cast(beta);
    to.gamma = cast(gamma), to.slopes = cast(slopes), to.dout = cast(dout), to.out = cast(out);
    to.log_sum_exp = cast(log_sum_exp), to.dq = cast(dq), to.dk = cast(dk), to.dv = cast(dv);
    to.dalpha = cast(dalpha), to.dbeta = cast(dbeta), to.dgamma = cast(dgamma);
    return to;
  }

  Segments sequences() const { return {offsets.data(), Index(offsets.size()) - 1}; }
  bool gains() const { return size.matrix != AttentionMatrix::softmax; }
  bool centred() const { return size.matrix == AttentionMatrix::shaped; }
  /// nullptr for what must not be read.
  AttentionOperands<S> operands() const {
    return {q.data(), k.data(), v.data(), gains() ? alpha.data() : nullptr, gains() ? beta.data() : nullptr,
            centred() ? gamma.data() : nullptr, size.alibi ? slopes.data() : nullptr, draw()};
  }
  AttentionDraw draw() const { return {rate, &step, 7}; }
  AttentionGradients<S> gradients() {
    return {dq.data(), dk.data(), dv.data(), gains() ? dalpha.data() : nullptr, gains() ? dbeta.data() : nullptr,
            centred() ? dgamma.data() : nullptr};
  }

  void reference_forward() {
    scratch.assign(attention_reference_scratch(longest), S(NAN));
    attention_reference_forward(size, sequences(), operands(), out.data(), log_sum_exp.data(), scratch.data());
  }
  void reference_backward(Write dq_mode, Write dk_mode, Write dv_mode) {
    scratch.assign(attention_reference_scratch(longest), S(NAN));
    attention_reference_backward(size, dq_mode, dk_mode, dv_mode, sequences(), operands(), dout.data(), gradients(),
                                 scratch.data());
  }
  /// Scratch of exactly the promised size, so that sanitizers see a step beyond it.
  template <AttentionSize fixed_size>
  void fast_scratch() {
    scratch.assign(attention_scratch<fixed_size, S>(longest), S(NAN));
  }

  template <AttentionSize fixed_size>
  void fast_forward() {
    fast_scratch<fixed_size>();
    attention_forward<fixed_size>(sequences(), operands(), out.data(), log_sum_exp.data(), scratch.data());
  }
  template <AttentionSize fixed_size, Write dq_mode, Write dk_mode, Write dv_mode>
  void fast_backward() {
    fast_scratch<fixed_size>();
    AttentionGradients<S> to = gradients();
    if (dq_mode == skip) to.query = nullptr;
    if (dk_mode == skip) to.key = nullptr;
    if (dv_mode == skip) to.value = nullptr;
    attention_backward<fixed_size, dq_mode, dk_mode, dv_mode>(sequences(), operands(), log_sum_exp.data(), dout.data(),
                                                              to, scratch.data());
  }

  /// The definitions, loop by loop: nothing of the library is in them but what is drawn.
  void plain(Write dq_mode, Write dk_mode, Write dv_mode) {
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (int h = 0; h < size.heads; ++h) {
        DroppedWeights<S> dropped;
        if (size.drops) dropped = {draw(), Index(s), h};
        const auto kept = [&](Index i, Index j) {
          return size.drops && dropped.drops(dropped.row(i), j) ? 0 : size.drops ? 1 / (1 - rate) : 1;
        };
        plain_head(h, offsets[s], offsets[s + 1], dq_mode, dk_mode, dv_mode, kept);
      }
    }
  }
  template <class Kept>
  void plain_head(int h, Index begin, Index end, Write dq_mode, Write dk_mode, Write dv_mode, const Kept& kept) {
    const Index n = end - begin, dk_ = size.key_width, dv_ = size.value_width;
    const auto key_at = [&](Index i, Index e) { return ((begin + i) * size.heads + h) * dk_ + e; };
    const auto value_at = [&](Index i, Index e) { return ((begin + i) * size.heads + h) * dv_ + e; };
    using Table = std::vector<std::vector<double>>;
    Table a(n, std::vector<double>(n, 0.0)), c = a, dm = a, ds = a;
    const double root = std::sqrt(double(dk_)), al = gains() ? alpha[h] : 0, be = gains() ? beta[h] : 1;
    const double ga = centred() ? gamma[h] : 0;
    for (Index i = 0; i < n; ++i) {
      const Index window = size.window == 0 ? n : size.window;
      const Index from = std::max<Index>(0, i - window + 1);
      const Index last = size.mask == Mask::causal ? i : std::min(n - 1, i + window - 1);
      std::vector<double> score(n), bias(n);
      double top = -1e300, total = 0, centre = 0;
      for (Index j = from; j <= last; ++j) {
        bias[j] = size.alibi ? -double(slopes[h]) * std::abs(double(i - j)) : 0;
        for (Index e = 0; e < dk_; ++e) score[j] += double(q[key_at(i, e)]) * double(k[key_at(j, e)]) / root;
        score[j] += bias[j];
        top = std::max(top, score[j]);
      }
      for (Index j = from; j <= last; ++j) {
        total += a[i][j] = std::exp(score[j] - top);
        centre += c[i][j] = std::exp(bias[j]);
      }
      for (Index j = from; j <= last; ++j) a[i][j] /= total, c[i][j] /= centre;
      log_sum_exp[(begin + i) * size.heads + h] = S(top + std::log(total));
    }
    const auto m = [&](Index i, Index j) { return (i == j ? al : 0) + be * kept(i, j) * a[i][j] - ga * c[i][j]; };
    for (Index i = 0; i < n; ++i) {
      for (Index e = 0; e < dv_; ++e) {
        double sum = 0;
        for (Index j = 0; j < n; ++j) sum += m(i, j) * double(v[value_at(j, e)]);
        out[value_at(i, e)] = S(sum);
      }
      double correction = 0;
      for (Index j = 0; j < n; ++j) {
        for (Index e = 0; e < dv_; ++e) dm[i][j] += double(dout[value_at(i, e)]) * double(v[value_at(j, e)]);
        if (gains()) dalpha[h] += i == j ? dm[i][j] : 0;
        if (centred()) dgamma[h] -= c[i][j] * dm[i][j];
        dm[i][j] *= kept(i, j);
        correction += a[i][j] * dm[i][j];
        if (gains()) dbeta[h] += a[i][j] * dm[i][j];
      }
      for (Index j = 0; j < n; ++j) ds[i][j] = be * a[i][j] * (dm[i][j] - correction);
    }
    const auto write = [](Write mode, S& target, double value) {
      if (mode != skip) target = S(mode == set ? value : double(target) + value);
    };
    for (Index i = 0; i < n; ++i) {
      for (Index e = 0; e < dk_; ++e) {
        double query = 0, key = 0;
        for (Index j = 0; j < n; ++j) {
          query += ds[i][j] * double(k[key_at(j, e)]) / root;
          key += ds[j][i] * double(q[key_at(j, e)]) / root;
        }
        write(dq_mode, dq[key_at(i, e)], query), write(dk_mode, dk[key_at(i, e)], key);
      }
      for (Index e = 0; e < dv_; ++e) {
        double value = 0;
        for (Index j = 0; j < n; ++j) value += m(j, i) * double(dout[value_at(j, e)]);
        write(dv_mode, dv[value_at(i, e)], value);
      }
    }
  }
};

template <class S, class T>
void check_equal(const Problem<S>& a, const Problem<T>& b, double tolerance) {
  CHECK(difference(a.out, b.out) <= tolerance);
  CHECK(difference(a.log_sum_exp, b.log_sum_exp) <= tolerance);
  CHECK(difference(a.dq, b.dq) <= tolerance);
  CHECK(difference(a.dk, b.dk) <= tolerance);
  CHECK(difference(a.dv, b.dv) <= tolerance);
  CHECK(difference(a.dalpha, b.dalpha) <= tolerance);
  CHECK(difference(a.dbeta, b.dbeta) <= tolerance);
  CHECK(difference(a.dgamma, b.dgamma) <= tolerance);
}

/// What the kernels made of `start` in `fast`, and the dense equations, against the definitions: results and gradients.
template <class S>
void check_results(const Problem<S>& start, const Problem<S>& fast, Write dq_mode, Write dk_mode, Write dv_mode) {
  CAPTURE(static_cast<int>(start.size.matrix));
  CAPTURE(static_cast<int>(start.size.mask));
  CAPTURE(start.size.alibi);
  CAPTURE(start.longest);
  const double tolerance = sizeof(S) == 8 ? 1e-12 : 2e-5;
  Problem<double> plain = start.template in<double>();
  plain.plain(dq_mode, dk_mode, dv_mode);
  check_equal(fast, plain, tolerance);
  Problem<S> dense = start;
  dense.reference_forward();
  dense.reference_backward(dq_mode, dk_mode, dv_mode);
  check_equal(dense, plain, tolerance);
}
template <AttentionSize size, Write dq_mode, Write dk_mode, Write dv_mode, class S>
void check_fast(const Values<Index>& lengths) {
  const Problem<S> start(size, lengths);
  Problem<S> fast = start;
  fast.template fast_forward<size>();
  fast.template fast_backward<size, dq_mode, dk_mode, dv_mode>();
  check_results(start, fast, dq_mode, dk_mode, dv_mode);
}

/// Calls f with a copy of the size for every mask and bias, as a constant.
template <AttentionSize size>
struct Constant {
  static constexpr AttentionSize value = size;
};
template <AttentionSize size, class F>
void for_masks_and_biases(F f) {
  constexpr auto with = [](Mask mask, bool alibi) {
    AttentionSize other = size;
    other.mask = mask, other.alibi = alibi;
    return other;
  };
  f(Constant<with(Mask::causal, false)>{});
  f(Constant<with(Mask::causal, true)>{});
  f(Constant<with(Mask::full, false)>{});
  f(Constant<with(Mask::full, true)>{});
}
template <AttentionSize size, class F>
void for_masks_biases_and_windows(F f) {
  constexpr auto in_window = [](Mask mask, bool alibi, int window) {
    AttentionSize other = size;
    other.mask = mask, other.alibi = alibi, other.window = window;
    return other;
  };
  for_masks_and_biases<size>(f);
  f(Constant<in_window(Mask::causal, false, 2)>{});
  f(Constant<in_window(Mask::causal, true, 7)>{});
  f(Constant<in_window(Mask::full, false, 20)>{});
  f(Constant<in_window(Mask::full, true, 9)>{});
}

TEST_CASE_TEMPLATE("kernels equal the definitions: every mixing, mask and bias, ragged sequences", S, float, double) {
  const Values<Index> lengths{1, 5, 16, 17, 40, 64, 65, 130};
  for_masks_and_biases<AttentionSize{2, 16, 32, AttentionMatrix::softmax}>(
      [&](auto size) { check_fast<size.value, set, add, set, S>(lengths); });
  for_masks_and_biases<AttentionSize{2, 16, 32, AttentionMatrix::skip_init}>(
      [&](auto size) { check_fast<size.value, add, add, add, S>(lengths); });
  for_masks_and_biases<AttentionSize{2, 16, 32, AttentionMatrix::shaped}>(
      [&](auto size) { check_fast<size.value, add, set, set, S>(lengths); });
}

TEST_CASE_TEMPLATE("kernels equal the definitions for heads of any width", S, float, double) {
  const Values<Index> lengths{1, 5, 16, 17, 65, 130};
  for_masks_and_biases<AttentionSize{3, 1, 5, AttentionMatrix::softmax}>(
      [&](auto size) { check_fast<size.value, add, skip, add, S>(lengths); });
  for_masks_and_biases<AttentionSize{2, 25, 16, AttentionMatrix::skip_init}>(
      [&](auto size) { check_fast<size.value, set, add, set, S>(lengths); });
  for_masks_and_biases<AttentionSize{1, 16, 33, AttentionMatrix::shaped}>(
      [&](auto size) { check_fast<size.value, add, set, skip, S>(lengths); });
  check_fast<AttentionSize{2, 10, 10, AttentionMatrix::shaped}, skip, skip, set, S>(lengths);
}

TEST_CASE_TEMPLATE("kernels equal the definitions where weights are dropped", S, float, double) {
  const Values<Index> lengths{1, 5, 16, 17, 65, 130};
  const auto check = [&]<AttentionSize size, Write dq_mode, Write dk_mode, Write dv_mode>() {
    for_masks_and_biases<size>([&](auto of) { check_fast<of.value, dq_mode, dk_mode, dv_mode, S>(lengths); });
  };
  constexpr bool drops = true;
  check.template operator()<AttentionSize{2, 16, 32, AttentionMatrix::softmax, {}, {}, drops}, set, add, set>();
  check.template operator()<AttentionSize{2, 25, 16, AttentionMatrix::skip_init, {}, {}, drops}, add, set, skip>();
  check.template operator()<AttentionSize{1, 16, 33, AttentionMatrix::shaped, {}, {}, drops}, set, set, add>();
}

template <int window, class S>
void check_windows(const Values<Index>& lengths) {
  constexpr auto in_window = [](AttentionSize size) {
    size.window = window;
    return size;
  };
  check_fast<in_window({2, 16, 32, AttentionMatrix::softmax}), set, set, set, S>(lengths);
  check_fast<in_window({2, 16, 32, AttentionMatrix::softmax, Mask::full, true}), set, add, set, S>(lengths);
  check_fast<in_window({3, 5, 7, AttentionMatrix::skip_init, {}, true, true}), add, add, add, S>(lengths);
  check_fast<in_window({2, 25, 16, AttentionMatrix::skip_init, Mask::full}), add, set, add, S>(lengths);
  check_fast<in_window({3, 5, 7, AttentionMatrix::shaped, {}, true, true}), set, set, add, S>(lengths);
  check_fast<in_window({2, 16, 32, AttentionMatrix::shaped, Mask::full}), skip, skip, set, S>(lengths);
}
TEST_CASE("kernels equal the definitions where a query sees a window") {
  const Values<Index> lengths{1, 5, 16, 17, 63, 64, 65, 130, 200};
  check_windows<1, double>(lengths);
  check_windows<9, float>(lengths);
  check_windows<17, double>(lengths);
  check_windows<70, float>(lengths);
}
TEST_CASE("every length in every window") {
  const auto check = []<int window>() {
    for (Index length = 1; length <= 100; length += length < 36 ? 1 : 7) {
      constexpr AttentionSize causal{.key_width = 8, .value_width = 8, .window = window};
      constexpr AttentionSize full{.heads = 2, .key_width = 8, .value_width = 8, .matrix = AttentionMatrix::shaped,
                                   .mask = Mask::full, .alibi = true, .window = window};
      check_fast<causal, set, add, add, double>({length});
      check_fast<full, set, add, set, double>({length});
    }
  };
  check.operator()<2>();
  check.operator()<15>();
  check.operator()<33>();
}
TEST_CASE("a window as long as the sequence changes no bit, but of sums that may begin anew") {
  const auto check = []<AttentionSize whole>() {
    constexpr auto seen = [] {
      AttentionSize size = whole;
      size.window = 90;
      return size;
    };
    Problem<float> plain(whole, {90, 17}), windowed = plain;
    plain.fast_forward<whole>(), windowed.fast_forward<seen()>();
    plain.fast_backward<whole, set, set, set>(), windowed.fast_backward<seen(), set, set, set>();
    check_equal(windowed, plain, plain.centred() ? 1e-6 : 0);
  };
  check.operator()<AttentionSize{.heads = 2, .key_width = 16, .value_width = 16, .alibi = true}>();
  check.operator()<AttentionSize{.heads = 2, .key_width = 16, .value_width = 16, .mask = Mask::full}>();
  check.operator()<AttentionSize{2, 16, 16, AttentionMatrix::shaped}>();
  check.operator()<AttentionSize{2, 16, 16, AttentionMatrix::shaped, Mask::full, true}>();
}

TEST_CASE("kernels equal the definitions at every length around a group and a block") {
  for (Index length : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 200}) {
    check_fast<AttentionSize{1, 16, 16, AttentionMatrix::shaped}, set, set, set, double>({length});
    check_fast<AttentionSize{1, 16, 16, AttentionMatrix::shaped, Mask::full, true}, set, set, set, double>({length});
  }
  check_fast<AttentionSize{3, 32, 16, AttentionMatrix::shaped}, set, set, set, float>({128});
  check_fast<AttentionSize{1, 48, 80, AttentionMatrix::shaped, Mask::full}, set, set, set, float>({37, 70});
}

TEST_CASE("gradients are skipped, stored and accumulated as told") {
  auto check = []<Write dq_mode, Write dk_mode, Write dv_mode>() {
    check_fast<AttentionSize{1, 8, 8, AttentionMatrix::shaped}, dq_mode, dk_mode, dv_mode, double>({3, 70});
    check_fast<AttentionSize{1, 8, 8, AttentionMatrix::shaped, Mask::full}, dq_mode, dk_mode, dv_mode, double>({3, 70});
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
  check_fast<AttentionSize{1, 8, 8, AttentionMatrix::softmax}, skip, set, skip, double>({3, 70});
  check_fast<AttentionSize{1, 8, 8, AttentionMatrix::softmax}, add, skip, add, double>({3, 70});
}

TEST_CASE("gradients of query, key and value may be added into one buffer, and those of gains left out") {
  const auto check = [](auto size) {
    Problem<double> one(size.value, {70, 5});
    one.k = one.v = one.q;
    Problem<double> apart = one;
    one.fast_forward<size.value>();
    Values<double> together(one.dq.size());
    one.fast_scratch<size.value>();
    const AttentionGradients<double> to{together.data(), together.data(), together.data()};
    attention_backward<size.value, add, add, add>(one.sequences(), one.operands(), one.log_sum_exp.data(),
                                                  one.dout.data(), to, one.scratch.data());
    apart.reference_backward(set, set, set);
    for (std::size_t i = 0; i < together.size(); ++i) apart.dq[i] += apart.dk[i] + apart.dv[i];
    CHECK(difference(together, apart.dq) <= 1e-13);
  };
  for_masks_and_biases<AttentionSize{3, 16, 16, AttentionMatrix::shaped}>(check);
  check(Constant<AttentionSize{3, 7, 7, AttentionMatrix::shaped}>{});
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
  for (AttentionMatrix matrix : {AttentionMatrix::softmax, AttentionMatrix::skip_init, AttentionMatrix::shaped})
    for (Mask mask : {Mask::causal, Mask::full})
      for (bool alibi : {false, true}) {
        Problem<double> p({2, 3, 5, matrix, mask, alibi}, {1, 7, 4});
        for (auto* gradient : {&p.dalpha, &p.dbeta, &p.dgamma}) gradient->assign(gradient->size(), 0.0);
        p.reference_backward(set, set, set);
        CHECK(gradient_error(p, p.q, p.dq) <= 1e-7);
        CHECK(gradient_error(p, p.k, p.dk) <= 1e-7);
        CHECK(gradient_error(p, p.v, p.dv) <= 1e-7);
        if (!p.gains()) continue;
        CHECK(gradient_error(p, p.alpha, p.dalpha) <= 1e-7);
        CHECK(gradient_error(p, p.beta, p.dbeta) <= 1e-7);
        if (p.centred()) CHECK(gradient_error(p, p.gamma, p.dgamma) <= 1e-7);
      }
}

TEST_CASE_TEMPLATE("shaped attention begins as the identity, whatever mask, bias and window", S, float, double) {
  for_masks_biases_and_windows<AttentionSize{3, 16, 16, AttentionMatrix::shaped}>([](auto size) {
    CAPTURE(static_cast<int>(size.value.mask));
    CAPTURE(size.value.alibi);
    CAPTURE(size.value.window);
    Problem<S> p(size.value, {300, 1, 40});
    std::fill(p.q.begin(), p.q.end(), S(0));
    p.slopes = {S(0.5), S(1) / 256, S(1) / 16};
    for (auto* gain : {&p.alpha, &p.beta, &p.gamma}) std::fill(gain->begin(), gain->end(), S(1));
    const double tolerance = sizeof(S) == 8 ? 1e-14 : 1e-6;
    p.reference_forward();
    CHECK(difference(p.out, p.v) <= tolerance);
    p.template fast_forward<size.value>();
    CHECK(difference(p.out, p.v) <= tolerance);

    // The two mixtures are one there, so their gains have opposite gradients, and keys have none.
    for (auto* gradient : {&p.dbeta, &p.dgamma}) std::fill(gradient->begin(), gradient->end(), S(0));
    p.template fast_backward<size.value, set, set, set>();
    for (S& value : p.dgamma) value = -value;
    CHECK(difference(p.dbeta, p.dgamma) <= 100 * tolerance);
    CHECK(std::all_of(p.dk.begin(), p.dk.end(), [](S value) { return value == 0; }));
    CHECK(std::any_of(p.dq.begin(), p.dq.end(), [](S value) { return std::abs(value) > S(1e-3); }));

    p.q[5 * 3 * 16] = 1;  // another query is no identity; the first token has no choice
    p.template fast_forward<size.value>();
    CHECK(difference(p.out, p.v) > 1e-4);
  });
}

TEST_CASE("C by recurrence is dense C: its rows sum to one, and its transpose runs the other way") {
  constexpr int width = 16;
  for_masks_biases_and_windows<AttentionSize{1, width, width, AttentionMatrix::shaped}>([](auto size) {
    for (const double slope : {0.0, 1.0 / 256, 0.5, 3.0, 60.0, 1e4}) {
      if (slope != 0 && !size.value.alibi) continue;
      for (const Index length : {1, 2, 36, 37}) {
        Problem<double> p(size.value, {length});
        p.alpha = {0}, p.beta = {0}, p.gamma = {-1}, p.slopes = {slope};
        Eigen::MatrixXd c(length, length);
        for (Index i = 0; i < length; ++i) {
          for (Index j = 0; j < length; ++j) {
            c(i, j) = !size.value.sees(i, j) ? 0 : size.value.alibi ? std::exp(-slope * std::abs(double(i - j))) : 1;
          }
          c.row(i) /= c.row(i).sum();
        }
        p.fast_forward<size.value>();
        p.dgamma = {0};
        p.fast_backward<size.value, set, set, set>();
        const auto values = head_of<double>(std::as_const(p).v.data(), 0, length, 0, 1, width);
        const auto out = head_of<double>(std::as_const(p).out.data(), 0, length, 0, 1, width);
        const auto dout = head_of<double>(std::as_const(p).dout.data(), 0, length, 0, 1, width);
        const auto dv = head_of<double>(std::as_const(p).dv.data(), 0, length, 0, 1, width);
        CHECK((out - c * values).cwiseAbs().maxCoeff() <= 1e-14);
        CHECK((dv - c.transpose() * dout).cwiseAbs().maxCoeff() <= 1e-13);
        CHECK(std::isfinite(p.dbeta[0]));
        CHECK(p.dgamma[0] == doctest::Approx(-(c * values).cwiseProduct(dout).sum()).epsilon(1e-12));

        std::fill(p.v.begin(), p.v.end(), 1.0);
        p.fast_forward<size.value>();
        CHECK((out.array() - 1).abs().maxCoeff() <= 1e-15);
      }
    }
  });
}

TEST_CASE("means of rows that have been zero for long are zero") {
  constexpr AttentionSize size{1, 16, 16, AttentionMatrix::shaped, Mask::causal, true};
  Problem<float> p(size, {600});
  p.alpha = {0}, p.beta = {0}, p.gamma = {1}, p.slopes = {0.5f};
  std::fill(p.v.begin() + 16, p.v.end(), 0.0f);
  std::fill(p.dout.begin(), p.dout.end() - 16, 0.0f);
  p.fast_forward<size>();
  p.fast_backward<size, set, set, set>();
  CHECK((p.out[0] != 0 && p.dv[599 * 16] != 0));
  CHECK(std::all_of(p.out.begin() + 300 * 16, p.out.end(), [](float mean) { return mean == 0; }));
  CHECK(std::all_of(p.dv.begin(), p.dv.begin() + 300 * 16, [](float gradient) { return gradient == 0; }));
}

TEST_CASE_TEMPLATE("long contexts and steep slopes stay as accurate as short ones", S, float, double) {
  for_masks_and_biases<AttentionSize{3, 16, 16, AttentionMatrix::shaped}>([](auto size) {
    CAPTURE(static_cast<int>(size.value.mask));
    CAPTURE(size.value.alibi);
    Problem<S> p(size.value, {2000});
    p.slopes = {S(1e4), S(1) / 256, S(1e-6)};
    p.alpha = p.beta = p.gamma = {S(1), S(1), S(1)};
    std::fill(p.q.begin(), p.q.end(), S(0));
    p.template fast_forward<size.value>();
    CHECK(difference(p.out, p.v) <= (sizeof(S) == 8 ? 1e-14 : 2e-6));
    p.template fast_backward<size.value, set, set, set>();
    CHECK(difference(p.dv, p.dout) <= (sizeof(S) == 8 ? 1e-13 : 4e-6));
  });
}

TEST_CASE("a gentle slope is not lost in lambda, which is near one") {
  constexpr AttentionSize size{1, 16, 16, AttentionMatrix::shaped, Mask::causal, true};
  Problem<float> single(size, {2000});
  single.alpha = single.beta = {0}, single.gamma = {-1}, single.slopes = {1e-4f};
  for (std::size_t i = 0; i < single.v.size(); ++i) single.v[i] = static_cast<float>(i / 16);
  Problem<double> precise = single.in<double>();
  single.fast_forward<size>();
  precise.fast_forward<size>();
  CHECK(difference(single.out, precise.out) <= 2.5e-6);  // 6e-6 with a rounded lambda
}

TEST_CASE_TEMPLATE("a causal token is blind to later tokens, and none sees other sequences", S, float, double) {
  constexpr int heads = 3, width = 16;
  for_masks_and_biases<AttentionSize{heads, width, width, AttentionMatrix::shaped}>([](auto size) {
    Problem<S> before(size.value, {20, 100, 30});
    before.template fast_forward<size.value>();
    for (Index changed : {20, 21, 50, 90, 119}) {
      Problem<S> after = before;
      for (Index c = 0; c < heads * width; ++c) {
        for (auto* input : {&after.q, &after.k, &after.v}) (*input)[changed * heads * width + c] *= S(-3);
      }
      after.template fast_forward<size.value>();
      const auto row = [&](const Problem<S>& p, Index i) { return p.out.begin() + i * heads * width; };
      const auto same = [&](Index begin, Index end) {
        return std::equal(row(before, begin), row(before, end), row(after, begin));
      };
      CHECK(same(0, 20));
      CHECK(same(120, 150));
      if (size.value.mask == Mask::causal) {
        CHECK(same(20, changed));
      } else if (changed > 20) {
        CHECK_FALSE(same(20, 21));
      }
      CHECK_FALSE(same(changed, changed + 1));
      CHECK_FALSE(same(119, 120));
    }
  });
}

TEST_CASE_TEMPLATE("the first token is independent of query and key", S, float, double) {
  constexpr AttentionSize size{1, 16, 16, AttentionMatrix::shaped};
  Problem<S> p(size, {9});
  p.alpha = {S(0.5)}, p.beta = {S(2)}, p.gamma = {S(0.25)};
  p.template fast_forward<size>();
  for (int c = 0; c < 16; ++c) CHECK(p.out[c] == doctest::Approx(2.25 * p.v[c]));
  p.template fast_backward<size, set, set, set>();
  for (int c = 0; c < 16; ++c) CHECK(std::abs(p.dq[c]) <= 1e-5);
}

TEST_CASE_TEMPLATE("scores of ten thousand do no harm, nor do slopes that steep", S, float, double) {
  for_masks_and_biases<AttentionSize{1, 16, 16, AttentionMatrix::softmax}>([](auto size) {
    Problem<S> p(size.value, {40});
    for (S& value : p.q) value *= 100;
    for (S& value : p.k) value *= 100;
    p.slopes = {S(1e4)};  // the largest score is often too far away to count
    Problem<S> dense = p;
    p.template fast_forward<size.value>();
    dense.reference_forward();
    CHECK(difference(p.out, dense.out) <= (sizeof(S) == 8 ? 1e-10 : 2e-2));
    p.template fast_backward<size.value, set, set, set>();
    for (const auto* gradient : {&p.dq, &p.dk, &p.dv}) CHECK(std::isfinite(difference(*gradient, *gradient)));
  });
}

TEST_CASE_TEMPLATE("a query all of whose scores are -inf has no weights", S, float, double) {
  for_masks_and_biases<AttentionSize{1, 4, 4, AttentionMatrix::softmax}>([](auto size) {
    Problem<S> p(size.value, {20});
    for (S& q : p.q) q = std::abs(q) + S(0.1);
    std::ranges::fill(p.k, -std::numeric_limits<S>::infinity());
    p.template fast_forward<size.value>();
    for (const S out : p.out) CHECK(std::isnan(out));
  });
}

TEST_CASE("where one key has nearly all the weight of large scores, what is left of the gradient is right") {
  constexpr AttentionSize size{1, 16, 16, AttentionMatrix::softmax, Mask::full};
  Problem<double> p(size, {2});
  std::ranges::fill(p.q, 0.0), std::ranges::fill(p.k, 0.0);
  p.q[0] = p.q[16] = 4, p.k[0] = 4096, p.k[16] = 4082;  // scores, divided by sqrt(16)
  p.template fast_forward<size>();
  p.template fast_backward<size, set, set, set>();
  const double rest = std::exp(-14), product = rest / ((1 + rest) * (1 + rest));  // A_1 A_2
  for (int row = 0; row < 2; ++row) {
    double difference = 0;  // dA_1 - dA_2
    for (int c = 0; c < 16; ++c) difference += p.dout[row * 16 + c] * (p.v[c] - p.v[16 + c]);
    const double expected = product * difference * 14 / 4;
    CHECK(std::abs(p.dq[row * 16] - expected) <= 1e-6 * std::abs(expected));
  }
}

TEST_CASE("scratch is linear in the context") {
  const auto check = []<AttentionSize size>(Constant<size>) {
    const auto words = [](Index longest) { return attention_scratch<size, float>(longest); };
    CHECK(words(1664) - words(64) == 100 * (words(80) - words(64)));
    CHECK(words(5) == words(16));
  };
  check(Constant<AttentionSize{2, 32, 32}>{});
  check(Constant<AttentionSize{2, 25, 3}>{});
}

}  // namespace
