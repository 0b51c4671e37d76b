// SPDX-License-Identifier: MIT
/// \file examples/prepare.cpp
/// Makes token files of text or code: train.bin, val.bin and meta.json, which training maps instead of reading the
/// text, and which nanoGPT and llm.c read as well. A byte is a token, or a tokenizer is learnt from the text or given,
/// and lies beside them as tokenizer.json. Documents are held out by their paths.
///
///     prepare --out data/python /usr/lib/python3.11
///     prepare --out data/python_4096 --vocab 4096 /usr/lib/python3.11

#include "flags.hpp"

#include <simplx/io/corpus.hpp>
#include <simplx/io/train_tokenizer.hpp>
#include <simplx/report/progress.hpp>

#include <CLI/CLI.hpp>

using namespace simplx;
namespace fs = std::filesystem;

int main(int argc, char** argv) {
  fs::path out;
  std::vector<fs::path> paths;
  std::string format{name_of(TokenFormat::llmc)};
  TextOptions options;
  Index vocab = 256;
  fs::path tokenizer_path;

  CLI::App app{"Makes token files for training from text or code: of bytes, or of a tokenizer."};
  app.add_option("PATH", paths, "Text files, or directories of them")->required();
  app.add_option("--out", out, "Directory for train.bin, val.bin and meta.json")->type_name("DIR")->required();
  app.add_option("--format", format,
                 "llmc: header and 16 bits a token; llmc-llama3: 32 bits; nanogpt: 16 bits a token; bytes: the bytes")
      ->check(CLI::IsMember({"llmc", "llmc-llama3", "nanogpt", "bytes"}))
      ->capture_default_str();
  auto* learn = app.add_option("--vocab", vocab,
                               "Tokens at most: learns a tokenizer of them from the text to train on; 256: bytes")
      ->check(flags::from_to<Index>(256, 1'000'000))
      ->capture_default_str();
  auto* given = app.add_option("--tokenizer", tokenizer_path, "Takes this tokenizer.json, for example GPT-2's")
                    ->type_name("FILE")
                    ->excludes(learn);
  app.add_option("--held-out", options.held_out_one_in,
                 "Holds out one document in so many; of few documents that part of each")
      ->check(flags::from_to(2, 1'000'000))
      ->capture_default_str();
  app.add_option("--extension", options.extensions,
                 "Takes only such files from directories, for example .py [all text]");
  app.add_option("--window", options.window,
                 "Bytes that one file of each part has at least; otherwise a part of each file is held out")
      ->check(flags::from_to<Index>(1, 1'000'000'000))
      ->capture_default_str();
  return flags::run(app, argc, argv, [&] {
    options.except = out;
    std::optional<Tokenizer> tokenizer;
    if (given->count() > 0) tokenizer = load_tokenizer(tokenizer_path);
    const Corpus corpus = read_text(paths, options);
    if (vocab > 256) {
      std::vector<std::string_view> texts;
      for (const Document& document : corpus.training) texts.push_back(corpus.text(document));
      tokenizer = train_tokenizer(texts, {.vocab = vocab});
    }
    write_corpus(out, corpus, *token_format_named(format), paths, tokenizer ? &*tokenizer : nullptr);
    const auto size = [&](const std::vector<Document>& documents, const char* file) {
      const Index bytes = Corpus::size_of(documents);
      const Index tokens = TokenFile::read(out / file, token_format_named(format)).tokens().size();
      return fmt::format("{} tokens of {} documents{}", grouped(tokens), grouped(static_cast<Index>(documents.size())),
                         tokenizer ? fmt::format(", {} bytes", grouped(bytes)) : "");
    };
    const std::string vocabulary = tokenizer ? grouped(tokenizer->size()) + " tokens" : "256 bytes";
    fmt::print("{}", table({{"train.bin", size(corpus.training, "train.bin")},
                            {"val.bin", size(corpus.validation, "val.bin")},
                            {"vocabulary", vocabulary},
                            {"skipped", fmt::format("{} files that are not text", grouped(corpus.skipped))},
                            {"unreadable", fmt::format("{} files and directories", grouped(corpus.unreadable))},
                            {"written to", out.string()}}));
    return 0;
  });
}
