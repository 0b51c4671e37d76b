// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A dropout rate is no probability.
// expect: error: .*simplx: a dropout rate \(left number, in thousandths\) is the probability to drop a number
// expect: 1500L?, 1000
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr Decoder model{.block = sas_p, .dropout = 0.15};
#else
inline constexpr Decoder model{.block = sas_p, .dropout = 1.5};
#endif
static_assert(parameters<model> > 0);
