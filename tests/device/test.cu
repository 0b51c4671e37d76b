// SPDX-License-Identifier: MIT
/// The tests of tests/cuda/TEST_test.cpp: compiled by nvcc they run on a GPU, compiled by g++ on the CPU, to tell the
/// others with which numbers they are to compare.
#define SIMPLX_FILE_OF_(name) <cuda/name##_test.cpp>
#define SIMPLX_FILE_OF(name) SIMPLX_FILE_OF_(name)
#include SIMPLX_FILE_OF(TEST)

int main() { return doctest::run(); }
