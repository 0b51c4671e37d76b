// SPDX-License-Identifier: MIT
#include <simplx/core/text.hpp>

#include <doctest/doctest.h>

using namespace simplx;

static_assert(Tag("relu") == Tag("relu") && !(Tag("relu") == Tag("rel")) && Tag().empty());
static_assert(Name("mlp").size() == 3 && Name("mlp").view() == "mlp");
static_assert([] {
  Name name = "up.weight";
  name.put_in_scope("mlp");
  return name;
}() == Name("mlp.up.weight"));
static_assert(Name("a").hash() != Name("b").hash());
static_assert(Text<4>{{'a', 'b', 0, 0}} == Text<4>("ab"));  // as nvcc writes it

TEST_CASE("core/text: a name that is too long when the program runs says that it is") {
  CHECK(Tag("a name of twenty-four chars").is_cut());
  CHECK(Tag("a name of twenty-four ch").is_cut());
  CHECK_FALSE(Tag("a name of twenty-three.").is_cut());
  Name name = "0123456789012345678901234567890123456789";
  name.put_in_scope("0123456789012345678901234567890123456789");
  CHECK(name.size() == 81);
  CHECK_FALSE(name.is_cut());
  name.put_in_scope("a scope too many");
  CHECK(name.is_cut());
  name.put_in_scope("or two");
  CHECK(name.is_cut());
}
