// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_backward.cuh>
#include <simplx/cuda/tensor_cores.cuh>

#include "cuda/attention_problem.hpp"

using namespace simplx;

using Cores = detail::TensorCores<>;

namespace {

/// One of them is longer than a tile of 64 rows.
const std::vector<Index> some_lengths = emulation::thread_sanitized ? std::vector<Index>{2, 0, 70} : test::lengths;

constexpr bool sanitized = emulation::address_sanitized || emulation::thread_sanitized;
constexpr Write skip = Write::skip, set = Write::store, more = Write::accumulate;

/// 2^-9, half of the last digit of a bfloat16, in units of that of a float.
constexpr double rounding_of_bfloat16 = 1 << 14;

template <AttentionSize size, Write dq, Write dk, Write dv, class Out = float>
test::Attention<float> computed(test::Attention<float> found) {
  found.forward<size, Cores>();
  if (dq == set) found.dquery = test::unwritten<float>(found.keys());
  if (dk == set) found.dkey = test::unwritten<float>(found.keys());
  if (dv == set) found.dvalue = test::unwritten<float>(found.values());
  found.backward<size, dq, dk, dv, Cores, Out>(found.gradients());
  return found;
}

/// Both passes are the reference's in double, but for so many roundings of scores, weights and factors.
template <AttentionSize size, Write dq = set, Write dk = set, Write dv = set, class Out = float>
void check(double roundings, const test::Attention<float>& given = test::Attention<float>(size, some_lengths)) {
  const test::Attention<float> found = computed<size, dq, dk, dv, Out>(given);
  test::Attention<double> exact = given.wide();
  exact.reference_forward();
  exact.reference_backward(dq, dk, dv);
  roundings *= rounding_of_bfloat16;
  CHECK(test::distance(found.out, exact.out) < roundings);
  CHECK(test::distance(found.log_sum_exp, exact.log_sum_exp) < roundings);
  CHECK(test::distance(found.dquery, exact.dquery) < roundings);
  CHECK(test::distance(found.dkey, exact.dkey) < roundings);
  CHECK(test::distance(found.dvalue, exact.dvalue) < roundings);
  const double terms = std::sqrt(double(given.tokens * size.value_width));  // random ones, which may cancel
  CHECK(test::distance(found.dalpha, exact.dalpha, terms) < roundings);
  CHECK(test::distance(found.dbeta, exact.dbeta, terms) < roundings);
  CHECK(test::distance(found.dgamma, exact.dgamma, terms) < roundings);
}

template <AttentionSize size>
void check_schedules() {
  test::same_bits([] { return computed<size, set, set, set>(test::Attention<float>(size, {70, 3})).results(); });
}

/// Operands and gradients of bfloat16 are the factors that floats are rounded to: the same bits, under every schedule,
/// although they reach shared memory on another way.
template <AttentionSize size, Write dq = set, class Out = float>
void check_operands(const std::vector<Index>& lengths) {
  using Rounded = std::vector<__nv_bfloat16>;
  test::Attention<float> given(size, lengths);
  const auto round = [](std::vector<float>& numbers) {
    const Rounded rounded(numbers.begin(), numbers.end());
    numbers.assign(rounded.begin(), rounded.end());
    return rounded;
  };
  const Rounded query = round(given.query), key = round(given.key), value = round(given.value);
  const Rounded dout = round(given.dout);
  const auto expected = computed<size, dq, set, set, Out>(given).results();
  const auto results = test::same_bits([&] {
    test::Attention<float> found = given;
    const AttentionOperands<float> own = found.operands();
    const MixedOperands<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float> in{
        query.data(), key.data(), value.data(), own.alpha, own.beta, own.gamma, own.slopes};
    attention<size, Cores>(nullptr, found.offsets.data(), found.sequences, found.longest, in, found.out.data(),
                           found.log_sum_exp.data());
    auto scratch = test::unwritten<float>(
        attention_backward_scratch<size, Cores>(found.tokens, found.sequences, found.longest));
    const Out* const result = std::is_void_v<Out> ? nullptr : found.out.data();
    attention_backward<size, Cores, dq, set, set>(nullptr, found.offsets.data(), found.sequences, found.longest, in,
                                                  found.log_sum_exp.data(), result, dout.data(), found.gradients(),
                                                  scratch.data());
    return found.results();
  });
  CHECK(results == expected);
}

/// Queries of zero and gains of one.
template <AttentionSize size>
void check_identity() {
  test::Attention<float> found(size);
  for (auto* ones : {&found.alpha, &found.beta, &found.gamma}) std::fill(ones->begin(), ones->end(), 1.0f);
  std::fill(found.query.begin(), found.query.end(), 0.0f);
  found.forward<size, Cores>();
  CHECK(found.out == found.value);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_bfloat16");

TEST_CASE("mixings, masks and biases give what the reference gives, and the same bits under every schedule") {
  const auto with = []<Mixing mixing, Mask mask, bool alibi>() {
    constexpr AttentionSize size{2, 3, 5, mixing, mask, alibi};
    check<size>(8);
    check_schedules<size>();
  };
  with.operator()<Mixing::shaped, Mask::full, true>();
  if constexpr (!sanitized) {  // which takes long to compile
    with.operator()<Mixing::softmax, Mask::causal, true>();
    with.operator()<Mixing::skip_init, Mask::full, false>();
    with.operator()<Mixing::shaped, Mask::causal, false>();
  }
}

TEST_CASE("widths of an instruction, between, and of several; tiles shrink with width") {
  check<AttentionSize{1, 64, 64, Mixing::shaped}>(8);
  if constexpr (!sanitized) {
    check<AttentionSize{.heads = 1, .key_width = 1, .value_width = 1}>(8);
    check<AttentionSize{2, 8, 32, Mixing::shaped}>(8);
    check<AttentionSize{1, 33, 64, Mixing::shaped, Mask::full, true}>(8);
    constexpr AttentionSize wide{1, 200, 130};
    check<wide>(8, test::Attention<float>(wide, {20, 17}));
  }
}

TEST_CASE("operands of bfloat16: tiles in one place and in two, rows that tiles do not fill, padded columns") {
  check_operands<AttentionSize{2, 8, 24, Mixing::shaped, Mask::causal}>({70, 0, 3});  // three passes over tiles
  if constexpr (!sanitized) {
    check_operands<AttentionSize{1, 64, 64, Mixing::softmax, Mask::causal}>({130});
    check_operands<AttentionSize{1, 64, 64, Mixing::shaped, Mask::causal}>({290, 5});  // of several tiles of 128 rows
    check_operands<AttentionSize{1, 64, 64, Mixing::shaped, Mask::full}>({290, 5});
    check_operands<AttentionSize{1, 64, 64, Mixing::shaped, Mask::full, true}, set, void>({70});
    check_operands<AttentionSize{1, 16, 8, Mixing::softmax, Mask::full}, skip>({65, 1});  // dK and dV alone
    check_operands<AttentionSize{1, 128, 96, Mixing::skip_init, Mask::causal}>({40});     // one place
    check_operands<AttentionSize{2, 12, 20, Mixing::skip_init, Mask::causal}>({33});      // through registers
  }
}

/// The scores of keys grow by more than 88, where exponentials overflow, from one tile to the next: each weighs nothing
/// beside the last one, and all gradients of scores are nearly zero.
template <AttentionSize size>
void check_growing() {
  test::Attention<float> given(size, {140});
  std::ranges::fill(given.query, 16.0f);
  for (Index i = 0; i < given.keys(); ++i) {
    given.key[static_cast<std::size_t>(i)] = static_cast<float>(i / (size.heads * size.key_width));
  }
  const test::Attention<float> found = computed<size, skip, skip, set>(given);
  test::Attention<double> exact = given.wide();
  exact.reference_forward();
  exact.reference_backward(skip, skip, set);
  CHECK(test::distance(found.out, exact.out) < 8 * rounding_of_bfloat16);
  CHECK(test::distance(found.log_sum_exp, exact.log_sum_exp) < 8 * rounding_of_bfloat16);
  CHECK(test::distance(found.dvalue, exact.dvalue) < 8 * rounding_of_bfloat16);
}

TEST_CASE("scores that grow from tile to tile: sums are scaled anew") {
  check_growing<AttentionSize{1, 64, 64, Mixing::softmax, Mask::causal}>();
  check_growing<AttentionSize{2, 16, 8, Mixing::shaped, Mask::full}>();
}

TEST_CASE("gradients are added to what is there, those that are not wanted are not touched") {
  check<AttentionSize{2, 3, 5, Mixing::shaped}, more, more, more>(8);
  check<AttentionSize{2, 3, 5, Mixing::skip_init}, set, skip, skip>(8);
  check<AttentionSize{2, 3, 5, Mixing::skip_init}, skip, skip, more>(8);
}

TEST_CASE("the same where the result was not kept") {
  check<AttentionSize{2, 3, 5, Mixing::shaped, Mask::full, true}, set, set, set, void>(8);
}

TEST_CASE("the identity at initialisation, bit for bit") {
  check_identity<AttentionSize{2, 3, 5, Mixing::shaped, Mask::causal}>();
  check_identity<AttentionSize{1, 64, 64, Mixing::shaped, Mask::causal}>();
  check_identity<AttentionSize{2, 3, 5, Mixing::shaped, Mask::full}>();
  check_identity<AttentionSize{1, 64, 64, Mixing::shaped, Mask::full}>();
}

TEST_CASE("nothing to attend to") {
  constexpr AttentionSize size{2, 3, 5, Mixing::shaped};
  check<size>(1, test::Attention<float>(size, {}));
  check<size>(1, test::Attention<float>(size, {0, 0}));
}

TEST_SUITE_END();
