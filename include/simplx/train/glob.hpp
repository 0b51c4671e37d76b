// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/glob.hpp
/// Patterns of names: '*' stands for any text, dots included; every other character for itself.
///
/// Matching is an edit distance of zero, so that a pattern that matches nothing can name what it nearly matches.

#include <simplx/core/error.hpp>
#include <simplx/core/parameters.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// How many characters must be added, removed or replaced until the text matches the pattern [Levenshtein].
///
/// Cost    pattern x text steps, one row of memory
inline Index glob_distance(std::string_view pattern, std::string_view text) {
  std::vector<Index> row(text.size() + 1);  // row[j]: of the pattern so far to the first j characters of the text
  std::iota(row.begin(), row.end(), Index(0));
  for (const char c : pattern) {
    Index diagonal = row[0];
    row[0] += c != '*';
    for (std::size_t j = 1; j <= text.size(); ++j) {
      const Index above = row[j];
      row[j] = c == '*' ? std::min(above, row[j - 1])
                        : std::min({above + 1, row[j - 1] + 1, diagonal + (c != text[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

inline bool matches_glob(std::string_view pattern, std::string_view text) { return glob_distance(pattern, text) == 0; }

/// The `count` names nearest to a pattern, separated by commas; of names that differ in their digits alone, the first.
[[gnu::cold]] inline std::string nearest_names(std::string_view pattern, const std::vector<std::string>& names,
                                               std::size_t count) {
  struct Candidate {
    Index distance;
    std::string name, letters;
  };
  std::vector<Candidate> candidates;
  for (const std::string& name : names) {
    std::string letters;
    for (const char c : name) {
      if (c < '0' || c > '9') letters += c;
    }
    const auto alike = [&](const Candidate& other) { return other.letters == letters; };
    if (std::none_of(candidates.begin(), candidates.end(), alike)) {
      candidates.push_back({glob_distance(pattern, name), name, letters});
    }
  }
  std::string text;
  for (; count > 0 && !candidates.empty(); --count) {
    const auto nearest =
        std::min_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
    text += (text.empty() ? "" : ", ") + nearest->name;
    candidates.erase(nearest);
  }
  return text;
}

inline std::vector<std::string> names_of(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  return names;
}

/// What is thrown for a name of a `kind`, such as a parameter, that is none of those that the model has.
[[gnu::cold]] inline Error unknown_name(const std::string& kind, std::string_view name,
                                        const std::vector<std::string>& names) {
  return Error("the model has no " + kind + " named '" + std::string(name) + "'",
               names.empty() ? "it has none at all" : "the nearest names are " + nearest_names(name, names, 3));
}

/// The part of a buffer that the tensor of that name has; `kind` is what it is called where there is none.
template <class S>
std::span<S> slice_of(const std::vector<TensorInfo>& tensors, std::span<S> buffer, std::string_view name,
                      const std::string& kind) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name != name) continue;
    return buffer.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
  }
  throw unknown_name(kind, name, names_of(tensors));
}

}  // namespace simplx
