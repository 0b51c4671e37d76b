// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Indices are read on a GPU. `OnCard` stands for `DeviceBuffer<std::int32_t>`, which only sources of nvcc have.
// expect: error: .*simplx: indices are checked on the host, and sorted there
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/cross_entropy.hpp>

#include <vector>

using namespace simplx;

struct OnCard : std::vector<std::int32_t> {
  static constexpr bool on_device = true;
};
inline constexpr auto model = [] {
  return cross_entropy(variable("x", rows_of(Axis::batch, 4)), indices("label", Axis::batch));
};
#ifdef FIXED
void run(Function<model>& f, const std::vector<std::int32_t>& label) { f.bind<"label">(label); }
#else
void run(Function<model>& f, const OnCard& label) { f.bind<"label">(label); }
#endif
