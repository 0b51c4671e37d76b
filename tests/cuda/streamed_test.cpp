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
  return table.possible && !idle && table.all().per_token == per_token && table.all().once == 0;
}
static_assert(remembers<grouped, Precision::float32>(8 + 8) && remembers<grouped, Precision::float64>(8 + 8));
static_assert(remembers<grouped, Precision::bfloat16>(8));
static_assert(remembers<sas_model, Precision::tf32>(16 + 16) && remembers<sas_model, Precision::bfloat16>(16));

}  // namespace

TEST_SUITE_BEGIN("cuda/streamed");

TEST_CASE("a ring of rows gives each row back after so many others, wherever feeds end") {
  constexpr Index rows = 11, cols = 37, by = 3;
  const auto x = test::numbers<float>(rows * cols, 1);
  const auto shifted = test::same_bits([&] {
    std::vector<float> ring(by * cols), y = test::unwritten<float>(rows * cols);
    std::vector<Index> past{0};  // where a device can read it
    for (const Index count : {1, 1, 5, 4}) {
      const Index at = past[0] * cols;
      each_cell(nullptr, 1, cols,
                TurnRing<float>{past.data(), count, by, cols, x.data() + at, ring.data(), y.data() + at});
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
  const auto summed = test::same_bits([&] {
    std::vector<float> sums(cols), y = test::unwritten<float>(rows * cols);
    Index at = 0;
    for (const Index count : {1, 6, 2}) {
      each_cell(nullptr, 1, cols, GoOnSumming<float>{count, cols, x.data() + at, sums.data(), y.data() + at});
      at += count * cols;
    }
    return y;
  });
  std::vector<float> expected = x;
  for (std::size_t i = cols; i < expected.size(); ++i) expected[i] += expected[i - cols];
  CHECK(summed == expected);
}

TEST_SUITE_END();
