// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/random.hpp
/// Random numbers without state: a number is a function of a key and a counter.
///
/// A key is made of a seed and a name, so that every tensor has numbers of its own: adding a parameter changes
/// no other, and numbers can be drawn in any order, by any thread, on any device. The laws are drawn by
/// our own code, since standard libraries differ in theirs.

#include <simplx/core/shape.hpp>

#include <cstdint>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// The finaliser of splitmix64: every bit of the result depends on every bit of the argument.
SIMPLX_HD constexpr std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
}  // namespace detail

/// The key of a name under a seed.
constexpr std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return detail::scramble(hash + detail::scramble(seed + 0x9e3779b97f4a7c15ull));
}

namespace detail {
/// A number for a name; that of "ab" is extended(extended(0, "a"), "b").
constexpr std::uint64_t extended(std::uint64_t number, std::string_view name) {
  for (const char c : name) number = number * 0x100000001b3ull + static_cast<unsigned char>(c);
  return number;
}
}  // namespace detail

/// 64 random bits.
SIMPLX_HD constexpr std::uint64_t bits(std::uint64_t key, std::uint64_t counter) {
  return detail::scramble(key + (counter + 1) * 0x9e3779b97f4a7c15ull);
}

namespace detail {

/// What dropout draws from in the step of a training that comes after `steps` others.
constexpr std::uint64_t dropout_key(std::uint64_t seed, long steps) {
  return bits(key_of(seed, "dropout"), static_cast<std::uint64_t>(steps));
}
/// What the masks of all nodes are drawn from in a step.
struct Draw {
  std::uint64_t key = 0;
  Index first_sequence = 0;  ///< number of the first sequence among those of the whole step
};
/// The key of the masks of a node in a step.
SIMPLX_HD constexpr std::uint64_t mask_key(std::uint64_t step, std::uint64_t node) { return scramble(step ^ node); }

/// Random words for the columns of a row: of 32 bits, since vectors and GPUs multiply such at once.
struct RowKey {
  std::uint32_t first = 0, second = 0;
};
/// Every bit of the result depends on every bit of the argument: the best mixer of two rounds that a search found.
/// [Wellons 2018, "Prospecting for hash functions"] The second key goes between the rounds: rows whose first keys are
/// a few columns apart would otherwise have the same words, moved.
template <class Word>
SIMPLX_HD __attribute__((always_inline)) constexpr Word scramble_word(Word word, Word second) {
  word = (word ^ (word >> 16)) * 0x21f0aaadu;
  word = (word ^ (word >> 15) ^ second) * 0xd35a2d97u;
  return word ^ (word >> 15);
}
SIMPLX_HD constexpr RowKey row_key(std::uint64_t key, std::uint32_t row) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t first = scramble_word(low + row * 0x9e3779b9u, high);
  return {first, scramble_word(first + 0x9e3779b9u, high)};
}
/// The word of a column; for one, or by vectors.
template <class Word>
SIMPLX_HD __attribute__((always_inline)) constexpr Word row_word(Word first, Word second, Word column) {
  return scramble_word(Word(first + column * 0x9e3779b9u), second);
}

}  // namespace detail

/// Uniform in (0, 1), never 0 or 1.
SIMPLX_HD constexpr double uniform(std::uint64_t key, std::uint64_t counter) {
  return (static_cast<double>(bits(key, counter) >> 12) + 0.5) * 0x1p-52;
}

}  // namespace simplx
