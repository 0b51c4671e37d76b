// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: Two parameters have one name, so that a checkpoint could not tell them apart.
// expect: error: .*simplx: two parameters or inputs have one name, which the note of at_line spells
// expect: or make the value once and use it twice
// expect: at_line<.*, 14L?, 18L?.*Called<'w', 'e', 'i', 'g', 'h', 't'>
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Twice {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 128));
    auto h = relu(x * weight("weight", 128, 512));
#ifdef FIXED
    return h * weight("weight2", 512, 128);
#else
    return h * weight("weight", 512, 128);
#endif
  }
};
inline constexpr Twice model{};
static_assert(parameters<model> > 0);
