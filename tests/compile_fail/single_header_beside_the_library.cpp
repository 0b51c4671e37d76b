// SPDX-License-Identifier: MIT
// chapter: Compiler flags
// doc: The single header is the whole library, and so are the headers that it was made of.
// expect: simplx: single_include/simplx.hpp is the whole library; include either it or include/simplx, not both
namespace simplx {}
using namespace simplx;

#ifdef FIXED
#include <simplx/core/shape.hpp>
#else
#include "../../single_include/simplx.hpp"
#include <simplx/core/shape.hpp>
#endif
