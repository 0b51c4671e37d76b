// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A function of the CPU is given memory of a GPU. `OnCard` stands for `DeviceBuffer<double>`, which only sources of nvcc have.
// expect: error: .*simplx: memory of a GPU is read by functions that run there
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>

#include <vector>

using namespace simplx;

struct OnCard : std::vector<double> {
  static constexpr bool on_device = true;
};
inline constexpr auto model = [] { return sum(square(variable("x", rows_of(Axis::batch, 2)))); };
#ifdef FIXED
void run(Function<model>& f, const std::vector<double>& x) { f.bind<"x">(x); }
#else
void run(Function<model>& f, const OnCard& x) { f.bind<"x">(x); }
#endif
