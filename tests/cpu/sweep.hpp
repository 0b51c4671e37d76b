// SPDX-License-Identifier: MIT
#pragma once

/// Elementary functions over many arguments: errors against long double, and the same bits from vectors and numbers.

#include <simplx/cpu/simd.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace test {

using simplx::lanes, simplx::splat, simplx::Vec;

/// Arguments of [low, high], evenly, and of both signs from 1e-30 to 1 by powers as far as they are inside.
template <class S>
std::vector<S> sweep(double low, double high, int count = 100'000) {
  std::vector<S> points;
  for (int i = 0; i <= count; ++i) points.push_back(static_cast<S>(low + (high - low) * i / count));
  for (double x = 1e-30; x < 1; x *= 1.0037) {
    for (const double y : {x, -x}) {
      if (y >= low && y <= high) points.push_back(static_cast<S>(y));
    }
  }
  return points;
}

/// Zeros, the least numbers and the largest, the ends of ranges, infinities, NaN; of both signs.
template <class S>
std::vector<S> corners() {
  using Limits = std::numeric_limits<S>;
  std::vector<S> points;
  for (const S x : {S(0), Limits::denorm_min(), Limits::min() / 3, Limits::min(), Limits::epsilon() / 2, S(0.5), S(1),
                    S(2), S(3), S(87), S(89), S(104), S(709.7), S(710), S(745), S(746), S(12799.5), S(12801), S(1e30),
                    Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    points.push_back(x), points.push_back(-x);
  }
  return points;
}

template <class S>
bool same(S a, S b) {
  using Word = std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>;
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<Word>(a) == std::bit_cast<Word>(b);
}

/// How far numbers are from their true values, at worst.
struct Errors {
  double relative = 0, absolute = 0;
  double ulps = 0;    ///< in units of the last digit of the true value, subnormal ones included
  int different = 0;  ///< lanes whose bits are not those of a single number
  int misplaced = 0;  ///< NaN where the truth is a number, or the reverse; infinity where it is finite; the sign
};

template <class S, class F, class Truth>
Errors errors_of(const std::vector<S>& points, F f, Truth truth) {
  Errors e;
  for (std::size_t first = 0; first < points.size(); first += lanes<S>) {
    Vec<S> v = splat<Vec<S>>(S(1));
    const std::size_t count = std::min<std::size_t>(lanes<S>, points.size() - first);
    for (std::size_t i = 0; i < count; ++i) v[i] = points[first + i];
    const Vec<S> y = f(v);
    for (std::size_t i = 0; i < count; ++i) {
      const S x = points[first + i], lane = y[i];
      e.different += !same(lane, f(x));
      const long double exact = truth(static_cast<long double>(x));
      const S target = static_cast<S>(exact);  // may be infinite where the long double is not
      if (std::isnan(lane) != std::isnan(target) || std::isinf(lane) != std::isinf(target) ||
          (!std::isnan(target) && std::signbit(lane) != std::signbit(target))) {
        ++e.misplaced;
      } else if (std::isfinite(target)) {
        const double distance = static_cast<double>(std::abs(static_cast<long double>(lane) - exact));
        e.absolute = std::max(e.absolute, distance);
        if (exact != 0) e.relative = std::max(e.relative, static_cast<double>(distance / std::abs(exact)));
        const int digit = std::max(exact == 0 ? -10000 : std::ilogb(exact), std::numeric_limits<S>::min_exponent - 1);
        e.ulps = std::max(e.ulps, std::ldexp(distance, std::numeric_limits<S>::digits - 1 - digit));
      }
    }
  }
  return e;
}

}  // namespace test
