// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A byte of a file may be neither true nor false.
// expect: error: .*simplx: values are read as floating-point or whole numbers; BOOL is read as std::uint8_t
#include <simplx/io/dtype.hpp>

using namespace simplx;

void read(std::span<const std::byte> bytes) {
#ifdef FIXED
  std::uint8_t values[4];
  read_values<std::uint8_t>(Dtype::boolean, bytes, values);
#else
  bool values[4];
  read_values<bool>(Dtype::boolean, bytes, values);
#endif
}
