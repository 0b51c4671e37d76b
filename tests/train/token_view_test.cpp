// SPDX-License-Identifier: MIT
#include <simplx/train/token_view.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace simplx;

TEST_SUITE_BEGIN("train/token_view");

TEST_CASE("tokens of one, two and four bytes are numbers from 0") {
  const std::vector<std::uint8_t> bytes{0, 65, 255};
  const std::vector<std::uint16_t> shorts{0, 50256, 65535};
  const std::vector<std::uint32_t> words{0, 128000, 2147483647, 4294967295u};
  const TokenView one{std::span(bytes)}, two{std::span(shorts)}, four{std::span(words)};
  CHECK(one.size() == 3);
  CHECK(one[2] == 255);
  CHECK(two.size() == 3);
  CHECK(two[1] == 50256);
  CHECK(two[2] == 65535);
  CHECK(four.size() == 4);
  CHECK(four[2] == 2147483647);
  CHECK(four[3] < 0);  // no model knows it
  CHECK(TokenView().size() == 0);
}

TEST_CASE("tokens are those of any vector, array, span or text that outlives the view") {
  std::vector<std::int32_t> numbers{0, 7, 50256};
  const std::string text = "a\xff";
  CHECK(TokenView(numbers)[2] == 50256);
  CHECK(TokenView(std::span(numbers).last(2))[0] == 7);
  CHECK(TokenView(text)[1] == 255);
  CHECK(TokenView(std::string_view(text)).size() == 2);
  static_assert(std::is_convertible_v<const std::vector<std::uint16_t>&, TokenView>);
  static_assert(!std::is_constructible_v<TokenView, std::vector<std::int32_t>>);  // it would be gone
  static_assert(!std::is_constructible_v<TokenView, std::vector<std::int64_t>&>);
  static_assert(!std::is_constructible_v<TokenView, std::vector<float>&>);
  static_assert(!std::is_constructible_v<TokenView, decltype("text")>);  // of five characters
  static_assert(!std::is_constructible_v<TokenView, std::span<const std::byte>>);
}

TEST_CASE("other numbers of bytes are refused") {
  const std::byte bytes[12]{};
  for (const int each : {0, 3, 8, -1}) {
    CHECK_THROWS_WITH_AS(TokenView(bytes, each), doctest::Contains("they have one, two or four"), Error);
  }
}

TEST_CASE("a part begins and ends where it is told, in tokens") {
  const std::vector<std::uint16_t> shorts{10, 11, 12, 13, 14};
  const TokenView part = TokenView{std::span(shorts)}.part(1, 4);
  CHECK(part.size() == 3);
  CHECK(part[0] == 11);
  CHECK(part[2] == 13);
  CHECK(part.part(1, 1).size() == 0);
}

TEST_CASE("tokens need no alignment") {
  const std::uint8_t bytes[] = {99, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto view = [&](int each) { return TokenView(std::as_bytes(std::span(bytes)).subspan(1), each); };
  CHECK(view(2)[3] == 0x0807);
  CHECK(view(4)[1] == 0x08070605);
  CHECK(view(4).size() == 2);
}

TEST_SUITE_END();
