// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/progress.hpp
/// What a person sees of a run: a table of what will be done, and a line that moves.

#include <simplx/core/target.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

/// Rows of a name and a value, the values aligned.
inline std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t widest = 0;
  for (const auto& [name, value] : rows) widest = std::max(widest, name.size());
  std::string text;
  for (const auto& [name, value] : rows) text += fmt::format("  {:<{}}  {}\n", name, widest, value);
  return text;
}

/// 1234567 as "1 234 567".
inline std::string grouped(long long number) {
  std::string digits = fmt::format("{}", number);
  for (int i = static_cast<int>(digits.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3) {
    digits.insert(static_cast<std::size_t>(i), " ");
  }
  return digits;
}

/// Bytes with a unit: "4.98 MB".
inline std::string readable_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  int unit = 0;
  // What would be rounded to 1000 is one of the next unit.
  while (bytes >= (unit == 0 ? 999.5 : 999.995) && unit < 6) bytes /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit ? 2 : 0, units[unit]);
}

/// Seconds as "2:05" or "1:02:05".
inline std::string readable_seconds(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// One line that is written over and over on a terminal, and plain lines where output is piped.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* stream = stdout) : stream_(stream) {
#if defined(__unix__) || defined(__APPLE__)
    terminal_ = isatty(fileno(stream));
#endif
  }

  /// Shows a state that the next one replaces; a pipe shows it only if it is `worth_a_line`.
  void update(const std::string& text, bool worth_a_line) {
    if (terminal_) {
      fmt::print(stream_, "\r{}\x1b[K", text);
      open_ = true;
    } else if (worth_a_line) {
      fmt::print(stream_, "{}\n", text);
    }
    std::fflush(stream_);
  }
  /// Leaves a line standing.
  void say(const std::string& text) {
    if (std::exchange(open_, false)) fmt::print(stream_, "\r\x1b[K");
    fmt::print(stream_, "{}\n", text);
    std::fflush(stream_);
  }

 private:
  std::FILE* stream_;
  bool terminal_ = false, open_ = false;
};

}  // namespace simplx
