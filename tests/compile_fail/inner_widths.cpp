// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The inner sizes of a matrix product differ.
// expect: error: .*static.?assert.*simplx: in x \* W the width of x \(left number\) must equal the rows of W
// expect: 512L? == 256
// expect: at_line<.*512L?, 256L?, 19,
// expect: 'i', *'n', *'n', *'e', *'r'
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Mlp2 {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 128));
    auto h = relu(x * weight("up.weight", 128, 512));
#ifdef FIXED
    return h * weight("down.weight", 512, 128);
#else
    return h * weight("down.weight", 256, 128);
#endif
  }
};
inline constexpr Mlp2 model{};
static_assert(parameters<model> > 0);
