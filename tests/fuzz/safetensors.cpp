// SPDX-License-Identifier: MIT
#include "safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  fuzz::safetensors(std::as_bytes(std::span(data, size)));
  return 0;
}
