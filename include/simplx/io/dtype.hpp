// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/dtype.hpp
/// Dtype: the types of numbers in a safetensors file, and values from bytes of any of them.

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>
#include <simplx/io/half_precision.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

static_assert(std::endian::native == std::endian::little, "simplx: numbers in files are little endian");

/// The types of numbers in safetensors files.
enum class Dtype : signed char { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

namespace detail {

struct DtypeInfo {
  std::string_view name;
  Index bytes;
};
inline constexpr DtypeInfo dtypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                       {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                                       {"U16", 2}, {"U8", 1},  {"BOOL", 1}};

/// f(T{}) for the type T of the numbers; BOOL is read as U8, as a byte of 2 is no bool.
template <class F>
constexpr decltype(auto) with_type(Dtype type, F&& f) {
  switch (type) {
    case Dtype::f64: return f(double{});
    case Dtype::f32: return f(float{});
    case Dtype::f16: return f(Float16{});
    case Dtype::bf16: return f(Bfloat16{});
    case Dtype::i64: return f(std::int64_t{});
    case Dtype::i32: return f(std::int32_t{});
    case Dtype::i16: return f(std::int16_t{});
    case Dtype::i8: return f(std::int8_t{});
    case Dtype::u64: return f(std::uint64_t{});
    case Dtype::u32: return f(std::uint32_t{});
    case Dtype::u16: return f(std::uint16_t{});
    default: return f(std::uint8_t{});
  }
}

}  // namespace detail

constexpr std::string_view name_of(Dtype type) { return detail::dtypes[static_cast<int>(type)].name; }
constexpr Index bytes_of(Dtype type) { return detail::dtypes[static_cast<int>(type)].bytes; }
constexpr bool is_floating(Dtype type) { return type <= Dtype::bf16; }

/// The type of that name in files, if it can be read.
constexpr std::optional<Dtype> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(detail::dtypes); ++i) {
    if (detail::dtypes[i].name == name) return static_cast<Dtype>(i);
  }
  return {};
}

/// The type in files of a type in memory.
template <class T>
inline constexpr Dtype dtype_of = [] {
  if constexpr (std::same_as<T, bool>) {
    return Dtype::boolean;
  } else if constexpr (std::same_as<T, Float16>) {
    return Dtype::f16;
  } else if constexpr (std::same_as<T, Bfloat16>) {
    return Dtype::bf16;
  } else {
    static_assert(sizeof(T) <= 8 && (std::floating_point<T> || std::integral<T>),
                  "simplx: files hold float, double, Float16, Bfloat16, bool and whole numbers of up to eight bytes");
    constexpr Dtype first = std::floating_point<T> ? Dtype::f64 : std::signed_integral<T> ? Dtype::i64 : Dtype::u64;
    return static_cast<Dtype>(static_cast<int>(first) + 3 - (std::bit_width(sizeof(T)) - 1));
  }
}();

/// Values from the bytes of numbers of a type, wherever they lie: floating point from floating point, rounded to
/// nearest; whole numbers from whole numbers.
///
/// Errors  throws Error for a type of the other kind, and with the place of a number that does not fit
template <class T>
void read_values(Dtype type, std::span<const std::byte> bytes, std::span<T> values) {
  static_assert(std::floating_point<T> || (std::integral<T> && !std::same_as<T, bool>),
                "simplx: values are read as floating-point or whole numbers; BOOL is read as std::uint8_t");
  if (bytes.size() != values.size() * static_cast<std::size_t>(bytes_of(type))) {
    throw Error(std::to_string(bytes.size()) + " bytes are not " + std::to_string(values.size()) + " numbers of " +
                std::string(name_of(type)));
  }
  if (is_floating(type) != std::floating_point<T>) {
    throw Error("numbers of " + std::string(name_of(type)) + " are not " +
                (std::floating_point<T> ? "floating point" : "whole numbers"));
  }
  detail::with_type(type, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));  // files need not align them
      if constexpr (std::floating_point<T> && !std::integral<Stored>) {
        values[i] = static_cast<T>(stored);
        if constexpr (sizeof(Stored) > sizeof(T)) {  // a number of two bytes is a float
          if (std::isinf(values[i]) && std::isfinite(static_cast<double>(stored))) {
            throw Error("number " + std::to_string(i) + " is " + shortest(static_cast<double>(stored)) +
                        ", too large for " + std::string(name_of(dtype_of<T>)));
          }
        }
      } else if constexpr (std::integral<T> && std::integral<Stored>) {
        if (!std::in_range<T>(stored) || (type == Dtype::boolean && stored > 1)) {
          throw Error("number " + std::to_string(i) + " of " + std::string(name_of(type)) + " is " +
                      std::to_string(stored) + ", which does not fit");
        }
        values[i] = static_cast<T>(stored);
      }
    }
  });
}

/// The bytes of values as numbers of a floating-point type, rounded to nearest: what is too large becomes infinite.
template <std::floating_point T>
std::vector<std::byte> bytes_as(Dtype type, std::span<const T> values) {
  if (!is_floating(type)) throw Error("floating-point values are not kept as " + std::string(name_of(type)));
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bytes_of(type)));
  detail::with_type(type, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::size_t i = 0; i < values.size(); ++i) {
      stored = static_cast<Stored>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(Stored), &stored, sizeof(Stored));
    }
  });
  return bytes;
}

}  // namespace simplx
