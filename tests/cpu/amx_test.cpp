// SPDX-License-Identifier: MIT
#include <simplx/cpu/amx.hpp>

#include <cpu/emulated_unit.hpp>
#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Blocks of rows x cols tiles amid memory that must stay as it is, against the unit in software.
template <int pieces, class Unit, int rows, int cols, Write mode>
void check(const Unit& unit, Index steps, Index right_row, Index c_row) {
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(steps);
  const auto pairs = [](Index count, int seed) {
    const auto values = test::numbers<float>(2 * count, seed);
    std::vector<Twin> words(static_cast<std::size_t>(count));
    pair_columns(2 * count, values.data(), words.data());
    return words;
  };
  const auto left = pairs(pieces * rows * steps * tile_words, 1);
  const auto right = pairs(pieces * steps * tile_side * right_row, 2);
  auto c = test::numbers<float>(rows * tile_side * c_row, 3), expected = c;
  unit.template multiply<pieces, rows, cols, mode>(steps, left.data(), right.data(), right_row, c.data(), c_row);
  test::EmulatedUnit{}.multiply<pieces, rows, cols, mode>(steps, left.data(), right.data(), right_row, expected.data(),
                                                          c_row);
  CHECK(c == expected);
}

template <int pieces, class Unit, Write mode>
void check_all() {
  for (const Index steps : {0, 1, 3}) {
    const Unit unit;
    check<pieces, Unit, 1, 1, mode>(unit, steps, 16, 16);
    check<pieces, Unit, 1, 2, mode>(unit, steps, 64, 35);
    check<pieces, Unit, 2, 1, mode>(unit, steps, 17, 40);
    check<pieces, Unit, 2, 2, mode>(unit, steps, 64, 48);
  }
}

template <class Unit>
void check_where_it_is() {
  if constexpr (Unit::compiled) {
    if (!Unit::available()) return;
    check_all<1, Unit, Write::store>(), check_all<1, Unit, Write::accumulate>();
    check_all<3, Unit, Write::store>(), check_all<3, Unit, Write::accumulate>();
  } else {
    CHECK_FALSE(Unit::available());
  }
}

}  // namespace

TEST_CASE("cpu/amx: tiles are multiplied as by hand, where there is such a unit") { check_where_it_is<Amx>(); }
