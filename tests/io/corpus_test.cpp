// SPDX-License-Identifier: MIT
#include <simplx/io/corpus.hpp>

#include <doctest/doctest.h>

#include <simplx/io/train_tokenizer.hpp>
#include <simplx/train/batches.hpp>

#include "scratch.hpp"

using namespace simplx;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

TokenCorpus open(const fs::path& path, const CorpusOptions& options = {}) {
  return open_corpus(std::span(&path, 1), options);
}
std::string refusal(const fs::path& path, const CorpusOptions& options = {}) {
  return test::message_of([&] { open(path, options); });
}

/// Texts of different lengths, a tenth of them held out.
fs::path some_text(const Scratch& scratch) {
  for (int i = 0; i < 40; ++i) {
    std::string text = "document " + std::to_string(i) + ":";
    for (int k = 0; k < i * 7 % 90; ++k) text += static_cast<char>('a' + (i * k + k / 3) % 26);
    scratch.write("text/f" + std::to_string(i) + ".txt", text);
  }
  return scratch.path / "text";
}

std::vector<std::int32_t> first_batches(const TokenDocuments& part) {
  Batches batches(part.tokens, part.documents, {.context = 8, .sequences = 3, .seed = 1});
  TokenBatch batch = make_batch(3, 8);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 60; ++i) {
    batches.next(batch);
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
    tokens.insert(tokens.end(), batch.labels.begin(), batch.labels.end());
  }
  return tokens;
}

}  // namespace

TEST_SUITE_BEGIN("io/corpus");

TEST_CASE("what was prepared among the text is none of it") {
  Scratch scratch;
  const fs::path text = some_text(scratch);
  const TokenCorpus direct = open(text);
  for (const fs::path& out : {text / "tokens", text}) {
    write_corpus(out, direct.text, TokenFormat::bytes, std::span(&text, 1));
    CHECK(read_text(std::span(&text, 1)).bytes == direct.text.bytes);
  }
}

TEST_CASE("a prepared directory gives the batches of its text, in every format") {
  Scratch scratch;
  const fs::path text = some_text(scratch);
  const TokenCorpus direct = open(text);
  REQUIRE(direct.training.documents.size() > 20);
  REQUIRE(direct.validation.documents.size() > 0);
  for (const TokenFormat format :
       {TokenFormat::nanogpt, TokenFormat::llmc, TokenFormat::llmc_llama3, TokenFormat::bytes}) {
    CAPTURE(name_of(format));
    const fs::path out = scratch.path / name_of(format);
    write_corpus(out, direct.text, format, std::span(&text, 1));
    const TokenCorpus by_folder = open(out), by_file = open(out / "train.bin");
    for (const TokenCorpus* prepared : {&by_folder, &by_file}) {
      CHECK(prepared->files.at(0).format() == format);
      CHECK(prepared->training.size() == direct.training.size());
      CHECK(first_batches(prepared->training) == first_batches(direct.training));
      CHECK(first_batches(prepared->validation) == first_batches(direct.validation));
      CHECK(prepared->training.documents[3].path == direct.training.documents[3].path);
      CHECK(prepared->sources == std::vector{out / "train.bin", out / "val.bin"});
    }
  }
}

