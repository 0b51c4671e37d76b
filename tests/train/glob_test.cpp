// SPDX-License-Identifier: MIT
#include <simplx/train/glob.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/glob");

TEST_CASE("a star is any text, dots and nothing included; all else is itself") {
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("*", "a.b"));
  CHECK(matches_glob("blocks.*.weight", "blocks.3.mlp.up.weight"));
  CHECK(matches_glob("*.query.*", "blocks.3.attention.query.bias"));
  CHECK(matches_glob("a*a", "aa"));
  CHECK(matches_glob("a**b*", "axxb"));
  CHECK(!matches_glob("a*a", "a"));
  CHECK(!matches_glob("", "a"));
  CHECK(!matches_glob("blocks.*.weight", "blocks.3.mlp.up.weight.old"));
  CHECK(!matches_glob("blocks.1.*", "blocks.12.norm1.gain"));
  CHECK(!matches_glob("a.b", "axb"));  // a dot is a dot
  CHECK(!matches_glob("a?", "ab"));
}

TEST_CASE("the distance counts added, removed and replaced characters, stars free") {
  CHECK(glob_distance("kitten", "sitting") == 3);
  CHECK(glob_distance("", "abc") == 3);
  CHECK(glob_distance("abc", "") == 3);
  CHECK(glob_distance("*.qery.weight", "blocks.0.attention.query.weight") == 1);
  CHECK(glob_distance("a*d", "abbbbc") == 1);
}

TEST_CASE("the nearest names come first, one for all layers") {
  const std::vector<std::string> names{"embedding.weight", "blocks.0.mlp.up.weight", "blocks.0.mlp.down.weight",
                                       "blocks.1.mlp.up.weight", "blocks.1.mlp.down.weight", "blocks.10.mlp.up.weight"};
  CHECK(nearest_names("*.mlp.dwn.weight", names, 2) == "blocks.0.mlp.down.weight, blocks.0.mlp.up.weight");
  CHECK(nearest_names("embeding.weight", names, 1) == "embedding.weight");
  CHECK(nearest_names("x", {"y"}, 3) == "y");
}

TEST_SUITE_END();
