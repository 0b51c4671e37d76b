// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/text.hpp
/// Short texts that may be template arguments: the names of ops and of parameters.

#include <simplx/core/target.hpp>

#include <string_view>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

/// A text of fewer than `capacity` characters, stored in place.
///
/// Errors  a longer text is not a constant expression: "a name is too long"; when the program runs it is_cut()
template <int capacity>
struct Text {
  char chars[capacity]{};

  constexpr Text() = default;
  /// As nvcc writes a text that is a template argument.
  struct Chars {
    char of[capacity];
  };
  constexpr Text(const Chars& all) {
    for (int i = 0; i < capacity; ++i) chars[i] = all.of[i];
  }
  constexpr Text(const char* text) {
    int length = 0;
    while (text[length]) {
      if (length + 1 >= capacity) {
        if (!std::is_constant_evaluated()) break;
        throw "simplx: a name is too long; shorten it";
      }
      chars[length] = text[length];
      ++length;
    }
    if (text[length]) cut();
  }

  /// Whether it was too long when the program ran, and is not whole.
  constexpr bool is_cut() const { return chars[capacity - 1] != 0; }
  constexpr bool empty() const { return chars[0] == 0; }
  constexpr int size() const {
    int length = 0;
    while (length < capacity && chars[length]) ++length;
    return length;
  }
  constexpr std::string_view view() const { return {chars, static_cast<std::size_t>(size())}; }
  /// Whether a part before, between or after its dots is empty: "", ".weight", "mlp..weight".
  constexpr bool lacks_a_part() const {
    for (int i = 0; i < capacity; ++i) {
      const bool ends = !chars[i] || chars[i] == '.';
      if (ends && (i == 0 || chars[i - 1] == '.')) return true;
      if (!chars[i]) break;
    }
    return false;
  }

  constexpr bool operator==(const Text& other) const {
    for (int i = 0; i < capacity; ++i) {
      if (chars[i] != other.chars[i]) return false;
      if (!chars[i]) return true;
    }
    return true;
  }

  /// Puts "prefix." in front: how a scope names what is made inside it.
  constexpr void put_in_scope(const Text& prefix) {
    const int added = prefix.size() + 1, length = size();
    if (length + added >= capacity || is_cut()) {
      if (!std::is_constant_evaluated()) return cut();
      throw "simplx: a name with its scopes is too long; shorten it";
    }
    for (int i = length; i >= 0; --i) chars[i + added] = chars[i];
    for (int i = 0; i < added - 1; ++i) chars[i] = prefix.chars[i];
    chars[added - 1] = '.';
  }

  constexpr unsigned hash() const {
    unsigned value = 2166136261u;
    for (int i = 0; i < capacity && chars[i]; ++i) value = (value ^ static_cast<unsigned char>(chars[i])) * 16777619u;
    return value;
  }

 private:
  constexpr void cut() { chars[capacity - 1] = '~'; }
};

/// Identifies an op: `op<"matmul">`.
using Tag = Text<24>;
/// Names a parameter, a constant, an input, a probe or a stack, with its scopes.
using Name = Text<96>;

}  // namespace simplx
