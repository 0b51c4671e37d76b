// SPDX-License-Identifier: MIT
#include <simplx/io/tokens.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

#include <vector>

using namespace simplx;
using test::Scratch;

namespace {

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::string bytes(1024, '\0');
  const std::int32_t numbers[] = {magic, version, count};
  std::memcpy(bytes.data(), numbers, sizeof numbers);
  return bytes;
}

std::vector<std::int32_t> all(TokenView tokens) {
  std::vector<std::int32_t> found;
  for (Index i = 0; i < tokens.size(); ++i) found.push_back(tokens[i]);
  return found;
}

std::string refusal(const std::filesystem::path& path, std::optional<TokenFormat> format = {}) {
  return test::message_of([&] { TokenFile::read(path, format); });
}

}  // namespace

TEST_SUITE_BEGIN("io/tokens");

TEST_CASE("what is written is what nanoGPT and llm.c write, to the byte") {
  Scratch scratch;
  const std::vector<std::uint32_t> numbers{1, 0x0203, 65535};
  const TokenView tokens{std::span(numbers)};
  const std::string shorts("\1\0\3\2\xff\xff", 6), words("\1\0\0\0\3\2\0\0\xff\xff\0\0", 12);
  const auto path = scratch.path / "t.bin";
  write_tokens(path, tokens, TokenFormat::nanogpt);
  CHECK(Scratch::read(path) == shorts);
  write_tokens(path, tokens, TokenFormat::llmc);
  CHECK(Scratch::read(path) == header(20240520, 1, 3) + shorts);
  write_tokens(path, tokens, TokenFormat::llmc_llama3);
  CHECK(Scratch::read(path) == header(20240801, 7, 3) + words);
  const std::string text = "bytes";
  write_tokens(path, TokenView(std::as_bytes(std::span(text)), 1), TokenFormat::bytes);
  CHECK(Scratch::read(path) == text);
}

TEST_CASE("every format comes back, found by its magic number or named, in files longer than a block") {
  Scratch scratch;
  std::vector<std::uint16_t> numbers;
  for (int i = 0; i < 40000; ++i) numbers.push_back(static_cast<std::uint16_t>(i * 7 % 256));
  const TokenView tokens{std::span(numbers)};
  for (const TokenFormat format :
       {TokenFormat::nanogpt, TokenFormat::llmc, TokenFormat::llmc_llama3, TokenFormat::bytes}) {
    CAPTURE(name_of(format));
    CHECK(token_format_named(name_of(format)) == format);
    const auto path = scratch.path / "t.bin";
    write_tokens(path, tokens, format);
    const TokenFile named = TokenFile::read(path, format);
    CHECK(named.format() == format);
    CHECK(all(named.tokens()) == all(tokens));
    if (format == TokenFormat::bytes) continue;  // look like nothing
    const TokenFile found = TokenFile::read(path);
    CHECK(found.format() == format);
    CHECK(all(found.tokens()) == all(tokens));
  }
  CHECK(!token_format_named("parquet"));
}

TEST_CASE("pieces are written one after the other") {
  Scratch scratch;
  const std::string text = "abcdefgh";
  const TokenView tokens(std::as_bytes(std::span(text)), 1);
  const TokenView pieces[] = {tokens.part(5, 8), tokens.part(2, 2), tokens.part(0, 1)};
  AtomicFile file(scratch.path / "t.bin");
  write_tokens(file, pieces, TokenFormat::bytes);
  CHECK(!std::filesystem::exists(scratch.path / "t.bin"));
  file.commit();
  CHECK(Scratch::read(scratch.path / "t.bin") == "fgha");
}

TEST_CASE("files that are not what they say are refused with path, byte, reason and hint") {
  Scratch scratch;
  const auto check = [&](const std::string& content, std::optional<TokenFormat> format, const std::string& reason) {
    CAPTURE(reason);
    const auto path = scratch.write("t.bin", content);
    const std::string text = refusal(path, format);
    CHECK(text.find("not a usable file of tokens: " + path.string() + ": at byte " + reason) == 0);
    CHECK(text.find("\n  hint: ") != std::string::npos);
  };
  check("", {}, "0: there are no tokens");
  check("abc", {}, "2: a file of nanogpt has tokens of two bytes, and an odd number of bytes");
  check(header(20240520, 1, 0), {}, "0: there are no tokens");
  check(header(20240520, 1, 3) + "abcd", {}, "8: the header says 3 tokens of 2 bytes, but 4 bytes follow");
  check(header(20240520, 1, 1) + "abcd", {}, "8: the header says 1 tokens of 2 bytes, but 4 bytes follow");
  check(header(20240520, 1, -2) + "abcd", {}, "8: the header says -2 tokens of 2 bytes, but 4 bytes follow");
  check(header(20240801, 7, 1) + "ab", {}, "8: the header says 1 tokens of 4 bytes, but 2 bytes follow");
  check(header(20240520, 2, 2) + "abcd", {}, "4: a file of llmc of version 2, not 1");
  check(header(20240520, 1, 2).substr(0, 1000), {}, "1000: a file of llmc ends in its header of 1024 bytes");
  check(header(20240520, 1, 2) + "abcd", TokenFormat::llmc_llama3,
        "0: a file of llmc-llama3 begins with 20240801, not with 20240520");
  check("ab", TokenFormat::llmc, "2: a file of llmc ends in its header");
  CHECK(refusal(scratch.path / "nowhere").find("cannot read " + (scratch.path / "nowhere").string()) == 0);
}

TEST_CASE("tokens that a model does not know are refused with their position") {
  const std::vector<std::uint16_t> numbers{0, 255, 256, 300};
  const TokenView tokens{std::span(numbers)};
  check_vocabulary(tokens, 301, "t.bin");
  CHECK_THROWS_WITH_AS(check_vocabulary(tokens, 256, "t.bin"),
                       doctest::Contains("token 2 of t.bin is 256, but the model knows 256 tokens"), Error);
  const std::vector<std::uint32_t> large{1, 4294967295u};
  CHECK_THROWS_WITH_AS(check_vocabulary(TokenView{std::span(large)}, 1000, "t.bin"),
                       doctest::Contains("token 1 of t.bin is 4294967295"), Error);
}

TEST_CASE("tokens that a format does not hold leave the file as it was") {
  Scratch scratch;
  const auto path = scratch.write("t.bin", "good");
  const std::vector<std::uint32_t> numbers{1, 65536}, none;
  const auto refused = [&](const std::vector<std::uint32_t>& tokens, TokenFormat format, const char* reason) {
    CHECK(test::message_of([&] { write_tokens(path, TokenView{std::span(tokens)}, format); }).find(reason) !=
          std::string::npos);
    CHECK(Scratch::read(path) == "good");
    CHECK(std::distance(std::filesystem::directory_iterator(scratch.path), {}) == 1);
  };
  refused(numbers, TokenFormat::llmc, "as llmc: token 65536 is more than 2 bytes hold");
  refused(numbers, TokenFormat::bytes, "as bytes: token 65536 is more than 1 bytes hold");
  refused(none, TokenFormat::nanogpt, "as nanogpt: there are no tokens");
  const std::byte byte{};  // is not looked at
  const TokenView endless(std::span(&byte, std::size_t{1} << 33), 2);
  CHECK(test::message_of([&] {
          write_tokens(path, endless, TokenFormat::llmc);
        }).find("its header counts to 2147483647") != std::string::npos);
}

TEST_SUITE_END();
