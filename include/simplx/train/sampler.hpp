// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/sampler.hpp
/// Drawing a token from logits: probabilities p_i proportional to exp(logit_i / temperature), of which the most
/// probable remain,
///
///     top k      the k largest [Fan et al. 2018]
///     top p      the fewest largest of these that have the share p of their sum [Holtzman et al. 2020]
///
/// Tokens of equal logits are ranked by their number, smaller first. Draw number n of a seed depends on nothing but
/// these two and the logits.

#include <simplx/core/error.hpp>
#include <simplx/core/random.hpp>
#include <simplx/core/shape.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// How a token is drawn from logits; the same seed draws the same tokens.
struct Sampling {
  double temperature = 1;  ///< 0 takes the largest logit
  Index top_k = 0;         ///< 0: all
  double top_p = 1;        ///< 1: all
  std::uint64_t seed = 0;
};

/// Draws token after token.
class Sampler {
 public:
  /// Errors  throws Error for options that make no sense
  explicit Sampler(const Sampling& options = {}) : options_(options), key_(key_of(options.seed, "sample")) {
    const auto refuse = [](const char* name, const std::string& value, const char* hint) {
      throw Error(std::string(name) + " is " + value, hint);
    };
    if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
      refuse("the temperature", shortest(options.temperature),
             "it is a number from 0, which takes the most probable token");
    }
    if (options.top_k < 0) refuse("top k", std::to_string(options.top_k), "it is a number of tokens, or 0 for all");
    if (!(options.top_p > 0 && options.top_p <= 1)) {
      refuse("top p", shortest(options.top_p), "it is a share of the probability, above 0 and at most 1");
    }
  }

  /// The next token.
  ///
  /// Shapes  logits (vocab), minus infinity for tokens that cannot be
  /// Errors  throws Error if there is no logit, one is NaN or infinite, or none is above minus infinity
  /// Cost    up to four exponentials for each logit, and comparisons times the logarithm of what top k or top p keep;
  ///         allocates at the first draw
  template <std::ranges::contiguous_range Logits>
    requires std::floating_point<std::ranges::range_value_t<Logits>>
  std::int32_t operator()(const Logits& of_all) {
    using S = std::ranges::range_value_t<Logits>;
    const std::span<const S> logits(of_all);
    const S largest = checked_largest(logits);
    const double number = uniform(key_, draws_++);
    if (options_.temperature == 0) {
      return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
    }
    const auto weight = [&](std::int32_t token) {
      const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
      return std::exp((logit - static_cast<double>(largest)) / options_.temperature);
    };
    tokens_.resize(logits.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<std::int32_t>(i);
    keep_most_probable(logits, weight);

    double total = 0, left = 0;
    for (const std::int32_t token : tokens_) total += weight(token);
    left = number * total;
    std::int32_t drawn = tokens_.front();
    for (const std::int32_t token : tokens_) {
      const double w = weight(token);
      if (w > 0) drawn = token;
      if ((left -= w) < 0) break;
    }
    return drawn;
  }

  std::uint64_t draws() const { return draws_; }

 private:
  template <class S>
  static S checked_largest(std::span<const S> logits) {
    S largest = -std::numeric_limits<S>::infinity();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<S>::infinity()) {
        throw Error("logit " + std::to_string(i) + " is " + std::to_string(logits[i]),
                    "were the weights trained and loaded?");
      }
      largest = std::max(largest, logits[i]);
    }
    if (!std::isfinite(largest)) throw Error("no token has a probability", "give at least one finite logit");
    return largest;
  }

  /// Leaves the tokens to draw from, in the order of their numbers.
  template <class S, class Weight>
  void keep_most_probable(std::span<const S> logits, const Weight& weight) {
    const auto before = [&](std::int32_t a, std::int32_t b) {
      const S x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    };
    const auto count = static_cast<Index>(tokens_.size());
    Index kept = options_.top_k > 0 ? std::min(options_.top_k, count) : count;
    if (kept == count && options_.top_p == 1) return;
    const auto select = [&](Index begin, Index end) {  // the most probable from `begin` on, sorted
      const auto at = tokens_.begin();
      if (end - begin > 256) {
        std::nth_element(at + begin, at + end, tokens_.end(), before);
        std::sort(at + begin, at + end, before);
      } else {
        std::partial_sort(at + begin, at + end, tokens_.end(), before);
      }
    };
    const auto keep = [&](Index first_ones) {
      tokens_.resize(static_cast<std::size_t>(first_ones));
      std::sort(tokens_.begin(), tokens_.end());
    };
    if (kept < count) {
      select(0, kept);
      keep(kept);
    }
    if (options_.top_p == 1) return;
    double total = 0, seen = 0;
    for (const std::int32_t token : tokens_) total += weight(token);
    Index enough = 0;
    for (Index begin = 0, some = 256; begin < kept; begin += some, some *= 4) {  // most often few tokens are enough
      const Index end = std::min(begin + some, kept);
      select(begin, end);
      while (enough < end && seen < options_.top_p * total) seen += weight(tokens_[static_cast<std::size_t>(enough++)]);
      if (enough < end) break;
    }
    keep(enough);
  }

  Sampling options_;
  std::uint64_t key_, draws_ = 0;
  std::vector<std::int32_t> tokens_;
};

}  // namespace simplx
