// SPDX-License-Identifier: MIT
#pragma once

/// What Hugging Face's tokenizers made of two texts (tests/golden/make_tokenizer.py).

#include <doctest/doctest.h>

#include <simplx/io/json.hpp>
#include <simplx/io/mapped_file.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace test {

struct GoldenTokens {
  std::string learnt, unseen;
  std::vector<std::string> pieces;  // of the unseen text
  std::vector<std::int32_t> learnt_tokens, unseen_tokens;
};

inline std::filesystem::path golden_tokenizer() {
  return std::filesystem::path(SIMPLX_GOLDEN_DIR) / "tokenizer.json";
}

inline GoldenTokens golden_tokens() {
  const auto json = simplx::parse_json(simplx::MappedFile(golden_tokenizer().replace_filename("tokens.json")).text());
  REQUIRE(json.is_object());
  GoldenTokens golden;
  json.at("learnt").get_to(golden.learnt), json.at("unseen").get_to(golden.unseen);
  json.at("pieces").get_to(golden.pieces);
  json.at("learnt_tokens").get_to(golden.learnt_tokens), json.at("unseen_tokens").get_to(golden.unseen_tokens);
  return golden;
}

}  // namespace test
