// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: The name of one's own op has 24 characters or more.
// expect: simplx: a name is too long; shorten it
#include <simplx/ops/functions.hpp>

using namespace simplx;

#ifdef FIXED
template <>
struct simplx::op<"hyperbolic secant"> : elementwise {
#else
template <>
struct simplx::op<"hyperbolic secant, squared"> : elementwise {
#endif
  static constexpr auto f(auto x) { return x; }
};
