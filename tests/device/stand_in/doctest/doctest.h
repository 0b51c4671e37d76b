// SPDX-License-Identifier: MIT
#pragma once

/// What tests of kernels use of doctest, for machines with a GPU, which may not have it: checks tell the numbers that
/// they compare, and each case is told as a row of JSON.

#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace doctest {

struct Case {
  const char* suite;
  const char* name;
  void (*body)();
};

/// All cases, and how it goes with the one that runs.
struct State {
  std::vector<Case> cases;
  const char* suite = "";
  long checks = 0, failures = 0;
  std::string said;  ///< of the first failures
};
inline State& state() {
  static State one;
  return one;
}
struct Suite {
  explicit Suite(const char* name) { state().suite = name; }
};
struct Registered {
  Registered(const char* name, void (*body)()) { state().cases.push_back({state().suite, name, body}); }
};

/// Ends a case: what follows would make no sense.
struct Stop {};

class Approx {
 public:
  explicit Approx(double value) : value_(value) {}
  Approx& epsilon(double relative) {
    epsilon_ = relative;
    return *this;
  }
  friend bool operator==(double found, const Approx& expected) {
    const double larger = std::fmax(std::fabs(found), std::fabs(expected.value_));
    return std::fabs(found - expected.value_) < expected.epsilon_ * (1 + larger);
  }

  double value_, epsilon_ = 100.0 * std::numeric_limits<float>::epsilon();
};

struct Contains {
  std::string part;
  explicit Contains(const char* text) : part(text) {}
};

inline std::string text_of(const Approx& expected) { return "about " + std::to_string(expected.value_); }
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    std::ostringstream text;
    text.precision(9);
    text << +value;
    return text.str();
  } else {
    return "?";
  }
}

/// Whether something holds, and how it reads.
struct Result {
  bool holds;
  std::string values;
};
template <class T>
struct Left {
  const T& value;
  explicit operator bool() const { return static_cast<bool>(value); }
  operator Result() const { return {static_cast<bool>(value), ""}; }
#define SIMPLX_COMPARES(op)                                       \
  template <class U>                                              \
  Result operator op(const U& right) const {                      \
    return {value op right, text_of(value) + " " #op " " + text_of(right)}; \
  }
  SIMPLX_COMPARES(==)
  SIMPLX_COMPARES(!=)
  SIMPLX_COMPARES(<)
  SIMPLX_COMPARES(<=)
  SIMPLX_COMPARES(>)
  SIMPLX_COMPARES(>=)
#undef SIMPLX_COMPARES
};
struct Begin {
  template <class T>
  Left<T> operator<<(const T& value) const {
    return {value};
  }
};

inline bool judge(const Result& result, const char* file, int line, const char* what) {
  State& now = state();
  ++now.checks;
  if (result.holds) return true;
  if (++now.failures > 3) return false;
  const std::string path = file;
  now.said += now.said.empty() ? "" : "; ";
  now.said += path.substr(path.rfind('/') + 1) + ":" + std::to_string(line) + " " + what;
  if (!result.values.empty()) now.said += " (" + result.values + ")";
  return false;
}

/// A word of JSON.
inline std::string quoted(const std::string& text) {
  std::string word;
  for (const char c : text) word += c == '"' || c == '\\' ? '\'' : c == '\n' ? ' ' : c;
  return '"' + word + '"';
}

/// Runs all cases, each told in a line; status 1 if one fails.
inline int run() {
  bool good = true;
  for (const Case& one : state().cases) {
    State& now = state();
    now.checks = now.failures = 0;
    now.said.clear();
    try {
      one.body();
    } catch (const Stop&) {
    } catch (const std::exception& error) {
      judge({false, error.what()}, __FILE__, __LINE__, "an exception");
    }
    const bool holds = now.failures == 0;
    good = good && holds;
    const std::string name = *one.suite ? std::string(one.suite) + ": " + one.name : one.name;
    std::printf("{\"test\": %s, \"checks\": %ld, \"holds\": \"%s\", \"said\": %s}\n", quoted(name).c_str(), now.checks,
                holds ? "yes" : "no", quoted(now.said).c_str());
    std::fflush(stdout);
  }
  return good ? 0 : 1;
}

}  // namespace doctest

#define SIMPLX_JOINED_(a, b) a##b
#define SIMPLX_JOINED(a, b) SIMPLX_JOINED_(a, b)
#define SIMPLX_UNIQUE(name) SIMPLX_JOINED(name, __LINE__)
#define TEST_SUITE_BEGIN(name) static const ::doctest::Suite SIMPLX_UNIQUE(suite_)(name)
#define TEST_SUITE_END() static const ::doctest::Suite SIMPLX_UNIQUE(suite_)("")
#define TEST_CASE(name)                                                                     \
  static void SIMPLX_UNIQUE(case_)();                                                       \
  static const ::doctest::Registered SIMPLX_UNIQUE(registered_)(name, SIMPLX_UNIQUE(case_)); \
  static void SIMPLX_UNIQUE(case_)()
#define CAPTURE(value) static_cast<void>(value)
#define SIMPLX_JUDGED(...) ::doctest::judge(::doctest::Begin() << __VA_ARGS__, __FILE__, __LINE__, #__VA_ARGS__)
#define CHECK(...) static_cast<void>(SIMPLX_JUDGED(__VA_ARGS__))
#define REQUIRE(...)                                            \
  do {                                                          \
    if (!SIMPLX_JUDGED(__VA_ARGS__)) throw ::doctest::Stop();   \
  } while (false)
#define REQUIRE_MESSAGE(value, message)                                                                       \
  do {                                                                                                        \
    if (!::doctest::judge({static_cast<bool>(value), ""}, __FILE__, __LINE__, message)) throw ::doctest::Stop(); \
  } while (false)
/// expected: Contains.
#define CHECK_THROWS_WITH_AS(expression, expected, type)                                                   \
  do {                                                                                                     \
    bool thrown = false;                                                                                   \
    try {                                                                                                  \
      static_cast<void>(expression);                                                                       \
    } catch (const type& error) {                                                                          \
      thrown = std::string(error.what()).find((expected).part) != std::string::npos;                      \
    }                                                                                                      \
    ::doctest::judge({thrown, ""}, __FILE__, __LINE__, #expression);                                       \
  } while (false)
