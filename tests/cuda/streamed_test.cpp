// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/streamed.cuh>

#include "cuda/kernels.hpp"

#include <simplx/cuda/graph_on.cuh>
#include <simplx/generate/inference.hpp>
#include <simplx/nn/attention.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// Heads of which two share their keys and values, and SAS: keys that are projected from the values.
template <class Attend>
struct Model {
  constexpr Expr operator()() const {
    return Attend{}(embedding(weight("table", 11, 16), indices("tokens", Axis::tokens))) * weight("head", 16, 11);
  }
};
struct Grouped {
  constexpr Expr operator()(Expr x) const {
    return SelfAttention<AttentionMatrix::softmax, Linear>{.heads = 4, .key_heads = 2}(x);
  }
};
struct Sas {
  constexpr Expr operator()(Expr x) const {
    return SelfAttention<AttentionMatrix::shaped, Identity>{.heads = 4}(x);
  }
};
inline constexpr Model<Grouped> grouped{};
inline constexpr Model<Sas> sas_model{};

template <auto const& model, Precision precision>
using Run = StreamedGraph<GraphOn<Untrained<model>, Cuda<precision>>, Cuda<precision>>;

/// For each token keys and values, of a group once, in the precision that attention reads them in; nothing is left out
/// of what is computed.
template <auto const& model, Precision precision>
constexpr bool remembers(Index per_token) {
  constexpr auto& table = Run<model, precision>::table;
  bool idle = false;
  for (const bool is : table.idle) idle |= is;
  return table.possible && !idle && Run<model, precision>::elements(128) == 128 * per_token;
}
static_assert(remembers<grouped, Precision::float32>(8 + 8) && remembers<grouped, Precision::float64>(8 + 8));
static_assert(remembers<grouped, Precision::bfloat16>(8));
static_assert(remembers<sas_model, Precision::tf32>(16 + 16) && remembers<sas_model, Precision::bfloat16>(16));

/// Two of the three sequences of a stream, of which the last has the first rows: the step is given their places, x, what
/// they remember, elements from one to the next, and y. What it does to each must be what it does to a stream of one.
template <Index rows, Index cols, Index remembered, class Step>
void check_apart(const Step& step) {
  constexpr Index apart = remembered + 5;
  const auto x = test::numbers<float>(2 * rows * cols, 3), memory = test::numbers<float>(3 * apart, 4);
  const std::vector<Index> past{4, 2}, numbers{2, 0}, first{0};  // where a device can read them
  const auto found = test::same_bits([&] {
    auto own = memory, y = test::unwritten<float>(2 * rows * cols);
    step(StepSequences{2, rows, past.data(), numbers.data()}, x.data(), own.data(), apart, y.data());
    return test::joined<float>({y, own});
  });
  auto own = memory, y = test::unwritten<float>(2 * rows * cols);
  for (std::size_t s = 0; s < 2; ++s) {
    const Index at = static_cast<Index>(s) * rows * cols;
    step(StepSequences{1, rows, &past[s], first.data()}, x.data() + at, own.data() + numbers[s] * apart, 0,
         y.data() + at);
  }
  CHECK(found == test::joined<float>({y, own}));
}

}  // namespace

TEST_SUITE_BEGIN("cuda/streamed");

TEST_CASE("a ring of rows gives each row back after so many others, wherever feeds end") {
  constexpr Index rows = 11, cols = 37, by = 3;
  const auto x = test::numbers<float>(rows * cols, 1);
  const auto shifted = test::same_bits([&] {
    std::vector<float> ring(by * cols), y = test::unwritten<float>(rows * cols);
    std::vector<Index> past{0}, first{0};  // where a device can read them
    for (const Index count : {1, 1, 5, 4}) {
      const Index at = past[0] * cols;
      each_cell(nullptr, 1, cols,
                TurnRing<float>{StepSequences{1, count, past.data(), first.data()}, by, cols, x.data() + at,
                                ring.data(), 0, y.data() + at});
      past[0] += count;
    }
    return y;
  });
  std::vector<float> expected(by * cols);
  expected.insert(expected.end(), x.begin(), x.end() - by * cols);
  CHECK(shifted == expected);
}

TEST_CASE("sums go on from those before") {
  constexpr Index rows = 9, cols = 37;
  const auto x = test::numbers<float>(rows * cols, 2);
  const std::vector<Index> first{0};  // where a device can read it
  const auto summed = test::same_bits([&] {
    std::vector<float> sums(cols), y = test::unwritten<float>(rows * cols);
    Index at = 0;
    for (const Index count : {1, 6, 2}) {
      const StepSequences sequences{1, count, nullptr, first.data()};
      each_cell(nullptr, 1, cols, GoOnSumming<float>{sequences, cols, x.data() + at, sums.data(), 0, y.data() + at});
      at += count * cols;
    }
    return y;
  });
  std::vector<float> expected = x;
  for (std::size_t i = cols; i < expected.size(); ++i) expected[i] += expected[i - cols];
  CHECK(summed == expected);
}

TEST_CASE("sequences remember rows each for itself") {
  constexpr Index cols = 37, by = 3;
  const auto turn = [](const StepSequences& sequences, const float* x, float* rings, Index apart, float* y) {
    each_cell(nullptr, sequences.count, cols, TurnRing<float>{sequences, by, cols, x, rings, apart, y});
  };
  const auto sum = [](const StepSequences& sequences, const float* x, float* sums, Index apart, float* y) {
    each_cell(nullptr, sequences.count, cols, GoOnSumming<float>{sequences, cols, x, sums, apart, y});
  };
  check_apart<1, cols, by * cols>(turn);
  check_apart<5, cols, by * cols>(turn);
  check_apart<1, cols, cols>(sum);
  check_apart<5, cols, cols>(sum);
}

TEST_SUITE_END();
