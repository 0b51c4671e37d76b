// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/stores.hpp
/// Keeps g++ from dropping calls of kernels.

#include <simplx/core/target.hpp>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Said by a function that stores: an instruction of no length, which g++ cannot overlook.
///
/// It overlooks stores whose address a loop computes from another pointer, as y + 8 (i - x) of rows of one vector in y,
/// that go with numbers in x: the pass "local-pure-const" of g++ 12 takes the address for null and the function for one
/// without effects, from -O1 on, and calls of it go. So sum(x, Over::columns) had a gradient of zero.
__attribute__((always_inline)) inline void stores() { asm volatile(""); }

}  // namespace simplx::detail
