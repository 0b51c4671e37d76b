// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/attention_step.cuh>

#include "cuda/attention_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr bool sanitized = emulation::thread_sanitized || emulation::address_sanitized;

/// So many of the next tokens of each of these sequences.
struct Feed {
  std::vector<Index> of;
  Index rows;
};

/// Sequences whose tokens come in feeds, to stores that no one has written. Those of the stream begin with one that
/// gets no tokens; the others are the last first.
template <AttentionSize size, class S, int key_heads = size.heads, int value_heads = size.heads>
struct Fed {
  test::Attention<S> attention;
  std::vector<Index> past;
  std::vector<S> stores;
  Index context, keys, apart;

  Fed(const std::vector<Index>& lengths, Index room)
      : attention(size, lengths), past(lengths.size()), context(room) {
    share(attention.key, size.key_width, size.heads / key_heads);
    share(attention.value, size.value_width, size.heads / value_heads);
    const Index capacity = std::min(round_up(context, step_tile), step_tokens<size>);
    keys = capacity * key_heads * size.key_width, apart = keys + capacity * value_heads * size.value_width + 7;
    stores = test::unwritten<S>((1 + std::ssize(past)) * apart);
  }
  Fed(Index tokens, Index room) : Fed(std::vector<Index>{tokens}, room) {}
  /// Heads of a group are equal to its first.
  void share(std::vector<S>& heads, Index width, Index group) const {
    for (Index i = 0; i < std::ssize(heads); ++i) {
      const Index head = i / width % size.heads;
      heads[static_cast<std::size_t>(i)] = heads[static_cast<std::size_t>(i - head % group * width)];
    }
  }
  void feed(const Feed& now) {
    const Index count = std::ssize(now.of), rows = now.rows, width = size.heads * size.value_width;
    const auto at = [](Index s) { return static_cast<std::size_t>(s); };
    std::vector<Index> before, numbers;  // where a device can read it
    for (const Index s : now.of) before.push_back(past[at(s)]), numbers.push_back(std::ssize(past) - s);
    /// Of these rows alone: what came before is in the stores.
    const auto part = [&](const std::vector<S>& all, Index heads_width) {
      std::vector<S> own;
      for (const Index s : now.of) {
        const auto begin = all.begin() + (attention.offsets[at(s)] + past[at(s)]) * size.heads * heads_width;
        own.insert(own.end(), begin, begin + rows * size.heads * heads_width);
      }
      return own;
    };
    const auto query = part(attention.query, size.key_width), key = part(attention.key, size.key_width),
               value = part(attention.value, size.value_width);
    auto in = attention.operands();
    in.query = query.data(), in.key = key.data(), in.value = value.data();
    const Index parts_size = attention_step_parts<size>(rows, count, context);
    auto parts = test::unwritten<S>(parts_size + 64), out = test::unwritten<S>(count * rows * width);
    attention_steps<size, key_heads, value_heads>(
        nullptr, StepSequences{count, rows, before.data(), numbers.data()}, context, in,
        AttentionStores<S>{stores.data(), stores.data() + keys, apart}, out.data(), parts.data());
    CHECK(std::all_of(parts.begin() + parts_size, parts.end(), [](S number) { return std::isnan(number); }));
    for (Index i = 0; i < count; ++i) {
      const Index s = now.of[at(i)];
      std::copy_n(out.begin() + i * rows * width, rows * width,
                  attention.out.begin() + (attention.offsets[at(s)] + past[at(s)]) * width);
      past[at(s)] += rows;
    }
  }
  void feed(const std::vector<Feed>& feeds) {
    for (const Feed& one : feeds) feed(one);
    for (std::size_t s = 0; s < past.size(); ++s) {
      REQUIRE(past[s] == attention.offsets[s + 1] - attention.offsets[s]);
    }
    const auto unused = stores.begin() + apart;
    CHECK(std::all_of(stores.begin(), unused, [](S number) { return std::isnan(number); }));
  }
  void feed(const std::vector<Index>& feeds) {
    std::vector<Feed> each;
    for (const Index rows : feeds) each.push_back({{0}, rows});
    feed(each);
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

/// The same of several sequences.
template <AttentionSize size, class S, int key_heads = size.heads, int value_heads = size.heads>
void check(double roundings, const std::vector<Index>& lengths, const std::vector<Feed>& feeds, Index context) {
  Fed<size, S, key_heads, value_heads> fed(lengths, context);
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
  static_assert(step_spans(12, 1, 1, 1024).count == 8 && step_spans(12, 1, 1, 1024).tiles == 1);
  static_assert(step_spans(12, 1, 64, 1024).count == 3 && step_spans(12, 1, 64, 1024).tiles == 3);
  static_assert(step_spans(32, 1, 64, 300).count == 1 && step_spans(32, 1, 64, 300).tiles == 3);
  static_assert(step_spans(300, 1, 1, 8192).count == 1 && step_spans(12, 25, 1, 8192).count == 1);
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

TEST_CASE("a token of each of several sequences, whichever have one, wherever they are") {
  const std::vector<Feed> feeds{{{0}, 1}, {{2}, 9}, {{0, 1, 2}, 1}, {{1, 2}, 1}, {{2, 0, 1}, 1}, {{1}, 4}, {{1, 2}, 1}};
  test::each_attention<2, 3, 5>([&]<AttentionSize size>() {
    if constexpr (size.mask == Mask::causal) check<size, float>(32, {3, 8, 13}, feeds, 14);
  });
  check<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true}, double>(32, {3, 8, 13}, feeds, 14);
  check<AttentionSize{4, 3, 5, AttentionMatrix::shaped}, float, 1, 2>(32, {3, 8, 13}, feeds, 14);
  // tiles that only the longest has
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped, Mask::causal, true};
  check<size, float>(32, {4, 131, 130},
                     {{{1}, 127}, {{2}, 128}, {{1, 0}, 1}, {{2, 1, 0}, 1}, {{1, 0}, 1}, {{0, 2}, 1}, {{1}, 1}}, 260);
}

TEST_CASE("many sequences: their spans are of several tiles") {
  constexpr AttentionSize size{32, 2, 2, AttentionMatrix::shaped};
  static_assert(step_spans(32, 5, 1, 500).count == 2 && step_spans(32, 1, 1, 500).count == 4);
  const std::vector<Index> all{0, 1, 2, 3, 4};
  check<size, float>(32, {3, 1, 141, 260, 1}, {{{0}, 2}, {{2}, 140}, {{3}, 259}, {all, 1}}, 500);
}

TEST_CASE("windows: of a token, of less than a tile and of more, of the context; spans are of tiles that they reach") {
  using enum AttentionMatrix;
  static_assert(step_spans(1, 1, 1, 9999, 1).count == 1 && step_spans(1, 1, 1, 9999, 2).count == 2);
  static_assert(step_spans(1, 1, 1, 9999, 129).count == 2 && step_spans(1, 1, 1, 9999, 130).count == 3);
  static_assert(step_spans(1, 1, 9, 9999, 122).count == 2 && step_spans(1, 1, 9, 9999, 123).count == 3);
  static_assert(step_spans(1, 1, 1, 200, std::numeric_limits<int>::max()).count == 2);
  check<AttentionSize{2, 3, 5, softmax, Mask::causal, false, false, 1}, float>(32, {3, 1, 126, 1}, 140);
  check<AttentionSize{4, 3, 5, shaped, Mask::causal, true, false, 20}, float, 2, 1>(
      32, {120, 1, 26, 1, 1, 1, 1, 1, 9, 1}, 800);
  // each place of a window within tiles, by one row and by several
  constexpr AttentionSize size{1, 3, 5, softmax, Mask::causal, false, false, 130};
  std::vector<Index> feeds{250};
  for (int i = 0; i < 20; ++i) feeds.push_back(1);
  feeds.push_back(119), feeds.push_back(9);
  check<size, float>(32, feeds, 400);
  check<size, float>(
      32, {5, 402, 300},
      {{{1}, 255}, {{2}, 290}, {{1, 0, 2}, 1}, {{0}, 4}, {{1}, 145}, {{2, 1}, 1}, {{2}, 8}}, 500);
  // many rounds of the ring, of three tiles, by more rows than come at once
  static_assert(step_ring(2) == 2 && step_ring(3) == 3 && step_ring(130) == 3 && step_ring(131) == 4);
  constexpr AttentionSize near{2, 3, 5, shaped, Mask::causal, true, false, 100};
  check<near, float, 1, 2>(32, {1, 129, 1, 128, 300, 127, 1, 9, 1, 260, 140, 1}, 2000);
  constexpr AttentionSize next{1, 3, 5, softmax, Mask::causal, false, false, 2};
  check<next, float>(32, {1, 129, 1, 128, 300, 127, 1}, 2000);
  test::same_bits([&] {
    Fed<near, float> fed(530, 600);
    fed.feed({5, 270, 127, 128});
    return fed.attention.out;
  });
  // several tiles of several spans
  constexpr AttentionSize many{32, 2, 2, softmax, Mask::causal, false, false, 300};
  static_assert(step_spans(32, 5, 1, 1000, 300).count == 2 && step_spans(32, 5, 1, 1000, 300).tiles == 2);
  check<many, float>(32, {3, 1, 141, 420, 1}, {{{0}, 2}, {{2}, 140}, {{3}, 419}, {{0, 1, 2, 3, 4}, 1}}, 500);
  // the context's bits are those without a window
  Fed<AttentionSize{1, 3, 5, softmax, Mask::causal, false, false, 140}, float> seen(140, 140);
  Fed<AttentionSize{1, 3, 5}, float> all(140, 140);
  seen.feed({1, 130, 1, 8}), all.feed({1, 130, 1, 8});
  CHECK(seen.attention.out == all.attention.out);
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
    return test::joined<float>({fed.attention.out, fed.stores});
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
