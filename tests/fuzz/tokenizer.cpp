// SPDX-License-Identifier: MIT
#include "tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  fuzz::tokenizer(std::as_bytes(std::span(data, size)));
  return 0;
}
