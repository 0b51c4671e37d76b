// SPDX-License-Identifier: MIT
#include <simplx/io/json.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace simplx;

TEST_SUITE_BEGIN("io/json");

TEST_CASE("what is no JSON, or deeper than anybody needs, is discarded") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + "1" + std::string(depth, ']'); };
  CHECK(parse_json(R"({"a": [1, 2]})")["a"][1] == 2);
  CHECK(parse_json<nlohmann::ordered_json>(R"({"b": 1, "a": 2})").dump() == R"({"b":1,"a":2})");
  CHECK(parse_json(nested(100)).is_array());
  for (const std::string& text : {std::string(), std::string("{\"a\": "), nested(101), nested(300'000)}) {
    CHECK(parse_json(text).is_discarded());
  }
}

TEST_SUITE_END();
