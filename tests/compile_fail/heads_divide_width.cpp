// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The width cannot be dealt to the heads in equal parts.
// expect: error: .*simplx: the number of heads \(left number\) must divide the width \(right number\)
// expect-clang: 128L? % 6L? == 0
// expect-gcc: 6, 128
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr Decoder model{.block = pre_ln, .width = 128, .heads = 4};
#else
inline constexpr Decoder model{.block = pre_ln, .width = 128, .heads = 6};
#endif
static_assert(parameters<model> > 0);
