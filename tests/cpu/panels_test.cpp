// SPDX-License-Identifier: MIT
#include <simplx/cpu/panels.hpp>

#include <doctest/doctest.h>
#include <simplx/cpu/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

template <class S>
std::vector<S> numbers(Index count) {
  std::vector<S> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<S>(i + 1);
  return values;
}

/// Element (p, col) lies in its panel's row p; what pads the last panel is zero.
template <Index K, Index N, class S>
void check_packing() {
  CAPTURE(K);
  CAPTURE(N);
  const auto matrix = numbers<S>(K * N);
  std::vector<S> flipped(matrix.size()), packed(static_cast<std::size_t>(packed_size<K, N, S> + 1), S(-1));
  for (Index p = 0; p < K; ++p) {
    for (Index col = 0; col < N; ++col) {
      flipped[static_cast<std::size_t>(col * K + p)] = matrix[static_cast<std::size_t>(p * N + col)];
    }
  }
  auto turned = packed;
  pack<K, N>(matrix.data(), packed.data());
  pack_transposed<K, N>(flipped.data(), turned.data());
  CHECK(packed == turned);
  CHECK(packed.back() == -1);

  constexpr Index wide = panel_width<S>, L = lanes<S>, padded = round_up(N, L);
  Index wrong = 0;
  for (Index col = 0; col < padded; ++col) {
    const Index width = col < N / wide * wide ? wide : L, begin = col / width * width;
    for (Index p = 0; p < K; ++p) {
      const S expected = col < N ? matrix[static_cast<std::size_t>(p * N + col)] : S(0);
      wrong += packed[static_cast<std::size_t>(begin * K + p * width + (col - begin))] != expected;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE_BEGIN("cpu/panels");

TEST_CASE_TEMPLATE("matrices and transposes are packed panel after panel, of any width", S, float, double) {
  constexpr Index L = lanes<S>;
  check_packing<1, L, S>();
  check_packing<5, 3 * L, S>();
  check_packing<32, 4 * L, S>();
  check_packing<33, 7 * L, S>();
  check_packing<128, 9 * L, S>();
  check_packing<1, 1, S>();
  check_packing<7, L - 1, S>();
  check_packing<33, L + 1, S>();
  check_packing<20, 9 * L - 1, S>();
}

TEST_CASE_TEMPLATE("large matrices are written past the caches, to the same places", S, float, double) {
  constexpr Index L = lanes<S>, K = 8 * L + 3, N = (Index(2) << 20) / (K * Index(sizeof(S))) / L * L + 5 * L - 1;
  const auto matrix = numbers<S>(K * N);
  std::vector<S> flipped(matrix.size()), apart(static_cast<std::size_t>(packed_size<K, N, S> + 1));
  for (Index i = 0; i < K * N; ++i) {
    flipped[static_cast<std::size_t>(i % N * K + i / N)] = matrix[static_cast<std::size_t>(i)];
  }
  Buffer<S> packed(packed_size<K, N, S>), turned(packed_size<K, N, S>);
  S* const unaligned = apart.data() + (reinterpret_cast<std::uintptr_t>(apart.data()) % vector_bytes == 0);
  pack<K, N>(matrix.data(), packed.data());
  pack<K, N>(matrix.data(), unaligned);
  pack_transposed<K, N>(flipped.data(), turned.data());
  CHECK(std::equal(packed.data(), packed.data() + packed_size<K, N, S>, unaligned));
  CHECK(std::equal(packed.data(), packed.data() + packed_size<K, N, S>, turned.data()));
}

TEST_CASE("every column is in one panel, wide ones first") {
  Index next = 0, narrow = 0;
  each_panel<2 * panel_width<float> + lanes<float>, float>([&](auto width, Index col) {
    CHECK(col == next);
    CHECK((width == panel_width<float> || width == lanes<float>));
    narrow += width == lanes<float>;
    CHECK((narrow == 0 || width == lanes<float>));
    next += width;
  });
  CHECK(next == 2 * panel_width<float> + lanes<float>);
}

TEST_SUITE_END();
