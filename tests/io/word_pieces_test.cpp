// SPDX-License-Identifier: MIT
#include <simplx/io/word_pieces.hpp>

#include "golden_tokens.hpp"

using namespace simplx;
using detail::CharacterKind;

namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(std::string_view text) {
  Pieces pieces;
  while (!text.empty()) {
    const std::size_t piece = detail::first_piece(text);
    REQUIRE(piece > 0);
    pieces.emplace_back(text.substr(0, piece));
    text.remove_prefix(piece);
  }
  return pieces;
}

static_assert(detail::first_piece("of the") == 2 && detail::first_piece("") == 0);

}  // namespace

TEST_SUITE_BEGIN("io/word_pieces");

TEST_CASE("the pieces are those of Hugging Face's tokenizers") {
  const test::GoldenTokens golden = test::golden_tokens();
  CHECK(pieces_of(golden.unseen) == golden.pieces);
}

TEST_CASE("words, numbers and signs take the space before them; of more spaces the others are a piece") {
  CHECK(pieces_of("of  the 12 34x !? ") == Pieces{"of", " ", " the", " 12", " 34", "x", " !?", " "});
  CHECK(pieces_of("a\n\n  b\tc\n") == Pieces{"a", "\n\n ", " b", "\t", "c", "\n"});
  CHECK(pieces_of("  ") == Pieces{"  "});
  CHECK(pieces_of("\n \u3000x") == Pieces{"\n ", "\u3000", "x"});
  CHECK(pieces_of("a\u00A0\u00A0b") == Pieces{"a", "\u00A0", "\u00A0", "b"});
}

TEST_CASE("endings of English words are pieces, if they are small and begin one") {
  CHECK(pieces_of("it's we'll I'd 'S") == Pieces{"it", "'s", " we", "'ll", " I", "'d", " '", "S"});
  CHECK(pieces_of("'tis 're've'm't") == Pieces{"'t", "is", " '", "re", "'ve", "'m", "'t"});
  CHECK(pieces_of("!'s 's") == Pieces{"!'", "s", " '", "s"});
}

TEST_CASE("what is no UTF-8 is a sign, byte by byte") {
  const auto kind = [](std::string_view text) { return detail::first_character(text).kind; };
  const auto bytes = [](std::string_view text) { return detail::first_character(text).bytes; };
  for (const std::string_view good : {"é", "漢", "𠀀", "\u1C89", "\U00031350"}) {  // the last of Unicode 16 and 15
    CHECK(kind(good) == CharacterKind::letter);
    CHECK(bytes(good) == good.size());
    for (std::size_t cut = 1; cut < good.size(); ++cut) {
      CHECK(kind(good.substr(0, cut)) == CharacterKind::sign);
      CHECK(bytes(good.substr(0, cut)) == 1);
    }
  }
  // Lone, overlong, surrogates, beyond the last character; the second byte of a good beginning.
  for (const std::string_view bad : {"\x80", "\xC1\x81", "\xE0\x81\x81", "\xF0\x81\x81\x81", "\xED\xA0\x80",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3(", "\xE6\xBC(", "\xF0\xA0\x80("}) {
    CHECK(kind(bad) == CharacterKind::sign);
    CHECK(bytes(bad) == 1);
  }
  for (const std::string_view space : {"\t", "\n", "\v", "\f", "\r", " ", "\u0085", "\u00A0", "\u1680", "\u2000",
                                       "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    CHECK(kind(space) == CharacterKind::space);
  }
  CHECK(kind("\u00BD") == CharacterKind::number);
  CHECK(kind("\x1C") == CharacterKind::sign);  // a space for Python alone
  CHECK(pieces_of("a\xFF\xC3 b") == Pieces{"a", "\xFF\xC3", " b"});
}

TEST_SUITE_END();
