// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/formula.hpp
/// A scalar made of text: running an op's rules over it prints the equation, forward and pull-back alike.

#include <string>

namespace simplx {

/// A formula and how tightly its last operator binds.
struct Formula {
  enum Binding { sum = 1, product = 2, sign = 3, name = 4 };
  std::string text = "0";
  Binding binding = name;

  Formula() = default;
  Formula(std::string t, Binding b = name) : text(std::move(t)), binding(b) {}
  Formula(double number) : text(std::to_string(number)) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
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
inline Formula operator-(const Formula& a) { return {"-" + a.within(Formula::name), Formula::sign}; }
inline Formula operator>(const Formula& a, const Formula& b) { return {a.text + " > " + b.text, Formula::sum}; }
inline Formula max(const Formula& a, const Formula& b) { return {"max(" + a.text + ", " + b.text + ")"}; }
inline Formula select(const Formula& condition, const Formula& yes, const Formula& no) {
  return {"(" + condition.text + " ? " + yes.text + " : " + no.text + ")"};
}

}  // namespace simplx
