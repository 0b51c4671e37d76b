// SPDX-License-Identifier: MIT
// chapter: Compiler flags
// doc: Kernels are compiled by nvcc. A program may be plain C++ elsewhere: one .cu file holds what runs on the GPU.
// expect: simplx: simplx/cuda is device code; include it in a .cu file, which nvcc compiles
#include <simplx/simplx.hpp>

using namespace simplx;

#ifdef FIXED
void run_on_gpu();  // of a .cu file, where simplx/cuda is included
#else
#include <simplx/cuda/port.cuh>
#endif
