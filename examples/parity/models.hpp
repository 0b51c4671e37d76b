// SPDX-License-Identifier: MIT
#pragma once

// The models of `parity`: a decoder or encoder for each block, evaluated in double from a safetensors file.

#include <simplx/core/parameters.hpp>
#include <simplx/io/safetensors.hpp>

#include <vector>

// Sizes of all models.
#ifndef PARITY_WIDTH
#define PARITY_WIDTH 32
#endif
#ifndef PARITY_HEADS
#define PARITY_HEADS 4
#endif
#ifndef PARITY_HIDDEN
#define PARITY_HIDDEN 128
#endif
#ifndef PARITY_LAYERS
#define PARITY_LAYERS 3
#endif
#ifndef PARITY_VOCAB
#define PARITY_VOCAB 61
#endif
#ifndef PARITY_CONTEXT
#define PARITY_CONTEXT 16
#endif

// Models are compiled in so many parts, each from models.cpp with another PARITY_PART.
#ifndef PARITY_PARTS
#define PARITY_PARTS 1
#endif

namespace parity {

struct Gradient {
  simplx::TensorInfo parameter;
  std::vector<double> values;
};

struct Results {
  std::vector<double> logits;  ///< (B, T, V)
  double loss = 0;             ///< mean over labelled tokens, nats
  std::vector<Gradient> gradients;
};

/// One block's model.
struct Model {
  int number = 0;  ///< of the block in simplx::all_blocks
  std::vector<simplx::TensorInfo> (*weights)() = nullptr;  ///< parameters, then the bases of Eq. (6)
  Results (*evaluate)(const simplx::SafetensorsFile&) = nullptr;  ///< of a file that has been checked
};

/// The models of one part; defined in models.cpp.
template <int part>
std::vector<Model> models_of_part();

}  // namespace parity
