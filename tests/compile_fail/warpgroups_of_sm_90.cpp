// SPDX-License-Identifier: MIT
// chapter: Compiler flags
// doc: Hopper's instructions for attention are a part of sm_90a, which nvcc compiles for when it is told so.
// expect: simplx: SIMPLX_WARPGROUPS is for sm_90a: compile with -gencode arch=compute_90a,code=sm_90a, or without it
#include <simplx/simplx.hpp>

using namespace simplx;

#ifdef FIXED
// nvcc -gencode arch=compute_90a,code=sm_90a -DSIMPLX_WARPGROUPS
#else
// nvcc -arch=sm_90 -DSIMPLX_WARPGROUPS
#define SIMPLX_WARPGROUPS
#define __CUDA_ARCH__ 900
#include <simplx/cuda/warpgroups.cuh>
#endif
