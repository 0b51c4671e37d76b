// SPDX-License-Identifier: MIT
#include <simplx/core/for_this_cpu.hpp>

#include <doctest/doctest.h>

#include <string_view>

#define SIMPLX_TEXT_OF(name) #name
#define SIMPLX_TEXT(name) SIMPLX_TEXT_OF(name)

using namespace simplx;

namespace {
int plain() { return 0; }
int with_avx2() { return 1; }
int with_avx512() { return 2; }
int with_pairs() { return 3; }
int with_tiles() { return 4; }
}  // namespace

TEST_SUITE("core/for_this_cpu") {
  TEST_CASE("the widest set that the CPU has is taken") {
    const auto chosen = [](InstructionSets sets) {
      return for_this_cpu(plain, with_avx2, with_avx512, with_pairs, with_tiles, sets)();
    };
    CHECK(chosen({}) == 0);
    CHECK(chosen({.avx2_fma = true}) == 1);
    CHECK(chosen({.avx2_fma = true, .avx512 = true}) == 2);
    CHECK(chosen({.avx2_fma = true, .avx512 = true, .avx512_bf16 = true}) == 3);
    CHECK(chosen({.avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true}) == 4);
  }
  TEST_CASE("this CPU has what this test was compiled for") {
    const std::string_view compiled = SIMPLX_TEXT(SIMPLX_TARGET);
    const InstructionSets sets = InstructionSets::of_this_cpu();
    if (compiled == "avx2_fma") CHECK(sets.avx2_fma);
    if (compiled.starts_with("avx512")) CHECK(sets.avx512);
    if (compiled.ends_with("_bf16")) CHECK(sets.avx512_bf16);
    if (compiled == "amx_bf16") CHECK(sets.amx_bf16);
  }
}
