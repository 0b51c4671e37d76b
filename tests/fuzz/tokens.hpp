// SPDX-License-Identifier: MIT
#pragma once

#include "fuzz.hpp"

#include <simplx/io/tokens.hpp>

namespace fuzz {

/// Every format, found and named: all tokens may be looked at, and a vocabulary that holds them all is enough.
inline void tokens(std::span<const std::byte> bytes) {
  using namespace simplx;
  const std::optional<TokenFormat> formats[] = {
      {}, TokenFormat::nanogpt, TokenFormat::llmc, TokenFormat::llmc_llama3, TokenFormat::bytes};
  for (const std::optional<TokenFormat> format : formats) {
    refuses_with_reason([&] {
      const TokenFile file = TokenFile::view(bytes, path, format);
      const TokenView view = file.tokens();
      require(view.size() > 0 && (!format || file.format() == *format));
      Index largest = 0;
      for (Index i = 0; i < view.size(); ++i) largest = std::max<Index>(largest, static_cast<std::uint32_t>(view[i]));
      check_vocabulary(view, largest + 1, path);
      require(largest <= 2147483647);  // else it was refused
    });
  }
}

}  // namespace fuzz
