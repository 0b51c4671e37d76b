// SPDX-License-Identifier: MIT
#include "tokens.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  fuzz::tokens(std::as_bytes(std::span(data, size)));
  return 0;
}
