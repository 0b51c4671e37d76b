// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/tokens.hpp
/// Files of tokens: those of nanoGPT and llm.c, and bytes as they are. All numbers are little endian.
///
///     nanogpt      u16 tokens, nothing else
///     llmc         256 i32: magic 20240520, version 1, number of tokens, zeros;   then u16 tokens
///     llmc-llama3  256 i32: magic 20240801, version 7, number of tokens, zeros;   then u32 tokens
///     bytes        a byte is a token
///
/// Source  karpathy/llm.c, dev/data/data_common.py, and karpathy/nanoGPT, data/*/prepare.py

#include <simplx/io/file.hpp>
#include <simplx/io/mapped_file.hpp>
#include <simplx/train/token_view.hpp>

#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

namespace simplx::inline SIMPLX_TARGET {

/// What files of tokens look like; see the head of this file.
enum class TokenFormat : signed char { nanogpt, llmc, llmc_llama3, bytes };

namespace detail {

struct TokenFormatInfo {
  std::string_view name;
  int bytes_each;
  std::int32_t magic, version;  ///< magic 0: no header
};
inline constexpr TokenFormatInfo token_formats[] = {
    {"nanogpt", 2, 0, 0}, {"llmc", 2, 20240520, 1}, {"llmc-llama3", 4, 20240801, 7}, {"bytes", 1, 0, 0}};
constexpr const TokenFormatInfo& info_of(TokenFormat format) { return token_formats[static_cast<int>(format)]; }

using TokenHeader = std::array<std::int32_t, 256>;

}  // namespace detail

constexpr std::string_view name_of(TokenFormat format) { return detail::info_of(format).name; }

/// The format of that name.
constexpr std::optional<TokenFormat> token_format_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(detail::token_formats); ++i) {
    if (detail::token_formats[i].name == name) return static_cast<TokenFormat>(i);
  }
  return {};
}

/// Checks that a model with so many tokens knows all of them.
///
/// Errors  throws Error with the position and the number of the first that it does not know
/// Cost    one pass over the tokens
inline void check_vocabulary(TokenView tokens, Index vocab, const std::string& path) {
  for (Index i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    throw Error("token " + std::to_string(i) + " of " + path + " is " +
                    std::to_string(static_cast<std::uint32_t>(tokens[i])) + ", but the model knows " +
                    std::to_string(vocab) + " tokens",
                "choose a model with a larger vocabulary, or the tokens of this one's tokenizer");
  }
}

/// A file of tokens that has been checked; the tokens stay where they are.
class TokenFile {
 public:
  /// Finds the format by the magic number; without one the file is nanoGPT's. Bytes look like nothing and are named.
  ///
  /// Errors  throws Error with path, byte and reason: no file, another version, another number of tokens than the
  ///         header says, half a token at the end, no tokens
  static TokenFile read(const std::filesystem::path& path, std::optional<TokenFormat> format = {}) {
    MappedFile file(path);
    TokenFile checked(file.bytes(), path.string(), format);
    checked.file_ = std::move(file);
    return checked;
  }
  /// A file that is in memory already; the bytes belong to somebody else. `path` is what refusals call it.
  static TokenFile view(std::span<const std::byte> bytes, const std::string& path,
                        std::optional<TokenFormat> format = {}) {
    return {bytes, path, format};
  }

  TokenFormat format() const { return format_; }
  TokenView tokens() const { return tokens_; }

