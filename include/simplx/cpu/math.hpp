// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/math.hpp
/// Elementary functions of floats, doubles and vectors of them, all from one include.
///
///                             largest error     float, relative    double, ulps
///     exp                     exponential.hpp        9e-8             1.1
///     sigmoid                                        1.7e-7           2.3
///     tanh                                           1.7e-7           2.6
///     log                     logarithm.hpp          8.1e-8           1.3
///     log1p                                          1.4e-7           1.7
///     sin, cos                trigonometry.hpp       8e-8 of 1        0.9
///     erf                     erf.hpp                1.4e-7           2.4
///     sqrt, rsqrt             power.hpp              6e-8, 9e-8       0.5, 1.5
///     pow                                            6e-8             0.6
///     abs                     lane_bits.hpp          exact            exact
///
/// Measured against long double, at a million arguments, with and without FMA; the tests hold these bounds. NaN gives
/// NaN, so that a broken loss is seen. A lane of a vector and a single number give the same bits, whatever the
/// compiler, its optimisation and the width of vectors; with and without FMA they differ in the last digits.

#include <simplx/cpu/erf.hpp>
#include <simplx/cpu/exponential.hpp>
#include <simplx/cpu/lane_bits.hpp>
#include <simplx/cpu/logarithm.hpp>
#include <simplx/cpu/power.hpp>
#include <simplx/cpu/trigonometry.hpp>
