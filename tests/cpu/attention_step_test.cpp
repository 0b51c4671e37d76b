// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_step.hpp>

#include <simplx/cpu/random_numbers.hpp>
#include <simplx/cpu/attention_reference.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

template <class S>
std::vector<S> numbers(Index count, const char* name) {
  std::vector<S> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = S(normal(key_of(1, name), i));
  return values;
}

/// (rows, heads * width) of which heads in a row are equal, `distinct` of them in all; and (rows, distinct * width).
template <class S>
struct Shared {
  std::vector<S> all, own;
};
template <class S>
Shared<S> shared(Index rows, int heads, int distinct, int width, const char* name) {
  Shared<S> result{std::vector<S>(rows * heads * width), numbers<S>(rows * distinct * width, name)};
  for (Index row = 0; row < rows; ++row) {
    for (int h = 0; h < heads; ++h) {
      const S* from = result.own.data() + (row * distinct + h / (heads / distinct)) * width;
      std::copy_n(from, width, result.all.data() + (row * heads + h) * width);
    }
  }
  return result;
}

/// The largest difference between steps in parts of `part` tokens and the dense equations in double, relative to the
/// largest result. With `inputs`, keys are x W and values x.
template <AttentionSize size, bool inputs, int key_heads, int value_heads, class S>
double step_error(Index tokens, Index part) {
  constexpr Index keys = size.heads * size.key_width, values = size.heads * size.value_width;
  const auto q = numbers<S>(tokens * keys, "q");
  const auto v = shared<S>(tokens, size.heads, value_heads, size.value_width, "v").all;
  auto k = shared<S>(tokens, size.heads, key_heads, size.key_width, "k").all;
  const auto [W, own_W] = shared<S>(values, size.heads, key_heads, size.key_width, "W");
  const auto alpha = numbers<S>(size.heads, "alpha"), beta = numbers<S>(size.heads, "beta"),
             gamma = numbers<S>(size.heads, "gamma");
  std::vector<S> slopes;
  for (int h = 0; h < size.heads; ++h) slopes.push_back(S(0.6 / (1 << 2 * h)));
  std::vector<double> wide_k(k.begin(), k.end());
  if (inputs) {
    for (Index t = 0; t < tokens; ++t) {
      for (Index c = 0; c < keys; ++c) {
        double sum = 0;
        for (Index i = 0; i < values; ++i) {
          sum += static_cast<double>(v[t * values + i]) * static_cast<double>(W[i * keys + c]);
        }
        wide_k[t * keys + c] = sum;
      }
    }
    std::fill(k.begin(), k.end(), S(NAN));  // must not be read
  }
  const auto wide = [](const std::vector<S>& from) { return std::vector<double>(from.begin(), from.end()); };
  const auto dq = wide(q), dv = wide(v), a = wide(alpha), b = wide(beta), c = wide(gamma), m = wide(slopes);
  std::vector<double> expected(tokens * values), log_sums(tokens * size.heads),
      dense(attention_reference_scratch(tokens));
  const Index offsets[] = {0, tokens};
  attention_reference_forward(
      size, {offsets, 1},
      AttentionOperands<double>{dq.data(), wide_k.data(), dv.data(), a.data(), b.data(), c.data(), m.data()},
      expected.data(), log_sums.data(), dense.data());

  const Index capacity = std::min(round_up(tokens, token_block<S>), step_tokens<size, S>);
  std::vector<S> key_store(key_heads * size.key_width * capacity),
      value_store(value_heads * size.value_width * capacity + 1, S(7)), sums(values + size.heads),
      out(tokens * values + 1, S(7)), scratch(attention_step_scratch<size, inputs, S>(tokens, key_heads) + 1, S(7));
  S* store = value_store.data();
  S* const running = size.window == 0 ? sums.data() : nullptr;  // nothing is remembered but what the window has
  const AttentionPast<S> past{inputs ? store : key_store.data(), store, running, own_W.data()};
  for (Index first = 0; first < tokens; first += part) {
    attention_steps<size, inputs, key_heads, value_heads>(
        std::min(part, tokens - first), first,
        AttentionOperands<S>{q.data() + first * keys, k.data() + first * keys, v.data() + first * values, alpha.data(),
                             beta.data(), gamma.data(), slopes.data()},
        past, out.data() + first * values, scratch.data());
  }
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(out[i]) - expected[i]);
    if (!(difference <= worst)) worst = difference;
    largest = std::max(largest, std::abs(expected[i]));
  }
  return out.back() == 7 && scratch.back() == 7 && value_store.back() == 7 ? worst / largest : 1;
}

