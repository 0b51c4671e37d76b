// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/formula.hpp
/// A scalar made of text: running an op's rules over it prints the equation, forward and pull-back alike.

#include <simplx/core/target.hpp>

#include <charconv>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// A formula and how tightly its last operator binds.
struct Formula {
  enum Binding { sum = 1, product = 2, sign = 3, name = 4 };
  std::string text = "0";
  Binding binding = name;

  Formula() = default;
  Formula(std::string t, Binding b = name) : text(std::move(t)), binding(b) {}
  /// As few digits as give the number back: 2, 0.5, 1e-08.
  Formula(double number) {
    char digits[32];
    text.assign(digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general).ptr);
  }

  std::string within(Binding outer) const { return binding < outer ? "(" + text + ")" : text; }
};

inline Formula operator+(const Formula& a, const Formula& b) {
  return {a.within(Formula::sum) + " + " + b.within(Formula::sum), Formula::sum};
}
inline Formula operator-(const Formula& a, const Formula& b) {
  return {a.within(Formula::sum) + " - " + b.within(Formula::product), Formula::sum};
}
inline Formula operator*(const Formula& a, const Formula& b) {
  return {a.within(Formula::product) + " * " + b.within(Formula::sign), Formula::product};
}
inline Formula operator/(const Formula& a, const Formula& b) {
  return {a.within(Formula::product) + " / " + b.within(Formula::name), Formula::product};
}
inline Formula operator-(const Formula& a) { return {'-' + a.within(Formula::name), Formula::sign}; }
inline Formula operator>(const Formula& a, const Formula& b) { return {a.text + " > " + b.text, Formula::sum}; }
/// name(a, b, ...).
template <class... Arguments>
Formula call(const char* name, const Formula& first, const Arguments&... others) {
  return {std::string(name) + "(" + first.text + (std::string() + ... + (", " + others.text)) + ")"};
}
inline Formula max(const Formula& a, const Formula& b) { return call("max", a, b); }
inline Formula min(const Formula& a, const Formula& b) { return call("min", a, b); }
inline Formula pow(const Formula& x, const Formula& p) { return call("pow", x, p); }
inline Formula exp(const Formula& x) { return call("exp", x); }
inline Formula log(const Formula& x) { return call("log", x); }
inline Formula log1p(const Formula& x) { return call("log1p", x); }
inline Formula sin(const Formula& x) { return call("sin", x); }
inline Formula cos(const Formula& x) { return call("cos", x); }
inline Formula tanh(const Formula& x) { return call("tanh", x); }
inline Formula sigmoid(const Formula& x) { return call("sigmoid", x); }
inline Formula erf(const Formula& x) { return call("erf", x); }
inline Formula sqrt(const Formula& x) { return call("sqrt", x); }
inline Formula abs(const Formula& x) { return call("abs", x); }
inline Formula select(const Formula& condition, const Formula& yes, const Formula& no) {
  return {"(" + condition.text + " ? " + yes.text + " : " + no.text + ")"};
}

}  // namespace simplx
