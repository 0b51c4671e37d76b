// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Safetensors has no type for it.
// expect: error: .*simplx: files hold float, double, Float16, Bfloat16, bool and whole numbers of up to eight bytes
#include <simplx/io/dtype.hpp>

using namespace simplx;

#ifdef FIXED
constexpr Dtype type = dtype_of<double>;
#else
constexpr Dtype type = dtype_of<long double>;
#endif
