// SPDX-License-Identifier: MIT
#include <simplx/io/safetensors_header.hpp>

#include <doctest/doctest.h>

#include "scratch.hpp"

using namespace simplx;

namespace {

const std::string good =
    R"({"__metadata__":{"a":"b"},"x":{"shape":[2,3],"dtype":"F32","data_offsets":[0,24]},"y":{"dtype":"U8","shape":[],"data_offsets":[24,25]}})";

std::string refusal(std::string_view text) {
  return test::message_of([&] { detail::read_safetensors_header(text, "file", 8); });
}
/// A refusal that stands just past byte `at` of the text.
std::string at(std::size_t place, const std::string& reason) {
  return "not a usable safetensors file: file: at byte " + std::to_string(8 + place) + ": " + reason;
}

}  // namespace

TEST_SUITE_BEGIN("io/safetensors_header");

TEST_CASE("entries come in the order of the text, whatever the order of their fields") {
  const detail::SafetensorsHeader header = detail::read_safetensors_header(good + "   ", "file", 8);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "x");
  CHECK(header.entries[0].dtype == "F32");
  CHECK(header.entries[0].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(header.entries[0].offsets == std::vector<std::uint64_t>{0, 24});
  CHECK(header.entries[1].shape.empty());
  CHECK(header.metadata == Metadata{{"a", "b"}});
}

TEST_CASE("every text that is cut is refused") {
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK(refusal(std::string_view(good).substr(0, length)).find("not a usable safetensors file: file: at byte ") == 0);
  }
  CHECK(refusal(good) == "no error");
}

TEST_CASE("what is wrong is refused where it stands") {
  const auto entry = [](const std::string& fields) { return "{\"x\":{" + fields + "}}"; };
  const std::string type = R"("dtype":"F32")", shape = R"("shape":[1])", offsets = R"("data_offsets":[0,4])";
  struct Case {
    std::string text;
    std::string reason;
  };
  const Case cases[] = {
      {"[]", at(0, "the header is no JSON object: it does not begin with {")},
      {" {}", at(0, "the header is no JSON object: it does not begin with {")},
      {"\xef\xbb\xbf{}", at(0, "the header is no JSON object")},
      {std::string("{}\0{}", 5), at(2, "the header is not JSON: a zero byte")},
      {"{} {}", at(4, "the header is not JSON")},
      {"{\"x\":[]}", at(6, "the entry of 'x' is no object, but a list")},
      {"{\"x\":null}", at(9, "the entry of 'x' is no object, but null")},
      {"{\"__metadata__\":\"a\"}", at(19, "the entry of '__metadata__' is no object, but a text")},
      {"{\"__metadata__\":{\"a\":{}}}", at(22, "__metadata__ entry 'a' is no text, but an object")},
      {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", at(27, "__metadata__: the name 'a' stands twice")},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", at(33, "the name '__metadata__' stands twice")},
      {entry(type + "," + shape),
       at(6 + 26, "tensor 'x': its entry must hold dtype, shape and data_offsets, and nothing else")},
      {entry(type + "," + type), at(6 + 21, "tensor 'x': the name 'dtype' stands twice")},
      {entry(type + ",\"size\":1"),
       at(6 + 20, "tensor 'x': its entry must hold dtype, shape and data_offsets, and nothing else")},
      {entry("\"dtype\":32 "), at(6 + 11, "tensor 'x': its dtype is '32'")},
      {entry("\"shape\":3 "), at(6 + 10, "tensor 'x': its shape is '3'")},
      {entry("\"shape\":[[1]]"), at(6 + 10, "tensor 'x': its shape holds 'a list'")},
      {entry("\"shape\":[1.5 ]"), at(6 + 13, "tensor 'x': its shape holds '1.5'")},
      {entry("\"shape\":[-1 ]"), at(6 + 12, "tensor 'x': its shape holds '-1'")},
      {entry("\"shape\":[18446744073709551616 ]"), at(6 + 30, "tensor 'x': its shape holds '18446744073709551616'")},
      {entry("\"data_offsets\":[0]"), at(6 + 18, "tensor 'x': its data_offsets are not two whole numbers")},
      {entry("\"data_offsets\":[0,4,5 ]"), at(6 + 22, "tensor 'x': its data_offsets are not two whole numbers")},
      {entry("\"data_offsets\":{}"), at(6 + 16, "tensor 'x': its data_offsets is 'an object'")},
      {"{" + offsets.substr(0, 15) + "{}}", at(18, "tensor 'data_offsets': its entry must hold")},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(refusal(c.text).substr(0, c.reason.size()) == c.reason);
  }
  CHECK(refusal(entry(offsets + "," + shape + "," + type)) == "no error");
}

TEST_CASE("neither depth nor length of a hostile text costs more than its reading") {
  CHECK(refusal("{\"x\":{\"shape\":" + std::string(5'000'000, '[')).find("its shape holds 'a list'") !=
        std::string::npos);
  std::string deep = "{\"x\":";
  for (int i = 0; i < 100'000; ++i) deep += "{\"x\":";
  CHECK(refusal(deep).find("its entry must hold") != std::string::npos);
}

TEST_CASE("a refusal is short, however long what it is about") {
  const std::string letters(300'000, 'a'), digits(300'000, '1');
  for (const std::string& text :
       {"{\"" + letters, "{\"" + letters + "\":1}", "{\"" + letters + "\n\":1}", "{\"x\":{\"shape\":[" + digits + "]}}",
        "{\"x\":0." + digits + "}", "{\"__metadata__\":{\"x\":0." + digits + "}}",
        "{\"x\":{\"dtype\":0." + digits + "}}"}) {
    CAPTURE(text.substr(0, 40));
    CHECK(refusal(text).size() < 500);
    CHECK(refusal(text) != "no error");
  }
  CHECK(refusal("{\"" + letters).find("missing closing quote; last read: '\"aaa") != std::string::npos);
  CHECK(refusal("{\"" + letters).find("aaa...'; expected string literal") != std::string::npos);
  CHECK(refusal("{\"x\":{\"shape\":[" + digits + "]}}").find("number overflow parsing '111") != std::string::npos);
  CHECK(refusal("{\"\xc2\x9b").find("last read: '\"?'") != std::string::npos);
}

TEST_SUITE_END();
