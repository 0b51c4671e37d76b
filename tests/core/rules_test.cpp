// SPDX-License-Identifier: MIT
#include <simplx/core/rules.hpp>

#include <doctest/doctest.h>

using namespace simplx;

// The sentences themselves are held by tests/compile_fail; here, that a rule that holds says nothing.
static_assert(rule<"inner widths">::check<4, 4>() && rule<"heads">::check<4, 128>() && rule<"layers">::check<1, 1>());
static_assert(rule<"of another library">::check<7, 7>());

TEST_CASE("core/rules: a path is shortened to its file") {
  constexpr detail::ShortPath path = detail::short_path("some/folder/mlp.cpp");
  CHECK(std::string_view(path.chars, static_cast<std::size_t>(path.size)) == "mlp.cpp");
}
