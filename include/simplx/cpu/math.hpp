// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/math.hpp
/// Elementary functions of floats, doubles and vectors of them.
#include <simplx/cpu/erf.hpp>
#include <simplx/cpu/exponential.hpp>
#include <simplx/cpu/logarithm.hpp>
#include <simplx/cpu/power.hpp>
#include <simplx/cpu/trigonometry.hpp>
