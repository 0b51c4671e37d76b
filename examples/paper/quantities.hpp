// SPDX-License-Identifier: MIT
#pragma once

// What is read off a finished run.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiment.hpp"

namespace paper {

/// A number of the run; infinite is a loss of a run that diverged.
inline double number_of(const Json& run, const char* key) {
  if (run.contains("diverged_at")) return HUGE_VAL;
  const auto found = run.find(key);
  return found != run.end() && found->is_number() ? found->get<double>() : missing;
}

/// The run's values of a name in every layer, at the look nearest to a share of its steps; a layer without is not a
/// number. Of Eq. (6) "attention.value.ratio" is beta / alpha and "attention.value.deviation" beta |D| / (alpha |W0|),
/// and so for the projection.
inline std::vector<double> layer_values(const Json& run, const std::string& name, std::size_t look) {
  const auto whole = run.find("layers");
  if (whole == run.end()) return {};
  const Json& values = whole->at("values");
  const auto stored = [&](const std::string& key) {
    std::vector<double> row;
    if (!values.contains(key) || look >= values[key].size()) return row;
    for (const Json& value : values[key][look]) row.push_back(value.is_number() ? value.get<double>() : missing);
    return row;
  };
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  if (!ends(".ratio") && !(ends(".deviation") && !values.contains(name))) return stored(name);
  const std::string module = name.substr(0, name.rfind('.'));
  std::vector<double> row = stored(module + ".beta"), alpha = stored(module + ".alpha");
  const std::vector<double> norm = stored(module + ".delta.norm");
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = std::abs(row[i] / alpha[i]);
    if (ends(".deviation")) row[i] *= norm[i] / std::sqrt(run["width"].get<double>());
  }
  return row;
}

inline std::size_t looks_of(const Json& run) { return run.contains("layers") ? run["layers"]["steps"].size() : 0; }

/// The same at the look nearest to a share of the steps.
inline std::vector<double> layer_values_at(const Json& run, const std::string& name, double share) {
  const std::size_t looks = looks_of(run);
  if (!looks) return {};
  return layer_values(run, name, static_cast<std::size_t>(std::lround(share * static_cast<double>(looks - 1))));
}

inline std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  return values;
}

namespace detail {

inline double median(std::vector<double> values) {
  values = finite(std::move(values));
  if (values.empty()) return missing;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

inline double mean(std::vector<double> values) {
  values = finite(std::move(values));
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? missing : sum / static_cast<double>(values.size());
}

/// Ratios beta / alpha of V and of P at the end.
inline std::vector<double> ratios(const Json& run) {
  std::vector<double> both = layer_values_at(run, "attention.value.ratio", 1);
  for (const double r : layer_values_at(run, "attention.projection.ratio", 1)) both.push_back(r);
  return both;
}

/// The first layer's value over the last layer's.
inline double first_to_last(const std::vector<double>& row) {
  return row.size() < 2 ? missing : row.front() / row.back();
}

/// Mean of the later half of the layers minus that of the earlier.
inline double later_minus_earlier(const std::vector<double>& row) {
  const auto half = row.begin() + std::ssize(row) / 2;
  return mean({half, row.end()}) - mean({row.begin(), half});
}

}  // namespace detail

namespace quantity {

inline constexpr Quantity held_out{"held-out loss", "nats per byte", 3,
                                   [](const Json& run) { return number_of(run, "loss"); }};
inline constexpr Quantity halfway{"held-out loss halfway", "nats per byte", 3, [](const Json& run) {
                                    const auto log = run.find("log");
                                    if (log == run.end() || log->empty()) return missing;
                                    const Json& loss = (*log)[(log->size() - 1) / 2][3];
                                    return loss.is_number() ? loss.get<double>() : missing;
                                  }};
inline constexpr Quantity milliseconds{"time of a step", "ms", 2,
                                       [](const Json& run) { return number_of(run, "milliseconds"); }, true};
inline constexpr Quantity explodes_at{"learning rate at which the loss explodes", "", 4,
                                      [](const Json& run) { return number_of(run, "explodes_at"); }};
inline constexpr Quantity median_ratio{"median of beta / alpha over V and P of all layers", "", 3,
                                       [](const Json& run) { return detail::median(detail::ratios(run)); }};
inline constexpr Quantity first_value_ratio{
    "beta / alpha of the first layer's V, less the largest of the others", "", 3, [](const Json& run) {
      std::vector<double> ratios = finite(detail::ratios(run));
      return ratios.size() < 2 ? missing : ratios[0] - *std::max_element(ratios.begin() + 1, ratios.end());
    }};
inline constexpr Quantity grown_ratios{
    "share of the ratios beta / alpha that grew above 0.2", "", 2, [](const Json& run) {
      const std::vector<double> ratios = finite(detail::ratios(run));
      if (ratios.empty()) return missing;
      const auto grown = std::ranges::count_if(ratios, [](double r) { return r > 0.2; });
      return static_cast<double>(grown) / static_cast<double>(ratios.size());
    }};
/// Of alpha, beta, gamma and beta_FF, as shares of what they began as.
inline constexpr Quantity least_gain{
    "least share of its first size that a gain of a layer ends with", "", 2, [](const Json& run) {
      double least = HUGE_VAL;
      for (const char* name : {"attention.alpha", "attention.beta", "attention.gamma", "mlp_gain"}) {
        const auto begin = layer_values_at(run, name, 0), end = layer_values_at(run, name, 1);
        for (std::size_t i = 0; i < begin.size(); ++i) least = std::min(least, std::abs(end[i] / begin[i]));
      }
      return std::isfinite(least) ? least : missing;
    }};
inline constexpr Quantity first_to_last_gradient{
    "gradient of the MLP's second matrix in the first layer, over that in the last, early", "", 2,
    [](const Json& run) { return detail::first_to_last(layer_values_at(run, "gradient.mlp.down.weight", 0.2)); }};
inline constexpr Quantity ffn_norm_depth{"gain of the FFN norm, later less earlier layers", "", 3, [](const Json& run) {
                                           return detail::later_minus_earlier(layer_values_at(run, "mlp.norm.gain", 1));
                                         }};
inline constexpr Quantity largest_attention_norm{
    "largest mean gain of a post-attention norm", "", 3, [](const Json& run) {
      const std::vector<double> row = finite(layer_values_at(run, "attention.norm.gain", 1));
      return row.empty() ? missing : *std::ranges::max_element(row);
    }};
inline constexpr Quantity residual_scale_depth{
    "residual scale, later less earlier layers", "", 3,
    [](const Json& run) { return detail::later_minus_earlier(layer_values_at(run, "mlp_residual_scale", 1)); }};
inline constexpr Quantity attention_gradient{
    "mean absolute gradient of the attention's matrices", "1e-6", 2, [](const Json& run) {
      std::vector<double> all;
      for (const char* name : {"query", "key", "value", "projection"}) {
        for (const double g : layer_values_at(run, fmt::format("gradient.attention.{}.weight", name), 0.5)) {
          all.push_back(1e6 * g);
        }
      }
      return detail::mean(all);
    }};
inline constexpr Quantity late_ffn_gradient{"mean absolute gradient of the last layer's MLP", "1e-6", 2,
                                            [](const Json& run) {
                                              const auto up = layer_values_at(run, "gradient.mlp.up.weight", 0.5);
                                              const auto down = layer_values_at(run, "gradient.mlp.down.weight", 0.5);
                                              return up.empty() ? missing
                                                                : 1e6 * detail::mean({up.back(), down.back()});
                                            }};

}  // namespace quantity
}  // namespace paper
