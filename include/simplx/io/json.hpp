// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/json.hpp
/// JSON of files that anybody may have written.

#include <simplx/core/target.hpp>

#include <nlohmann/json.hpp>

#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

/// The value of a JSON text; discarded (`is_discarded()`) where that is none, or has values more than 100 levels deep:
/// the library writes and copies them recursively, and no file of simplx comes near.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  bool deep = false;
  Json value = Json::parse(
      text.begin(), text.end(),
      [&](int depth, typename Json::parse_event_t, Json&) {
        deep = deep || depth > 100;
        return !deep;
      },
      false);
  return deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace simplx
