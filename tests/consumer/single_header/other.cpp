// SPDX-License-Identifier: MIT
// The second unit of the program: what the header defines must be inline, and what kernels are made of is not brought by
// `using namespace simplx`, where a program has names like these itself.
#include <simplx/simplx.hpp>

using namespace simplx;

namespace {

constexpr Decoder tiny{.block = sas_p, .width = 16, .layers = 2};

struct Arena {};
struct Buffer {};
struct Extent {};
struct Group {};
struct Measure {};
struct Operands {};
struct Part {};
struct Pieces {};
struct Register {};
struct Static {};
struct Sweep {};
struct Team {};
struct Twin {};
struct Workspace {};
template <class...>
constexpr long count = 0;
template <class First, class... Others>
constexpr long count<First, Others...> = 1 + count<Others...>;
constexpr long own_types = count<Arena, Buffer, Extent, Group, Measure, Operands, Part, Pieces, Register, Static, Sweep,
                                 Team, Twin, Workspace>;

constexpr long fit = 1, gemm = 2, pack = 3, panel = 4;

}  // namespace

long parameters_of_another_model() { return parameters<tiny> + own_types + fit + gemm + pack + panel; }