TEST_CASE("a directory of tokens of several bytes has its tokenizer") {
  Scratch scratch;
  const fs::path text = some_text(scratch), out = text / "tokens";
  const Corpus corpus = read_text(std::span(&text, 1));
  std::vector<std::string_view> texts;
  for (const Document& document : corpus.training) texts.push_back(corpus.text(document));
  const Tokenizer tokenizer = train_tokenizer(texts, {.vocab = 300});
  const std::int32_t end = tokenizer.special("<|endoftext|>").value();
  for (const TokenFormat format : {TokenFormat::nanogpt, TokenFormat::llmc, TokenFormat::llmc_llama3}) {
    write_corpus(out, corpus, format, {}, &tokenizer);
    const TokenCorpus opened = open(out, {.vocab = tokenizer.size()});
    REQUIRE(opened.tokenizer.has_value());
    CHECK(opened.tokenizer->size() == tokenizer.size());
    const auto holds = [&](const TokenDocuments& part, const std::vector<Document>& documents) {
      REQUIRE(part.documents.size() == documents.size());
      for (std::size_t i = 0; i < documents.size(); ++i) {
        std::vector<std::int32_t> tokens;
        for (Index t = part.documents[i].begin; t < part.documents[i].end; ++t) tokens.push_back(part.tokens[t]);
        CHECK(part.documents[i].path == documents[i].path);
        CHECK(tokens.back() == end);
        tokens.pop_back();
        CHECK(tokens == tokenizer.encode(corpus.text(documents[i])));
        CHECK(opened.tokenizer->decode(tokens) == corpus.text(documents[i]));
      }
    };
    holds(opened.training, corpus.training);
    holds(opened.validation, corpus.validation);
    CHECK(read_text(std::span(&text, 1)).bytes == corpus.bytes);  // what is in `out` is no text
  }
  CHECK(refusal(out).find("of " + (out / "train.bin").string() + " is ") != std::string::npos);  // 256 tokens are too few
  const std::string before = Scratch::read(out / "train.bin");
  CHECK(test::message_of([&] { write_corpus(out, corpus, TokenFormat::bytes, {}, &tokenizer); })
            .find("is more than 1 bytes hold") != std::string::npos);
  CHECK(Scratch::read(out / "train.bin") == before);
  CHECK(nlohmann::json::parse(Scratch::read(out / "meta.json"))["vocab"] == tokenizer.size());
  for (const Tokenizer& other : {Tokenizer(), train_tokenizer(texts, {.vocab = tokenizer.size() - 1})}) {
    save_tokenizer(out / "tokenizer.json", other);
    CHECK(refusal(out, {.vocab = 300}).find((out / "tokenizer.json").string() + " has " + std::to_string(other.size()) +
                                            " tokens, but the meta.json beside it says ") == 0);
  }
  save_tokenizer(out / "tokenizer.json", Tokenizer());
  nlohmann::json silent = nlohmann::json::parse(Scratch::read(out / "meta.json"));
  silent.erase("vocab");
  scratch.write("text/tokens/meta.json", silent.dump());
  CHECK(refusal(out, {.vocab = 300}).find("of " + (out / "train.bin").string() + " is ") != std::string::npos);
  fs::remove(out / "tokenizer.json");
  CHECK(refusal(out, {.vocab = 300}).find("cannot read " + (out / "tokenizer.json").string()) == 0);
}

TEST_CASE("what tokens are is known of text and of prepared files alone; without an end of the text there is none") {
  Scratch scratch;
  const fs::path text = some_text(scratch), out = scratch.path / "out";
  const TokenCorpus direct = open(text);
  REQUIRE(direct.tokenizer.has_value());
  CHECK(direct.tokenizer->size() == 256);
  write_corpus(out, direct.text, TokenFormat::llmc, {});
  REQUIRE(open(out).tokenizer.has_value());
  CHECK(open(out).tokenizer->size() == 256);
  fs::remove(out / "meta.json");
  CHECK_FALSE(open(out).tokenizer.has_value());
  const Tokenizer bytes;
  write_corpus(out, direct.text, TokenFormat::llmc, {}, &bytes);
  CHECK(open(out).training.size() == direct.training.size());
}

TEST_CASE("a directory may be called as a file of tokens is") {
  Scratch scratch;
  const fs::path text = some_text(scratch), prepared = scratch.path / "prepared.bin", plain = scratch.path / "text.bin";
  write_corpus(prepared, open(text).text, TokenFormat::bytes, std::span(&text, 1));
  CHECK(first_batches(open(prepared).training) == first_batches(open(text).training));
  fs::rename(text, plain);
  CHECK(open(plain).text.bytes.size() > 0);
}

TEST_CASE("what was opened can be moved") {
  Scratch scratch;
  TokenCorpus first = open(some_text(scratch));
  write_corpus(scratch.path / "out", first.text, TokenFormat::llmc, {});
  TokenCorpus second = open(scratch.path / "out");
  const auto expected = first_batches(first.training);
  const TokenCorpus text = std::move(first), file = std::move(second);
  CHECK(first_batches(text.training) == expected);
  CHECK(first_batches(file.training) == expected);
}

TEST_CASE("a file without meta.json is one document; val stands for train in its name, or its last tenth is held out") {
  Scratch scratch;
  const std::string text(1000, 'x'), other(300, 'y');
  const auto write = [&](const std::string& name, const std::string& content) {
    write_tokens(scratch.path / name, TokenView(std::as_bytes(std::span(content)), 1), TokenFormat::llmc);
    return scratch.path / name;
  };
  const fs::path path = write("some_train_set.bin", text);
  TokenCorpus corpus = open(path);
  REQUIRE(corpus.training.documents.size() == 1);
  CHECK(corpus.training.documents[0].end == 900);
  CHECK(corpus.validation.documents[0].begin == 900);
  CHECK(corpus.validation.documents[0].end == 1000);
  CHECK(corpus.files.size() == 1);
  CHECK(open(path, {.text = {.held_out_one_in = 4}}).training.size() == 750);
  write("some_val_set.bin", other);
  corpus = open(path);
  CHECK(corpus.training.size() == 1000);
  CHECK(corpus.validation.size() == 300);
  CHECK(corpus.validation.tokens[0] == 'y');
}

