// SPDX-License-Identifier: MIT
// The second unit of the program: what the header defines must be inline, and what kernels are made of is not brought
// by `using namespace simplx`, where a program has names like these itself.
#include <simplx/simplx.hpp>

using namespace simplx;

namespace {

constexpr Decoder tiny{.block = sas_p, .width = 16, .layers = 2};

struct Addition {};
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
struct Turn {};
struct Twin {};
struct Workspace {};
constexpr long fit = 1, gemm = 2, pack = 3, panel = 4, stream = 5;

template <class... T>
constexpr long count = sizeof...(T);

}  // namespace

long parameters_of_another_model() {  // where names of the program and of simplx are seen alike
  return parameters<tiny> + fit + gemm + pack + panel + stream +
         count<Addition, Arena, Buffer, Extent, Group, Measure, Operands, Part, Pieces, Register, Static, Sweep, Team,
               Turn, Twin, Workspace>;
}
