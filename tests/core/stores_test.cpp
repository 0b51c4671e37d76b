// SPDX-License-Identifier: MIT
#include <simplx/core/stores.hpp>

#include <doctest/doctest.h>

#include <cstring>

namespace {

#ifdef __clang__
#define AS_USERS_COMPILE __attribute__((noinline))
#else
#define AS_USERS_COMPILE __attribute__((noinline, optimize("O2")))
#endif

constexpr int lanes = 8;
using Vector = double __attribute__((vector_size(lanes * sizeof(double))));

struct Rows {
  double* numbers;  ///< one a row, and from `apart` on a vector a row
  long apart, count;
};

/// The loop of which g++ 12 thinks that it stores nothing, in rows of one vector.
AS_USERS_COMPILE void spread(const Rows& rows) {
  simplx::detail::stores();
  constexpr long together = 4096;
  const double* const x = rows.numbers;
  double* const y = rows.numbers + rows.apart;
  for (long begin = 0; begin < rows.count; begin += together) {
    const long end = begin + together < rows.count ? begin + together : rows.count;
    for (long r = begin; r < end; ++r) {
      const double number = x[r];
      const Vector values = {number, number, number, number, number, number, number, number};
      std::memcpy(y + lanes * r, &values, sizeof values);
    }
  }
}
AS_USERS_COMPILE double spread_over_others(const Rows& rows) {
  double* const y = rows.numbers + rows.apart;
  y[0] = 5, y[lanes] = 7;
  spread(rows);
  return y[0] + y[lanes];
}

}  // namespace

TEST_CASE("core/stores: what a function stores is there when it has returned") {
  double numbers[64] = {1, 2, 3, 4};
  CHECK(spread_over_others({numbers, 16, 4}) == 3);
}
