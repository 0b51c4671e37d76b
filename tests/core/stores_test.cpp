// SPDX-License-Identifier: MIT
#include <simplx/core/stores.hpp>

#include <doctest/doctest.h>

namespace {

/// A function without effects but for what it says; never called unless the compiler keeps it.
__attribute__((noinline)) int said() {
  simplx::detail::stores();
  return 1;
}

}  // namespace

TEST_CASE("core/stores: it can be said anywhere, and changes nothing; programs/optimised.cpp shows what it is for") {
  CHECK(said() == 1);
}
