// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/init.hpp
/// The laws by which parameters and constants are filled before training; train/initialise.hpp draws by them.

#include <simplx/core/target.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// How a parameter or constant is filled before training.
struct Init {
  enum class Law : signed char {
    constant, normal, sinusoid, identity, orthogonal, normal_by_rows, alibi_slopes, uniform
  };
  Law law = Law::constant;
  double value = 0;  ///< constant, deviation of the normal law (by rows: times sqrt(rows)), bound of the uniform law
  constexpr bool operator==(const Init&) const = default;
  /// Whether the values depend on a seed.
  constexpr bool is_drawn() const {
    return law == Law::normal || law == Law::normal_by_rows || law == Law::uniform || law == Law::orthogonal;
  }
};
constexpr Init normal(double deviation) { return {Init::Law::normal, deviation}; }
constexpr Init uniform(double bound) { return {Init::Law::uniform, bound}; }  ///< between -bound and bound
constexpr Init constant(double value) { return {Init::Law::constant, value}; }
inline constexpr Init zeros = constant(0), ones = constant(1);
/// Row t is sin and cos of t / 10000^(2k/d), interleaved ("Attention Is All You Need", Sec. 3.5).
inline constexpr Init sinusoid{Init::Law::sinusoid, 0};
inline constexpr Init identity{Init::Law::identity, 0};
/// Uniform among matrices with orthonormal rows (columns, where those are fewer).
inline constexpr Init orthogonal{Init::Law::orthogonal, 0};
/// N(0, 1 / rows), which keeps the size of what it multiplies.
inline constexpr Init normal_by_rows{Init::Law::normal_by_rows, 1};
/// Head h of n = 2^k has slope 2^(-8 h / n), h = 1 .. n; heads beyond a power of two take every other slope of 2n
/// heads, from the first on (Press et al. 2022, Sec. 3 and its code).
inline constexpr Init alibi_slopes{Init::Law::alibi_slopes, 0};

}  // namespace simplx
