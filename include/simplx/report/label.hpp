// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/label.hpp
/// Short texts of a picture: plain words, symbols with an index, and how wide they will be.
///
///     attention_gain -> β_SA,  mlp_skip -> α_FF,  attention.value.alpha -> α_V        the paper's letters
///
/// No font is asked: widths are those of a wide one (DejaVu Sans, in units of the font's size), so that a text
/// stays inside its box with the narrower ones of most readers.

#include <simplx/core/target.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::drawing {

/// A piece of a label in one style.
struct Run {
  enum class Style : signed char { plain, symbol, index };
  std::string text;  ///< UTF-8, not escaped
  Style style = Style::plain;
};
using Label = std::vector<Run>;

inline constexpr double index_size = 0.72;  ///< of an index, relative to what it stands at

/// The text of a label without its styles: X_in.
inline std::string plain_text(const Label& label) {
  std::string text;
  for (const Run& run : label) text += (run.style == Run::Style::index ? "_" : "") + run.text;
  return text;
}

/// The width of a character, given its first byte.
inline double character_width(unsigned char c) {
  if (c >= 0xe0) return 0.84;  // arrows and operators
  if (c >= 0xce) return 0.69;  // Greek
  if (c >= 0xc0) return 0.84;  // multiplication sign
  if (std::string_view(" ijl.,:;'|!I").find(static_cast<char>(c)) != std::string_view::npos) return 0.34;
  if (std::string_view("frst()[]-\"/").find(static_cast<char>(c)) != std::string_view::npos) return 0.53;
  if (std::string_view("mwMWG%@+=<>OQ").find(static_cast<char>(c)) != std::string_view::npos) return 0.99;
  return c >= 'A' && c <= 'Z' ? 0.78 : 0.645;
}

/// The width of a text at a font size of one.
inline double text_width(std::string_view text) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80) width += character_width(byte);  // not a continuation of UTF-8
  }
  return width;
}
inline double text_width(const Label& label) {
  double width = 0;
  for (const Run& run : label) width += text_width(run.text) * (run.style == Run::Style::index ? index_size : 1.0);
  return width;
}

/// "attention.query.weight" -> "weight", "attention.query"; a name without a scope has an empty one.
inline std::string last_name(std::string_view name) {
  return std::string(name.substr(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1));
}
inline std::string scope_of(std::string_view name) {
  return std::string(name.substr(0, name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.')));
}

/// A name as a title: "rms_norm" -> "Rms norm"; without vowels it is an abbreviation: "mlp" -> "MLP".
inline std::string title_case(std::string_view name) {
  std::string title(name);
  const bool abbreviation = title.find_first_of("aeiouyAEIOUY") == std::string::npos;
  for (std::size_t i = 0; i < title.size(); ++i) {
    if (title[i] == '_') title[i] = ' ';
    if ((i == 0 || abbreviation) && title[i] >= 'a' && title[i] <= 'z') title[i] -= 'a' - 'A';
  }
  return title;
}

/// A number as one writes it: 0.1, 1, 1e-08.
inline std::string number_text(double value) { return fmt::format("{:.4g}", value); }

/// The symbol of a parameter: the paper's letter for the gains of its equations, a Greek letter for its name with
/// the scope's initial as index, else the name.
inline Label symbol_of(std::string_view name) {
  struct Known {
    std::string_view name, letter, index;
  };
  static constexpr Known gains[] = {{"attention_skip", "α", "SA"}, {"attention_gain", "β", "SA"},
                                    {"mlp_skip", "α", "FF"},       {"mlp_gain", "β", "FF"},
                                    {"attention_residual_scale", "λ", "SA"},
                                    {"mlp_residual_scale", "λ", "FF"}};
  static constexpr Known letters[] = {{"alpha", "α", ""}, {"beta", "β", ""},   {"gamma", "γ", ""},
                                      {"delta", "δ", ""}, {"lambda", "λ", ""}, {"sigma", "σ", ""},
                                      {"head_scale", "η", ""}};
  const std::string last = last_name(name), scope = last_name(scope_of(name));
  using Style = Run::Style;
  for (const Known& gain : gains) {
    if (last == gain.name) return {{std::string(gain.letter), Style::symbol}, {std::string(gain.index), Style::index}};
  }
  for (const Known& letter : letters) {
    if (last != letter.name) continue;
    if (scope.empty()) return {{std::string(letter.letter), Style::symbol}};
    return {{std::string(letter.letter), Style::symbol}, {title_case(scope).substr(0, 1), Style::index}};
  }
  return {{last, Style::plain}};
}

}  // namespace simplx::drawing
