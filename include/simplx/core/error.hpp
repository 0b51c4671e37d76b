// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/error.hpp
/// The one exception of the library: files, flags, devices and data that cannot be used.
///
/// What can be known at compile time never throws: it does not compile (see core/rules.hpp).

#include <simplx/core/target.hpp>

#include <charconv>
#include <iterator>
#include <stdexcept>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// Says what is wrong, with which value or path, and what to do instead.
struct Error : std::runtime_error {
  explicit Error(const std::string& what, const std::string& hint = {})
      : std::runtime_error(hint.empty() ? what : what + "\n  hint: " + hint) {}
};

/// The shortest text that reads as that number: 1e-46, where std::to_string says 0.000000.
inline std::string shortest(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), number).ptr};
}

}  // namespace simplx
