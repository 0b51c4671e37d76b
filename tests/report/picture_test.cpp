// SPDX-License-Identifier: MIT
#include "report/drawings.hpp"

#include <simplx/report/picture.hpp>

#include <set>

using namespace test;

TEST_SUITE_BEGIN("report/picture");

namespace {
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}
/// Whether every element is closed in the order in which it was opened.
bool well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != tag) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}
}  // namespace

TEST_CASE("all blocks are drawn, the same each time, as one element that is well formed and needs nothing else") {
  std::set<std::string> pictures;
  for (const NamedBlock& block : all_blocks) {
    CAPTURE(block.name);
    const auto model = [&] { return with_model_of(block, [](const auto& m) { return m(); }); };
    const std::string text = picture_of_layer(model, 1, block.name);
    CHECK(text == picture_of_layer(model, 1, block.name));
    CHECK(text.starts_with("<svg xmlns="));
    CHECK(well_formed(text));
    CHECK(text.find("aria-label=\"" + std::string(block.name) + "\"") != text.npos);
    CHECK(count(text, "http") == 1);  // the name space
    CHECK(count(text, "nan") + count(text, "inf") == 0);
    CHECK(count(text, " id=") == 0);
    pictures.insert(picture_of_layer(model, 1, ""));
  }
  CHECK(pictures.size() > 15);
}

TEST_CASE("a block of one's own is the picture of its token; a function of one op and a long one have theirs") {
  CHECK(picture_of_layer(mine, 1, "") == picture_of_layer(Decoder{.block = sas_p}, 1, ""));
  const std::string one = picture(one_op, "sin");
  CHECK(well_formed(one));
  CHECK(one.find("Sin of x") != one.npos);
  CHECK(count(one, "<rect") == 1);
  const std::string chain = picture(long_chain);
  CHECK(well_formed(chain));
  CHECK(count(chain, "<circle") == 20);
  CHECK(count(chain, "<rect") == 80);
}

TEST_CASE("a model that breaks a rule has no picture but an error") {
  const auto broken = [] { return variable("x", rows_of(Axis::tokens, 8)) * weight("w", 9, 8); };
  CHECK_THROWS_AS(picture(broken), Error);
  CHECK_THROWS_AS(picture_of_layer(broken), Error);
  CHECK_THROWS_AS(picture_of_layer(one_op), Error);
}

TEST_SUITE_END();
