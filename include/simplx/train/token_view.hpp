// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/token_view.hpp
/// TokenView: tokens of one, two or four bytes each, in memory or in a mapped file, read where they lie.

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What is a token as it lies there: a byte of text, or a number that begins at 0.
template <class T>
concept TokenNumber = std::same_as<T, char> || std::same_as<T, std::int32_t> ||
                      (std::unsigned_integral<T> && !std::same_as<T, bool> && sizeof(T) <= 4);

}  // namespace detail

/// The tokens belong to somebody else and need no alignment.
class TokenView {
 public:
  TokenView() = default;
  /// Of a vector, an array, a span or a text, which must outlive this; a literal text, which ends with a 0, is no such.
  template <std::ranges::contiguous_range Tokens>
    requires(detail::TokenNumber<std::ranges::range_value_t<Tokens>> && std::ranges::borrowed_range<Tokens> &&
             !std::is_same_v<std::remove_extent_t<std::remove_reference_t<Tokens>>, const char>)
  TokenView(Tokens&& tokens)
      : TokenView(std::as_bytes(std::span(std::ranges::data(tokens), std::ranges::size(tokens))),
                  sizeof(std::ranges::range_value_t<Tokens>)) {}
  /// Little-endian numbers of so many bytes: 1, 2 or 4.
  ///
  /// Errors  throws Error for another number of bytes
  TokenView(std::span<const std::byte> bytes, int bytes_each) : bytes_(bytes.data()), bytes_each_(bytes_each) {
    if (bytes_each != 1 && bytes_each != 2 && bytes_each != 4) {
      throw Error("tokens of " + std::to_string(bytes_each) + " bytes", "they have one, two or four");
    }
    size_ = static_cast<Index>(bytes.size()) / bytes_each;
  }

  Index size() const { return size_; }

  /// Tokens [begin, end) of these.
  TokenView part(Index begin, Index end) const {
    return {std::span(bytes_ + begin * bytes_each_, static_cast<std::size_t>((end - begin) * bytes_each_)),
            bytes_each_};
  }

  /// Token i; one of four bytes that is no int32 is negative, which no model takes.
  std::int32_t operator[](Index i) const {
    if (bytes_each_ == 1) return static_cast<std::uint8_t>(bytes_[i]);
    if (bytes_each_ == 2) return at<std::uint16_t>(i);
    return at<std::int32_t>(i);
  }

 private:
  template <class T>
  T at(Index i) const {
    T token;
    std::memcpy(&token, bytes_ + i * static_cast<Index>(sizeof(T)), sizeof(T));
    return token;
  }

  const std::byte* bytes_ = nullptr;
  Index size_ = 0;
  int bytes_each_ = 1;
};

}  // namespace simplx
