// SPDX-License-Identifier: MIT
#include <simplx/io/tokenizer_file.hpp>

#include "golden_tokens.hpp"
#include "scratch.hpp"

#include <simplx/io/train_tokenizer.hpp>

using namespace simplx;
using test::message_of, test::Scratch;
namespace fs = std::filesystem;

namespace {

Tokenizer small() {
  const std::string_view texts[] = {"the cat the hat \"the\" the\n\n  cat é é é", " the\n\n  \x80\x80 \x80\x80"};
  return train_tokenizer(texts, {.vocab = 300});
}

bool same(const Tokenizer& a, const Tokenizer& b) {
  bool equal = a.size() == b.size() && a.merge_count() == b.merge_count() &&
               std::ranges::equal(a.specials(), b.specials());
  for (std::int32_t i = 0; equal && i < a.size(); ++i) equal = a.bytes(i) == b.bytes(i);
  for (Index i = 0; equal && i < a.merge_count(); ++i) {
    equal = a.merge(i).left == b.merge(i).left && a.merge(i).right == b.merge(i).right;
  }
  return equal;
}

nlohmann::json parsed(const fs::path& path) { return nlohmann::json::parse(Scratch::read(path)); }

}  // namespace

TEST_SUITE_BEGIN("io/tokenizer_file");

TEST_CASE("what is saved comes back") {
  Scratch scratch;
  const fs::path path = scratch.path / "tokenizer.json";
  const Tokenizer theirs = load_tokenizer(test::golden_tokenizer());
  for (const Tokenizer& tokenizer : {Tokenizer(), small(), theirs}) {
    save_tokenizer(path, tokenizer);
    CHECK(same(load_tokenizer(path), tokenizer));
  }
  const nlohmann::json expected = parsed(test::golden_tokenizer()), saved = parsed(path);
  CHECK(saved["model"]["vocab"] == expected["model"]["vocab"]);
  CHECK(saved["model"]["merges"] == expected["model"]["merges"]);
  CHECK(saved["added_tokens"] == expected["added_tokens"]);
  CHECK(saved["pre_tokenizer"] == expected["pre_tokenizer"]);
  CHECK(saved["decoder"]["type"] == "ByteLevel");  // otherwise what others decode has characters for bytes
}

TEST_CASE("a special token keeps its name, whatever is in it") {
  Scratch scratch;
  const fs::path path = scratch.path / "tokenizer.json";
  const std::string_view texts[] = {"a b a b"};
  for (const char* name : {"<|end of text|>", "Ġ<x>", "[é]", "漢"}) {
    CAPTURE(name);
    const Tokenizer tokenizer = train_tokenizer(texts, {.vocab = 300, .specials = {name}});
    save_tokenizer(path, tokenizer);
    CHECK(same(load_tokenizer(path), tokenizer));
  }
  save_tokenizer(path, small());
  const std::string good = Scratch::read(path);
  const auto refusal = [&](const char* name) {
    return message_of([&] { save_tokenizer(path, train_tokenizer(texts, {.specials = {name}})); });
  };
  CHECK(refusal("é").find("cannot write the tokenizer " + path.string() + ": tokens 233 and ") == 0);  // byte 233
  CHECK(refusal("<\xFF>").find("cannot write the tokenizer " + path.string() + ": ") == 0);
  CHECK(Scratch::read(path) == good);
}

TEST_CASE("the two files of GPT-2") {
  Scratch scratch;
  const std::string_view texts[] = {"the cat the hat the cat é é ## ## ##"};
  const Tokenizer tokenizer = train_tokenizer(texts);
  CHECK(tokenizer.encode(" ##").size() == 1);  // its merges begin as the line of the version does
  save_tokenizer(scratch.path / "tokenizer.json", tokenizer);
  const nlohmann::json json = parsed(scratch.path / "tokenizer.json");
  const fs::path vocabulary = scratch.write("vocab.json", json["model"]["vocab"].dump());
  std::string lines;
  for (const auto& merge : json["model"]["merges"]) {
    lines += merge[0].get<std::string>() + ' ' + merge[1].get<std::string>() + '\n';
  }
  for (const std::string& text : {"#version: 0.2\n" + lines, lines, lines.substr(0, lines.size() - 1), lines + "\n"}) {
    CHECK(same(load_tokenizer(vocabulary, scratch.write("merges.txt", text)), tokenizer));
  }
  std::string dos;
  for (const char c : lines) dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(same(load_tokenizer(vocabulary, scratch.write("merges.txt", dos)), tokenizer));
  const auto refusal = [&](const std::string& text) {
    const fs::path merges = scratch.write("merges.txt", text);
    return message_of([&] { load_tokenizer(vocabulary, merges); });
  };
  const std::string start = "cannot use the tokenizer ",
                    of_merges = start + (vocabulary.parent_path() / "merges.txt").string() + ": ";
  CHECK(refusal("t h e\n").find(of_merges + "merge 0 is 't h e'") == 0);
  CHECK(refusal("th\n").find(of_merges + "merge 0 is 'th'") == 0);
  CHECK(refusal("t h\nt \n").find(of_merges + "merge 1 is 't '") == 0);
  CHECK(refusal("t xyz\n").find(of_merges + "merge 0 is of 'xyz', which is no token") == 0);
  CHECK(refusal("q q\n").find(start + vocabulary.string() + ": merge 0 makes 'qq', which is no token") == 0);
}

