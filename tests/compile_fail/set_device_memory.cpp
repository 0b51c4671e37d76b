// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: What lies on a GPU is to be copied from the host. `OnCard` stands for `DeviceBuffer<double>`, which only sources of nvcc have.
// expect: error: .*simplx: set copies from the host: give bind what lies on the device
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>

#include <vector>

using namespace simplx;

struct OnCard : std::vector<double> {
  static constexpr bool on_device = true;
};
inline constexpr auto model = [] { return sum(square(variable("x", rows_of(Axis::batch, 2)))); };
#ifdef FIXED
void run(Function<model>& f, const std::vector<double>& x) { f.set<"x">(x); }
#else
void run(Function<model>& f, const OnCard& x) { f.set<"x">(x); }
#endif
