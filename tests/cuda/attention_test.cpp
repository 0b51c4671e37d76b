// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention.cuh>

#include "cuda/attention_problem.hpp"

using namespace simplx;

namespace {

/// What the kernel gives is what the reference in double gives, but for so many roundings.
template <AttentionSize size, class S>
void check_forward(double roundings, const std::vector<Index>& lengths = test::lengths) {
  test::Attention<S> found(size, lengths);
  test::Attention<double> exact = found.wide();
  found.template forward<size>();
  exact.reference_forward();
  CHECK(test::distance(found.out, exact.out) < roundings);
  CHECK(test::distance(found.log_sum_exp, exact.log_sum_exp) < roundings);
}

template <AttentionSize size>
void check_schedules() {
  test::same_bits([] {
    test::Attention<float> found(size, {40, 3});
    found.forward<size>();
    return found.results();
  });
}

/// Queries of zero and gains of one.
template <AttentionSize size>
void check_identity() {
  test::Attention<float> found(size);
  for (auto* ones : {&found.alpha, &found.beta, &found.gamma}) std::fill(ones->begin(), ones->end(), 1.0f);
  std::fill(found.query.begin(), found.query.end(), 0.0f);
  found.forward<size>();
  CHECK(found.out == found.value);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention");

TEST_CASE("every mixing, mask and bias gives what the reference gives") {
  test::each_attention<2, 3, 5>([]<AttentionSize size>() {
    check_forward<size, float>(32);
    check_schedules<size>();
  });
  check_forward<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true}, double>(32);
}

TEST_CASE("dropped weights are those of the reference") {
  check_forward<AttentionSize{2, 3, 5, AttentionMatrix::softmax, Mask::full, false, true}, float>(32);
  check_forward<AttentionSize{2, 8, 32, AttentionMatrix::skip_init, Mask::causal, false, true}, double>(32);
  check_forward<AttentionSize{1, 33, 64, AttentionMatrix::shaped, Mask::causal, true, true}, float>(32);
  check_schedules<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, false, true}>();
}

TEST_CASE("windows of a token, of less than a tile and of more") {
  test::each_window<1, 3, 5>([]<AttentionSize size>() { check_forward<size, float>(32, test::window_lengths); });
}

TEST_CASE("widths of a vector, between, and of several; tiles shrink with width and type") {
  check_forward<AttentionSize{.heads = 1, .key_width = 1, .value_width = 1}, float>(32);
  check_forward<AttentionSize{2, 8, 32, AttentionMatrix::shaped}, float>(32);
  check_forward<AttentionSize{1, 33, 64, AttentionMatrix::shaped, Mask::full, true}, float>(32);
  check_forward<AttentionSize{1, 64, 33, AttentionMatrix::skip_init}, double>(32);
  check_forward<AttentionSize{1, 64, 64, AttentionMatrix::shaped}, float>(32);
  check_forward<AttentionSize{1, 200, 130, AttentionMatrix::softmax}, float>(32, {20, 17});
}

TEST_CASE("the identity at initialisation, bit for bit") {
  check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal}>();
  check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full}>();
  check_identity<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal}>();
  check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, false, false, 20}>();
}

TEST_CASE("nothing to attend to") {
  check_forward<AttentionSize{2, 3, 5, AttentionMatrix::shaped}, float>(1, {});
  check_forward<AttentionSize{2, 3, 5, AttentionMatrix::shaped}, float>(1, {0, 0});
}

TEST_CASE("scores of some hundred: one key has all the weight, and exponentials stay finite") {
  constexpr AttentionSize size{2, 8, 8, AttentionMatrix::shaped, Mask::full};
  test::Attention<float> found(size);
  for (float& q : found.query) q *= 300;
  test::Attention<double> exact = found.wide();
  found.forward<size>();
  exact.reference_forward();
  double largest = 0;
  for (const double sum : exact.log_sum_exp) largest = std::max(largest, sum);
  REQUIRE(largest > 500);
  CHECK(test::distance(found.out, exact.out) < 4 * largest);  // a score is known to its own rounding
  CHECK(test::distance(found.log_sum_exp, exact.log_sum_exp) < 8);
}

TEST_CASE("keys that count for nothing come first, more than a tile has, or are all there are") {
  constexpr AttentionSize size{1, 4, 4, AttentionMatrix::softmax, Mask::full};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  test::Attention<float> found(size, {80});
  for (float& q : found.query) q = std::abs(q) + 0.1f;
  std::fill_n(found.key.begin(), 70 * 4, -infinity);  // scores of -inf
  test::Attention<double> exact = found.wide();
  found.forward<size>();
  exact.reference_forward();
  CHECK(test::distance(found.out, exact.out) < 32);
  CHECK(test::distance(found.log_sum_exp, exact.log_sum_exp) < 32);
  std::ranges::fill(found.key, -infinity);
  found.forward<size>();
  for (const float out : found.out) CHECK(std::isnan(out));
}

TEST_SUITE_END();