TEST_CASE("merges as one text each, as earlier files have them") {
  Scratch scratch;
  const fs::path path = scratch.path / "tokenizer.json";
  save_tokenizer(path, small());
  nlohmann::json json = parsed(path);
  for (auto& merge : json["model"]["merges"]) {
    merge = merge[0].get<std::string>() + ' ' + merge[1].get<std::string>();
  }
  CHECK(same(load_tokenizer(scratch.write("earlier.json", json.dump())), small()));
}

TEST_CASE("what would give other tokens, or is damaged, is refused with path and reason") {
  Scratch scratch;
  save_tokenizer(scratch.path / "good.json", small());
  const nlohmann::json good = parsed(scratch.path / "good.json");
  const fs::path path = scratch.path / "tokenizer.json";
  const auto refusal = [&](auto change) {
    nlohmann::json json = good;
    change(json);
    scratch.write("tokenizer.json", json.dump());
    const std::string message = message_of([&] { load_tokenizer(path); });
    const std::string start = "cannot use the tokenizer " + path.string() + ": ";
    return message.find(start) == 0 ? message.substr(start.size()) : message;
  };
  using Json = nlohmann::json&;
  CHECK(refusal([](Json) {}) == "no error");
  CHECK(refusal([](Json j) { j["model"]["type"] = "WordPiece"; }).find("its model is \"WordPiece\"") == 0);
  CHECK(refusal([](Json j) { j["normalizer"] = {{"type", "NFC"}}; }).find("normalizer is {\"type\":\"NFC\"}") == 0);
  CHECK(refusal([](Json j) { j["normalizer"] = "\u009b31m\x7f"; })  // what a terminal obeys
            .find("normalizer is \"\\u009b31m\\u007f\"\n") == 0);
  CHECK(refusal([](Json j) { j["model"]["ignore_merges"] = true; }).find("ignore_merges is true") == 0);
  CHECK(refusal([](Json j) { j["model"]["dropout"] = 0.1; }).find("dropout is 0.1") == 0);
  CHECK(refusal([](Json j) { j["model"]["end_of_word_suffix"] = "</w>"; }).find("end_of_word_suffix is") == 0);
  CHECK(refusal([](Json j) { j["model"]["continuing_subword_prefix"] = "##"; }).find("continuing_subword_prefix") == 0);
  CHECK(refusal([](Json j) { j["model"]["byte_fallback"] = true; }).find("byte_fallback is true") == 0);
  CHECK(refusal([](Json j) { j["model"]["end_of_word_suffix"] = ""; }) == "no error");
  CHECK(refusal([](Json j) { j["pre_tokenizer"]["add_prefix_space"] = true; }).find("its pre_tokenizer is") == 0);
  CHECK(refusal([](Json j) { j["pre_tokenizer"].erase("add_prefix_space"); }).find("its pre_tokenizer is") == 0);
  CHECK(refusal([](Json j) { j["pre_tokenizer"]["use_regex"] = false; }).find("its pre_tokenizer is") == 0);
  CHECK(refusal([](Json j) { j["pre_tokenizer"]["type"] = "Whitespace"; }).find("its pre_tokenizer is") == 0);
  CHECK(refusal([](Json j) { j.erase("pre_tokenizer"); }).find("its pre_tokenizer is null") == 0);
  CHECK(refusal([](Json j) { j["added_tokens"][0]["special"] = false; })
            .find("it looks for the token '<|endoftext|>' in texts") == 0);
  CHECK(refusal([](Json j) { j["added_tokens"][0]["id"] = 3; }).find("'<|endoftext|>' is both token ") == 0);
  CHECK(refusal([](Json j) { j["model"]["vocab"]["new"] = 5000; }).find("its ") == 0);
  CHECK(refusal([](Json j) { j["model"]["vocab"]["new"] = 5; }).find("its ") == 0);
  for (const nlohmann::json& number : nlohmann::json{-1, "7", 1.5, 1u << 30}) {
    CHECK(refusal([&](Json j) { j["model"]["vocab"]["new"] = number; })
              .find("the number of 'new' is " + number.dump()) == 0);
  }
  CHECK(refusal([](Json j) { j["model"]["vocab"].erase("!"); }).find("its ") == 0);
  CHECK(refusal([](Json j) { j["model"]["merges"].push_back({"q", "q"}); }).find("merge ") == 0);
  CHECK(refusal([](Json j) { j["model"]["merges"].push_back({"q"}); }) != "no error");
  CHECK(refusal([](Json j) { j["model"]["merges"] = {{"t", "h", "e"}}; }).find("a merge is [\"t\",\"h\",\"e\"]") == 0);
  CHECK(refusal([](Json j) { j["model"]["merges"].push_back(7); }) != "no error");
  for (const char* key : {"model", "added_tokens"}) {
    CHECK(refusal([&](Json j) { j[key] = 7; }) != "no error");
    CHECK(refusal([&](Json j) { j[key] = {{"a", 1}}; }) != "no error");
  }
  CHECK(refusal([](Json j) { j = {{"vocab", 1}}; }) != "no error");
  CHECK(refusal([](Json j) { j = 3; }).find("it is no JSON object") == 0);
  CHECK(message_of([&] { load_tokenizer(scratch.path / "none.json"); }).find("cannot read ") == 0);
  CHECK(message_of([&] { save_tokenizer(scratch.path / "no" / "x.json", small()); }).find("cannot create ") == 0);
}

TEST_SUITE_END();
