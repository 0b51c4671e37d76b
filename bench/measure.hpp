// SPDX-License-Identifier: MIT
#pragma once

/// \file bench/measure.hpp
/// What the programs of this folder share: their flags, calls that take turns, the limits of the machine, rows of
/// results. A row is a line of a table, or with --json an object on a line of its own; its names carry the units.

#include <simplx/cpu/amx.hpp>
#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/memory.hpp>
#include <simplx/cpu/peak.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <sys/resource.h>

namespace bench {

using simplx::Index;

/// The flags of a program: all that it knows, with their default values; a switch is "no" until it is given.
class Flags {
 public:
  Flags(int count, char** arguments, std::map<std::string, std::string> known) : values_(std::move(known)) {
    values_.emplace("--json", "no");
    for (int i = 1; i < count; ++i) {
      const auto flag = values_.find(arguments[i]);
      if (flag == values_.end() || (flag->second != "no" && i + 1 == count)) {
        throw std::runtime_error(std::string("unknown flag, or one without its value: ") + arguments[i] +
                                 "; the top of the source lists them");
      }
      flag->second = flag->second == "no" ? "yes" : arguments[++i];
    }
  }
  const std::string& text(const char* name) const { return values_.at(name); }
  long number(const char* name) const {
    char* end = nullptr;
    const long value = std::strtol(text(name).c_str(), &end, 10);
    if (*end || text(name).empty()) throw std::runtime_error(std::string(name) + " is no number: " + text(name));
    return value;
  }
  bool given(const char* name) const { return text(name) == "yes"; }

 private:
  std::map<std::string, std::string> values_;
};

/// A number or a word of a row.
struct Field {
  const char* name;
  std::variant<double, std::string> value;
};

/// The rows of a program.
class Rows {
 public:
  explicit Rows(const Flags& flags) : json_(flags.given("--json")) {}

  void add(const std::vector<Field>& fields) {
    if (json_) {
      std::string line;
      for (const Field& field : fields) line += (line.empty() ? "{\"" : ", \"") + named(field);
      std::printf("%s}\n", line.c_str());
    } else {
      std::string names, line;
      for (const Field& field : fields) {
        const bool word = std::holds_alternative<std::string>(field.value);
        const std::string value =
            word ? std::get<std::string>(field.value) : short_number(std::get<double>(field.value));
        const int width = static_cast<int>(std::max(std::string(field.name).size(), std::size_t(word ? 16 : 8)));
        names += padded(field.name, word ? -width : width) + "  ";
        line += padded(value, word ? -width : width) + "  ";
      }
      if (names != names_) std::printf("%s\n", names.c_str());
      names_ = names;
      std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }

 private:
  static std::string formatted(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
  }
  static std::string short_number(double value) {
    return std::abs(value) >= 1e4 && std::abs(value) < 1e15 ? formatted("%.0f", value) : formatted("%.4g", value);
  }
  static std::string padded(const std::string& text, int width) {
    const int left = std::abs(width) - static_cast<int>(text.size());
    const std::string space(static_cast<std::size_t>(std::max(0, left)), ' ');
    return width < 0 ? text + space : space + text;
  }
  /// As JSON; the words of these programs need no escapes.
  static std::string named(const Field& field) {
    const std::string name = std::string(field.name) + "\": ";
    if (const auto* word = std::get_if<std::string>(&field.value)) return name + '"' + *word + '"';
    const double value = std::get<double>(field.value);
    if (!std::isfinite(value)) return name + "null";
    return name + (value == std::round(value) ? formatted("%.0f", value) : formatted("%.6g", value));
  }

  bool json_;
  std::string names_;
};

/// Runs a program's body; what it throws is its last word.
template <class Body>
int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Milliseconds of the wall clock that one call takes.
template <class F>
double wall_milliseconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Microseconds of processor time of one of so many calls: on one thread, what others do on the machine counts least.
template <class F>
double processor_microseconds(F& f, int calls) {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < calls; ++i) f();
  return 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / calls;
}

/// How long functions are measured: so many rounds, in each of which every one runs for about `turn_us`.
struct Turns {
  int rounds = 15;
  double turn_us = 5000;
};

/// Microseconds of processor time for each function, the medians of rounds in which they run one after the other: the
/// clock of a machine drifts by more than the differences we look for.
template <class... F>
std::array<double, sizeof...(F)> take_turns(const Turns& turns, F&&... f) {
  constexpr std::size_t n = sizeof...(F);
  const auto calls_for = [&](auto& one) {
    return std::max(1, static_cast<int>(turns.turn_us / std::max(1.0, processor_microseconds(one, 2))));
  };
  const std::array<int, n> calls{calls_for(f)...};
  std::array<std::vector<double>, n> times;
  for (int round = 0; round < turns.rounds; ++round) {
    std::size_t i = 0;
    (..., (times[i].push_back(processor_microseconds(f, calls[i])), ++i));
  }
  std::array<double, n> medians{};
  for (std::size_t i = 0; i < n; ++i) medians[i] = median(times[i]);
  return medians;
}

/// GB/s that one core moves in a = b + s c, three arrays of together so many bytes; processor time, the best of 20 ms.
inline double measured_bandwidth(double bytes) {
  const auto n = simplx::round_up(std::max<Index>(1024, static_cast<Index>(bytes / 3 / sizeof(float))), 64);
  simplx::cpu::Buffer<float> a(n), b(n), c(n);
  using V = simplx::Vec<float>;
  double best = 0, s = 1;
  const auto pass = [&] {
    for (Index i = 0; i < n; i += simplx::lanes<float>) {
      const V sum = simplx::load<V>(b.data() + i) + static_cast<float>(s) * simplx::load<V>(c.data() + i);
      simplx::store(a.data() + i, sum);
    }
    s += 1;
  };
  const int calls = std::max(1, static_cast<int>(2000 / std::max(1.0, processor_microseconds(pass, 2))));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  for (int round = 0; round < 3 || std::chrono::steady_clock::now() < end; ++round) {
    const double us = processor_microseconds(pass, calls);
    best = std::max(best, 3e-3 * sizeof(float) * static_cast<double>(n) / us);
  }
  return best;
}

/// What the products with parameters of a backend are made of.
template <class Backend>
const char* multiplied() {
  if (Backend::rounds) return "pairs of bfloat16";
  return Backend::splits && simplx::cpu::Amx::available() ? "floats in pieces" : "floats";
}

/// Their limit, in GFLOP/s: of floats in pieces, what the matrix unit has for pairs over the products that one takes.
template <class Backend>
double peak_of(int threads = 1, double seconds = 0.03) {
  if (Backend::rounds) return simplx::cpu::measured_peak_gflops<simplx::cpu::Twin>(threads, seconds);
  if (Backend::splits && simplx::cpu::Amx::available()) {
    return simplx::cpu::measured_peak_gflops<simplx::cpu::Twin>(threads, seconds) / simplx::cpu::piece_products;
  }
  return simplx::cpu::measured_peak_gflops(threads, seconds);
}

/// The most memory that this process has had in RAM so far, in bytes; not getrusage, which counts what ran before exec.
inline double peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::strtod(line.c_str() + 6, nullptr);
  }
  return std::nan("");  // a system that does not tell
}

/// Pages that this process has touched for the first time.
inline long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

}  // namespace bench
