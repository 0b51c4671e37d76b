// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/stores.hpp
/// Keeps g++ from dropping calls of kernels.

#include <simplx/core/target.hpp>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Said by a function that stores: an instruction of no length that may write any memory, which g++ cannot overlook.
///
/// It overlooks stores whose address a loop computes from another pointer, as y + 8 (i - x) of rows of one vector in y,
/// that go with numbers in x: g++ 12 takes the address for null from -O1 on. Its pass "local-pure-const" then finds a
/// function without effects, and calls of it go: sum(x, Over::columns) had a gradient of zero. Its pass "modref" finds
/// one that writes nothing, and its callers go on with what they stored there before it.
__attribute__((always_inline)) inline void stores() { asm volatile("" ::: "memory"); }

}  // namespace simplx::detail
