// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Gradients are checked in float, where differences are too coarse.
// expect: error: .*simplx: gradients are checked in double: use Cpu<double>
#include <simplx/differentiate/gradcheck.hpp>
#include <simplx/train/evaluation.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

inline constexpr auto model = [] { return sum(square(variable("w", fixed_shape(8, 1)))); };
#ifdef FIXED
void run(Evaluation<model, Cpu<double>>& f) { check_gradients(f); }
#else
void run(Evaluation<model, Cpu<float>>& f) { check_gradients(f); }
#endif
