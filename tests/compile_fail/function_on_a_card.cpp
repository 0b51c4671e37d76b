// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A function lives in the host's memory. `Card` stands for `Cuda<>`, which only sources of nvcc have.
// expect: error: .*simplx: Function evaluates on the CPU, with Cpu<float> or Cpu<double>; on a GPU there are Trainer,
#include <simplx/simplx.hpp>

using namespace simplx;

struct Card : Cpu<float> {
  static constexpr bool on_device = true;
};
inline constexpr auto f = [] { return sum(square(variable("w", fixed_shape(3, 1)))); };
#ifdef FIXED
using Backend = Cpu<float>;
#else
using Backend = Card;
#endif
float at(const Eigen::Vector3f& w) { return Function<f, Backend>().set<"w">(w).value(); }