TEST_CASE("tokens that the model does not know, in either file, and token files among others are refused") {
  Scratch scratch;
  const std::vector<std::uint16_t> small{1, 2, 3}, large{1, 500};
  write_tokens(scratch.path / "train.bin", TokenView{std::span(small)}, TokenFormat::llmc);
  write_tokens(scratch.path / "val.bin", TokenView{std::span(large)}, TokenFormat::llmc);
  CHECK(refusal(scratch.path)
            .find("token 1 of " + (scratch.path / "val.bin").string() + " is 500, but the model knows 256 tokens") ==
        0);
  CHECK(refusal(scratch.path, {.vocab = 501}) == "no error");
  const fs::path paths[] = {scratch.write("a.txt", "some text"), scratch.path / "train.bin"};
  CHECK(test::message_of([&] { open_corpus(paths); }).find("the token file " + paths[1].string() + " among 2 paths") ==
        0);
  CHECK(refusal(scratch.path / "a.txt", {.vocab = 100}).find("token 0 of " + paths[0].string() + " is 115") == 0);
  CHECK(refusal(scratch.path / "missing.bin").find("cannot read ") == 0);
}

TEST_CASE("a meta.json that does not fit its files is refused") {
  Scratch scratch;
  const fs::path text = some_text(scratch), out = scratch.path / "out";
  write_corpus(out, open(text).text, TokenFormat::bytes, std::span(&text, 1));
  const std::string good = Scratch::read(out / "meta.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    REQUIRE(changed.find(from) != changed.npos);
    scratch.write("out/meta.json", changed.replace(changed.find(from), from.size(), to));
    return refusal(out);
  };
  const std::string start = "cannot use " + (out / "meta.json").string() + ": ";
  CHECK(with("{", "[").find(start) == 0);
  CHECK(with("\"bytes\"", "\"words\"").find(start + "the format 'words' is not known") == 0);
  CHECK(with("\"bytes\"", "\"llmc\"").find("not a usable file of tokens") == 0);
  CHECK(with("\"documents\"", "\"papers\"").find(start) == 0);
  const Index tokens = nlohmann::json::parse(good)["files"][0]["documents"][0][1];
  const std::string first = std::to_string(tokens);
  CHECK(with("     " + first, "     -1").find(start + "a document of -1 tokens") == 0);
  CHECK(with("     " + first, "     9223372036854775807").find(start) == 0);
  for (const std::string none : {"20.7", "1e300", "18446744073709551615", "true", "\"3\"", "null"}) {
    const std::string shown = none == "1e300" ? "1e+300" : none;
    CHECK(with("     " + first, "     " + none).find(start + "a document of " + shown + " tokens\n  hint: ") == 0);
  }
  auto twice = nlohmann::ordered_json::parse(good);
  twice["files"].push_back(twice["files"][0]);
  twice["files"][0]["documents"][0][1] = tokens + 1000;  // the second list ends where the file does
  scratch.write("out/meta.json", twice.dump());
  CHECK(refusal(out).find(start + "it lists train.bin twice\n  hint: ") == 0);
  CHECK(with("     " + first, "     1").find((out / "train.bin").string() + " has ") == 0);
}

TEST_CASE("preparing fails without touching what was there") {
  Scratch scratch;
  Corpus corpus;
  corpus.bytes = {1, 2, 3};
  corpus.training = {{"a", 0, 3}};  // and nothing to hold out
  for (const char* name : {"train.bin", "val.bin", "meta.json"}) scratch.write(std::string("out/") + name, "good");
  const fs::path out = scratch.path / "out";
  CHECK(test::message_of([&] { write_corpus(out, corpus, TokenFormat::llmc, {}); })
            .find("of 3 tokens none are left to hold out") == 0);
  corpus.training = {{"a", 0, 2}}, corpus.validation = {{"b", 2, 3}};
  fs::create_directories(scratch.path / "blocked" / "val.bin");
  scratch.write("blocked/train.bin", "good");
  CHECK(test::message_of([&] { write_corpus(scratch.path / "blocked", corpus, TokenFormat::llmc, {}); })
            .find("cannot write " + (scratch.path / "blocked" / "val.bin").string() + ": it is a directory") == 0);
  CHECK(Scratch::read(scratch.path / "blocked" / "train.bin") == "good");
  for (const char* name : {"train.bin", "val.bin", "meta.json"}) CHECK(Scratch::read(out / name) == "good");
  CHECK(std::distance(fs::directory_iterator(out), {}) == 3);
  scratch.write("file", "");
  CHECK(test::message_of([&] {
          write_corpus(scratch.path / "file", corpus, TokenFormat::llmc, {});
        }).find("cannot create the directory") == 0);
}

TEST_SUITE_END();
