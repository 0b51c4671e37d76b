// SPDX-License-Identifier: MIT
/// \file examples/prepare.cpp
/// Makes token files of text or code: train.bin, val.bin and meta.json, which training maps instead of reading the
/// text, and which nanoGPT and llm.c read as well. A byte is a token; documents are held out by their paths.
///
///     prepare --out data/python /usr/lib/python3.11

#include "flags.hpp"

#include <simplx/io/corpus.hpp>
#include <simplx/report/progress.hpp>

#include <CLI/CLI.hpp>

using namespace simplx;
namespace fs = std::filesystem;

int main(int argc, char** argv) {
  fs::path out;
  std::vector<fs::path> paths;
  std::string format{name_of(TokenFormat::llmc)};
  TextOptions options;

  CLI::App app{"Makes token files for training from text or code: a byte is a token."};
  app.add_option("PATH", paths, "Text files, or directories of them")->required();
  app.add_option("--out", out, "Directory for train.bin, val.bin and meta.json")->type_name("DIR")->required();
  app.add_option("--format", format, "llmc: header and 16 bits a token; nanogpt: 16 bits a token; bytes: the bytes")
      ->check(CLI::IsMember({"llmc", "nanogpt", "bytes"}))->capture_default_str();
  app.add_option("--held-out", options.held_out_one_in,
                 "Holds out one document in so many; of few documents that part of each")
      ->check(flags::from_to(2, 1'000'000))
      ->capture_default_str();
  app.add_option("--extension", options.extensions,
                 "Takes only such files from directories, for example .py [all text]");
  app.add_option("--window", options.window,
                 "Tokens that one file of each part has at least; otherwise a part of each file is held out")
      ->check(flags::from_to<Index>(1, 1'000'000'000))
      ->capture_default_str();
  return flags::run(app, argc, argv, [&] {
    options.except = out;
    const Corpus corpus = read_text(paths, options);
    write_corpus(out, corpus, *token_format_named(format), paths);
    const auto size = [](const std::vector<Document>& documents) {
      return fmt::format("{} tokens of {} documents", grouped(Corpus::size_of(documents)),
                         grouped(static_cast<Index>(documents.size())));
    };
    fmt::print("{}", table({{"train.bin", size(corpus.training)},
                            {"val.bin", size(corpus.validation)},
                            {"vocabulary", "256 bytes"},
                            {"skipped", fmt::format("{} files that are not text", grouped(corpus.skipped))},
                            {"unreadable", fmt::format("{} files and directories", grouped(corpus.unreadable))},
                            {"written to", out.string()}}));
    return 0;
  });
}
