// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_backward.cuh>

#include "cuda/attention_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr Write skip = Write::skip, set = Write::store, more = Write::accumulate;

/// Both passes by kernels.
template <AttentionSize size, Write dq, Write dk, Write dv, class Out, class S>
test::Attention<S> computed(test::Attention<S> found) {
  found.template forward<size>();
  if (dq == set) found.dquery = test::unwritten<S>(found.keys());
  if (dk == set) found.dkey = test::unwritten<S>(found.keys());
  if (dv == set) found.dvalue = test::unwritten<S>(found.values());
  found.template backward<size, dq, dk, dv, CudaCores<S>, Out>(found.gradients());
  return found;
}

template <AttentionSize size, Write dq, Write dk, Write dv, class S, class Out = S>
void check_backward(double roundings, const test::Attention<S>& given = test::Attention<S>(size)) {
  const test::Attention<S> found = computed<size, dq, dk, dv, Out>(given);
  test::Attention<double> exact = given.wide();
  exact.reference_backward(dq, dk, dv);
  CHECK(test::distance(found.dquery, exact.dquery) < roundings);
  CHECK(test::distance(found.dkey, exact.dkey) < roundings);
  CHECK(test::distance(found.dvalue, exact.dvalue) < roundings);
  CHECK(test::distance(found.dalpha, exact.dalpha) < roundings);
  CHECK(test::distance(found.dbeta, exact.dbeta) < roundings);
  CHECK(test::distance(found.dgamma, exact.dgamma) < roundings);
}

template <AttentionSize size>
void check_schedules() {
  test::same_bits([] { return computed<size, set, set, set, float>(test::Attention<float>(size, {40, 3})).results(); });
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_backward");

TEST_CASE("every mixing, mask and bias gives what the reference gives") {
  test::each_attention<2, 3, 5>([]<AttentionSize size>() {
    check_backward<size, set, set, set, float>(64);
    check_schedules<size>();
  });
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true}, set, set, set, double>(64);
}

TEST_CASE("dropped weights are those of the reference, where the result was kept and where not") {
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::softmax, Mask::full, false, true}, set, set, set, float>(64);
  check_backward<AttentionSize{2, 8, 32, AttentionMatrix::skip_init, Mask::causal, false, true}, set, set, more,
                 double>(64);
  constexpr AttentionSize shaped{1, 33, 64, AttentionMatrix::shaped, Mask::causal, true, true};
  check_backward<shaped, set, more, set, float>(64);
  check_backward<shaped, skip, set, set, float, void>(64);
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::softmax, Mask::causal, false, true}, set, set, set, float,
                 void>(64);
  check_schedules<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, false, true}>();
}

TEST_CASE("windows of a token, of less than a tile and of more; of all tokens: the same bits as without one") {
  test::each_window<1, 3, 5>([]<AttentionSize size>() {
    const test::Attention<float> given(size, test::window_lengths);
    check_backward<size, set, set, set>(64, given);
    if constexpr (size.drops) check_backward<size, set, set, set, float, void>(64, given);  // rows behind see nothing
  });
  constexpr AttentionSize full{2, 3, 5, AttentionMatrix::softmax, Mask::full};
  constexpr AttentionSize seen{2, 3, 5, AttentionMatrix::softmax, Mask::full, false, false, 70};
  CHECK(computed<seen, set, set, set, float>(test::Attention<float>(seen)).results() ==
        computed<full, set, set, set, float>(test::Attention<float>(full)).results());
}

TEST_CASE("the same where the result was not kept") {
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::softmax}, set, set, set, float, void>(64);
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::skip_init, Mask::full}, more, set, set, float, void>(64);
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true}, set, set, set, float, void>(64);
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, true}, skip, set, set, double, void>(64);
}

TEST_CASE("gradients are added to what is there") {
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::shaped}, more, more, more, float>(64);
  check_backward<AttentionSize{2, 3, 5, AttentionMatrix::softmax, Mask::full, true}, more, set, more, float>(64);
}

TEST_CASE("widths of a vector, between, and of several; tiles shrink with width and type") {
  check_backward<AttentionSize{.heads = 1, .key_width = 1, .value_width = 1}, set, set, set, float>(64);
  check_backward<AttentionSize{2, 8, 32, AttentionMatrix::shaped}, set, set, set, float>(64);
  check_backward<AttentionSize{1, 33, 64, AttentionMatrix::shaped, Mask::full, true}, set, set, set, float>(64);
  check_backward<AttentionSize{1, 64, 33, AttentionMatrix::skip_init}, set, set, set, double>(64);
  check_backward<AttentionSize{1, 64, 64, AttentionMatrix::shaped}, set, set, set, float>(64);
  constexpr AttentionSize wide{1, 200, 130};
  check_backward<wide, set, set, set>(64, test::Attention<float>(wide, {20, 17}));
}

