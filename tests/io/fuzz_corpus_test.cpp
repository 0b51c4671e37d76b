// SPDX-License-Identifier: MIT
/// The inputs that the fuzzers of tests/fuzz began with and found, through the same functions.

#include "fuzz/safetensors.hpp"
#include "fuzz/tokenizer.hpp"
#include "fuzz/tokens.hpp"

#include <doctest/doctest.h>

#include "scratch.hpp"

TEST_SUITE_BEGIN("io/fuzz_corpus");

TEST_CASE("readers take or refuse every input of the corpus") {
  const std::filesystem::path corpus = std::filesystem::path(SIMPLX_GOLDEN_DIR).parent_path() / "fuzz" / "corpus";
  const auto replay = [&](const char* name, void (*reader)(std::span<const std::byte>)) {
    int inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / name)) {
      CAPTURE(entry.path());
      const std::string content = test::Scratch::read(entry.path());
      reader(std::as_bytes(std::span(content)));  // ends the program when something is wrong
      ++inputs;
    }
    CHECK(inputs > 10);
  };
  replay("safetensors", fuzz::safetensors);
  replay("tokenizer", fuzz::tokenizer);
  replay("tokens", fuzz::tokens);
}

TEST_SUITE_END();
