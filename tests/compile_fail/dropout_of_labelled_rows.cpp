// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Masks belong to sequences; labelled rows do not say to which.
// expect: error: .*simplx: dropout takes no labelled rows, whose masks would depend on the other labels of the batch
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/train/evaluation.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  auto x = variable("x", rows_of(Axis::tokens, 8));
  auto labelled = indices("labelled", Axis::labelled);
#ifdef FIXED
  return gather(dropout("mask", x, 0.1), labelled);
#else
  return dropout("mask", gather(x, labelled), 0.1);
#endif
};
static_assert(parameters<model> == 0);