 private:
  TokenFile(std::span<const std::byte> bytes, const std::string& path, std::optional<TokenFormat> format) {
    const auto refuse = [&](std::uint64_t at, const std::string& reason, const std::string& hint) {
      throw Error("not a usable file of tokens: " + path + ": at byte " + std::to_string(at) + ": " + reason, hint);
    };
    format_ = format ? *format : detected(bytes);
    const detail::TokenFormatInfo& info = detail::info_of(format_);
    const std::string named = "a file of " + std::string(info.name);
    if (info.magic != 0) {
      detail::TokenHeader header;
      if (bytes.size() < sizeof header) {
        refuse(bytes.size(), named + " ends in its header of 1024 bytes", "was it written completely?");
      }
      std::memcpy(&header, bytes.data(), sizeof header);
      bytes = bytes.subspan(sizeof header);
      if (header[0] != info.magic) {
        refuse(0, named + " begins with " + std::to_string(info.magic) + ", not with " + std::to_string(header[0]),
               "name another format");
      }
      if (header[1] != info.version) {
        refuse(4, named + " of version " + std::to_string(header[1]) + ", not " + std::to_string(info.version),
               "prepare the tokens again with a present llm.c or tools/prepare");
      }
      const Index size = static_cast<Index>(bytes.size());
      if (Index{header[2]} * info.bytes_each != size) {
        refuse(8, "the header says " + std::to_string(header[2]) + " tokens of " + std::to_string(info.bytes_each) +
                      " bytes, but " + std::to_string(size) + " bytes follow",
               "was it written completely?");
      }
    }
    if (bytes.size() % static_cast<std::size_t>(info.bytes_each) != 0) {
      refuse(bytes.size() - 1, named + " has tokens of two bytes, and an odd number of bytes",
             "is it text? then give it another name than .bin, or name the format bytes");
    }
    if (bytes.empty()) refuse(0, "there are no tokens in it", "prepare it from text that is not empty");
    tokens_ = TokenView(bytes, info.bytes_each);
  }

  static TokenFormat detected(std::span<const std::byte> bytes) {
    std::int32_t magic = 0;
    if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
    for (const TokenFormat format : {TokenFormat::llmc, TokenFormat::llmc_llama3}) {
      if (magic == detail::info_of(format).magic) return format;
    }
    return TokenFormat::nanogpt;
  }

  MappedFile file_;
  TokenView tokens_;
  TokenFormat format_ = TokenFormat::nanogpt;
};

/// Writes tokens that lie in several pieces to a file that somebody else commits.
///
/// Errors  throws Error if there are none or too many for the format, one does not fit it, or writing fails
inline void write_tokens(AtomicFile& file, std::span<const TokenView> pieces, TokenFormat format) {
  const detail::TokenFormatInfo& info = detail::info_of(format);
  const auto refuse = [&](const std::string& reason, const std::string& hint) {
    throw Error("cannot write " + file.path().string() + " as " + std::string(info.name) + ": " + reason, hint);
  };
  Index count = 0;
  for (const TokenView& tokens : pieces) count += tokens.size();
  if (count == 0) refuse("there are no tokens", "give text that is not empty");
  if (info.magic != 0) {
    constexpr Index most = std::numeric_limits<std::int32_t>::max();
    if (count > most) {
      refuse(std::to_string(count) + " tokens, but its header counts to " + std::to_string(most),
             "write several files");
    }
    const detail::TokenHeader header{info.magic, info.version, static_cast<std::int32_t>(count)};
    file.write(std::as_bytes(std::span(header)));
  }
  const auto each = static_cast<std::size_t>(info.bytes_each);
  std::array<std::byte, 1 << 16> block;
  std::size_t filled = 0;
  for (const TokenView& tokens : pieces) {
    for (Index i = 0; i < tokens.size(); ++i) {
      const auto token = static_cast<std::uint32_t>(tokens[i]);
      if (each < 4 && token >> 8 * each != 0) {
        refuse("token " + std::to_string(token) + " is more than " + std::to_string(each) + " bytes hold",
               "choose a wider format");
      }
      std::memcpy(block.data() + filled, &token, each);
      filled += each;
      if (filled < block.size()) continue;
      file.write(block);
      filled = 0;
    }
  }
  file.write(std::span(block).first(filled));
}

/// Writes a file of tokens; it appears only when it is complete.
///
/// Errors  as above
inline void write_tokens(const std::filesystem::path& path, TokenView tokens, TokenFormat format) {
  AtomicFile file(path);
  write_tokens(file, std::span(&tokens, 1), format);
  file.commit();
}

}  // namespace simplx
