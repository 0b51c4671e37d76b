// SPDX-License-Identifier: MIT
#include <simplx/io/half_precision.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;

namespace {

/// What the bits of a format mean, by its equation; infinity is where the next number would be.
template <class Half>
double meaning(int bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> mantissa_bits, one = 1 << mantissa_bits;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// All bits of a format against its equation, and all roundings between neighbours.
template <class Half>
void check_format(int exponent_bits, int mantissa_bits) {
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  int wrong_values = 0, wrong_ways_back = 0, wrong_roundings = 0;
  for (int bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double value = static_cast<double>(half);
    const int magnitude = bits & 0x7fff;
    if (magnitude > infinity) {  // NaN keeps its sign and, but for the bit that makes it quiet, its payload
      wrong_values += !std::isnan(value) || std::signbit(value) != (bits >= 0x8000);
      wrong_ways_back += Half(value).bits != (bits | 1 << (mantissa_bits - 1));
      continue;
    }
    const double expected = meaning<Half>(bits, exponent_bits, mantissa_bits);
    wrong_values += magnitude == infinity ? !std::isinf(value) || std::signbit(value) != (bits >= 0x8000)
                                          : value != expected || std::signbit(value) != std::signbit(expected);
    wrong_ways_back += Half(value).bits != bits;
    if (magnitude == infinity) continue;
    const double next = meaning<Half>(bits + 1, exponent_bits, mantissa_bits),
                 middle = expected + (next - expected) / 2;
    wrong_roundings += Half(middle).bits != bits + (bits & 1);  // a tie goes to the even one
    wrong_roundings += Half(std::nextafter(middle, expected)).bits != bits;
    wrong_roundings += Half(std::nextafter(middle, next)).bits != bits + 1;
  }
  CHECK(wrong_values == 0);
  CHECK(wrong_ways_back == 0);
  CHECK(wrong_roundings == 0);
  using Limits = std::numeric_limits<double>;
  CHECK(Half(Limits::max()).bits == infinity);
  CHECK(Half(-Limits::infinity()).bits == (infinity | 0x8000));
  CHECK(Half(Limits::denorm_min()).bits == 0);
  CHECK(Half(-Limits::denorm_min()).bits == 0x8000);
  CHECK(Half(Limits::quiet_NaN()).bits == (infinity | 1 << (mantissa_bits - 1)));
}

}  // namespace

TEST_SUITE_BEGIN("io/half_precision");

TEST_CASE("all 65536 numbers of float16, and the roundings between them") { check_format<Float16>(5, 10); }
TEST_CASE("all 65536 numbers of bfloat16, and the roundings between them") { check_format<Bfloat16>(8, 7); }

TEST_CASE("rounding is once, from double: by way of float these ties would fall to the wrong side") {
  const double just_above_tie = 1 + 0x1p-11 + 0x1p-40;
  CHECK(Float16(static_cast<double>(static_cast<float>(just_above_tie))).bits == 0x3c00);
  CHECK(Float16(just_above_tie).bits == 0x3c01);
  CHECK(Bfloat16(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
}

TEST_CASE("a float is rounded to bfloat16 as the double of its value is") {
  int different = 0;
  for (std::uint32_t i = 0; i < 1u << 22; ++i) {  // of all exponents and signs, NaNs and infinities among them
    const float value = std::bit_cast<float>(i << 10 | (i * 2654435761u) >> 22);
    different += Bfloat16(value).bits != Bfloat16(static_cast<double>(value)).bits;
  }
  CHECK(different == 0);
  for (const std::uint32_t word : {0x7f800000u, 0xff800000u, 0x7f7fffffu, 0x00000001u, 0x80008000u, 0x7f800001u}) {
    const float value = std::bit_cast<float>(word);
    CHECK(Bfloat16(value).bits == Bfloat16(static_cast<double>(value)).bits);
  }
}

#if defined(__FLT16_MANT_DIG__)
TEST_CASE("float16 is the compiler's") {
  int different = 0;
  for (std::uint32_t i = 0; i < 1u << 20; ++i) {  // floats of all exponents
    const float value = std::bit_cast<float>(i << 12 | (i * 2654435761u) >> 20);
    if (std::isnan(value)) continue;
    different += Float16(static_cast<double>(value)).bits != std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  }
  CHECK(different == 0);
}
#endif

static_assert(Bfloat16(1.5).bits == 0x3fc0 &&
              static_cast<float>(Float16(-0.25)) == -0.25f);  // in constant evaluation too

TEST_SUITE_END();
