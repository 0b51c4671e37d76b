// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/error.hpp
/// The one exception of the library: files, flags, devices and data that cannot be used.
///
/// What can be known at compile time never throws: it does not compile (see core/rules.hpp).

#include <simplx/core/target.hpp>

#include <stdexcept>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// Says what is wrong, with which value or path, and what to do instead.
struct Error : std::runtime_error {
  explicit Error(const std::string& what, const std::string& hint = {})
      : std::runtime_error(hint.empty() ? what : what + "\n  hint: " + hint) {}
};

}  // namespace simplx