TEST_CASE("gradients that are not wanted are not touched, and the others are the same") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped};
  check_backward<size, set, skip, skip, float>(64);
  check_backward<size, skip, set, skip, float>(64);
  check_backward<size, skip, skip, set, float>(64);
  check_backward<size, skip, skip, skip, float>(64);
  test::Attention<float> found(size), before = found;
  found.forward<size>();
  found.backward<size, skip, skip, more>({.value = found.dvalue.data()});
  CHECK(found.dvalue != before.dvalue);
  CHECK(found.dalpha == before.dalpha);
  CHECK(found.dgamma == before.dgamma);
  found.backward<size, skip, skip, skip>({.gamma = found.dgamma.data()});
  CHECK(found.dbeta == before.dbeta);
  CHECK(found.dgamma != before.dgamma);
}

TEST_CASE("one buffer has the gradients of query, key and value") {
  constexpr AttentionSize size{2, 9, 9, AttentionMatrix::shaped};
  const test::Attention<float> given(size);
  const auto shared = test::same_bits([&] {
    test::Attention<float> found = given;
    found.forward<size>();
    found.backward<size, more, more, more>({found.dquery.data(), found.dquery.data(), found.dquery.data()});
    return found.dquery;
  });
  test::Attention<double> exact = given.wide();
  exact.reference_backward(set, set, set);
  std::vector<double> sum(given.dquery.begin(), given.dquery.end());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += exact.dquery[i] + exact.dkey[i] + exact.dvalue[i];
  CHECK(test::distance(shared, sum) < 64);
}

TEST_CASE("nothing to attend to") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped};
  check_backward<size, set, set, set>(1, test::Attention<float>(size, {}));
  check_backward<size, set, set, set>(1, test::Attention<float>(size, {0, 0}));
}

TEST_CASE("scores of some hundred") {
  constexpr AttentionSize size{2, 8, 8, AttentionMatrix::shaped, Mask::full};
  test::Attention<float> given(size);
  for (float& q : given.query) q *= 300;
  check_backward<size, set, set, set>(4096, given);
}

TEST_CASE("the log of a sum of some hundred is rounded, but what cancels cancels: equal keys and values") {
  constexpr AttentionSize size{1, 4, 4, AttentionMatrix::softmax, Mask::full};
  test::Attention<float> given(size, {3, 7});
  for (float& q : given.query) q += 250;  // scores of about 500
  std::fill(given.key.begin(), given.key.end(), 1.0f);
  std::fill(given.value.begin(), given.value.end(), 1.0f);
  const std::vector<double> none(given.query.size());
  CHECK(test::distance(computed<size, set, skip, skip, float>(given).dquery, none, 4) < 16);  // 4: what dM may be
  CHECK(test::distance(computed<size, set, skip, skip, void>(given).dquery, none, 4) < 16);
}

TEST_CASE("where beta is zero queries and keys have no gradient at all, as at the start of V-SkipInit") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::skip_init};
  test::Attention<float> given(size);
  std::fill(given.beta.begin(), given.beta.end(), 0.0f);
  const auto found = computed<size, set, set, set, float>(given);
  CHECK(std::ranges::count(found.dquery, 0.0f) == found.keys());
  CHECK(std::ranges::count(found.dkey, 0.0f) == found.keys());
}

TEST_CASE("a tile of queries that ends behind the last one: a key whose scores are -inf has no gradient but its own") {
  constexpr AttentionSize size{1, 4, 4, AttentionMatrix::softmax, Mask::full};
  test::Attention<float> given(size, {20});
  for (float& q : given.query) q = std::abs(q) + 0.1f;
  std::fill_n(given.key.begin() + 7 * 4, 4, -std::numeric_limits<float>::infinity());
  const test::Attention<float> found = computed<size, skip, set, set, float>(given);
  test::Attention<double> exact = given.wide();
  exact.reference_backward(skip, set, set);
  CHECK(test::distance(found.dvalue, exact.dvalue) < 64);
  const auto others = [](const auto& gradient) {
    std::vector<std::remove_cvref_t<decltype(gradient[0])>> of(gradient.begin(), gradient.end());
    std::fill_n(of.begin() + 7 * 4, 4, 0);  // 0 times infinity
    return of;
  };
  CHECK(test::distance(others(found.dkey), others(exact.dkey)) < 64);
}

TEST_SUITE_END();
