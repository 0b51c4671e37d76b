// SPDX-License-Identifier: MIT
#pragma once

#include "fuzz.hpp"

#include <simplx/io/tokenizer_file.hpp>
#include <simplx/io/train_tokenizer.hpp>

namespace fuzz {

/// Any bytes as a text, whose tokens are its bytes again, by a tokenizer that was learnt from it; and as a
/// tokenizer.json: what it makes of a text is the text again.
inline void tokenizer(std::span<const std::byte> bytes) {
  using namespace simplx;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto gives_back = [](const Tokenizer& tokenizer, std::string_view any) {
    const std::vector<std::int32_t> tokens = tokenizer.encode(any);
    for (const std::int32_t token : tokens) {
      for (const std::int32_t special : tokenizer.specials()) require(token != special);
    }
    require(tokenizer.decode(tokens) == any);
  };
  const Tokenizer learnt = train_tokenizer(std::span(&text, 1), {.vocab = 300, .specials = {}});
  gives_back(learnt, text);
  require(learnt.encode(text).size() <= text.size());
  refuses_with_reason([&] { gives_back(detail::tokenizer_of(text, path), "the text's 2 words\n\xFF 12 "); });
}

}  // namespace fuzz
