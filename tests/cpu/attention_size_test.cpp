// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_size.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

using namespace simplx;

namespace {
template <AttentionSize size>
struct Kernel {};
}  // namespace

TEST_CASE("cpu/attention_size: a size is a constant of a kernel, and all that it says tells kernels apart") {
  using Plain = Kernel<AttentionSize{.heads = 4, .key_width = 8, .value_width = 8}>;
  CHECK(std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::causal, false}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::skip_init}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::full}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::causal, true}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::causal, false, true}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{.heads = 4, .key_width = 8, .value_width = 8, .window = 9}>>);
  const AttentionOperands<float> in{};
  CHECK((!in.query && !in.alpha && !in.slopes));  // what is not given is absent
}

TEST_CASE("cpu/attention_size: the keys between those that queries see first and last are those that some see") {
  constexpr Index rows = 12;
  for (const Mask mask : {Mask::causal, Mask::full}) {
    for (int window = 0; window <= 14; ++window) {
      const AttentionSize size{.mask = mask, .window = window};
      for (Index first = 0; first < rows; ++first) {
        for (Index last = first + 1; last <= rows; ++last) {
          for (Index j = 0; j < rows; ++j) {
            bool some = false;
            for (Index i = first; i < last; ++i) {
              const bool near = window == 0 || std::abs(static_cast<double>(i - j)) < window;
              CHECK(size.sees(i, j) == (near && (j <= i || mask == Mask::full)));
              some |= size.sees(i, j);
            }
            CHECK(some == (j >= size.first_key(first) && j < size.keys_end(last, rows)));
          }
        }
      }
    }
  }
}

TEST_CASE("cpu/attention_size: weights are dropped as often as the rate says, by step, node, sequence and head alone") {
  constexpr Index tokens = 200;
  double rate = 0.1;
  detail::Draw step{.key = 5, .first_sequence = 2};
  const auto dropped = [&](std::uint64_t node, Index sequence, int head) {
    return DroppedWeights<double>({rate, &step, node}, sequence, head);
  };
  /// Pairs that both drop, of those that the first does.
  const auto common = [&](const DroppedWeights<double>& a, const DroppedWeights<double>& b) {
    double of_a = 0, both = 0;
    for (Index i = 0; i < tokens; ++i) {
      for (Index j = 0; j < tokens; ++j) {
        const bool drops = a.drops(a.row(i), j);
        of_a += drops, both += drops && b.drops(b.row(i), j);
      }
    }
    return std::pair(of_a / (tokens * tokens), both / of_a);
  };
  const auto first = dropped(7, 0, 0);
  CHECK(first.kept == 1 / 0.9);
  CHECK(std::abs(common(first, first).first - 0.1) < 0.0075);  // 5 deviations
  for (const auto& other : {dropped(8, 0, 0), dropped(7, 1, 0), dropped(7, 0, 1)}) {
    CHECK(std::abs(common(first, other).second - 0.1) < 0.024);
  }
  CHECK(std::abs(common(dropped(7, 1, 0), dropped(7, 0, 1)).second - 0.1) < 0.024);
  step = {.key = 5, .first_sequence = 1};  // as a thread or micro-batch counts that begins elsewhere
  CHECK(common(first, dropped(7, 1, 0)).second == 1);
  step.key = 6;
  CHECK(std::abs(common(first, dropped(7, 1, 0)).second - 0.1) < 0.024);
  for (const auto& [asked, share, kept] :
       {std::tuple(0.0, 0.0, 1.0), {-1.0, 0.0, 1.0}, {NAN, 0.0, 1.0}, {1.0, 1.0, 0.0}, {2.0, 1.0, 0.0}}) {
    rate = asked;
    const auto all_or_none = dropped(7, 0, 0);
    CHECK(all_or_none.kept == kept);
    CHECK(common(all_or_none, all_or_none).first == doctest::Approx(share).epsilon(1e-9));
  }
}