template <AttentionSize size, bool inputs, int key_heads = size.heads, int value_heads = size.heads>
void check() {
  for (const Index tokens : {1, 2, 31, 32, 33, 64, 65, 130}) {
    CAPTURE(tokens);
    CHECK(step_error<size, inputs, key_heads, value_heads, double>(tokens, 1) < 1e-13);
    CHECK(step_error<size, inputs, key_heads, value_heads, double>(tokens, 7) < 1e-13);
    CHECK(step_error<size, inputs, key_heads, value_heads, float>(tokens, 50) < 2e-5);
  }
}

}  // namespace

TEST_CASE("cpu/attention_step: steps over remembered keys and values give the dense equations") {
  check<AttentionSize{.heads = 2, .key_width = 16, .value_width = 32, .matrix = AttentionMatrix::shaped}, false>();
  check<AttentionSize{.heads = 3, .key_width = 3, .value_width = 5, .matrix = AttentionMatrix::skip_init}, false>();
  check<AttentionSize{.heads = 1, .key_width = 8, .value_width = 1, .matrix = AttentionMatrix::softmax}, false>();
  check<AttentionSize{.heads = 1, .key_width = 4, .value_width = 70}, false>();  // of four rows 64 at once
  check<AttentionSize{.heads = 2, .key_width = 4, .value_width = 4,
                      .matrix = AttentionMatrix::shaped, .alibi = true},
        false>();
}

TEST_CASE("cpu/attention_step: over remembered inputs, the projection of the keys applied to the query") {
  check<AttentionSize{.heads = 2, .key_width = 16, .value_width = 16, .matrix = AttentionMatrix::shaped}, true>();
  check<AttentionSize{.heads = 5, .key_width = 3, .value_width = 4, .matrix = AttentionMatrix::skip_init}, true>();
  check<AttentionSize{.heads = 4, .key_width = 8, .value_width = 8,
                      .matrix = AttentionMatrix::softmax, .alibi = true},
        true>();
}

// That of many new tokens is taken from all inputs instead, once the scores of heads side by side cost more.
using Folded = AttentionStep<AttentionSize{.heads = 4, .key_width = 8, .value_width = 8}, true, 4, 4, float>;
static_assert(!Folded::projects(1, 0) && Folded::projects(2, 0));
static_assert(!Folded::projects(10, 1000) && Folded::projects(11, 1000));
static_assert(!AttentionStep<AttentionSize{.heads = 1, .key_width = 8, .value_width = 8}, true, 1, 1,
                             float>::projects(100, 1000));

TEST_CASE("cpu/attention_step: keys and values that heads share are in a store once") {
  check<AttentionSize{.heads = 6, .key_width = 4, .value_width = 5, .matrix = AttentionMatrix::shaped}, false, 2, 3>();
  check<AttentionSize{.heads = 4, .key_width = 16, .value_width = 16}, false, 1, 1>();
  check<AttentionSize{.heads = 6, .key_width = 3, .value_width = 4, .matrix = AttentionMatrix::shaped}, true, 2>();
}

TEST_CASE("cpu/attention_step: of what it remembers a token sees a window") {
  check<AttentionSize{.heads = 2, .key_width = 8, .value_width = 5, .alibi = true, .window = 40}, false, 1, 1>();
  check<AttentionSize{.heads = 3, .key_width = 3, .value_width = 4,
                      .matrix = AttentionMatrix::skip_init, .window = 37},
        true>();
  check<AttentionSize{.heads = 1, .key_width = 4, .value_width = 4, .window = 1}, true>();
  check<AttentionSize{.heads = 1, .key_width = 4, .value_width = 4, .window = 200}, false>();
  constexpr auto shaped = AttentionMatrix::shaped;
  check<AttentionSize{.heads = 2, .key_width = 8, .value_width = 5, .matrix = shaped, .window = 40}, false>();
  check<AttentionSize{.heads = 3, .key_width = 3, .value_width = 4, .matrix = shaped, .alibi = true, .window = 37}, true>();
}

TEST_CASE("cpu/attention_step: what a store holds after its last token is not seen, and NaN is not hidden") {
  constexpr AttentionSize size{.heads = 1, .key_width = 2, .value_width = 2};
  const double q[] = {1, 2}, k[] = {0.5, 1}, v[] = {3, 4};
  std::vector<double> keys(2 * token_block<double>, 1e300), values(2 * token_block<double>, 1e300), out(2), scratch(
      attention_step_scratch<size, false, double>(1));
  attention_steps<size, false>(1, 0, {q, k, v}, {keys.data(), values.data()}, out.data(), scratch.data());
  CHECK(out == std::vector<double>{3, 4});
  const double broken[] = {1, std::nan("")};
  attention_steps<size, false>(1, 0, {broken, k, v}, {keys.data(), values.data()}, out.data(), scratch.data());
  CHECK(std::isnan(out[0]));
  const double far[] = {-std::numeric_limits<double>::infinity(), 1};
  attention_steps<size, false>(1, 0, {q, far, v}, {keys.data(), values.data()}, out.data(), scratch.data());
  CHECK(std::isnan(out[0]));
}
