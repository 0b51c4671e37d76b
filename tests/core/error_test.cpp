// SPDX-License-Identifier: MIT
#include <simplx/core/error.hpp>

#include <doctest/doctest.h>

TEST_CASE("core/error: an error carries its hint") {
  CHECK(std::string(simplx::Error("it broke", "mend it").what()) == "it broke\n  hint: mend it");
  CHECK(std::string(simplx::Error("it broke").what()) == "it broke");
}
