// SPDX-License-Identifier: MIT
#pragma once

/// What one unit of the program has computed, in types that all units share.
struct Outcome {
  const char* target;  ///< the instruction set in the unit's symbols
  int vector_bytes;
  double loss[2];      ///< of two training steps, in float
  double gradient[2];  ///< of |A w - y|^2 at w = (1, -1), in double
};

Outcome baseline();
Outcome avx2();
Outcome native();
