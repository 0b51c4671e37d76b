// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_step.cuh>

#include "cuda/attention_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr bool sanitized = emulation::thread_sanitized || emulation::address_sanitized;

/// One sequence whose tokens come in feeds, to stores that no one has written.
template <AttentionSize size, class S, int key_heads = size.heads, int value_heads = size.heads>
struct Fed {
  test::Attention<S> attention;
  std::vector<S> keys, values;
  Index context;

  Fed(Index tokens, Index room) : attention(size, {tokens}), context(room) {
    share(attention.key, size.key_width, size.heads / key_heads);
    share(attention.value, size.value_width, size.heads / value_heads);
    const Index capacity = round_up(context, step_tile);
    keys = test::unwritten<S>(capacity * key_heads * size.key_width);
    values = test::unwritten<S>(capacity * value_heads * size.value_width);
  }
  /// Heads of a group are equal to its first.
  void share(std::vector<S>& heads, Index width, Index group) const {
    for (Index i = 0; i < std::ssize(heads); ++i) {
      const Index head = i / width % size.heads;
      heads[static_cast<std::size_t>(i)] = heads[static_cast<std::size_t>(i - head % group * width)];
    }
  }
  void feed(const std::vector<Index>& feeds) {
    const Index parts_size = attention_step_parts<size>(std::ranges::max(feeds), context);
    auto parts = test::unwritten<S>(parts_size + 64);
    auto in = attention.operands();
    std::vector<Index> before{0};  // where a device can read it
    for (const Index rows : feeds) {
      const Index past = before[0];
      /// Of these rows alone: what came before is in the stores.
      const auto part = [&](const std::vector<S>& all, Index width) {
        const auto begin = all.begin() + past * size.heads * width;
        return std::vector<S>(begin, begin + rows * size.heads * width);
      };
      const auto query = part(attention.query, size.key_width), key = part(attention.key, size.key_width),
                 value = part(attention.value, size.value_width);
      in.query = query.data(), in.key = key.data(), in.value = value.data();
      attention_steps<size, key_heads, value_heads>(
          nullptr, before.data(), rows, context, in, AttentionStores<S>{keys.data(), values.data()},
          attention.out.data() + past * size.heads * size.value_width, parts.data());
      before[0] += rows;
    }
    REQUIRE(before[0] == attention.tokens);
    CHECK(std::all_of(parts.begin() + parts_size, parts.end(), [](S number) { return std::isnan(number); }));
  }
};

/// Whatever is fed together, each token attends as in the whole sequence, but for so many roundings.
template <AttentionSize size, class S, int key_heads = size.heads, int value_heads = size.heads>
void check(double roundings, const std::vector<Index>& feeds, Index context) {
  Index tokens = 0;
  for (const Index rows : feeds) tokens += rows;
  CAPTURE(tokens);
  Fed<size, S, key_heads, value_heads> fed(tokens, context);
  test::Attention<double> exact = fed.attention.wide();
  exact.reference_forward();
  fed.feed(feeds);
  CHECK(test::distance(fed.attention.out, exact.out) < roundings);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_step");

TEST_CASE("every mixing and bias gives what the reference gives, however tokens are fed") {
  test::each_attention<2, 3, 5>([]<AttentionSize size>() {
    if constexpr (size.mask == Mask::causal) {
      check<size, float>(32, {1, 1, 7, 2, 1}, 20);
      check<size, float>(32, {9, 17, 1}, 40);
    }
  });
  check<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true}, double>(32, {3, 1, 20, 1}, 25);
}

TEST_CASE("contexts of several tiles, in one block and in a block each; a few rows that end in another tile") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true};
  check<size, float>(32, {126, 1, 1, 1, 4}, 260);
  if constexpr (!sanitized) check<size, float>(32, {131, 1, 128, 1, 5}, 266);
  constexpr AttentionSize plain{1, 4, 8};
  check<plain, double>(32, {127, 3, 1}, 131);
}

