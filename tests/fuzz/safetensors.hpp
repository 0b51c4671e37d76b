// SPDX-License-Identifier: MIT
#pragma once

#include "fuzz.hpp"

#include <simplx/io/safetensors.hpp>

namespace fuzz {

/// Tensors that were read cover the data, in order; every byte of them may be looked at, and their values converted.
inline void safetensors(std::span<const std::byte> bytes) {
  using namespace simplx;
  refuses_with_reason([&] {
    const SafetensorsFile file = SafetensorsFile::view(bytes, path);
    std::size_t covered = 0;
    for (const Tensor& tensor : file.tensors()) {
      require(static_cast<std::size_t>(tensor.elements() * bytes_of(tensor.dtype)) == tensor.bytes.size());
      covered += tensor.bytes.size();
      require(file.find(tensor.name) == &tensor);
      if (is_floating(tensor.dtype)) {
        std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
        read_values(tensor.dtype, tensor.bytes, std::span(values));
        std::vector<std::byte> back = bytes_as(tensor.dtype, std::span<const double>(values));
        std::vector<double> again(values.size());
        read_values(tensor.dtype, back, std::span(again));
        const auto same = [](double a, double b) { return a == b || (a != a && b != b); };  // NaN stays NaN
        require(std::equal(values.begin(), values.end(), again.begin(), same));
      } else {
        std::uint64_t sum = 0;
        for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
        require(sum <= 255 * tensor.bytes.size());
      }
    }
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    require(covered == bytes.size() - sizeof header - header);
  });
}

}  // namespace fuzz
