// SPDX-License-Identifier: MIT
#pragma once

// What a flag of the programs says of a number that it cannot take.

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

namespace flags {

/// A number from `least` to `most`. CLI::Range writes 1e30 in 31 digits and 1e-12 as zero, and finds "nan" in every
/// range; without a check CLI11 takes a number that is too large for the largest there is.
template <class Number>
CLI::Validator from_to(Number least, Number most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  const auto fault = [=](const std::string& text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end && number >= least && number <= most) return std::string();
    return fmt::format("{} is not a {} {}", text, std::integral<Number> ? "whole number" : "number", range);
  };
  return {fault, range};
}

inline CLI::Validator seed() { return from_to<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()); }

}  // namespace flags
