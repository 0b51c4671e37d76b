// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/text_table.hpp
/// Words in columns: what two things differ in, within an error.

#include <simplx/core/target.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// A line for each row, which begins with its end of line; columns are two spaces apart, and before the first.
template <std::size_t columns>
std::string text_table(const std::vector<std::array<std::string, columns>>& rows) {
  std::array<std::size_t, columns> widths{};
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line = "\n";
    for (std::size_t c = 0; c < columns; ++c) line += "  " + row[c] + std::string(widths[c] - row[c].size(), ' ');
    table += line.substr(0, line.find_last_not_of(' ') + 1);
  }
  return table;
}

}  // namespace simplx::detail
