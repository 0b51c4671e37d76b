// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A size of a model of the library is below 1; the line is that of the module which makes the parameter.
// expect: error: .*simplx: a parameter, a constant or an input has at least 1 row .* and 1 column \(right number\)
// expect: -8L? >= 1|at_line<.*128L?, -8
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr Decoder model{.block = pre_ln, .width = 128, .hidden = 8};
#else
inline constexpr Decoder model{.block = pre_ln, .width = 128, .hidden = -8};
#endif
static_assert(parameters<model> > 0);
