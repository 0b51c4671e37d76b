// SPDX-License-Identifier: MIT
/// Runs the kernel with one fault planted, under the first schedule; faults_test.py compiles it with sanitizers.
#include "emulation/faults.hpp"

#include <cstdio>

int main(int count, char** arguments) {
  const bool known = count == 2 && emulation::with_planted(arguments[1], []<emulation::Planted planted>() {
    std::printf("error %.1e\n", emulation::error_of(emulation::run_planted<planted>()));
  });
  if (!known) std::puts("usage: faults NAME");
  return known ? 0 : 2;
}
