// SPDX-License-Identifier: MIT
#include <simplx/core/target.hpp>

#include <simplx/cpu/simd.hpp>
#include <simplx/train/adamw.hpp>

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <typeinfo>

#define SIMPLX_TEXT_OF(name) #name
#define SIMPLX_TEXT(name) SIMPLX_TEXT_OF(name)

TEST_SUITE_BEGIN("core/target");

TEST_CASE("names of the library are found without the instruction set, and symbols carry it") {
  static_assert(std::is_same_v<simplx::AdamW, simplx::SIMPLX_TARGET::AdamW>);
  const std::string symbol = typeid(simplx::AdamW).name();  // N6simplx6avx5125AdamWE
  CHECK_MESSAGE(symbol.find(SIMPLX_TEXT(SIMPLX_TARGET)) != std::string::npos, symbol);
}

TEST_CASE("the name says how wide a vector is") {
  const std::string name = SIMPLX_TEXT(SIMPLX_TARGET);
  CHECK((name.starts_with("avx512") || name.starts_with("amx")) == (simplx::vector_bytes == 64));
  CHECK(name.starts_with("avx2") == (simplx::vector_bytes == 32));
}

TEST_SUITE_END();
