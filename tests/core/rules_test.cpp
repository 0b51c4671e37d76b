// SPDX-License-Identifier: MIT
#include <simplx/core/rules.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace simplx;

// The sentences themselves are held by tests/compile_fail; here, that a rule that holds says nothing.
static_assert(rule<"inner widths">::check<4, 4>() && rule<"heads">::check<4, 128>() && rule<"layers">::check<1, 1>());
static_assert(rule<"of another library">::check<7, 7>());

namespace {
std::string shortened(const char* path) {
  const detail::ShortPath left = detail::short_path(path);
  return {left.chars, left.chars + left.size};
}
}  // namespace

TEST_CASE("core/rules: a path is shortened to its file and its folder") {
  CHECK(shortened("/home/me/some/folder/mlp.cpp") == "folder/mlp.cpp");
  CHECK(shortened("include/simplx/nn/norm.hpp") != shortened("include/simplx/ops/norm.hpp"));
  CHECK(shortened("folder/mlp.cpp") == "folder/mlp.cpp");
  CHECK(shortened("C:\\some\\folder\\mlp.cpp") == "folder\\mlp.cpp");
  CHECK(shortened("/mlp.cpp") == "/mlp.cpp");
  CHECK(shortened("mlp.cpp") == "mlp.cpp");
  CHECK(shortened(("src/" + std::string(60, 'x')).c_str()) == "src/" + std::string(43, 'x'));
}
