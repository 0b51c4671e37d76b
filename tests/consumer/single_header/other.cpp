// SPDX-License-Identifier: MIT
// The second unit of the program: what the header defines must be inline.
#include <simplx/simplx.hpp>

namespace {
constexpr simplx::Decoder tiny{.block = simplx::sas_p, .width = 16, .layers = 2};
}
long parameters_of_another_model() { return simplx::parameters<tiny>; }
