// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: The gradient is asked for with respect to something that the function does not use.
// expect: error: .*simplx: with_respect_to<f, names...> names something that f does not use
#include <simplx/core/counts.hpp>
#include <simplx/differentiate/with_respect_to.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

inline constexpr auto model = [] { return input("x", rows_of(Axis::tokens, 8)) * weight("w", 8, 8); };
#ifdef FIXED
static_assert(GraphOf<with_respect_to<model, "x">>::sound);
#else
static_assert(GraphOf<with_respect_to<model, "y">>::sound);
#endif