TEST_CASE("many rows: a block has several tiles if there are blocks enough") {
  static_assert(step_spans(12, 1, 1024).count == 8 && step_spans(12, 1, 1024).tiles == 1);
  static_assert(step_spans(12, 64, 1024).count == 3 && step_spans(12, 64, 1024).tiles == 3);
  static_assert(step_spans(32, 64, 300).count == 1 && step_spans(32, 64, 300).tiles == 3);
  static_assert(step_spans(300, 1, 8192).count == 1);
  constexpr AttentionSize size{32, 2, 2, AttentionMatrix::shaped};
  check<size, float>(32, {64, 64, 1, 64}, 200);
  Fed<size, float> fed(150, 150);
  for (float& q : fed.attention.query) q *= 300;  // the largest score of a row may be in its first tile
  test::Attention<double> exact = fed.attention.wide();
  exact.reference_forward();
  fed.feed({64, 22, 64});
  CHECK(test::distance(fed.attention.out, exact.out) < 4000);  // a score is known to its own rounding
}

TEST_CASE("widths of a vector, between, and of several; more columns than a block has threads") {
  check<AttentionSize{.heads = 1, .key_width = 1, .value_width = 1}, float>(32, {1, 4}, 5);
  check<AttentionSize{1, 33, 64, AttentionMatrix::shaped}, float>(32, {1, 40, 1, 2}, 50);
  check<AttentionSize{1, 64, 77, AttentionMatrix::skip_init}, double>(32, {3, 1}, 12);
  if constexpr (!sanitized) check<AttentionSize{1, 200, 130, AttentionMatrix::shaped}, float>(32, {1, 9}, 12);
}

TEST_CASE("heads that share keys or values remember them once") {
  constexpr AttentionSize size{4, 3, 5, AttentionMatrix::shaped};
  check<size, float, 2, 2>(32, {1, 9, 1}, 12);
  check<size, float, 1, 4>(32, {1, 9, 1}, 12);
  check<size, float, 4, 1>(32, {1, 9, 1}, 12);
}

TEST_CASE("the same bits under every schedule, and stores that only whole tokens reach") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true};
  const auto stored = test::same_bits([&] {
    Fed<size, float> fed(12, 130);
    fed.feed({1, 10, 1});
    return test::joined<float>({fed.attention.out, fed.keys, fed.values});
  });
  Index written = 0;
  for (const float number : stored) written += !std::isnan(number);
  CHECK(written == 12 * 2 * (5 + 3 + 5));
}

TEST_CASE("the identity at initialisation, bit for bit") {
  Fed<AttentionSize{2, 3, 5, AttentionMatrix::shaped}, float> fed(140, 140);
  test::Attention<float>& of = fed.attention;
  for (auto* ones : {&of.alpha, &of.beta, &of.gamma}) std::fill(ones->begin(), ones->end(), 1.0f);
  std::fill(of.query.begin(), of.query.end(), 0.0f);
  fed.feed({1, 130, 1, 8});
  CHECK(of.out == of.value);
}

TEST_CASE("scores of some hundred, and one that is no number") {
  Fed<AttentionSize{2, 8, 8, AttentionMatrix::shaped}, float> fed(20, 20);
  for (float& q : fed.attention.query) q *= 300;
  test::Attention<double> exact = fed.attention.wide();
  exact.reference_forward();
  fed.feed({5, 1, 14});
  CHECK(test::distance(fed.attention.out, exact.out) < 4000);  // a score is known to its own rounding
  Fed<AttentionSize{1, 2, 2}, float> broken(3, 3);
  broken.attention.query[2] = std::numeric_limits<float>::quiet_NaN();  // of token 1
  broken.feed({1, 2});
  const auto& out = broken.attention.out;
  CHECK((!std::isnan(out[0]) && std::isnan(out[2]) && std::isnan(out[3]) && !std::isnan(out[4])));
}

TEST_SUITE_END();
