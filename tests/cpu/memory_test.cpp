// SPDX-License-Identifier: MIT
#include <simplx/cpu/memory.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

using namespace simplx;
using namespace simplx::cpu;

TEST_SUITE_BEGIN("cpu/memory");

TEST_CASE("buffers are aligned, zero, and as long as asked") {
  for (const Index size : {1, 1000, 3 << 20}) {
    Buffer<float> buffer(size);
    CHECK(buffer.size() == size);
    CHECK(buffer.span().size() == static_cast<std::size_t>(size));
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(std::all_of(buffer.begin(), buffer.end(), [](float x) { return x == 0; }));
    buffer[size - 1] = 3;
    CHECK(buffer.end()[-1] == 3);
  }
}

TEST_CASE("buffers of 4 MiB begin at a huge page") {
  Buffer<float> buffer(1 << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2 << 20) == 0);
}

TEST_CASE("moving hands the memory over") {
  Buffer<double> a(10);
  a[3] = 7;
  const double* memory = a.data();
  Buffer<double> b = std::move(a);
  CHECK(b.data() == memory);
  CHECK(a.data() == nullptr);
  Buffer<double> c;
  c = std::move(b);
  CHECK(c[3] == 7);
  CHECK(c.size() == 10);
  CHECK(Buffer<double>(0).size() == 0);
  static_assert(!std::is_copy_constructible_v<Buffer<double>> && !std::is_copy_assignable_v<Buffer<double>>);
}

TEST_SUITE_END();
