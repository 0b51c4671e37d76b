// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/axis.hpp
/// The scale of a chart: which values it spans, where it puts them, which it names.
///
///     at(v) = (f(v) - f(low)) / (f(high) - f(low)),   f = identity or logarithm
///
/// Ticks are round numbers: 1, 2, 2.5 or 5 times a power of ten; on a logarithmic scale what is round within decades.

#include <simplx/core/target.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// How values are spread along an axis; a logarithmic one has no place for those that are not above zero.
enum class Scale { linear, logarithmic };

/// A span of values and how they are spread along an axis.
struct AxisRange {
  double low = 0, high = 1;
  Scale scale = Scale::linear;

  /// 0 at low, 1 at high; not a number where the scale has no place for the value.
  double at(double value) const {
    if (scale == Scale::linear) return (value - low) / (high - low);
    return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));  // quotients may overflow
  }
  bool holds(double value) const { return std::abs(value) < 1e300 && (scale == Scale::linear || value > 0); }
};

/// The least range around all values that have a place on the scale; wider than a point, [0, 1] or [1, 10] without any.
/// Around a single one of a `whole` quantity it holds no other whole number.
inline AxisRange range_of(const std::vector<double>& values, Scale scale, bool whole = false) {
  AxisRange range{.low = HUGE_VAL, .high = -HUGE_VAL, .scale = scale};
  for (const double value : values) {
    if (!range.holds(value)) continue;
    range.low = std::min(range.low, value), range.high = std::max(range.high, value);
  }
  const bool logarithmic = scale == Scale::logarithmic;
  if (range.low > range.high) return logarithmic ? AxisRange{1, 10, scale} : AxisRange{0, 1, scale};
  // Values that differ by rounding alone are one value, drawn in the middle.
  if (logarithmic) {
    if (range.high / range.low < 1 + 1e-6) range.low /= 1.25, range.high *= 1.25;
  } else if (const double size = std::max(std::abs(range.low), std::abs(range.high));
             range.high - range.low <= 1e-6 * size || size == 0) {
    const double margin = whole ? 0.5 : size > 0 ? 0.1 * size : 1;
    range.low -= margin, range.high += margin;
  }
  return range;
}

namespace detail {

/// The distance of round numbers of which at most `most` lie in an interval of that length.
inline double round_step(double length, int most) {
  const double least = length / most, decade = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

inline std::vector<double> linear_ticks(double low, double high, int most, bool whole = false) {
  most = std::max(1, most);
  const double tolerance = 1e-9 * (high - low);
  // From too fine a step to the first that is coarse enough: where three fit, two or three are found.
  for (double step = round_step(high - low, most + 1);; step = round_step(1.1 * step, 1)) {
    std::vector<double> ticks;
    for (double i = std::ceil((low - tolerance) / step); i * step <= high + tolerance; ++i) ticks.push_back(i * step);
    if (whole && step != std::floor(step)) continue;
    if (ticks.size() <= static_cast<std::size_t>(most)) return ticks;
  }
}

}  // namespace detail

/// Round values within the range, at most `most`; as many as there is room for. Of `whole` quantities, such as steps,
/// whole numbers alone.
inline std::vector<double> ticks_of(const AxisRange& range, int most, bool whole = false) {
  if (range.scale == Scale::linear) return detail::linear_ticks(range.low, range.high, most, whole);
  const int first = static_cast<int>(std::floor(std::log10(range.low))),
            last = static_cast<int>(std::ceil(std::log10(range.high)));
  std::vector<double> best;
  const auto offer = [&](const std::vector<double>& factors, int stride) {
    std::vector<double> ticks;
    for (int decade = first - (first % stride + stride) % stride; decade <= last; decade += stride) {
      for (const double factor : factors) {
        const double value = decade < 0 ? factor / std::pow(10, -decade) : factor * std::pow(10, decade);
        if (whole && value != std::floor(value)) continue;
        if (value >= range.low * (1 - 1e-9) && value <= range.high * (1 + 1e-9)) ticks.push_back(value);
      }
    }
    if (static_cast<int>(ticks.size()) <= most && ticks.size() > best.size()) best = ticks;
  };
  for (const int stride : {std::max(1, (last - first) / std::max(1, most - 1) + 1), 3, 2, 1}) offer({1}, stride);
  for (const auto& factors : {std::vector<double>{1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}}) offer(factors, 1);
  // Less than a decade can hold too few of these: then evenly spaced round numbers, on their uneven places.
  if (best.size() < 3 && range.high / range.low < 10) {
    const auto even = detail::linear_ticks(range.low, range.high, most, whole);
    if (even.size() > best.size()) return even;
  }
  return best;
}

/// A value as a tick says it: 0, 0.25, 500, 20 k, 1.5 M, 2e-5; at most `digits` significant ones.
inline std::string short_number(double value, int digits = 4) {
  if (!std::isfinite(value)) return "–";
  const char* units[] = {"", " k", " M", " G", " T", " P"};
  const double size = std::abs(value);
  std::string text;
  if (size == 0) return "0";
  if (size < 0.9995e-3 || size >= 1e18) {
    text = fmt::format("{:.{}e}", value, digits - 1);
    const std::size_t e = text.find('e');
    std::string mantissa = text.substr(0, e);
    if (mantissa.find('.') != std::string::npos) {
      mantissa.erase(mantissa.find_last_not_of('0') + 1);
      if (mantissa.back() == '.') mantissa.pop_back();
    }
    text = mantissa + "e" + std::to_string(std::stoi(text.substr(e + 1)));
  } else {
    int unit = 0;
    double scaled = value;
    // Rounding may carry into the next unit: 999 999 is 1 M.
    const double carry = 1000 * (1 - 0.5 * std::pow(10, -digits));
    while (std::abs(scaled) >= carry && unit < 5) scaled /= 1000, ++unit;
    text = fmt::format("{:.{}g}", scaled, digits) + units[unit];
  }
  if (text[0] == '-') text.replace(0, 1, "−");
  return text;
}

/// What the ticks are called: as few digits as tell them apart and say where they are.
inline std::vector<std::string> tick_labels(const std::vector<double>& ticks) {
  double gap = ticks.size() == 1 ? 1e-3 * std::abs(ticks[0]) : HUGE_VAL;
  for (std::size_t i = 1; i < ticks.size(); ++i) gap = std::min(gap, ticks[i] - ticks[i - 1]);
  int digits = 3;
  const auto misses = [&](double tick) {
    return std::abs(std::strtod(fmt::format("{:.{}e}", tick, digits - 1).c_str(), nullptr) - tick) > 1e-3 * gap;
  };
  while (digits < 15 && std::any_of(ticks.begin(), ticks.end(), misses)) ++digits;
  std::vector<std::string> labels;
  for (const double tick : ticks) labels.push_back(short_number(tick, digits));
  return labels;
}

}  // namespace simplx
