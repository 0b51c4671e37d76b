// SPDX-License-Identifier: MIT
// What the host's compiler sees of a program with the GPU backend: a declaration.
#include <cstdio>
#include <exception>
#include <vector>

double sum_on_gpu(const std::vector<float>& numbers);

int main() try {
  std::printf("on the GPU 1 + 2 + 3.5 = %g\n", sum_on_gpu({1, 2, 3.5f}));
} catch (const std::exception& error) {
  std::printf("error: %s\n", error.what());
}
