// SPDX-License-Identifier: MIT
#include <simplx/io/dtype.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace simplx;

namespace {

template <class T>
std::vector<T> values_of(Dtype type, std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / static_cast<std::size_t>(bytes_of(type)));
  read_values(type, bytes, std::span(values));
  return values;
}

}  // namespace

TEST_SUITE_BEGIN("io/dtype");

static_assert(dtype_of<double> == Dtype::f64 && dtype_of<float> == Dtype::f32 && dtype_of<Float16> == Dtype::f16);
static_assert(dtype_of<Bfloat16> == Dtype::bf16 && dtype_of<bool> == Dtype::boolean);
static_assert(dtype_of<std::int64_t> == Dtype::i64 && dtype_of<std::int32_t> == Dtype::i32);
static_assert(dtype_of<std::int16_t> == Dtype::i16 && dtype_of<std::int8_t> == Dtype::i8);
static_assert(dtype_of<std::uint64_t> == Dtype::u64 && dtype_of<std::uint32_t> == Dtype::u32);
static_assert(dtype_of<std::uint16_t> == Dtype::u16 && dtype_of<std::uint8_t> == Dtype::u8);

TEST_CASE("a type is found by the name it has in files, and by no other") {
  for (int i = 0; i <= static_cast<int>(Dtype::boolean); ++i) {
    const Dtype type = static_cast<Dtype>(i);
    CHECK(dtype_named(name_of(type)) == type);
    const std::string_view name = name_of(type);
    const std::size_t digits = name.find_first_of("0123456789");
    CHECK(bytes_of(type) == (type == Dtype::boolean ? 1 : std::atoi(name.data() + digits) / 8));
    CHECK(is_floating(type) == (name.find('F') != name.npos));
  }
  CHECK(!dtype_named("f32"));
  CHECK(!dtype_named("F8_E4M3"));
  CHECK(!dtype_named(""));
}

TEST_CASE("floating point of all widths is read as float and as double, aligned or not") {
  const std::vector<double> values{0.0, -0.0, 1.5, -65504.0, 0x1p-24, 3.0e-5, HUGE_VAL};
  for (const Dtype type : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    CAPTURE(name_of(type));
    std::vector<std::byte> bytes = bytes_as(type, std::span<const double>(values));
    CHECK(bytes.size() == values.size() * static_cast<std::size_t>(bytes_of(type)));
    bytes.insert(bytes.begin(), std::byte{1});
    const auto shifted = std::span<const std::byte>(bytes).subspan(1);
    const auto wide = values_of<double>(type, shifted);
    const auto narrow = values_of<float>(type, shifted);
    const double precision = type == Dtype::f64   ? 0
                             : type == Dtype::f32 ? 0x1p-24
                             : type == Dtype::f16 ? 0x1p-9
                                                  : 0x1p-8;
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(narrow[i] == static_cast<float>(wide[i]));
      CHECK(std::signbit(wide[i]) == std::signbit(values[i]));
      if (std::isinf(values[i])) CHECK(std::isinf(wide[i]));
      if (!std::isinf(values[i])) CHECK(std::abs(wide[i] - values[i]) <= precision * std::abs(values[i]));
    }
  }
  CHECK(values_of<double>(Dtype::f16, bytes_as(Dtype::f16, std::span<const double>(values)))[4] == 0x1p-24);
}

TEST_CASE("whole numbers must fit") {
  const std::int64_t numbers[] = {0, -1, 127, 300, std::numeric_limits<std::int64_t>::min()};
  const auto bytes = std::as_bytes(std::span(numbers));
  CHECK(values_of<std::int64_t>(Dtype::i64, bytes)[4] == std::numeric_limits<std::int64_t>::min());
  CHECK(values_of<std::int8_t>(Dtype::i64, bytes.first(24))[1] == -1);
  CHECK_THROWS_WITH_AS(values_of<std::int8_t>(Dtype::i64, bytes), "number 3 of I64 is 300, which does not fit", Error);
  CHECK_THROWS_WITH_AS(values_of<std::uint64_t>(Dtype::i64, bytes), "number 1 of I64 is -1, which does not fit", Error);
  const std::uint64_t large = ~std::uint64_t{0};
  CHECK(values_of<std::uint64_t>(Dtype::u64, std::as_bytes(std::span(&large, 1)))[0] == large);
  CHECK_THROWS_AS(values_of<std::int64_t>(Dtype::u64, std::as_bytes(std::span(&large, 1))), Error);
  const std::uint16_t small[] = {65535};
  CHECK(values_of<std::int32_t>(Dtype::u16, std::as_bytes(std::span(small)))[0] == 65535);
  CHECK(values_of<std::int32_t>(Dtype::i16, std::as_bytes(std::span(small)))[0] == -1);
}

TEST_CASE("a BOOL is 0 or 1") {
  const std::byte bytes[] = {std::byte{0}, std::byte{1}, std::byte{2}};
  CHECK(values_of<std::uint8_t>(Dtype::boolean, std::span(bytes).first(2)) == std::vector<std::uint8_t>{0, 1});
  CHECK_THROWS_WITH_AS(values_of<std::uint8_t>(Dtype::boolean, bytes), "number 2 of BOOL is 2, which does not fit",
                       Error);
  CHECK(values_of<std::uint8_t>(Dtype::u8, bytes)[2] == 2);
}

TEST_CASE("floating point is no whole number, nor the other way, and bytes must be as many as the values need") {
  std::byte bytes[4] = {};
  std::vector<float> floats(1);
  std::vector<std::int32_t> numbers(1);
  CHECK_THROWS_WITH_AS(read_values(Dtype::i32, bytes, std::span(floats)), "numbers of I32 are not floating point",
                       Error);
  CHECK_THROWS_WITH_AS(read_values(Dtype::f32, bytes, std::span(numbers)), "numbers of F32 are not whole numbers",
                       Error);
  CHECK_THROWS_WITH_AS(read_values(Dtype::bf16, bytes, std::span(floats)), "4 bytes are not 1 numbers of BF16", Error);
  CHECK_THROWS_AS(bytes_as(Dtype::i32, std::span<const float>(floats)), Error);
}

TEST_CASE("a number that is too large is told, one that is infinite is not") {
  const double large[]{1, 1e200}, infinite[]{std::numeric_limits<double>::infinity(), 1};
  float values[2];
  const auto read = [&](const double (&numbers)[2]) {
    read_values<float>(Dtype::f64, std::as_bytes(std::span(numbers)), values);
  };
  CHECK_THROWS_WITH_AS(read(large), "number 1 is 1e+200, too large for F32", Error);
  CHECK_NOTHROW(read(infinite));
}

TEST_SUITE_END();
