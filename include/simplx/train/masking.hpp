// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/masking.hpp
/// What a masked language model is to predict: of each sequence exactly round(share T) tokens, so that every step has
/// as many labels as the next. Of these 80 % become the mask token, 10 % any token, and 10 % stay as they are; of a
/// sequence's labels a whole number next to each share, drawn so that the shares hold over many sequences.

#include <simplx/core/error.hpp>
#include <simplx/core/random.hpp>
#include <simplx/train/batch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace simplx::inline SIMPLX_TARGET {

/// Which share of the tokens is to be predicted, and what stands in their place.
struct Masking {
  double share = 0.25;           ///< of the tokens
  double masked = 0.8;           ///< of these, become mask_token
  double replaced = 0.1;         ///< of these, become a token from [0, words)
  std::int32_t mask_token = 256;
  Index words = 256;
  std::uint64_t seed = 0;
};

namespace detail {

/// Picks exactly `wanted` of `left` things that come one after the other, each equally likely.
struct Picks {
  Index wanted, left;

  bool next(double u) {
    const bool picked = u * static_cast<double>(left--) < static_cast<double>(wanted);
    wanted -= picked;
    return picked;
  }
};

[[gnu::cold]] inline void check_masking(const Masking& masking) {
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  if (!is_share(masking.share) || !is_share(masking.masked) || !is_share(masking.replaced) ||
      masking.masked + masking.replaced > 1) {
    throw Error("masking a share of " + shortest(masking.share) + ", of that " + shortest(masking.masked) +
                    " masked and " + shortest(masking.replaced) + " replaced",
                "shares are numbers from 0 to 1, and what is masked and what is replaced are no more than 1 together");
  }
  if (masking.words < 1 || masking.words > std::numeric_limits<std::int32_t>::max()) {
    throw Error("words is " + std::to_string(masking.words),
                "tokens are replaced by words: at least 1, at most " +
                    std::to_string(std::numeric_limits<std::int32_t>::max()));
  }
}

}  // namespace detail

/// Masks tokens, and labels those alone. `first` is the number of the batch's first sequence (Batches::position()
/// before it was filled): the same sequence of a run is always masked in the same way, and in each epoch in another.
///
/// Errors  throws Error for shares that are none, and for sequences that are not among the batch's tokens; then nothing
///         has changed
/// Cost    one pass; allocates only where the batch has no room for its labels
/// Source  Devlin et al. 2019, Sec. 3.1; the share and the fixed count: Geiping & Goldstein 2023 (their code)
inline void mask_tokens(TokenBatch& batch, const Masking& masking, Index first) {
  detail::check_masking(masking);
  check_offsets(batch);
  batch.labels.resize(batch.tokens.size(), ignored_label);
  const std::uint64_t run = key_of(masking.seed, "masking");
  constexpr std::uint64_t of_sequence = ~std::uint64_t{0};  // a draw that no token has
  for (Index s = 0; s < batch.sequences(); ++s) {
    const std::uint64_t key = bits(run, static_cast<std::uint64_t>(first + s));
    const auto begin = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s)]);
    const auto end = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s) + 1]);
    const auto length = static_cast<Index>(end - begin);
    const auto labels = static_cast<Index>(std::llround(masking.share * static_cast<double>(length)));
    const double u = uniform(key, of_sequence), count = static_cast<double>(labels);
    const auto drawn = [&](double share) { return std::min(labels, static_cast<Index>(share * count + u)); };
    const Index masks = drawn(masking.masked), words = drawn(masking.masked + masking.replaced) - masks;
    detail::Picks labelled{labels, length}, masked{masks, labels}, replaced{words, labels - masks};
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t draw = 4 * (i - begin);
      std::int32_t& token = batch.tokens[i];
      batch.labels[i] = ignored_label;
      if (!labelled.next(uniform(key, draw))) continue;
      batch.labels[i] = token;
      if (masked.next(uniform(key, draw + 1))) {
        token = masking.mask_token;
      } else if (replaced.next(uniform(key, draw + 2))) {
        token = static_cast<std::int32_t>(bits(key, draw + 3) % static_cast<std::uint64_t>(masking.words));
      }
    }
  }
}

}  // namespace simplx
