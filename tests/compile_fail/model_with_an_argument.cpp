// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model takes an argument.
// expect: error: .*simplx: a model is called without arguments
#include <simplx/core/counts.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr auto model = [] { return relu(input("x", rows_of(Axis::batch, 3))); };
#else
inline constexpr auto model = [](Index width) { return relu(input("x", rows_of(Axis::batch, width))); };
#endif
static_assert(GraphOf<model>::count > 0);
